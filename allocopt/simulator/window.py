"""Policy ``window``: every period a topology solver allocates the waiting jobs that fit together (NSA paper, III-C).

Beside it the allocator that asks a solver for the jobs of another scheduler, the windows of a trace as problems, and
policy ``optimization``, which selects jobs by a knapsack.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from typing import ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError, MissingPackageError, NoSolutionError, UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.knapsack.problem import EQUAL_WEIGHTS, LEAST_ESTIMATE_S, KnapsackJob, KnapsackProblem, Reward
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.simulator.engine import Simulation
from allocopt.simulator.placement import Share
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import HOP_COST
from allocopt.simulator.scheduler import Decision, Start, Wait
from allocopt.simulator.view import View
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from allocopt.traces.workload import Workload

# The jobs of a problem that is made to see whether objective and weights are such.
_PROBE = (KnapsackJob("probe", {"nodes": 1}, 0.0, 1.0),)


@dataclass(frozen=True, slots=True)
class OptimizationScheduler:
    """The optimization method of the DRAS paper, section 5.1: without reservation and without backfilling.

    At every scheduling point the first waiting jobs, those of the window, are a `KnapsackProblem` with what is free;
    the selected ones start, in the order of the queue. There is one selection per scheduling point: under
    ``capability`` the best one may leave jobs waiting that would fit, and these are looked at again at the next event.

    Raises `UsageError` if a number makes no sense, there is no such objective or solver, or the solver takes no
    knapsacks; `MissingPackageError` if the solver needs a package that is not installed.

    Parameters
    ----------
    window
        Waiting jobs that are looked at, at least 1.
    objective, weights
        ``capability`` (Eq. 1, with the weights w1, w2 and w3) or ``capacity`` (Eq. 2).
    solver
        Name of an installed solver, or a solver object; ``dp`` takes one resource, ``auto`` any number.
    time_limit, iterations
        What it may spend on a selection, in seconds and in steps; None for no limit, and for the solver's default.
    """

    name: ClassVar[str] = "optimization"

    window: int = 50
    objective: str = "capability"
    weights: tuple[float, float, float] = EQUAL_WEIGHTS
    solver: str | Solver = "dp"
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    _solver: Solver = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Budget(self.time_limit, self.iterations)
        if self.window < 1:
            raise UsageError(f"the window is {self.window} jobs, must be at least 1")
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        if self.objective not in (Reward.CAPABILITY, Reward.CAPACITY):
            raise UsageError(f"the objective is {self.objective!r}, must be capability or capacity")
        try:
            KnapsackProblem({"nodes": 1}, _PROBE, Reward(self.objective), tuple(self.weights))  # type: ignore[arg-type]
        except (InvalidProblemError, TypeError) as error:
            raise UsageError(f"weights must be three numbers w1, w2, w3: {error}") from None
        solver = get_solver(self.solver, None, KnapsackProblem.kind) if isinstance(self.solver, str) else self.solver
        if solver.kind != KnapsackProblem.kind:
            raise UsageError(f"solver {solver.name!r} selects no jobs: it takes no knapsack problems")
        object.__setattr__(self, "_solver", solver)

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the selected jobs. Raises `UsageError` if the solver does not take so many jobs or resources."""
        window = view.first(self.window)
        fitting = window[view.fitting(window)]
        if not len(fitting):
            return
        problem = self.problem(view, window.tolist())
        result = solve(problem, None, self._solver, self.time_limit, self.seed, iterations=self.iterations)
        selected = window[list(result.found().jobs)].tolist()
        # Nobody is selected only where the weights find nothing in any job; the first that fits keeps time going.
        for job in selected or [int(fitting[0])]:
            yield Start(job)

    def problem(self, view: View, jobs: list[int]) -> KnapsackProblem:
        """Pose the selection from some waiting jobs with what is free now."""

        def named(units: IntArray) -> dict[str, int]:
            return dict(zip(view.platform.resources, units.tolist(), strict=True))

        estimates = np.maximum(view.estimate[jobs], LEAST_ESTIMATE_S).tolist()
        return KnapsackProblem(
            named(view.free),
            tuple(
                KnapsackJob(str(view.ids[job]), named(view.request[job]), view.waited(job), estimate)
                for job, estimate in zip(jobs, estimates, strict=True)
            ),
            Reward(self.objective),
            tuple(self.weights),  # type: ignore[arg-type]
            named(np.asarray(view.platform.total)),
            name=f"queue at {view.now:g} s",
        )


