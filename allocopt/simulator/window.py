"""Policy ``window``: every period a solver allocates the waiting jobs that fit together (NSA paper, section III-C).

Also here: the allocator with which a topology solver places jobs that another scheduler starts; the windows of a trace
as problems; and policy ``optimization``, which selects jobs by a knapsack problem.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError, NoSolutionError, UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.kind import kind_of
from allocopt.problems.knapsack.problem import EQUAL_WEIGHTS, LEAST_ESTIMATE_S, KnapsackJob, KnapsackProblem, Reward
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.problems.windows import WindowProblem, WindowSolution
from allocopt.simulator.decisions import Decision, Start, Wait
from allocopt.simulator.engine import Simulation
from allocopt.simulator.held_nodes import Share
from allocopt.simulator.periods import check_period, due_at
from allocopt.simulator.posed import PosedWindow, WholeNodes
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import HOP_COST
from allocopt.simulator.view import View
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Result
from allocopt.solving.solve import check_available, solve
from allocopt.solving.verify import verify
from allocopt.solving.windows import KINDS, check_window_solver, window_solver
from allocopt.tables import RowTable
from allocopt.traces.workload import Workload

# A job for a problem that is made only to check the objective and the weights.
_PROBE = (KnapsackJob("probe", {"nodes": 1}, 0.0, 1.0),)


@dataclass(frozen=True, slots=True)
class OptimizationScheduler:
    """The optimization method of the DRAS paper, section 5.1, without reservations and without backfilling.

    At every scheduling point, the first waiting jobs (the window) and the free units make a `KnapsackProblem`. The
    selected jobs start in the order of the queue. There is only one selection per scheduling point. Under
    ``capability`` the best selection may leave out jobs that would fit; these wait until the next event.

    Raises `UsageError` if a number is out of range, there is no such objective or solver, or the solver does not take
    knapsack problems; `MissingPackageError` if the solver needs a package that is not installed.

    Parameters
    ----------
    window
        Number of waiting jobs that are considered, at least 1.
    objective, weights
        ``capability`` (Eq. 1, with the weights w1, w2 and w3) or ``capacity`` (Eq. 2).
    solver
        Name of an installed solver, or a solver object; None for ``dp`` with one resource, and ``auto`` with several.
    time_limit, iterations
        Limits of the solver for a selection: seconds, None for no limit; and steps, None for the solver's default.
    """

    name: ClassVar[str] = "optimization"

    window: int = 50
    objective: str = "capability"
    weights: tuple[float, float, float] = EQUAL_WEIGHTS
    solver: str | Solver | None = None
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    # The solver for one resource, and that for several resources.
    _solvers: tuple[Solver, Solver] = field(init=False, repr=False, compare=False)

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
        asked: tuple[str | Solver, ...] = ("dp", "auto") if self.solver is None else (self.solver, self.solver)
        found = [get_solver(one, None, KnapsackProblem.kind) if isinstance(one, str) else one for one in asked]
        for solver in found:
            if solver.kind != KnapsackProblem.kind:
                raise UsageError(f"solver {solver.name!r} cannot select jobs: it does not take knapsack problems")
        object.__setattr__(self, "_solvers", tuple(found))

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the selected jobs; raise `UsageError` if there are too many jobs or resources for the solver."""
        window = view.first(self.window)
        asks_for_nothing = (view.request[window] == 0).all(axis=1)
        for job in window[asks_for_nothing].tolist():
            if view.fits(job):
                yield Start(job)
        window = window[~asks_for_nothing]
        fitting = window[view.fitting(window)]
        if not len(fitting):
            return
        problem = self.problem(view, window.tolist())
        solver = self._solvers[len(problem.capacity) > 1]
        result = solve(problem, solver=solver, time_limit=self.time_limit, seed=self.seed, iterations=self.iterations)
        selected = window[list(result.found().jobs)].tolist()
        # If no job has a value, none is selected. Then start the first one that fits, so that the simulation goes on.
        for job in selected or [int(fitting[0])]:
            # If jobs share nodes, the free units in total may be spread over too many nodes.
            if view.fits(job):
                yield Start(job)

    def problem(self, view: View, jobs: list[int]) -> KnapsackProblem:
        """Return the problem of selecting from some waiting jobs with the units that are free now."""

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


