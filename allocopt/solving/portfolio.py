"""Solver ``auto``: a short list of solvers by strategy, tried in turn, each beginning where the one before ended."""

from dataclasses import dataclass
from typing import ClassVar

from allocopt.errors import MissingPackageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise, Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.run import Run
from allocopt.solving.trivial import sequential_allocation


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the list.

    Parameters
    ----------
    solvers
        Names of solvers; the first that takes the problem runs.
    strategy
        The strategy it is asked for.
    share
        Share of the time that is left that it may use, in (0, 1].
    iterations
        Steps that it may take where the budget sets none; None for its own default.
    """

    solvers: tuple[str, ...]
    strategy: Strategy
    share: float = 1.0
    iterations: int | None = None


EXACT_SCAS = ("dp", "highs")
STAGES: dict[Strategy, tuple[Stage, ...]] = {
    Strategy.SCAS: (Stage(EXACT_SCAS, Strategy.SCAS, 0.9), Stage(("greedy",), Strategy.FREE)),
    Strategy.DCAS: (
        Stage(("greedy",), Strategy.FREE, 0.5),
        Stage(("dp",), Strategy.DCAS, 0.8),
        Stage(EXACT_SCAS, Strategy.SCAS, 0.9),
        Stage(("annealing",), Strategy.DCAS, iterations=10_000),
    ),
    Strategy.FREE: (
        Stage(("greedy",), Strategy.FREE, 0.5),
        Stage(("best-fit",), Strategy.FREE, 0.5),
        Stage(("exact", "lns"), Strategy.FREE),
    ),
}
"""A stage of a narrower strategy gives solutions, one of a wider strategy bounds, one of the same strategy both."""


class Auto(TopologySolver):
    """Picks by strategy and size, and never returns worse than the stages it ran."""

    name: ClassVar[str] = "auto"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(Strategy), frozenset({Promise.ANYTIME, Promise.BOUND}), "any"
    )

    def __init__(self) -> None:
        self._solvers: dict[str, Solver | None] = {}

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the solvers of the list, and their kernels with them, before the clock starts; then run them."""
        for stage in STAGES[problem.strategy]:
            for name in stage.solvers:
                self._load(name)
        return super().solve(problem, budget, seed, warm_start, on_incumbent)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Run the stages of the problem's strategy; see `TopologySolver.search`."""
        if run.solution is None:
            run.offer(sequential_allocation(problem))
        stopped_by = StopReason.COMPLETED
        for stage in STAGES[problem.strategy]:
            if run.interrupted or run.is_proved():
                break
            solver = self._first_that_takes(problem, stage)
            if solver is None:
                continue
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            stopped_by = _run_stage(stage, solver, problem, budget, seed, run)
        return stopped_by

    def _first_that_takes(self, problem: TopologyProblem, stage: Stage) -> Solver | None:
        """Return the first solver of a stage that is there and takes a problem of this size."""
        asked = problem.with_strategy(stage.strategy)
        there = (self._solvers[name] for name in stage.solvers)
        return next((solver for solver in there if solver is not None and solver.refusal(asked) is None), None)

    def _load(self, name: str) -> None:
        """Make a solver of the list, once; None where what it needs is not installed."""
        if name in self._solvers:
            return
        try:
            solver = get_solver(name)
        except MissingPackageError:
            self._solvers[name] = None
        else:
            self._solvers[name] = solver if solver.is_available() else None


def _run_stage(
    stage: Stage, solver: Solver, problem: TopologyProblem, budget: Budget, seed: int, run: Run
) -> StopReason:
    """Run one stage from the incumbent where the strategies agree, and take what it found; return why it stopped."""
    same = stage.strategy is problem.strategy
    seconds = None if budget.seconds is None else max(1e-3, run.clock.remaining() * stage.share)
    # A gap of another strategy says nothing about this one's.
    gap = budget.gap if same else 0.0
    result = solver.solve(
        problem.with_strategy(stage.strategy),
        Budget(seconds, budget.iterations or stage.iterations, gap),
        seed,
        run.solution if same else None,
    )
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.solution is not None and stage.strategy.holds_within(problem.strategy):
        run.offer(result.solution)
    if result.bound is not None and problem.strategy.holds_within(stage.strategy):
        run.prove(result.bound)
    return result.stopped_by