# Part of a period by which a job may miss the multiple that it was submitted at because times are rounded.
_ROUNDING = 1e-9

# Range of the period: beyond any that makes sense, and safe from rounding.
_SHORTEST_S, _LONGEST_S = 1e-3, 1e9

_LARGEST_SEED = 2**31


Allocate = Callable[[TopologyProblem], Allocation]


class _Window(NamedTuple):
    """Jobs that start together."""

    single: dict[int, IntArray]  # the one-node jobs, each with its node
    jobs: tuple[int, ...]  # the others, in the order of priority
    problem: TopologyProblem | None  # where those go, of the idle nodes that remain; None where there are none

    @classmethod
    def of(
        cls, topology: Topology, idle: IntArray, asked: Mapping[int, Job], name: str, hop_cost: float = HOP_COST
    ) -> "_Window":
        """Give the first idle nodes to the jobs that ask for one, at no cost, and pose the problem of the others."""
        single = [job for job, request in asked.items() if request.nodes == 1]
        several = {job: request for job, request in asked.items() if request.nodes > 1}
        first, rest = idle[: len(single), None], idle[len(single) :]
        problem = TopologyProblem(topology, rest, tuple(several.values()), hop_cost, name) if several else None
        return cls(dict(zip(single, first, strict=True)), tuple(several), problem)

    def nodes(self, allocate: Allocate) -> dict[int, IntArray]:
        """Return the nodes of all jobs, those of the problem as it is solved."""
        if self.problem is None:
            return self.single
        return self.single | dict(zip(self.jobs, allocate(self.problem).nodes, strict=True))


def _checked_period(period_s: float) -> float:
    if not _SHORTEST_S <= period_s <= _LONGEST_S:
        raise UsageError(f"the period is {period_s} s, must be within {_SHORTEST_S:g} and {_LONGEST_S:g} s")
    return period_s


def _due(period_s: float, time: float) -> float:
    """Return the first multiple of a period that is not before a time, in seconds."""
    number = math.ceil(time / period_s)
    # The quotient is rounded, so that the multiple may be off by one.
    candidates = (multiple * period_s for multiple in (number - 1, number, number + 1))
    return min(candidate for candidate in candidates if candidate >= time)


def _window_of(period_s: float, view: View, topology: Topology, name: str, hop_cost: float = HOP_COST) -> _Window:
    """Select the jobs that start at a multiple of the period on a cluster whose nodes are given away whole.

    They are taken by number of waiting periods, most first, then by nodes, fewest first, then by submission and id,
    until one does not fit the idle nodes.
    """
    queue = view.queue
    waited = np.array([view.waited(job) for job in queue.tolist()])
    periods = np.floor(waited / period_s + _ROUNDING)
    order = queue[np.lexsort((view.ids[queue], view.submit[queue], view.processors[queue], -periods))]
    selected = order[np.cumsum(view.processors[order]) <= view.free_processors].tolist()
    asked = {job: Job(str(view.ids[job]), int(view.processors[job])) for job in selected}
    return _Window.of(topology, view.idle_nodes, asked, name, hop_cost)