# Tolerance for rounded times, as a share of a period: a job may seem to have waited slightly less than whole periods.
_ROUNDING = 1e-9

_LARGEST_SEED = 2**31

_PLACEMENT_STEPS = 1000


Allocate = Callable[[TopologyProblem], Allocation]


def _by_periods(period_s: float, view: View) -> IntArray:
    """Return the waiting jobs in the order of priority at a multiple of the period.

    Jobs are sorted by number of waiting periods, most first; then by processors, fewest first; then by submission and
    id.
    """
    queue = view.queue
    waited = np.array([view.waited(job) for job in queue.tolist()])
    periods = np.floor(waited / period_s + _ROUNDING)
    order: IntArray = queue[np.lexsort((view.ids[queue], view.submit[queue], view.processors[queue], -periods))]
    return order


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedWindow:
    """A window of a simulation with its result; fields that a window without a search does not have are None."""

    time_s: float  # of the simulation
    kind: str  # topology or placement
    strategy: str | None
    jobs: int
    solver: str  # that was asked
    status: str | None = None
    objective: float  # of the allocation, whether the solver found it or not
    bound: float | None = None
    gap: float | None = None  # as a share of the objective
    runtime_s: float | None = None  # wall-clock time of the solve
    reason: str | None = None  # why the window was allocated without a search; None if it was not

    @classmethod
    def of(cls, time_s: float, problem: WindowProblem, result: Result) -> "SolvedWindow":
        """Return the row of a window that a solver has allocated."""
        assert result.objective is not None, "it has a solution"
        return cls(
            time_s=time_s,
            kind=problem.kind,
            strategy=kind_of(problem).strategy_of(problem),
            jobs=len(problem.jobs),
            solver=result.solver,
            status=str(result.status),
            objective=result.objective,
            bound=result.bound,
            gap=result.gap,
            runtime_s=result.runtime_s,
        )

    @classmethod
    def without_search(
        cls, time_s: float, problem: WindowProblem, solver: Solver, solution: WindowSolution, reason: str
    ) -> "SolvedWindow":
        """Return the row of a window that no solver has allocated."""
        return cls(
            time_s=time_s,
            kind=problem.kind,
            strategy=kind_of(problem).strategy_of(problem),
            jobs=len(problem.jobs),
            solver=solver.name,
            objective=verify(problem, solution),
            reason=reason,
        )


