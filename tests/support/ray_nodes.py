"""Nodes of a Ray cluster on this machine, which can be killed."""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.sweeps import kill, members, wait_for

RAY = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def head_node(cores: int = 2) -> Iterator[tuple[str, int]]:
    """Start the first node of a cluster; yield its address and the session of its processes."""
    address = f"127.0.0.1:{free_port()}"
    options = (f"--num-cpus={cores}", "--head", f"--port={address.rpartition(':')[2]}", "--include-dashboard=false")
    agents = [f"--dashboard-{name}={free_port()}" for name in ("port", "agent-listen-port")]
    with _node(*options, *agents) as session:
        yield address, session


@contextmanager
def second_node(address: str) -> Iterator[int]:
    """Start a node of one core beside the first; yield the session of its processes."""
    with _node(f"--address={address}", "--num-cpus=1") as session:
        yield session


@contextmanager
def _node(*options: str) -> Iterator[int]:
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


def running_cells(session: int) -> list[int]:
    """Return the workers of a node that run a cell."""
    found = []
    for pid in members(session):
        # A process may be gone by now.
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
            found += [pid] if title.startswith("ray::run_task") else []
    return found
