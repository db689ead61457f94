"""Schedulers of shared allocations: ``space-sharing``, ``static-50`` and ``coallocation``.

``space-sharing`` is FCFS with EASY backfilling, without sharing. ``static-50`` shares every allocation half and half,
regardless of the jobs (the ASAX paper's *Static*). ``coallocation`` schedules like ``space-sharing``, and then solves
the co-allocation of waiting with running jobs at every scheduling point. `AskingSimulation` stops whenever the caller
must decide a quota.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.problems.coallocation.problem import LARGEST_PERCENT, CoallocationObjective, CoallocationProblem
from allocopt.simulator.decisions import Decision, PlaceGuest, SetQuota
from allocopt.simulator.engine import Simulation
from allocopt.simulator.quota.execution import QuotaExecution, QuotaSchedule, QuotaView, SharedCores
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.view import View
from allocopt.solving.protocol import get_solver
from allocopt.solving.solve import solve
from allocopt.traces.applications import WORKFLOWS, QueuedJob, profiled_jobs, queue_workload
from allocopt.traces.workload import Workload


class QuotaScheduler(ABC):
    """A scheduler that sees the allocations in addition to the queue; requires the execution model `QuotaExecution`."""

    # Seconds after which it is called again while jobs share cores, even without an event; None for never.
    period_s: float | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the policy."""

    @abstractmethod
    def share(self, view: QuotaView) -> Iterable[Decision]:
        """Return the starts, and changes of quotas; if it yields them, the view shows the effect of earlier ones."""

    def ended(self, view: QuotaView, allocation: SharedCores) -> None:  # noqa: B027 - most learn nothing
        """Handle the end of an allocation's owner; its guest, if any, now owns an allocation of its own."""

    def schedule(self, view: View) -> Iterator[Decision]:
        """Call `ended` for ended allocations, then decide; wait until all jobs that end at this time have ended."""
        execution = view.execution
        if not view.takes_guests:
            fault = "lets jobs share cores, which needs a pool; this machine has nodes"
            raise UsageError(f"policy {self.name!r} {fault}")
        if not isinstance(execution, QuotaExecution) or len(execution.jobs) != len(view.ids):
            raise UsageError(f"policy {self.name!r} needs a QuotaExecution of the workload's {len(view.ids)} jobs")
        execution.period_s = self.period_s
        over = execution.follow(view.now, view.running.tolist(), view.guests)
        cores, queue = int(view.platform.total[0]), view.queue.tolist()
        shown = QuotaView(view.now, cores, execution.jobs, queue, execution.allocations, view.rng)
        for allocation in over:
            self.ended(shown, allocation)
        if any(one.is_over for allocation in execution.allocations for one in allocation.jobs):
            return
        for decision in self.share(shown):
            yield decision
            execution.follow(view.now, view.running.tolist(), view.guests)
            shown.queue[:] = view.queue.tolist()

    def execution(self, workload: Workload) -> QuotaExecution:
        """Return the model for workflows of the ASAX paper; raise `InvalidProblemError` for other applications."""
        return QuotaExecution(profiled_jobs(workload, WORKFLOWS))


@dataclass(frozen=True, slots=True)
class SpaceSharing(QuotaScheduler):
    """Batch scheduling without sharing."""

    name: ClassVar[str] = "space-sharing"

    def share(self, view: QuotaView) -> Iterable[Decision]:
        return view.easy_starts()


# Seconds of remaining work below which a job gets no guest, as it is about to end.
_SOON_S = 1.0


@dataclass(frozen=True, slots=True)
class StaticSharing(QuotaScheduler):
    """Space sharing; then each waiting job becomes the guest of the first job with enough cores and no guest."""

    percent: int = 50  # quota of every guest, above 0 and at most 90; otherwise `UsageError`
    heeds_memory: bool = False  # whether the host must also have enough memory, which the paper's policy ignores

    def __post_init__(self) -> None:
        if not 0 < self.percent <= LARGEST_PERCENT:
            raise UsageError(f"the quota is {self.percent} %, must be above 0 and at most {LARGEST_PERCENT} %")

    @property
    def name(self) -> str:
        return f"static-{self.percent}{'-memory' if self.heeds_memory else ''}"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        yield from view.easy_starts()
        for job in list(view.queue):
            host = next((one for one in view.allocations if one.takes(view.jobs[job].job, self.heeds_memory)), None)
            if host is not None:
                yield PlaceGuest(job, host.number, self.percent)


