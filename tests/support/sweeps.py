"""Sweeps as processes of their own that can be killed."""

import csv
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import support
from support.gated import CELLS, UNGATED
from support.windows import paper_window

from allocopt.problems.instances import write_problems

SECONDS = 300.0  # a node of Ray alone takes a minute to come where much else runs
TIMINGS = ("runtime_s", "jobs_per_s")


def write_sweep(path: Path, *, instances: list[str], solvers: list[str], seeds: int, iterations: int = 50) -> Path:
    """Describe a grid whose rows depend on the seeds alone."""
    tables = [
        f"iterations = {iterations}\nseeds = {list(range(seeds))}\n[[instances]]\nfiles = {json.dumps(instances)}"
    ]
    for solver in solvers:
        name, _, strategy = solver.partition(":")
        tables.append(f'[[solvers]]\nname = "{name}"' + (f'\nstrategies = ["{strategy}"]' if strategy else ""))
    path.write_text("\n".join(tables) + "\n", encoding="utf-8")
    return path


def plug_in(folder: Path, group: str = "allocopt.solvers.topology", package: str = "", **entries: str) -> None:
    """Plug in, as a package where a folder is in ``PYTHONPATH``, what is given by name as MODULE:CLASS."""
    about = folder / f"{package or group}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package or group}\nVersion: 1\n", encoding="utf-8")
    lines = "".join(f"{name} = {entry}\n" for name, entry in entries.items())
    (about / "entry_points.txt").write_text(f"[{group}]\n{lines}", encoding="utf-8")


class Gate:
    """Commands of `CELLS` cells, which wait until they may pass; see `support.gated`.

    What they read is written into an empty folder, and named in the environment.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.grid = folder, folder / "gated.toml"
        self.solvers = [f"gated{number}" for number in range(CELLS)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, [folder, *support.__path__, *sys.path])))
        monkeypatch.setenv("ALLOCOPT_TEST_GATE", str(folder))
        plug_in(self.folder, **{name: f"gated:{name.title()}" for name in self.solvers})
        plug_in(self.folder, "allocopt.reproductions", gated="gated:GatedTable")
        write_problems(self.folder / "window.json", [paper_window(0)])
        write_sweep(self.grid, instances=["window.json"], solvers=[f"{name}:free" for name in self.solvers], seeds=1)
        jobs = "".join(f"{job},{job // 3 * 100},{300 + 40 * (job % 7)},{1 + job * 5 % 6},900\n" for job in range(1, 20))
        (self.folder / "jobs.csv").write_text(f"job_id,submit,run,nodes,estimate\n{jobs}", encoding="utf-8")
        switches = "SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n[5-8]\nSwitchName=top Switches=s[1-2]\n"
        (self.folder / "topology.conf").write_text(switches, encoding="utf-8")
        self.open(UNGATED)

    def open(self, number: int = CELLS) -> None:
        """Let so many cells pass."""
        (self.folder / "next").write_text(str(number), encoding="utf-8")
        (self.folder / "next").replace(self.folder / "open")

    def passed(self) -> dict[str, int]:
        """Return how often work of each number has passed since this was asked for last."""
        path = self.folder / "passed"
        counts = dict(sorted(Counter(path.read_text(encoding="utf-8").splitlines()).items()))
        path.unlink()
        return counts


def start(*arguments: str | Path, **settings: Any) -> "subprocess.Popen[str]":
    """Start ``allocopt`` in a session of its own."""
    command = [sys.executable, "-m", "allocopt", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **settings}
    return subprocess.Popen(command, text=True, start_new_session=True, **streams)


def untimed(path: Path) -> list[dict[str, Any]]:
    """Rows of a table without what a clock has told."""
    text = path.read_text(encoding="utf-8")
    rows = json.loads(text) if path.suffix == ".json" else csv.DictReader(text.splitlines())
    return [{name: value for name, value in row.items() if name not in TIMINGS} for row in rows]


def times_kept(output: Path) -> list[int]:
    """Return how often the row of each cell was kept; nothing where no run has begun."""
    store = output.with_name(f"{output.name}.sqlite")
    if not store.exists():
        return []
    with closing(sqlite3.connect(f"{store.absolute().as_uri()}?mode=rw", 60.0, uri=True)) as file:
        if not file.execute("SELECT name FROM sqlite_master WHERE name = 'cells'").fetchone():
            return []
        return [times for (times,) in file.execute("SELECT times FROM cells")]


def finished(output: Path) -> int:
    """Return how many cells are finished."""
    return len(times_kept(output))


def wait_for(condition: Callable[[], bool], seconds: float = SECONDS) -> bool:
    """Wait until a condition holds; say whether it did."""
    end = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return holds


def members(session: int) -> list[int]:
    """Return the processes of a session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state, *_, session_of = (entry / "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[:4]
            if int(session_of) == session and state != "Z" and entry.name.isdigit():
                found.append(int(entry.name))
    return found


def workers(session: int) -> list[int]:
    """Return the workers of a sweep on this machine: they lead groups of their own."""
    found = []
    for pid in members(session):
        # A process may be gone by now.
        with suppress(ProcessLookupError):
            found += [pid] if os.getpgid(pid) == pid != session else []
    return found


def one_of(find: Callable[[int], list[int]], session: int) -> int:
    """Wait until a session has such a process, and return it."""
    found: list[int] = []
    assert wait_for(lambda: bool(found or found.extend(find(session)) or found)), "there is no such process"
    return found[0]


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
