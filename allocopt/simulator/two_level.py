"""Two-level scheduling (DRAS, section 3.2): jobs are started, reserved or backfilled one choice at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rules import Level, Mode, Reservations
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.state import NOBODY
from allocopt.simulator.view import View

END = -1  # instead of a slot: ends the scheduling instance, if there are no reservations

PAPER_WINDOW = 50


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A choice that a selector must make.

    Parameters
    ----------
    number
        Number of choices before this one in the simulation.
    jobs, legal
        Jobs in the window, in the order in which they joined the queue, and whether each may be chosen; at least one.
    holder
        At level 2, the job that has the reservation; ``NOBODY`` at level 1.
    shadow, spare
        At level 2, the latest start of that job, in seconds, and the units of each resource that may be held beyond
        that time, shape ``(R,)``.
    can_end
        Whether ``END`` is allowed.
    """

    view: View
    number: int
    level: Level
    jobs: IntArray
    legal: NDArray[np.bool_]
    holder: int
    shadow: float
    spare: IntArray
    can_end: bool


@runtime_checkable
class Selector(Protocol):
    """Chooses jobs."""

    def select(self, choice: Choice) -> int:
        """Return the slot of the chosen job, or ``END``."""


@dataclass(slots=True, eq=False)
class TwoLevelLog:
    """Record of how the jobs of one simulation started."""

    modes: IntArray  # the `Mode` of each job, shape ``(n,)``
    # Start time of each job's last reservation, in seconds; infinite without one, shape ``(n,)``.
    promised: FloatArray
    holder: int = NOBODY  # the job that has the reservation, or ``NOBODY``
    choices: int = 0  # number of choices so far

    @classmethod
    def of(cls, jobs: int) -> "TwoLevelLog":
        """Return the log before the first event."""
        return cls(np.full(jobs, int(Mode.WAITING)), np.full(jobs, np.inf))


@dataclass(slots=True, eq=False)
class TwoLevelScheduler:
    """Carries out the choices of a selector.

    At every scheduling instance the job that has the reservation starts if it fits. If no reservation is outstanding,
    the selector chooses among the first waiting jobs (level 1): a job that fits starts; the first chosen job that does
    not fit gets the reservation, at the earliest time that the estimates allow. Then the selector chooses among the
    waiting jobs that fit and do not delay that time (level 2), until there are none. Raises `UsageError` if a value is
    wrong.
    """

    selector: Selector
    window: int = PAPER_WINDOW  # jobs among which it chooses, at least 1
    reservations: Reservations = Reservations.KEPT
    log: TwoLevelLog = field(init=False, repr=False, default_factory=lambda: TwoLevelLog.of(0))  # the last simulation's
    _view: View | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if not isinstance(self.selector, Selector):
            raise UsageError(f"{self.selector!r} is not a selector: it has no method `select`")
        if self.window < 1:
            raise UsageError(f"the window is {self.window}, must be at least 1")
        if not isinstance(self.reservations, Reservations):
            choices = ", ".join(f"Reservations.{kind.name}" for kind in Reservations)
            raise UsageError(f"reservations is {self.reservations!r}, must be one of {choices}")

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the job that has the reservation, and those that the selector chooses."""
        if self._view is not view:
            self._view, self.log = view, TwoLevelLog.of(len(view.ids))
        log, kept = self.log, self.reservations is Reservations.KEPT
        if kept and log.holder != NOBODY and view.fits(log.holder):
            yield self._start(log.holder, Mode.RESERVED)
        if not kept or log.holder == NOBODY:
            yield from self._first_level(view)
        if log.holder != NOBODY:
            yield from self._second_level(view)

    def _first_level(self, view: View) -> Iterator[Decision]:
        log = self.log
        can_end = self.reservations is Reservations.NONE
        while True:
            jobs = view.first(self.window)
            fitting = view.fitting(jobs)
            legal = fitting if can_end else np.ones_like(fitting)
            if not legal.any():
                return
            may_end = can_end and len(view.running) > 0
            slot = self._ask(Choice(view, log.choices, Level.FIRST, jobs, legal, NOBODY, 0.0, 0 * view.free, may_end))
            if slot == END:
                return
            job = int(jobs[slot])
            if not fitting[slot]:
                if log.holder not in (NOBODY, job):
                    log.promised[log.holder] = np.inf
                log.holder = job
                return
            yield self._start(job, Mode.RESERVED if job == log.holder else Mode.READY)

    def _second_level(self, view: View) -> Iterator[Decision]:
        log = self.log
        shadow, spare = view.shadow(log.holder)
        log.promised[log.holder] = min(log.promised[log.holder], shadow)
        while True:
            others = (job for job in view.backfillable(log.holder) if job != log.holder)
            jobs = np.array(list(islice(others, self.window)), dtype=np.int64)
            if not len(jobs):
                return
            legal = np.ones(len(jobs), dtype=np.bool_)
            slot = self._ask(Choice(view, log.choices, Level.SECOND, jobs, legal, log.holder, shadow, spare, False))
            job = int(jobs[slot])
            if view.now + view.estimate[job] > shadow:
                spare = spare - view.request[job]
            yield self._start(job, Mode.BACKFILLED)

    def _ask(self, choice: Choice) -> int:
        self.log.choices += 1
        slot = int(self.selector.select(choice))
        if slot == END and choice.can_end:
            return slot
        if not 0 <= slot < len(choice.jobs) or not choice.legal[slot]:
            slots = np.flatnonzero(choice.legal)
            raise SchedulerError(f"the selector chose slot {slot} at {choice.view.now:g} s, must be one of {slots}")
        return slot

    def _start(self, job: int, mode: Mode) -> Start:
        self.log.modes[job] = mode
        if job == self.log.holder:
            self.log.holder = NOBODY
        return Start(job)
