"""Fixture of a real Slurm on virtual nodes, which goes away with its last test."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmarks.virtual_slurm import VirtualSlurm, missing, open_folder, running, tree_files

PORT = 21_000
_MOST_NODES = 100


@contextmanager
def slurm_of(nodes: int = 16, **described: object) -> Iterator[VirtualSlurm]:
    """Run a cluster; skipped where Slurm is not installed."""
    if lacking := missing():
        pytest.skip(f"a real Slurm needs {', '.join(lacking)}")
    # Workers of pytest run side by side, each with ports of its own.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    port = PORT + worker * _MOST_NODES
    # Nobody else may enter pytest's folders.
    with open_folder() as folder:
        names = tree_files(folder, nodes, port, **described)  # type: ignore[arg-type]
        with running(folder, names) as cluster:
            yield cluster
