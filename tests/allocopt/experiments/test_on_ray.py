"""On a Ray cluster of this machine: the same rows, whatever is killed."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.gated import CELLS, UNGATED
from support.sweeps import Gate, finished, kill, members, one_of, start, times_kept, untimed, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]
RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def node(*options: str) -> Iterator[int]:
    """Start a node, yield the session of its processes, and kill them at the end."""
    # The paths of its sockets must be short.
    folder = Path(tempfile.mkdtemp(prefix="r"))
    options = (*options, f"--temp-dir={folder}") if "--head" in options else options
    log = folder / "node.log"
    with log.open("w", encoding="utf-8") as out:
        streams = {"stdout": out, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        process = subprocess.Popen([*RAY, *options], start_new_session=True, **streams)  # type: ignore[call-overload]
    try:
        wait_for(lambda: "runtime started" in log.read_text(encoding="utf-8") or process.poll() is not None)
        assert process.poll() is None, log.read_text(encoding="utf-8")
        yield process.pid
    finally:
        for _ in range(2):
            for pid in members(process.pid):
                kill(pid)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def running(session: int) -> list[int]:
    """Return the workers of a node that run a cell."""
    found = []
    for pid in members(session):
        # A process may be gone by now.
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
            found += [pid] if title.startswith("ray::run_task") else []
    return found


def test_rows_are_those_of_this_machine_though_a_worker_the_driver_and_a_node_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("ray") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("needs ray, which comes with allocopt[distributed]")
        pytest.skip("needs ray")
    gate = Gate(tmp_path, monkeypatch)
    gate.open()
    here = start("sweep", gate.grid, "--workers", "1")
    table, address = tmp_path / "rows.csv", f"127.0.0.1:{free_port()}"
    head = ("--num-cpus=2", "--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false")
    agents = [f"--dashboard-{name}={free_port()}" for name in ("port", "agent-listen-port")]
    with node(*head, *agents) as session:
        assert here.wait() == 0, here.communicate()
        passed = gate.passed()
        gate.open(UNGATED)
        sweep = ("sweep", gate.grid, "-o", table, "--ray", address)
        first = start(*sweep)
        assert wait_for(lambda: finished(table) == UNGATED)
        kill(one_of(running, session))
        assert first.stdout is not None
        assert any("its worker was lost (WorkerCrashedError); attempt 2 of 3" in line for line in first.stdout)
        first.kill()
        first.communicate()
        assert wait_for(lambda: not running(session)), "cells run on without a driver"
        second = start(*sweep)
        with node(f"--address={address}", "--num-cpus=1") as other:
            one_of(running, other)
            for pid in members(other):
                kill(pid)
        gate.open()
        out, _ = second.communicate()
    assert second.returncode == 0, out
    assert f"{UNGATED} of {CELLS} cells are in " in out
    assert "its worker was lost (" in out
    assert untimed(table) == untimed(gate.grid.with_suffix(".csv"))
    assert times_kept(table) == [1] * CELLS
    assert gate.passed() == passed
