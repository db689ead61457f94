"""Policy ``window``: every period a topology solver allocates the waiting jobs that fit together (NSA paper, III-C)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.cluster.topology import Topology
from allocopt.errors import MissingPackageError, NoSolutionError, UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.topology.encoding import sequential_allocation
from allocopt.simulator.scheduler import Decision, Start, Wait
from allocopt.simulator.view import View
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve

ROUNDING = 1e-9
"""Part of a period by which a job may miss the multiple that it was submitted at because times are rounded."""

SHORTEST_S, LONGEST_S = 1e-3, 1e9
"""Range of the period: beyond any that makes sense, and safe from rounding."""


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs that start together.

    Parameters
    ----------
    single
        The one-node jobs, each with its node.
    jobs
        The other jobs, in the order of priority.
    problem
        Where those go, a problem over the idle nodes that remain, strategy ``free``; None where there are none.
    """

    single: tuple[Start, ...]
    jobs: tuple[int, ...]
    problem: TopologyProblem | None

    def starts(self, allocation: Allocation) -> tuple[Start, ...]:
        """Start all jobs, those of the problem where an allocation says."""
        others = zip(self.jobs, allocation.nodes, strict=True)
        return (*self.single, *(Start(job, nodes) for job, nodes in others))


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Which jobs start at a multiple of the period.

    The waiting jobs are taken by number of waiting periods, most first, then by nodes, fewest first, then by
    submission and id, until one does not fit the idle nodes. One-node jobs, which have no cost, take the first ones.

    Parameters
    ----------
    period_s
        The period tau in seconds, ``SHORTEST_S`` to ``LONGEST_S``.

    Raises
    ------
    UsageError
        If the period is out of range.
    """

    period_s: float

    def __post_init__(self) -> None:
        if not SHORTEST_S <= self.period_s <= LONGEST_S:
            raise UsageError(f"the period is {self.period_s} s, must be within {SHORTEST_S:g} and {LONGEST_S:g} s")

    def due(self, time: float) -> float:
        """Return the first multiple of the period that is not before a time, in seconds."""
        number = math.ceil(time / self.period_s)
        # The quotient is rounded, so that the multiple may be off by one.
        candidates = (multiple * self.period_s for multiple in (number - 1, number, number + 1))
        return min(candidate for candidate in candidates if candidate >= time)

    def number(self, time: float) -> int:
        """Return which multiple of the period a time is nearest to."""
        return round(time / self.period_s)

    def select(self, view: View) -> list[int]:
        """Jobs of the window, in the order of priority; `view` is at a multiple of the period."""
        queue = view.queue
        waited = np.array([view.waited(job) for job in queue.tolist()])
        periods = np.floor(waited / self.period_s + ROUNDING)
        order = queue[np.lexsort((view.ids[queue], view.submit[queue], view.processors[queue], -periods))]
        fitting = np.cumsum(view.processors[order]) <= view.free_processors
        chosen: list[int] = order[fitting].tolist()
        return chosen

    def window(self, view: View, topology: Topology, hop_cost: float = 1000.0, name: str = "window") -> Window:
        """Select jobs, give nodes to those that ask for one, and pose the problem of the others.

        Parameters
        ----------
        view
            A cluster whose nodes are given away whole, at a multiple of the period.
        topology
            How the nodes are connected.
        hop_cost
            Cost of one hop.
        name
            Name of the problem.
        """
        selected, idle = self.select(view), view.idle_nodes
        single = [job for job in selected if view.processors[job] == 1]
        several = [job for job in selected if view.processors[job] > 1]
        first, rest = idle[: len(single), None], idle[len(single) :]
        starts = tuple(Start(job, nodes) for job, nodes in zip(single, first, strict=True))
        asked = tuple(Job(str(view.ids[job]), int(view.processors[job])) for job in several)
        problem = TopologyProblem(topology, rest, asked, hop_cost, name) if several else None
        return Window(starts, tuple(several), problem)


LARGEST_SEED = 2**31


@dataclass(frozen=True, slots=True)
class Fallback:
    """A window that was allocated sequentially.

    Parameters
    ----------
    time
        When, in seconds.
    n_jobs, n_idle
        Its jobs of several nodes, and the idle nodes that they could have.
    reason
        Why the solver gave no allocation.
    """

    time: float
    n_jobs: int
    n_idle: int
    reason: str


@dataclass(slots=True)
class WindowLog:
    """What a window scheduler has done so far, in all simulations that it took part in.

    Parameters
    ----------
    n_windows
        Windows with jobs of several nodes, each of which was a problem.
    fallbacks
        Those among them that the solver did not allocate.
    """

    n_windows: int = 0
    fallbacks: list[Fallback] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class WindowScheduler:
    """The window-based method of the NSA paper, section III-C: see `allocopt.simulator.window.WindowRule`.

    Jobs start at multiples of the period only. A window for which the solver finds no allocation, or which it does not
    take, is allocated sequentially, which is feasible under every strategy; ``log`` counts these, and `remarks` says
    why. Under the ``sequential`` event order every event at a multiple of the period is followed by a window.

    Parameters
    ----------
    period_s
        The period tau in seconds, positive.
    solver
        Name of an installed solver, or a solver object.
    strategy
        ``scas``, ``dcas`` or ``free``; None for the widest that the solver takes.
    time_limit
        Seconds that the solver may spend on a window; None for no limit.
    iterations
        Steps that it may spend; None for its own default.
    seed
        Fixes every random choice; each window gets a seed of its own from it.

    Raises
    ------
    UsageError
        If the period or a limit makes no sense, there is no such solver, or it does not take the strategy.
    MissingPackageError
        If the solver needs a package that is not installed.
    """

    name: ClassVar[str] = "window"

    period_s: float = 60.0
    solver: str | Solver = "auto"
    strategy: str | None = None
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    log: WindowLog = field(init=False, repr=False, compare=False, default_factory=WindowLog)
    _rule: WindowRule = field(init=False, repr=False, compare=False)
    _solver: Solver = field(init=False, repr=False, compare=False)
    _strategy: Strategy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Budget(self.time_limit, self.iterations)
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        solver = get_solver(self.solver) if isinstance(self.solver, str) else self.solver
        object.__setattr__(self, "_rule", WindowRule(self.period_s))
        object.__setattr__(self, "_solver", solver)
        object.__setattr__(self, "_strategy", _taken(solver, self.strategy))

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the jobs of a window at a multiple of the period, and wait for the next multiple at other times.

        Raises
        ------
        UsageError
            If the platform has no topology, or jobs share its nodes.
        """
        topology = _topology(view)
        due = self._rule.due(view.now)
        if due > view.now:
            # A job that a window leaves waiting can start only after an event, at which this is called again.
            if len(view.queue):
                yield Wait(due)
            return
        window = self._rule.window(view, topology, name=f"window at {due:g} s")
        if window.problem is None:
            yield from window.single
        else:
            yield from window.starts(self._allocate(window.problem.with_strategy(self._strategy), due))

    def remarks(self) -> list[str]:
        """Say how many windows were allocated sequentially instead, one line per reason; nothing where none was."""
        counts: dict[str, int] = {}
        for fallback in self.log.fallbacks:
            counts[fallback.reason] = counts.get(fallback.reason, 0) + 1
        windows = self.log.n_windows
        return [f"{number} of {windows} windows allocated sequentially: {reason}" for reason, number in counts.items()]

    def _allocate(self, problem: TopologyProblem, time: float) -> Allocation:
        self.log.n_windows += 1
        found = self._solve(problem, self._rule.number(time))
        if isinstance(found, Allocation):
            return found
        self.log.fallbacks.append(Fallback(time, len(problem.jobs), len(problem.idle_nodes), found))
        return sequential_allocation(problem)

    def _solve(self, problem: TopologyProblem, number: int) -> Allocation | str:
        name = self._solver.name
        if self._solver.refusal(problem) is not None:
            return f"{name} takes {self._solver.capabilities.largest}"
        seed = int(np.random.default_rng((self.seed, number)).integers(LARGEST_SEED))
        try:
            result = solve(problem, None, self._solver, self.time_limit, seed, iterations=self.iterations)
        except NoSolutionError as error:
            return f"{name}: {error}"
        allocation = result.solution
        return allocation if isinstance(allocation, Allocation) else f"{name} found no allocation"


def _taken(solver: Solver, asked: str | None) -> Strategy:
    taken = [strategy for strategy in Strategy if strategy in solver.capabilities.strategies]
    if solver.kind != TopologyProblem.kind or not taken:
        raise UsageError(f"solver {solver.name!r} does not allocate windows: it takes no topology problems")
    if not solver.is_available():
        raise MissingPackageError(f"solver {solver.name!r} is not available here: a package it needs is not installed")
    if asked is not None and asked not in taken:
        raise UsageError(f"solver {solver.name!r} does not take {asked}; it takes {', '.join(taken)}")
    return taken[-1] if asked is None else Strategy(asked)


def _topology(view: View) -> Topology:
    platform = view.platform
    if platform.topology is None:
        raise UsageError("policy 'window' needs a platform whose topology is known, such as a fat tree of nodes")
    if platform.is_shared or len(platform.resources) > 1:
        raise UsageError("policy 'window' gives away whole nodes, on this platform jobs share them")
    return platform.topology
