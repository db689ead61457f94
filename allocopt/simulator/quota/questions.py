"""Simulations that stop wherever somebody outside is to say how large a guest's quota is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.simulator.quota.execution import Allocation, QuotaExecution, QuotaSchedule, QuotaView
from allocopt.simulator.quota.scheduler import QuotaScheduler, easy_starts
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import Decision, PlaceGuest, SetQuota
from allocopt.simulator.simulate import new_simulation
from allocopt.traces.applications import QueuedJob, queue_workload


@dataclass(frozen=True, slots=True)
class Question:
    """Asks which quota a job gets on the cores of another one."""

    view: QuotaView
    allocation: Allocation  # where; its owner is the host
    guest: int  # number of the guest
    is_there: bool  # whether the guest is there already, and gets another quota, or waits, and may be refused

    @property
    def job(self) -> QueuedJob:
        """The guest."""
        return self.view.jobs[self.guest]


@dataclass
class Asking(QuotaScheduler):
    """Starts what EASY starts, then puts one question after the other: every quota is somebody else's.

    First the guests that are there, by the age of their hosts; then the jobs that wait, in the order of the queue, each
    beside every running job that can take it, those with the most idle cores first, until one does. A question is put
    once at every scheduling point.
    """

    window: int | None = None  # waiting jobs that are looked at; None for all
    heeds_memory: bool = True  # whether a guest may only go where it has the memory
    # Seconds after which is asked again while jobs share, though nothing happened; None for never.
    period_s: float | None = None
    question: Question | None = field(init=False, default=None)
    """What is to be answered next; None if nothing is."""
    answer: int | None = field(init=False, default=None)
    """The answer, in percent, 0 to leave everything as it is; None at a new scheduling point."""
    _put: set[tuple[int, int]] = field(init=False, default_factory=set)

    name: ClassVar[str] = "asking"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        """Do what the answer says, or begin a scheduling point, and ask; see `QuotaScheduler.share`."""
        if self.answer is None or self.question is None:
            self._put = set()
            yield from easy_starts(view)
        elif self.answer > 0:
            asked, host = self.question, self.question.allocation.number
            yield SetQuota(host, self.answer) if asked.is_there else PlaceGuest(asked.guest, host, self.answer)
        new = (one for one in self._questions(view) if (one.allocation.number, one.guest) not in self._put)
        self.question = next(new, None)
        if self.question is not None:
            self._put.add((self.question.allocation.number, self.question.guest))

    def _questions(self, view: QuotaView) -> Iterator[Question]:
        for one in view.allocations:
            if one.guest is not None:
                yield Question(view, one, one.guest.number, is_there=True)
        hosts = sorted((one for one in view.allocations if one.guest is None), key=lambda one: -one.idle_cores())
        for job in view.queue[: self.window]:
            for one in hosts:
                if one.takes(view.jobs[job].job, self.heeds_memory):
                    yield Question(view, one, job, is_there=False)


class AskingSimulation:
    """A simulation from one question to the next.

    Raises `InvalidProblemError` if a job asks for more cores than there are.
    """

    def __init__(self, jobs: Sequence[QueuedJob], cores: int, asking: Asking) -> None:
        self.jobs = tuple(sorted(jobs, key=lambda one: one.submit_s))
        self.cores = cores
        self.execution = QuotaExecution(self.jobs)
        self._asking = asking
        self._workload = queue_workload(self.jobs)
        rules = Rules(kill_at_limit=False)
        self._simulation = new_simulation(self._workload, cores, asking, rules, execution=self.execution)
        self._go_on()

    @property
    def question(self) -> Question | None:
        """What is to be answered next; None at the end."""
        return self._asking.question

    def take(self, percent: int) -> None:
        """Answer the question, and go on to the next one or to the end."""
        self._asking.answer = percent
        self._simulation.python_pass(self._asking)
        self._go_on()

    def _go_on(self) -> None:
        self._asking.answer = None
        while self._asking.question is None and self._simulation.advance():
            self._simulation.python_pass(self._asking)

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
