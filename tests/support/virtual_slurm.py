"""Fixture of a real Slurm on virtual nodes, which goes away with its last test."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from allocopt.live.journal import read_journal
from benchmarks.virtual_slurm import VirtualSlurm, hooks, missing, open_folder, running, tree_files

PORT = int(os.environ.get("VIRTUAL_SLURM_PORT", "21000"))
WAIT_S = 180.0  # on a machine that is busy with other things
_MOST_NODES = 100


def until(is_so: Callable[[], object]) -> None:
    """Wait for a thing that has to happen."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.2)


@contextmanager
def a_clean(slurm: VirtualSlurm) -> Iterator[VirtualSlurm]:
    """Cancel all jobs at the end, and wait until they are gone."""
    try:
        yield slurm
    finally:
        slurm.said("scancel", "-u", "root")
        until(lambda: not slurm.said("squeue", "-h"))


def events(journal: Path, kind: str) -> list[dict[str, Any]]:
    """Return the events of a kind in the journal of a service."""
    return [event for event in read_journal(journal) if event["event"] == kind]


def _free_port() -> int:
    """Return the first port of a range that no other cluster uses."""
    # Workers of pytest begin at the same time, each at a range of its own.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for port in range(PORT + 10 * worker * _MOST_NODES, 32_768 - _MOST_NODES, _MOST_NODES):
        with socket.socket() as probe, suppress(OSError):
            # As slurmctld binds it, also while connections of an earlier one end.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
            return port
    raise AssertionError("all ports of clusters are used")


@contextmanager
def slurm_of(nodes: int = 16, *, hold: int | None = None, **described: object) -> Iterator[VirtualSlurm]:
    """Run a cluster, with the hooks of ``allocopt live`` if jobs are held; skipped where Slurm is not installed."""
    if lacking := missing():
        pytest.skip(f"a real Slurm needs {', '.join(lacking)}")
    # Nobody else may enter pytest's folders.
    with open_folder() as folder:
        if hold is not None:
            described["settings"] = hooks(folder, hold)
        names = tree_files(folder, nodes, _free_port(), **described)  # type: ignore[arg-type]
        with running(folder, names) as cluster:
            yield cluster