@dataclass(frozen=True, slots=True)
class WindowScheduler:
    """The window-based method of the NSA paper, section III-C, with priorities by number of waiting periods.

    Jobs start only at multiples of the period. A window that the solver does not take, or for which it finds no
    allocation, is allocated without a search: sequentially on whole nodes (feasible under every strategy), by the rule
    of the lowest switch on a cluster. `windows` has the reasons, and `remarks` counts them. Under the
    ``sequential`` event order, every event at a multiple of the period is followed by a window. Raises `UsageError` if
    the period or a limit is out of range, there is no such solver, or it does not take the strategy;
    `MissingPackageError` if the solver needs a package that is not installed.
    """

    name: ClassVar[str] = "window"

    period_s: float = 60.0
    solver: str | Solver = "auto"  # name of an installed solver, or a solver object
    strategy: str | None = None  # ``scas``, ``dcas`` or ``free``; None for the widest that the solver takes
    # Limits of the solver for a window: seconds, None for no limit; and steps, None for its default. If both are None,
    # it may take 1,000 steps for a window on a cluster.
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0
    overtakes: bool = False  # whether jobs may overtake a job that does not fit
    _log: list[SolvedWindow] = field(init=False, repr=False, compare=False, default_factory=list)
    _solvers: Mapping[str, Solver] = field(init=False, repr=False, compare=False)  # by kind of problem
    _strategy: Strategy = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        Budget(self.time_limit, self.iterations)
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        check_period(self.period_s)
        check_window_solver(self.solver)
        found = {kind: window_solver(self.solver, kind) for kind in KINDS}
        told = self.solver if isinstance(self.solver, str) else self.solver.name
        for solver in found.values():
            check_available(solver)
        strategies = found[TopologyProblem.kind].capabilities.strategies
        taken = [strategy for strategy in Strategy if strategy in strategies]
        if self.strategy is not None and self.strategy not in taken:
            raise UsageError(f"solver {told!r} does not take {self.strategy}; it takes {', '.join(taken)}")
        object.__setattr__(self, "_solvers", found)
        object.__setattr__(self, "_strategy", taken[-1] if self.strategy is None else Strategy(self.strategy))

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start the jobs of a window at a multiple of the period, and wait for the next multiple at other times."""
        due = due_at(self.period_s, view.now)
        if due > view.now:
            # After a window no Wait is needed: remaining jobs can start only after an event, which calls this again.
            if len(view.queue):
                yield Wait(due)
            return
        jobs, name = _by_periods(self.period_s, view), f"window at {due:g} s"
        window = view.window(jobs, name, overtaking=self.overtakes)
        yield from window.starts(None if window.problem is None else self._allocate(due, window, window.problem))

    @property
    def windows(self) -> RowTable[SolvedWindow]:
        """A row for each window with a problem, over all simulations so far."""
        return RowTable(tuple(self._log))

    def remarks(self) -> list[str]:
        """Return how many windows were allocated without a search, one line per reason; none if there were none."""
        counts, windows = Counter(one.reason for one in self._log if one.reason is not None), len(self._log)
        return [
            f"{number} of {windows} windows allocated without a search: {reason}" for reason, number in counts.items()
        ]

    def _iterations(self, problem: WindowProblem) -> int | None:
        """Return how many steps a solver may take; None for its own default, which is too slow on a cluster."""
        is_unlimited = self.iterations is None and self.time_limit is None
        return _PLACEMENT_STEPS if is_unlimited and problem.kind == PlacementProblem.kind else self.iterations

    def _allocate(self, time: float, window: PosedWindow, posed: WindowProblem) -> WindowSolution:
        solver = self._solvers[posed.kind]
        problem = posed.with_strategy(self._strategy) if isinstance(posed, TopologyProblem) else posed
        # The seed of a window depends only on its time, not on the windows before.
        seed = int(np.random.default_rng((self.seed, round(time / self.period_s))).integers(_LARGEST_SEED))
        fault = f"{solver.name} found no allocation"
        if solver.refusal(problem) is not None:
            fault = f"{solver.name} takes {solver.capabilities.largest}"
        else:
            try:
                result: Result[WindowSolution] = solve(
                    problem, solver=solver, time_limit=self.time_limit, seed=seed, iterations=self._iterations(problem)
                )
                if result.solution is not None:
                    self._log.append(SolvedWindow.of(time, problem, result))
                    return result.solution
            except NoSolutionError as error:
                fault = f"{solver.name}: {error}"
        allocation = window.without_search(problem)
        self._log.append(SolvedWindow.without_search(time, problem, solver, allocation, fault))
        return allocation


@dataclass(frozen=True, slots=True)
class TopologyAllocator:
    """Chooses whole nodes by a topology solver; jobs of several nodes that start together are one window."""

    topology: Topology
    solver: Solver
    strategy: str = "free"  # ``scas``, ``dcas`` or ``free``
    # Limits of the solver for a window: seconds, None for no limit; and steps, None for its default.
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Return the shares of the jobs; raise `NoSolutionError` if the solver finds no allocation within its limit."""
        if free.shape[1] != 1 or free.max(initial=0) > 1:
            raise UsageError("a topology solver allocates whole nodes; on this platform jobs share nodes")
        asked = {job: Job(name, int(size)) for job, (name, size) in enumerate(zip(names, request[:, 0], strict=True))}
        first = next((job.id for job in asked.values() if job.nodes > 1), None)
        idle = np.flatnonzero(free[:, 0])
        window = WholeNodes.of(self.topology, idle, asked, f"job {first} and others", HOP_COST)
        allocation = None
        if window.problem is not None:
            found = solve(
                window.problem,
                solver=self.solver,
                strategy=self.strategy,
                time_limit=self.time_limit,
                seed=self.seed,
                iterations=self.iterations,
            )
            allocation = _found(found.solution, self.solver, f"the window of {window.problem.name}")
        nodes = {start.job: start.nodes for start in window.starts(allocation) if start.nodes is not None}
        return [Share.whole(nodes[job]) for job in range(len(names))]


