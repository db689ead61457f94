"""Whatever goes wrong beside a service, all jobs run where they may, and nothing stays held or moved.

Of 20 rounds each, and of slurmctld that restarts and nodes that drain, see ``benchmarks/live_chaos.py``.
"""

from collections.abc import Iterator

import pytest
from support.virtual_slurm import slurm_of

from benchmarks.live_chaos import NODES, WAYS, disturbed, partitions
from benchmarks.virtual_slurm import VirtualSlurm

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def slurm() -> Iterator[VirtualSlurm]:
    with slurm_of(NODES, partitions=partitions()) as cluster:
        yield cluster


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["killed", "job cancelled", "job changed", "squeue hangs", "clock goes back"])
def test_all_jobs_run_where_they_may_and_nothing_stays_held_or_moved(slurm: VirtualSlurm, name: str, way: str) -> None:
    assert disturbed(slurm, name, seed=0, way=way, hold=8, hang=5).faults == []