@dataclass(frozen=True, slots=True)
class WindowScheduler:
    """The window-based method of the NSA paper, section III-C: by number of waiting periods.

    Jobs start at multiples of the period only. A window for which the solver finds no allocation, or which it does not
    take, is allocated sequentially, which is feasible under every strategy; ``log`` counts these, and `remarks` says
    why. Under the ``sequential`` event order every event at a multiple of the period is followed by a window. Raises
    `UsageError` if the period or a limit makes no sense, there is no such solver, or it does not take the strategy;
    `MissingPackageError` if the solver needs a package that is not installed.
    """

    name: ClassVar[str] = "window"

    period_s: float = 60.0
    solver: str | Solver = "auto"  # name of an installed solver, or a solver object
    strategy: str | None = None  # ``scas``, ``dcas`` or ``free``; None for the widest that the solver takes
    # What it may spend on a window, in seconds, None for no limit, and in steps, None for its own default.
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    # Why each window of several nodes, of all simulations so far, was allocated sequentially; None where it was not.
    log: list[str | None] = field(init=False, repr=False, compare=False, default_factory=list)
    _solver: Solver = field(init=False, repr=False, compare=False)
    _strategy: Strategy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Budget(self.time_limit, self.iterations)
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        solver = get_solver(self.solver) if isinstance(self.solver, str) else self.solver
        _checked_period(self.period_s)
        object.__setattr__(self, "_solver", solver)
        taken = [strategy for strategy in Strategy if strategy in solver.capabilities.strategies]
        if solver.kind != TopologyProblem.kind or not taken:
            raise UsageError(f"solver {solver.name!r} does not allocate windows: it takes no topology problems")
        if not solver.is_available():
            fault = "is not available here: a package it needs is not installed"
            raise MissingPackageError(f"solver {solver.name!r} {fault}")
        if self.strategy is not None and self.strategy not in taken:
            raise UsageError(f"solver {solver.name!r} does not take {self.strategy}; it takes {', '.join(taken)}")
        object.__setattr__(self, "_strategy", taken[-1] if self.strategy is None else Strategy(self.strategy))

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the jobs of a window at a multiple of the period, and wait for the next multiple at other times."""
        platform = view.platform
        if platform.topology is None:
            raise UsageError("policy 'window' needs a platform whose topology is known, such as a fat tree of nodes")
        if platform.is_shared or len(platform.resources) > 1:
            raise UsageError("policy 'window' gives away whole nodes, on this platform jobs share them")
        due = _due(self.period_s, view.now)
        if due > view.now:
            # A job that a window leaves waiting can start only after an event, at which this is called again.
            if len(view.queue):
                yield Wait(due)
            return
        window = _window_of(self.period_s, view, platform.topology, f"window at {due:g} s")
        yield from starmap(Start, window.nodes(partial(self._allocate, due)).items())

    def remarks(self) -> list[str]:
        """Say how many windows were allocated sequentially instead, one line per reason; nothing where none was."""
        counts, windows = Counter(reason for reason in self.log if reason is not None), len(self.log)
        return [f"{number} of {windows} windows allocated sequentially: {reason}" for reason, number in counts.items()]

    def _allocate(self, time: float, problem: TopologyProblem) -> Allocation:
        solver, problem = self._solver, problem.with_strategy(self._strategy)
        # A seed of its own for each window, whichever came before.
        seed = int(np.random.default_rng((self.seed, round(time / self.period_s))).integers(_LARGEST_SEED))
        fault = f"{solver.name} found no allocation"
        if solver.refusal(problem) is not None:
            fault = f"{solver.name} takes {solver.capabilities.largest}"
        else:
            try:
                found = solve(problem, None, solver, self.time_limit, seed, iterations=self.iterations).solution
                if isinstance(found, Allocation):
                    self.log.append(None)
                    return found
            except NoSolutionError as error:
                fault = f"{solver.name}: {error}"
        self.log.append(fault)
        return Allocation.sequential(problem)


@dataclass(frozen=True, slots=True)
class TopologyAllocator:
    """Whole nodes by a topology solver: the jobs that start together are a window, of those of several nodes."""

    topology: Topology
    solver: Solver
    strategy: str = "free"  # ``scas``, ``dcas`` or ``free``
    # What it may spend on a window, in seconds and in steps; None for no limit, and for the solver's default.
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Solve the window; `NoSolutionError` if the solver finds nothing within its limit."""
        if free.shape[1] != 1 or free.max(initial=0) > 1:
            raise UsageError("a topology solver gives away whole nodes, this platform shares them")
        asked = {job: Job(name, int(size)) for job, (name, size) in enumerate(zip(names, request[:, 0], strict=True))}
        first = next((job.id for job in asked.values() if job.nodes > 1), None)
        window = _Window.of(self.topology, np.flatnonzero(free[:, 0]), asked, f"job {first} and others")

        def allocate(problem: TopologyProblem) -> Allocation:
            found = solve(
                problem, self.strategy, self.solver, self.time_limit, self.seed, iterations=self.iterations
            ).solution
            return _found(found, self.solver, f"the window of {problem.name}")

        nodes = window.nodes(allocate)
        return [Share.whole(nodes[job]) for job in range(len(names))]


