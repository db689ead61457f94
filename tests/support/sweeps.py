"""Sweeps as processes of their own that can be killed, and a Ray cluster on this machine to run them on."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import support
from support.windows import paper_window

from allocopt.problems.instances import write_problems

SECONDS = 300.0  # a node of Ray alone takes a minute to come where much else runs
TIMINGS = ("runtime_s", "jobs_per_s")
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]


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


def plug_in(folder: Path, **solvers: str) -> None:
    """Plug solvers in where a folder is in ``PYTHONPATH``, given by name as MODULE:CLASS."""
    about = folder / "plug_in-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-in\nVersion: 1\n", encoding="utf-8")
    entries = "".join(f"{name} = {solver}\n" for name, solver in solvers.items())
    (about / "entry_points.txt").write_text(f"[allocopt.solvers.topology]\n{entries}", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Gate:
    """Grid of cells of which all but two wait until they may pass; see `support.gated`.

    Parameters
    ----------
    folder
        An empty folder.
    """

    folder: Path

    @property
    def grid(self) -> Path:
        """Description of the grid."""
        return self.folder / "gated.toml"

    @property
    def path(self) -> str:
        """Value of ``PYTHONPATH`` under which the solver is plugged in."""
        return os.pathsep.join(map(str, [self.folder, *support.__path__, *sys.path]))

    def make(self, cells: int) -> None:
        """Write the grid and what plugs the solver in."""
        plug_in(self.folder, gated="gated:Gated")
        write_problems(self.folder / "window.json", [paper_window(0)])
        write_sweep(self.grid, instances=["window.json"], solvers=["gated:free"], seeds=cells)
        with self.grid.open("a", encoding="utf-8") as file:
            file.write(f'options = {{gate = "{self.folder / "open"}"}}\n')

    def open(self) -> None:
        """Let all cells pass."""
        (self.folder / "open").touch()

    def close(self) -> None:
        """Let no cell pass any more."""
        (self.folder / "open").unlink()


def start_sweep(*arguments: str | Path, **settings: Any) -> "subprocess.Popen[str]":
    """Start ``allocopt sweep`` in a session of its own."""
    command = [sys.executable, "-m", "allocopt", "sweep", *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **settings}
    return subprocess.Popen(command, text=True, start_new_session=True, **streams)


def untimed(path: Path) -> list[dict[str, str]]:
    """Rows of a table without what a clock has told."""
    with path.open(encoding="utf-8", newline="") as file:
        return [{name: value for name, value in row.items() if name not in TIMINGS} for row in csv.DictReader(file)]


def finished(output: Path) -> int:
    """Whole lines of the journal but its header; a cell each as long as nothing fails."""
    journal = output.with_name(f"{output.name}.journal")
    return max(0, journal.read_bytes().count(b"\n") - 1) if journal.exists() else 0


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
    return [pid for pid in members(session) if pid != session and _group(pid) == pid]


def ray_workers(session: int) -> list[int]:
    """Return the workers of a Ray cluster that run a cell."""
    return [pid for pid in members(session) if _command(pid).startswith("ray::run_task")]


def one_of(find: Callable[[int], list[int]], session: int) -> int:
    """Wait until a session has such a process, and return it."""
    found: list[int] = []
    assert wait_for(lambda: bool(found or found.extend(find(session)) or found)), "there is no such process"
    return found[0]


def kill(pid: int) -> None:
    """Kill a process, if it is there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A cluster on this machine.

    Parameters
    ----------
    address
        Where it is.
    session
        Session of the processes of its first node.
    """

    address: str
    session: int


@contextmanager
def ray_cluster(cores: int = 2) -> Iterator[RayCluster]:
    """Start a cluster with ports and a folder of its own, and stop it."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    port, *others = free_ports(3)
    options = [f"--num-cpus={cores}", "--head", f"--port={port}", f"--temp-dir={folder}", "--include-dashboard=false"]
    names = ("dashboard-port", "dashboard-agent-listen-port")
    options += [f"--{name}={other}" for name, other in zip(names, others, strict=True)]
    try:
        with _node(options, folder / "head.log") as session:
            yield RayCluster(f"127.0.0.1:{port}", session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ray_node(cluster: RayCluster, cores: int = 1) -> Iterator[int]:
    """Start a second node, and yield the session of its processes."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    try:
        with _node([f"--address={cluster.address}", f"--num-cpus={cores}"], folder / "node.log") as session:
            yield session
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _node(options: list[str], log: Path) -> Iterator[int]:
    """Start a node, and kill its processes at the end."""
    with log.open("w", encoding="utf-8") as out:
        settings = {"stdout": out, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen([*RAY, *options], start_new_session=True, **settings)  # type: ignore[call-overload]
    try:
        wait_for(lambda: "runtime started" in log.read_text(encoding="utf-8") or process.poll() is not None)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield process.pid
    finally:
        for _ in range(2):
            for pid in members(process.pid):
                kill(pid)
        process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _group(pid: int) -> int | None:
    """Process group of a process, None if it is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def _command(pid: int) -> str:
    """Title of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
