"""Fixture of a real Slurm on virtual nodes, which goes away with its last test."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from benchmarks.virtual_slurm import VirtualSlurm, hooks, missing, open_folder, running, tree_files

PORT = 21_000
WAIT_S = 60.0
_MOST_NODES = 100


def until(is_so: Callable[[], object]) -> None:
    """Wait for a thing that has to happen."""
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.2)


@contextmanager
def slurm_of(nodes: int = 16, *, hold: int | None = None, **described: object) -> Iterator[VirtualSlurm]:
    """Run a cluster, with the hooks of ``allocopt live`` if jobs are held; skipped where Slurm is not installed."""
    if lacking := missing():
        pytest.skip(f"a real Slurm needs {', '.join(lacking)}")
    # Workers of pytest run side by side, each with ports of its own.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    port = PORT + worker * _MOST_NODES
    # Nobody else may enter pytest's folders.
    with open_folder() as folder:
        if hold is not None:
            described["settings"] = hooks(folder, hold)
        names = tree_files(folder, nodes, port, **described)  # type: ignore[arg-type]
        with running(folder, names) as cluster:
            yield cluster