@dataclass(frozen=True, slots=True)
class CoallocationScheduler(QuotaScheduler):
    """Space sharing; then a solver that knows all profiles chooses guests for allocations without one."""

    solver: str = "scip"
    objective: CoallocationObjective = CoallocationObjective.THROUGHPUT
    max_slowdown: float = 1.5
    degradation_weight: float = 1.0
    interference: Interference = field(default_factory=Interference)
    time_limit: float = 10.0  # seconds for each problem

    @property
    def name(self) -> str:
        return f"coallocation-{self.solver}"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        yield from view.easy_starts()
        hosts = [one for one in view.allocations if one.guest is None and one.host.work_left_s >= _SOON_S]
        if not hosts or not view.queue:
            return
        queue = list(view.queue)
        running = (one.host.remaining(view.now) for one in hosts)
        # The further wait of a job is unknown, so use its limit instead.
        waiting = (view.jobs[job].job for job in queue)
        problem = CoallocationProblem(
            tuple(replace(job, id=str(number)) for number, job in enumerate(running)),
            tuple(replace(job, id=str(number), wait_s=job.walltime_s) for number, job in enumerate(waiting)),
            max_slowdown=self.max_slowdown,
            objective_name=self.objective,
            degradation_weight=self.degradation_weight,
            sharing=Sharing.SHARES,
            interference=self.interference,
        )
        result = solve(problem, solver=get_solver(self.solver, None, problem.kind), time_limit=self.time_limit)
        for guest, host, percent in result.solution.places if result.solution else ():
            yield PlaceGuest(queue[guest], hosts[host].number, percent)


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for the quota of a job on the cores of another job."""

    view: QuotaView
    # The allocation of the host, which owns it.
    allocation: SharedCores
    # Number of the guest. If it ``is_there``, it runs as a guest already, and its quota may change; otherwise it waits,
    # and may be refused.
    guest: int
    is_there: bool

    @property
    def job(self) -> QueuedJob:
        """The guest."""
        return self.view.jobs[self.guest]


@dataclass
class _Asking(QuotaScheduler):
    """Starts jobs as EASY does, then asks one question after the other for the quotas.

    The first questions are about the current guests, by the age of their hosts. The others are about the waiting jobs,
    in the order of the queue: for each, the running jobs that can take it are asked about, those with the most idle
    cores first, until it is accepted. Each question is asked once at every scheduling point.
    """

    window: int | None
    heeds_memory: bool
    period_s: float | None
    question: Question | None = field(init=False, default=None)  # the next question to answer; None if there is none
    # The answer, in percent, 0 to leave everything as it is; None at a new scheduling point.
    answer: int | None = field(init=False, default=None)
    _put: set[tuple[int, int]] = field(init=False, default_factory=set)

    name: ClassVar[str] = "asking"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        if self.answer is None or self.question is None:
            self._put = set()
            yield from view.easy_starts()
        elif self.answer > 0:
            asked, host = self.question, self.question.allocation.number
            yield SetQuota(host, self.answer) if asked.is_there else PlaceGuest(asked.guest, host, self.answer)
        there = (Question(view, one, one.guest.number, True) for one in view.allocations if one.guest is not None)
        hosts = sorted((one for one in view.allocations if one.guest is None), key=lambda one: -one.idle_cores())
        waiting = (
            Question(view, one, job, is_there=False)
            for job in view.queue[: self.window]
            for one in hosts
            if one.takes(view.jobs[job].job, self.heeds_memory)
        )
        new = (one for one in chain(there, waiting) if (one.allocation.number, one.guest) not in self._put)
        self.question = next(new, None)
        if self.question is not None:
            self._put.add((self.question.allocation.number, self.question.guest))


class AskingSimulation:
    """A simulation that runs from one question about a quota to the next; jobs start as in EASY backfilling.

    Questions concern current guests and the first ``window`` waiting jobs, None for all. With ``heeds_memory``, a host
    must have enough memory for a waiting job. Questions are asked again after ``period_s`` seconds while jobs share
    cores, even without an event; None for never.
    """

    def __init__(
        self,
        jobs: Sequence[QueuedJob],
        cores: int,
        window: int | None = None,
        heeds_memory: bool = True,
        period_s: float | None = None,
    ) -> None:
        self.jobs = tuple(sorted(jobs, key=lambda one: one.submit_s))
        self.cores = cores
        self.execution = QuotaExecution(self.jobs)
        self._asking = _Asking(window, heeds_memory, period_s)
        self._workload = queue_workload(self.jobs)
        rules = Rules(kill_at_limit=False)
        self._simulation = Simulation(self._workload, cores, self._asking, rules, execution=self.execution)
        self._go_on()

    @property
    def question(self) -> Question | None:
        """The next question to answer; None at the end."""
        return self._asking.question

    def take(self, percent: int) -> None:
        """Answer the question, and advance to the next one or to the end."""
        self._asking.answer = percent
        self._simulation.decide()
        self._go_on()

    def _go_on(self) -> None:
        self._asking.answer = None
        while self._asking.question is None and self._simulation.advance():
            self._simulation.decide()

    @property
    def now(self) -> float:
        """Time in seconds."""
        return self._simulation.view.now

    def schedule(self) -> QuotaSchedule:
        """Return the schedule so far; future times are NaN."""
        state = self._simulation.state.jobs
        start, end = state["start"].copy(), state["end"].copy()
        end[self._simulation.view.running] = np.nan
        return self.execution.measured(Schedule(self._workload, self.cores, state["release"].copy(), start, end))
