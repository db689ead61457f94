"""Schedulers of shared allocations: ``space-sharing``, ``static-50`` and ``coallocation``.

The first is FCFS with EASY backfilling and shares none, the second shares every allocation half and half, whatever runs
on it (the ASAX paper's *Static*), the third does as the first, and then solves the co-allocation of waiting to
running jobs at every scheduling point. `AskingSimulation` stops wherever somebody outside is to say a quota.
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
    """A scheduler that sees the allocations besides the queue; it is simulated with `QuotaExecution`."""

    # Seconds after which it is asked again while jobs share, though nothing happened; None for never.
    period_s: float | None = None

    @property
    @abstractmethod
    def name(self) -> str:
        """Name under which it is asked for."""

    @abstractmethod
    def share(self, view: QuotaView) -> Iterable[Decision]:
        """Return which jobs start, where, and which quotas change; the view shows each decision before the next."""

    def ended(self, view: QuotaView, allocation: SharedCores) -> None:  # noqa: B027 - most learn nothing
        """Take note that the owner of an allocation has just ended; the guest that it had, if any, now owns its own."""

    def schedule(self, view: View) -> Iterator[Decision]:
        """Say which allocations are over, then decide, once all jobs that should end together have ended."""
        execution = view.execution
        if not view.takes_guests:
            fault = "divides cores between jobs that share them, which is known of a pool only, not of nodes"
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
        """Return the model of jobs that run workflows of the ASAX paper; raise `InvalidProblemError` for others."""
        return QuotaExecution(profiled_jobs(workload, WORKFLOWS))


@dataclass(frozen=True, slots=True)
class SpaceSharing(QuotaScheduler):
    """Batch scheduling: no job shares."""

    name: ClassVar[str] = "space-sharing"

    def share(self, view: QuotaView) -> Iterable[Decision]:
        return view.easy_starts()


# Seconds of work below which a job is about to end, and no longer a host.
_SOON_S = 1.0


@dataclass(frozen=True, slots=True)
class StaticSharing(QuotaScheduler):
    """Share space, and place each job that still waits beside the first one that has the cores and no guest."""

    percent: int = 50  # quota of every guest, above 0 and at most 90; any other is a `UsageError`
    heeds_memory: bool = False  # whether the first one must have the memory, too: what the paper's does not look at

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
    """Space sharing, and guests for allocations without one by a solver that knows all profiles."""

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
        # How long a job would still wait is not known; its limit stands for it.
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
    """Asks which quota a job gets on the cores of another one."""

    view: QuotaView
    # Where; its owner is the host.
    allocation: SharedCores
    # Number of the guest, and whether it is there already, and gets another quota, or waits, and may be refused.
    guest: int
    is_there: bool

    @property
    def job(self) -> QueuedJob:
        """The guest."""
        return self.view.jobs[self.guest]


@dataclass
class _Asking(QuotaScheduler):
    """Starts what EASY starts, then puts one question after the other: every quota is somebody else's.

    First the guests that are there, by the age of their hosts; then the jobs that wait, in the order of the queue, each
    beside every running job that can take it, those with the most idle cores first, until one does. A question is put
    once at every scheduling point.
    """

    window: int | None
    heeds_memory: bool
    period_s: float | None
    question: Question | None = field(init=False, default=None)  # what is to be answered next; None if nothing is
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
    """A simulation from one question to the next: what EASY starts starts, and every quota is somebody else's.

    The ``window`` waiting jobs that are asked about, None for all, may be placed only where there is the memory if that
    is heeded. It is asked again after ``period_s`` seconds while jobs share, though nothing happened; None for never.
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
        """What is to be answered next; None at the end."""
        return self._asking.question

    def take(self, percent: int) -> None:
        """Answer the question, and go on to the next one or to the end."""
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
        """Return what has happened so far; what is still to come is NaN."""
        state = self._simulation.state.jobs
        start, end = state["start"].copy(), state["end"].copy()
        end[self._simulation.view.running] = np.nan
        return self.execution.measured(Schedule(self._workload, self.cores, state["release"].copy(), start, end))
