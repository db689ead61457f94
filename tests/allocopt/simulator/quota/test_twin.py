"""Simulations with quotas against a plain loop that looks at everything at every event."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.slow_quotas import simulate_slowly

from allocopt.problems.coallocation.interference import Sharing
from allocopt.simulator.quota.execution import Accounts, Allocation, QuotaExecution, QuotaSchedule, QuotaView
from allocopt.simulator.quota.scheduler import CoallocationScheduler, QuotaScheduler, SpaceSharing
from allocopt.simulator.scheduler import Decision, PlaceGuest, SetQuota
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import QueuedJob, asax_queue, queue_workload
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind
from heuristics.scheduling.static_sharing import StaticSharing
from learned.asax.scheduler import AsaxScheduler

CORES = 32


@dataclass
class Arbitrary(QuotaScheduler):
    """Starts what EASY starts, places guests wherever they have the cores, and changes quotas, all by chance."""

    period_s: float | None
    name: str = "arbitrary"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        yield from view.easy_starts()
        for one in view.allocations:
            if one.guest is not None and view.rng.random() < 0.5:
                yield SetQuota(one.number, int(view.rng.integers(1, 91)))
        for job in list(view.queue):
            hosts = [one for one in view.allocations if one.guest is None and view.jobs[job].job.cores <= one.cores]
            if hosts and view.rng.random() < 0.7:
                yield PlaceGuest(job, hosts[view.rng.integers(len(hosts))].number, int(view.rng.integers(1, 91)))

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        """Learn nothing."""


def drawn_job(number: int, rng: np.random.Generator) -> QueuedJob:
    """Draw a job of one to four stages; its times are of no round number."""
    shares = rng.dirichlet(np.ones(rng.integers(1, 5)))
    kinds = list(StageKind)
    demands = rng.uniform(0.05, 1, (len(shares), 3)).tolist()
    stages = zip(shares.tolist(), demands, strict=True)
    profile = tuple(Stage(share, cpu, memory, io, kinds[rng.integers(2)]) for share, (cpu, memory, io) in stages)
    cores, run = int(rng.integers(1, CORES + 1)), float(rng.uniform(1, 500))
    submit = float(rng.uniform(0, 300)) if rng.random() < 0.7 else 0.0
    return QueuedJob("drawn", submit, ProfiledJob(str(number), cores, profile, run, run * float(rng.uniform(0.7, 2))))


def check_equal(found: QuotaSchedule, slow: QuotaSchedule) -> None:
    """Compare everything that two simulations of the same jobs by submission say."""
    assert found.jobs == slow.jobs
    assert found.start == pytest.approx(slow.start, rel=1e-9, abs=1e-5)
    assert found.end == pytest.approx(slow.end, rel=1e-9, abs=1e-5)
    for field in fields(Accounts):
        expected = getattr(slow.accounts, field.name)
        assert getattr(found.accounts, field.name) == pytest.approx(expected, rel=1e-9, abs=1e-5), field.name


@given(
    seed=st.integers(0, 2**32 - 1),
    jobs=st.integers(1, 12),
    sharing=st.sampled_from(list(Sharing)),
    period_s=st.sampled_from([None, 37.3]),
)
def test_any_sharing_gives_the_schedule_of_the_plain_loop(
    seed: int, jobs: int, sharing: Sharing, period_s: float | None
) -> None:
    rng = np.random.default_rng(seed)
    queue = sorted((drawn_job(number, rng) for number in range(jobs)), key=lambda one: one.submit_s)
    found = simulate(
        queue_workload(queue), CORES, Arbitrary(period_s), seed=seed, execution=QuotaExecution(queue, sharing)
    )
    check_equal(found, simulate_slowly(queue, CORES, Arbitrary(period_s), seed, sharing))


SCHEDULERS: dict[str, Callable[[], QuotaScheduler]] = {
    "space-sharing": SpaceSharing,
    "static-50": StaticSharing,
    "asax": AsaxScheduler,
    "coallocation": lambda: CoallocationScheduler("assignment"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("seed", [6, 7])
def test_the_queue_of_the_paper_goes_as_in_the_plain_loop(name: str, seed: int) -> None:
    queue = asax_queue(np.random.default_rng(seed), walltime_factor=1.25, between_s=120.0)
    found = simulate(queue_workload(queue), 64, SCHEDULERS[name](), seed=seed, execution=QuotaExecution(queue))
    check_equal(found, simulate_slowly(queue, 64, SCHEDULERS[name](), seed))
