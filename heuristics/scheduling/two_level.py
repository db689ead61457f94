"""Two-level scheduling by rules: selectors, and the policy ``two-level``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rules import Level, OrderKind, QueueKeys, QueueOrder, Reservations
from allocopt.simulator.scheduler import Scheduler, get_policy
from allocopt.simulator.state import NOBODY
from allocopt.simulator.two_level import END, PAPER_WINDOW, Choice, TwoLevelLog, TwoLevelScheduler
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


@dataclass(slots=True, eq=False)
class InOrder:
    """Select the first job by a queue order; of equal ones, the one submitted first.

    With ``Reservations.RENEWED`` and a window as long as the queue, this is EASY backfilling. With ``NONE`` and
    `LargestFirst`, it is the BinPacking of DRAS section 5.1. Raises `UsageError` for an order by shares of users, or by
    scores.
    """

    order: QueueOrder  # queue order at level 1
    fill: QueueOrder | None = None  # queue order at level 2; None for that of level 1
    seed: int = 0
    # The simulation of the last call, and the keys of its jobs at each level.
    _view: View | None = field(init=False, repr=False, default=None)
    _keys: tuple[QueueKeys, ...] = field(init=False, repr=False, default=())

    def select(self, choice: Choice) -> int:
        """Return the slot of the first legal job by the queue order."""
        view = choice.view
        if self._view is not view:
            jobs = Workload("queue", view.ids, view.submit, view.estimate, view.processors, view.estimate)
            # Each order has its own generator, so that a random order is the same at both levels.
            orders = self.order, self.order if self.fill is None else self.fill
            self._keys = tuple(order.keys(jobs, np.random.default_rng(self.seed)) for order in orders)
            if any(keys.kind in (OrderKind.FAIR_SHARE, OrderKind.SCORED) for keys in self._keys):
                raise UsageError("two-level scheduling cannot use an order by shares of users, or by scores")
            self._view = view
        keys = self._keys[0 if choice.level is Level.FIRST else 1]
        slots = np.flatnonzero(choice.legal)
        if keys.kind is OrderKind.ARRIVAL:
            return int(slots[0])
        candidates = choice.jobs[slots]
        values: FloatArray = keys.values[candidates]
        if keys.kind is OrderKind.AGEING:
            values = -values * np.array([view.waited(job) for job in candidates.tolist()])
        return int(slots[np.lexsort((candidates, values))[0]])


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Select a random legal job, each equally likely, by the seed and the choice's number (Random of DRAS 5.1)."""

    seed: int = 0

    def select(self, choice: Choice) -> int:
        """Return a legal slot."""
        return int(np.random.default_rng((self.seed, choice.number)).choice(np.flatnonzero(choice.legal)))


@dataclass(slots=True, eq=False)
class Following:
    """Select, one after the other, the jobs that a scheduler of `simulate` starts at a scheduling point, then end it.

    This runs schedulers in the environment if they keep no reservations and do not choose nodes. It needs
    ``Reservations.NONE``, ``can_end``, and a window that holds all jobs they may start. The Optimization of DRAS
    section 5.1 is `allocopt.simulator.window.OptimizationScheduler`.
    """

    scheduler: Scheduler
    # The last answer: its simulation, its time and numbers of waiting and running jobs, and its remaining decisions.
    _view: View | None = field(init=False, repr=False, default=None)
    _moment: tuple[float, int, int] = field(init=False, repr=False, default=(-np.inf, 0, 0))
    _decisions: Iterator[Decision] = field(init=False, repr=False, default_factory=lambda: iter(()))

    def select(self, choice: Choice) -> int:
        """Return the slot of the next job that the scheduler starts, and ``END`` after the last.

        If the scheduling point cannot end without a start, return the slot of the first legal job. Raises `UsageError`
        for other decisions of the scheduler.
        """
        view = choice.view
        moment = time, waiting, running = view.now, len(view.queue), len(view.running)
        if self._view is not view or self._moment != moment:
            self._view, self._decisions = view, iter(self.scheduler.schedule(view))
        decision = next(self._decisions, None)
        # Do not call the scheduler again until something other than the start of its job happens.
        self._moment = (time, waiting - 1, running + 1) if decision is not None else moment
        if decision is None:
            return END if choice.can_end else int(np.argmax(choice.legal))
        job = decision.job if isinstance(decision, Start) else NOBODY
        slots = np.flatnonzero(choice.jobs == job)
        if not len(slots):
            raise UsageError(f"{decision} does not start a job of the window")
        return int(slots[0])


@dataclass(frozen=True, slots=True)
class TwoLevelOrders:
    """Start, reserve and backfill jobs by queue orders; a reservation is kept, while EASY would renew it.

    Raises `UsageError` for other values than those below, and for a negative seed.
    """

    name: ClassVar[str] = "two-level"

    order: str = "wfp3"  # name of the queue order at level 1
    fill: str = "sjf"  # name of the queue order of backfilling
    window: int = PAPER_WINDOW  # number of waiting jobs to choose from, at least 1
    reservations: str = "kept"  # or `renewed` or `none`; see `allocopt.simulator.rules.Reservations`
    seed: int = 0
    _scheduler: TwoLevelScheduler = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {kind.name.lower(): kind for kind in Reservations}
        if self.reservations not in kinds:
            raise UsageError(f"reservations is {self.reservations!r}, must be one of {', '.join(kinds)}")
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        selector = InOrder(_order(self.order), _order(self.fill), self.seed)
        scheduler = TwoLevelScheduler(selector, self.window, kinds[self.reservations])
        object.__setattr__(self, "_scheduler", scheduler)

    @property
    def log(self) -> TwoLevelLog:
        """Log of the last simulation."""
        return self._scheduler.log

    def schedule(self, view: View) -> Iterator[Decision]:
        """Schedule as `TwoLevelScheduler` does."""
        return self._scheduler.schedule(view)


def _order(name: str) -> QueueOrder:
    order = get_policy(name)
    if not isinstance(order, QueueOrder):
        raise UsageError(f"policy {name!r} is not a queue order")
    return order
