"""The shipped job_submit.lua in a real Slurm: jobs wait for the service, wake it, and start without it, too."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.virtual_slurm import slurm_of, until

from allocopt.live.journal import Replay
from allocopt.live.slurm import Slurm
from benchmarks.virtual_slurm import VirtualSlurm

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]
HOLD_S = 4


@pytest.fixture(scope="module")
def slurm() -> Iterator[VirtualSlurm]:
    with slurm_of(hold=HOLD_S) as cluster:
        yield cluster


def ran(slurm: VirtualSlurm, jobs: list[str]) -> list[float]:
    """Wait until jobs have completed, and return how many seconds each has waited."""
    until(lambda: set(jobs) <= {job.id for job in Slurm(slurm.env).look().jobs if job.state == "COMPLETED"})
    return [job.start_s - job.submit_s for job in Slurm(slurm.env).look().jobs if job.id in jobs]


def test_without_a_service_jobs_start_by_themselves_after_their_hold(slurm: VirtualSlurm) -> None:
    (wait,) = ran(slurm, [slurm.submitted(2, 0)])
    assert wait >= HOLD_S - 1


def test_jobs_wake_the_service_as_they_come_and_as_they_end(slurm: VirtualSlurm, tmp_path: Path) -> None:
    journal = tmp_path / "j.jsonl"
    # No period ends meanwhile.
    times = ("--period", "4000", "--hold", "8000", "--wake", str(slurm.folder / "wake"))
    command = [sys.executable, "-m", "allocopt", "live", "slurm", "--pin", "--partition", "main"]
    service = subprocess.Popen([*command, "--journal", str(journal), *times], env=slurm.env)
    try:
        until(lambda: journal.exists() and b"begun" in journal.read_bytes())
        # Two that do not fit side by side, and one that Slurm is to start on a node of its own.
        jobs = [slurm.submitted(12, 0), slurm.submitted(10, 0)]
        ran(slurm, [*jobs, slurm.submitted(1, 0, "-w", "n0015")])
    finally:
        service.terminate()
        service.wait()
    found = Replay.of(journal)
    assert not found.wrong
    assert found.as_pinned == len(jobs)
