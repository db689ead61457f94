"""Simulations with quotas: by hand, without sharing, against a plain loop, and what always holds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.coallocations import stages
from support.corun import finish_times
from support.slow_quotas import simulate_slowly

from allocopt.errors import InvalidProblemError, UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.asax.scheduler import AsaxScheduler
from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import CoallocationObjective
from allocopt.simulator.decisions import Decision, PlaceGuest, SetQuota, Start
from allocopt.simulator.engine import Simulation
from allocopt.simulator.quota.execution import QuotaExecution, QuotaSchedule, QuotaView, SharedCores
from allocopt.simulator.quota.scheduler import CoallocationScheduler, QuotaScheduler, SpaceSharing, StaticSharing
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler, SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import QueuedJob, asax_queue, queue_workload
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind

QUIET = Interference(0.0, 0.0, 0.0, 0.0)


def queued(name: str, cores: int, run: float, *stages: Stage, submit: float = 0.0, limit: float = 10.0) -> QueuedJob:
    return QueuedJob(name, submit, ProfiledJob(name, cores, stages or (Stage(1.0, 1.0),), run, limit * run))


def run(
    jobs: Sequence[QueuedJob],
    cores: int,
    scheduler: QuotaScheduler,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference | None = None,
    seed: int = 0,
) -> QuotaSchedule:
    execution = QuotaExecution(jobs, sharing, interference)
    return simulate(queue_workload(jobs), cores, scheduler, seed=seed, execution=execution)


@dataclass
class Script(QuotaScheduler):
    """Decides what was written down for each time."""

    lines: dict[float, list[Decision]]
    period_s: float | None = None
    name: str = "script"
    asked: list[float] = field(default_factory=list)
    over: list[tuple[float, int]] = field(default_factory=list)

    def share(self, view: QuotaView) -> Iterator[Decision]:
        self.asked.append(view.now)
        yield from self.lines.pop(round(view.now, 6), [])

    def ended(self, view: QuotaView, allocation: SharedCores) -> None:
        self.over.append((view.now, allocation.host.number))


def test_a_guest_takes_its_quota_and_then_owns_its_cores() -> None:
    jobs = [queued("host", 8, 75.0), queued("guest", 4, 90.0), queued("third", 4, 10.0)]
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 25)], 100.0: [Start(2)]})
    done = run(jobs, 8, script, interference=QUIET)
    # The host has 3/4 of its cores, the guest 2 of its 4, for 100 s; then the guest owns four cores, and four are free.
    assert done.end.tolist() == pytest.approx([100.0, 100.0 + 40.0, 110.0])
    assert done.accounts.host_of.tolist() == [-1, 0, -1]
    assert done.accounts.guests.tolist() == [1, 0, 0]
    assert script.over == [(pytest.approx(100.0), 0), (pytest.approx(110.0), 2), (pytest.approx(140.0), 1)]
    assert done.accounts.busy_core_s.tolist() == pytest.approx([600.0, 360.0, 40.0])
    assert done.accounts.allotted_core_s.tolist() == pytest.approx([600.0, 200.0 + 160.0, 40.0])
    assert done.cpu_utilization == pytest.approx(1000 / (8 * 140))
    assert done.allotted_utilization == pytest.approx(1.0)


@pytest.mark.parametrize("sharing", list(Sharing))
@settings(max_examples=25)
@given(first=stages(), second=stages(), percent=st.sampled_from([10, 50, 80]))
def test_two_jobs_that_share_end_as_in_a_co_run(
    sharing: Sharing, first: tuple[Stage, ...], second: tuple[Stage, ...], percent: int
) -> None:
    jobs = [queued("host", 8, 60.0, *first), queued("guest", 8, 45.0, *second)]
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, percent)]})
    done = run(jobs, 8, script, sharing)
    expected = finish_times([one.job for one in jobs], [1 - percent / 100, percent / 100], 8, sharing)
    assert done.end.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


@pytest.mark.parametrize("between_s", [0.0, 900.0])
@pytest.mark.parametrize("cores", [64, 128, 256])
@pytest.mark.parametrize("seed", [0, 1])
def test_space_sharing_is_easy_of_the_simulator(cores: int, seed: int, between_s: float) -> None:
    queue = asax_queue(np.random.default_rng(seed), between_s=between_s, spread=0.2)
    done = run(queue, cores, SpaceSharing())
    other = simulate(queue_workload(queue), cores, ListScheduler(FirstComeFirstServed(), Backfill.EASY))
    assert done.start == pytest.approx(other.start, abs=1e-3)
    assert done.end == pytest.approx(other.end, abs=1e-3)
    assert done.slowdown == pytest.approx(np.ones(len(queue)))


SCHEDULERS = {
    "space-sharing": SpaceSharing,
    "static-50": StaticSharing,
    "static-50-memory": lambda: StaticSharing(heeds_memory=True),
    "asax": AsaxScheduler,
    "coallocation-assignment": lambda: CoallocationScheduler("assignment"),
    "coallocation-response": lambda: CoallocationScheduler("assignment", CoallocationObjective.RESPONSE),
}


@pytest.mark.slow
@pytest.mark.parametrize("sharing", list(Sharing))
@pytest.mark.parametrize("name", SCHEDULERS)
def test_no_scheduler_gives_anything_twice_and_nobody_starves(name: str, sharing: Sharing) -> None:
    queue, scheduler = asax_queue(np.random.default_rng(3), between_s=300.0), SCHEDULERS[name]()
    execution = QuotaExecution(queue, sharing)

    def look(simulation: Simulation) -> None:
        allocations, waiting = execution.allocations, simulation.view.queue.tolist()
        assert sum(one.cores for one in allocations) <= 64
        running = [job.number for one in allocations for job in one.jobs]
        assert len({*running, *waiting}) == len(running) + len(waiting)
        for one in allocations:
            assert (one.guest is None) is (one.percent == 0)
            assert one.percent <= 90
            assert sum(one.allotted_cores()) <= one.cores + 1e-9
            assert sum(job.busy_cores for job in one.jobs) <= one.cores + 1e-9
            assert all(job.slowdown >= 1 for job in one.jobs)
            assert name == "static-50" or sum(job.used_memory for job in one.jobs) <= one.cores + 1e-6

    done = simulate(queue_workload(queue), 64, scheduler, seed=5, execution=execution, observer=look)
    assert isinstance(done, QuotaSchedule)
    assert scheduler.name == name or name == "coallocation-response"
    assert np.isfinite(done.start).all()
    assert np.isfinite(done.end).all()
    assert (done.wait_s >= 0).all()
    assert (done.slowdown >= 1 - 1e-9).all()
    # Whoever shares or not, the work that is done is the same.
    work = [one.job.mean("cpu") * one.job.cores * one.job.remaining_s for one in queue]
    assert done.accounts.busy_core_s == pytest.approx(work, rel=1e-6)


@pytest.mark.parametrize("name", ["asax", "coallocation-assignment"])
def test_the_seed_decides_the_schedule(name: str) -> None:
    queue = asax_queue(np.random.default_rng(1), repeats=1)
    once, again = (run(queue, 64, SCHEDULERS[name](), seed=1).end.tolist() for _ in range(2))
    assert once == again


@pytest.mark.parametrize(
    ("decisions", "fault"),
    [
        ([Start(2), Start(2)], "job 3 is started twice, first at 0 s"),
        ([Start(0), Start(1)], "job 2 cannot start: it asks for 4 processors with 0 processors free"),
        ([PlaceGuest(0, 2, 50)], "job 1 is to be a guest of job 3, which does not run"),
        ([PlaceGuest(0, 3, 50)], "script names job number 3, but jobs are numbered from 0 to 2"),
        ([Start(0), PlaceGuest(0, 0, 50)], "script at time 0 s: job 1 is started twice, first at 0 s"),
        ([Start(0), PlaceGuest(1, 0, 0)], "the quota is 0 %"),
        ([Start(0), PlaceGuest(1, 0, 95)], "the quota is 95 %"),
        ([Start(0), SetQuota(0, 50)], "job 1 has no guest whose quota could change"),
        (
            [Start(0), PlaceGuest(1, 0, 50), PlaceGuest(2, 0, 50)],
            "job 3 is to be a guest of job 1, which already has a guest",
        ),
        ([Start(0), PlaceGuest(1, 0, 50), PlaceGuest(2, 1, 50)], "job 3 is to be a guest of job 2, which is a guest"),
        (
            [Start(2), PlaceGuest(0, 2, 50)],
            r"job 1 is to be a guest of job 3: the guest asks for \[8\] units, its host holds \[2\]",
        ),
        ([], "script leaves jobs waiting for ever: 3 jobs wait"),
    ],
)
def test_what_cannot_be_is_refused(decisions: list[Decision], fault: str) -> None:
    jobs = [queued("a", 8, 10.0), queued("b", 4, 10.0), queued("c", 2, 10.0)]
    with pytest.raises(SchedulerError, match=fault):
        run(jobs, 8, Script({0.0: decisions}))


def test_a_job_larger_than_the_cluster_is_refused() -> None:
    with pytest.raises(InvalidProblemError, match="job 1: asks for 8 processors, the machine has 4"):
        run([queued("a", 8, 10.0)], 4, SpaceSharing())


def test_a_scheduler_is_asked_again_after_its_period_while_jobs_share() -> None:
    jobs = [queued("host", 8, 50.0), queued("guest", 8, 50.0)]
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)]}, period_s=30.0)
    run(jobs, 8, script, interference=QUIET)
    assert script.asked == pytest.approx([0.0, 30.0, 60.0, 90.0, 100.0])


def test_a_static_quota_out_of_range_is_refused() -> None:
    for percent in (0, 95):
        with pytest.raises(UsageError, match=f"the quota is {percent} %"):
            StaticSharing(percent)


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
    for one in fields(found.accounts):
        expected = getattr(slow.accounts, one.name)
        assert getattr(found.accounts, one.name) == pytest.approx(expected, rel=1e-9, abs=1e-5), one.name


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
    found = run(queue, CORES, Arbitrary(period_s), sharing, seed=seed)
    check_equal(found, simulate_slowly(queue, CORES, Arbitrary(period_s), seed, sharing))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["space-sharing", "static-50", "asax", "coallocation-assignment"])
@pytest.mark.parametrize("seed", [6, 7])
def test_the_queue_of_the_paper_goes_as_in_the_plain_loop(name: str, seed: int) -> None:
    queue = asax_queue(np.random.default_rng(seed), walltime_factor=1.25, between_s=120.0)
    found = run(queue, 64, SCHEDULERS[name](), seed=seed)
    check_equal(found, simulate_slowly(queue, 64, SCHEDULERS[name](), seed))