def _found(solution: object, solver: Solver, what: str) -> Allocation:
    if not isinstance(solution, Allocation):
        raise NoSolutionError(f"solver {solver.name!r} found no allocation for {what}")
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
    """Simulate a workload as `WindowScheduler` does, and yield its windows in order of time, with strategy ``free``.

    One-node jobs get the first idle nodes, at no cost; the others are a problem over the remaining idle nodes. Jobs run
    as long as recorded, and dependencies are ignored. Their sizes must be in whole nodes (`Workload.in_nodes`), and not
    exceed the machine (`Workload.fitting`). Windows of ``min_jobs`` (1 or more) to ``max_jobs`` jobs (None for no
    limit) are yielded, except the first ``skip``. Their names are the prefix and a number, from 000. Other windows are
    allocated but not yielded. Nothing is simulated beyond the last window that the caller takes.

    Raises `UsageError` if the period, in seconds, or a limit is out of range; `InvalidProblemError` if a job is larger
    than the machine; `InvalidSolutionError` if ``allocate`` returns a busy node, or a wrong number of nodes.
    """
    largest = len(workload) if max_jobs is None else max_jobs
    if min_jobs < 1:
        raise UsageError(f"the least number of jobs of a window is {min_jobs}, must be at least 1")
    if max_jobs is not None and max_jobs < min_jobs:
        raise UsageError(f"the greatest number of jobs of a window, {max_jobs}, is below the least, {min_jobs}")
    if skip < 0:
        raise UsageError(f"the number of windows to skip is {skip}, must not be negative")
    check_period(period_s)
    if not len(workload):
        return

    def checked(problem: TopologyProblem) -> Allocation:
        allocation = allocate(problem)
        verify(problem, allocation)
        return allocation

    rules = Rules(kill_at_limit=False, dependencies=False)
    told = _Told()
    simulation = Simulation(workload, Platform.whole_nodes(topology), told, rules)
    found = -skip
    while simulation.advance():
        due = due_at(period_s, simulation.view.now)
        if due > simulation.view.now:
            told.decisions = (Wait(due),)
            simulation.decide()
            continue
        order, name = _by_periods(period_s, simulation.view), f"{prefix}-{max(found, 0):03d}"
        window = simulation.view.window(order, name, hop_cost)
        problem = window.problem
        assert isinstance(problem, TopologyProblem | None)
        if problem is not None and min_jobs <= len(problem.jobs) <= largest:
            if found >= 0:
                yield problem
            found += 1
        told.decisions = tuple(window.starts(None if problem is None else checked(problem)))
        simulation.decide()


class _Told:
    """A scheduler that returns the decisions that were last stored in it."""

    decisions: tuple[Decision, ...] = ()

    def schedule(self, view: View) -> tuple[Decision, ...]:
        """Return the decisions."""
        return self.decisions


def solver_allocator(name: str, strategy: str, iterations: int, rng: np.random.Generator) -> Allocate:
    """Return a function that allocates windows by a solver, limited to ``iterations`` steps for each, not in time.

    The same generator state gives the same windows. Raises `UsageError` if the solver does not take the strategy.
    """
    solver = get_solver(name)
    if strategy not in solver.capabilities.strategies:
        able = ", ".join(sorted(solver.capabilities.strategies))
        raise UsageError(f"solver {name!r} does not take {strategy}; it takes {able}")

    def allocate(problem: TopologyProblem) -> Allocation:
        seed = int(rng.integers(_LARGEST_SEED))
        found = solve(
            problem, strategy=strategy, solver=solver, time_limit=None, seed=seed, iterations=iterations
        ).solution
        return _found(found, solver, f"window {problem.name!r}")

    return allocate