def _found(solution: object, solver: Solver, what: str) -> Allocation:
    if not isinstance(solution, Allocation):
        raise NoSolutionError(f"solver {solver.name!r} found no allocation of {what}")
    return solution


def windows(
    workload: Workload,
    topology: Topology,
    period_s: float,
    allocate: Allocate,
    *,
    hop_cost: float = HOP_COST,
    min_jobs: int = 2,
    max_jobs: int | None = None,
    skip: int = 0,
    prefix: str = "window",
) -> Iterator[TopologyProblem]:
    """Replay a workload as `WindowScheduler` does, and yield its windows in order of time, strategy ``free``.

    One-node jobs take the first idle nodes, at no cost; the others are a problem over the idle nodes that remain. Jobs
    run as long as was recorded and wait for no other job. They count whole nodes, none more than the cluster has: see
    `Workload.in_nodes`, `Workload.fitting`. Every window is allocated, those that are not yielded too, but not the ones
    after the last that is asked for. Yielded are those of ``min_jobs`` (1 or more) to ``max_jobs`` jobs (None for no
    limit), but for the first ``skip``; a number follows the prefix of their names, 000 for the first one yielded.

    Raises `UsageError` if the period, in seconds, or a limit makes no sense; `InvalidProblemError` if a job is larger
    than the cluster; `InvalidSolutionError` if ``allocate`` gives a node away that is not idle, or not as many as a job
    asks for.
    """
    largest = len(workload) if max_jobs is None else max_jobs
    if min_jobs < 1:
        raise UsageError(f"the least number of jobs of a window is {min_jobs}, must be at least 1")
    if max_jobs is not None and max_jobs < min_jobs:
        raise UsageError(f"the greatest number of jobs of a window, {max_jobs}, is below the least, {min_jobs}")
    if skip < 0:
        raise UsageError(f"the number of windows to skip is {skip}, must not be negative")
    _checked_period(period_s)
    if not len(workload):
        return

    def checked(problem: TopologyProblem) -> Allocation:
        allocation = allocate(problem)
        verify(problem, allocation)
        return allocation

    rules = Rules(kill_at_limit=False, dependencies=False)
    simulation = Simulation(workload, Platform.whole_nodes(topology), _Decided(()), rules)
    found = -skip
    while simulation.advance():
        due = _due(period_s, simulation.view.now)
        if due > simulation.view.now:
            simulation.decide(_Decided((Wait(due),)))
            continue
        window = _window_of(period_s, simulation.view, topology, f"{prefix}-{max(found, 0):03d}", hop_cost)
        if window.problem is not None and min_jobs <= len(window.jobs) <= largest:
            if found >= 0:
                yield window.problem
            found += 1
        simulation.decide(_Decided(tuple(starmap(Start, window.nodes(checked).items()))))


class _Decided(NamedTuple):
    decisions: tuple[Decision, ...]

    def schedule(self, view: View) -> tuple[Decision, ...]:
        """Return them."""
        return self.decisions


def solver_allocator(name: str, strategy: str, iterations: int, rng: np.random.Generator) -> Allocate:
    """Make an allocator of windows of a solver, which may spend so many iterations on each and no limit of time.

    The same generator state gives the same windows. Raises `UsageError` if the solver does not take the strategy.
    """
    solver = get_solver(name)
    if strategy not in solver.capabilities.strategies:
        able = ", ".join(sorted(solver.capabilities.strategies))
        raise UsageError(f"solver {name!r} does not take {strategy}; it takes {able}")

    def allocate(problem: TopologyProblem) -> Allocation:
        seed = int(rng.integers(_LARGEST_SEED))
        found = solve(problem, strategy, solver, None, seed, iterations=iterations).solution
        return _found(found, solver, f"window {problem.name!r}")

    return allocate
