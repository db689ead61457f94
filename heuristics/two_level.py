"""Selectors of two-level scheduling that follow a rule."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.simulator.order import OrderKind, QueueKeys, QueueOrder
from allocopt.simulator.scheduler import Decision, Scheduler, Start
from allocopt.simulator.state import NOBODY
from allocopt.simulator.two_level import END, Choice
from allocopt.simulator.two_level_rules import Level
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload
from heuristics.queue_orders import LargestFirst


@dataclass(slots=True, eq=False)
class _Keys:
    """What orders the jobs of the simulation that was seen last, at each level."""

    view: View | None = None
    keys: tuple[QueueKeys, ...] = ()


@dataclass(frozen=True, slots=True)
class InOrder:
    """The first job by a queue order, among equals the one submitted first; by another order at level 2.

    With ``Reservations.RENEWED`` and a window as long as the queue that is EASY backfilling under these orders.

    Parameters
    ----------
    order
        Order at level 1.
    fill
        Order at level 2; None for that of level 1.
    seed
        Fixes an order that is drawn.

    Raises
    ------
    UsageError
        If an order is by shares of users, which a selector does not see.
    """

    order: QueueOrder
    fill: QueueOrder | None = None
    seed: int = 0
    _known: _Keys = field(init=False, repr=False, compare=False, default_factory=_Keys)

    def select(self, choice: Choice) -> int:
        """Return the slot of the legal job that stands first."""
        keys = self._keys(choice.view)[0 if choice.level is Level.FIRST else 1]
        slots = np.flatnonzero(choice.legal)
        if keys.kind is OrderKind.ARRIVAL:
            return int(slots[0])
        jobs = choice.jobs[slots]
        return int(slots[np.lexsort((jobs, _values(keys, choice.view, jobs)))[0]])

    def _keys(self, view: View) -> tuple[QueueKeys, ...]:
        """Find what orders the jobs at each level, once per simulation."""
        if self._known.view is not view:
            jobs = Workload("queue", view.ids, view.submit, view.estimate, view.processors, view.estimate)
            orders = self.order, self.order if self.fill is None else self.fill
            # A generator each, so that an order that is drawn is the same at both levels.
            self._known.keys = tuple(order.keys(jobs, np.random.default_rng(self.seed)) for order in orders)
            self._known.view = view
        if any(keys.kind is OrderKind.FAIR_SHARE for keys in self._known.keys):
            raise UsageError("an order by shares of users does not go with two-level scheduling")
        return self._known.keys


def _values(keys: QueueKeys, view: View, jobs: IntArray) -> FloatArray:
    """Values of jobs now, the lowest first."""
    values: FloatArray = keys.values[jobs]
    if keys.kind is OrderKind.FIXED:
        return values
    waits = np.array([view.waited(job) for job in jobs.tolist()])
    aged: FloatArray = -values * waits
    return aged


def bin_packing() -> InOrder:
    """Return the BinPacking of DRAS section 5.1: with ``Reservations.NONE``, the largest job that fits."""
    return InOrder(LargestFirst())


@dataclass(frozen=True, slots=True)
class AtRandom:
    """Any legal job, every one equally likely (Random of DRAS section 5.1).

    Parameters
    ----------
    seed
        Fixes the choices: each one depends on it and on the number of choices before.
    """

    seed: int = 0

    def select(self, choice: Choice) -> int:
        """Return a legal slot."""
        return int(np.random.default_rng((self.seed, choice.number)).choice(np.flatnonzero(choice.legal)))


Moment = tuple[float, int, int]
"""Time, waiting and running jobs: another one whenever something has happened."""


@dataclass(slots=True, eq=False)
class _Answer:
    """The decisions of a scheduler at an instance, and when the next one is due."""

    view: View | None = None
    moment: Moment = (-np.inf, 0, 0)
    decisions: Iterator[Decision] = field(default_factory=lambda: iter(()))


@dataclass(frozen=True, slots=True)
class Following:
    """What a scheduler of `simulate` starts at an instance, one job after the other, then the end of the instance.

    So schedulers run in the environment: with ``Reservations.NONE``, ``can_end``, and a window that holds all jobs they
    may start. Optimization of DRAS section 5.1 is `allocopt.simulator.optimization.OptimizationScheduler`.

    Parameters
    ----------
    scheduler
        It starts jobs, keeps no reservations and leaves the choice of nodes to others.
    """

    scheduler: Scheduler
    _answer: _Answer = field(init=False, repr=False, compare=False, default_factory=_Answer)

    def select(self, choice: Choice) -> int:
        """Return the slot of the next job that the scheduler starts, ``END`` after the last.

        Where it starts none although nothing runs, that of the first legal job.

        Raises
        ------
        UsageError
            If it decides anything but to start a job in the window.
        """
        answer, moment = self._answer, _moment(choice.view)
        if answer.view is not choice.view or answer.moment != moment:
            answer.view, answer.decisions = choice.view, iter(self.scheduler.schedule(choice.view))
        decision = next(answer.decisions, None)
        time, waiting, running = moment
        # The scheduler is not called again before something else happens than the start of its job.
        answer.moment = (time, waiting - 1, running + 1) if decision is not None else moment
        if decision is None:
            return END if choice.can_end else int(np.argmax(choice.legal))
        job = decision.job if isinstance(decision, Start) else NOBODY
        slots = np.flatnonzero(choice.jobs == job)
        if not len(slots):
            raise UsageError(f"{decision} does not start a job of the window")
        return int(slots[0])


def _moment(view: View) -> Moment:
    """Return what differs once something has happened."""
    return view.now, len(view.queue), len(view.running)
