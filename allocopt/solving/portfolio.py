"""Solver ``auto``: a short list of solvers by strategy, tried in turn, each beginning where the one before ended."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from allocopt.kernels.ready import begin_compiling
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.base import TopologySolver
from allocopt.solving.budget import Budget
from allocopt.solving.part import ask
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise, Solver, kernels_of
from allocopt.solving.registry import Shortlist
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run


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
    most_jobs
        Jobs of the largest window for which it is run; None for any.
    least_s
        Seconds that are worth being left to it: where none that follows would be left so much, a stage uses all.
    """

    solvers: tuple[str, ...]
    strategy: Strategy
    share: float = 1.0
    iterations: int | None = None
    most_jobs: int | None = None
    least_s: float = 0.005

    def takes(self, problem: TopologyProblem) -> bool:
        """Whether it is for windows of so many jobs."""
        return self.most_jobs is None or len(problem.jobs) <= self.most_jobs


FEW_JOBS = 12
"""Jobs up to which an unrestricted window is mostly solved to proof; beyond, prices bound it better and faster."""

FEW_STEPS = 1000
"""Steps of a search whose allocation speeds up the proof after it."""

EXACT_SCAS = ("dp", "lagrangian", "highs")
STAGES: dict[Strategy, tuple[Stage, ...]] = {
    Strategy.SCAS: (Stage(EXACT_SCAS, Strategy.SCAS), Stage(("greedy",), Strategy.FREE)),
    Strategy.DCAS: (
        Stage(("lns",), Strategy.DCAS, 0.5, FEW_STEPS, FEW_JOBS),
        Stage(("dp",), Strategy.DCAS, 0.7),
        Stage(EXACT_SCAS, Strategy.SCAS, 0.4),
        Stage(("lns", "annealing"), Strategy.DCAS, 0.7),
        Stage(("prices", "greedy"), Strategy.FREE),
    ),
    Strategy.FREE: (
        Stage(("lns",), Strategy.FREE, 0.5, FEW_STEPS, FEW_JOBS),
        Stage(("exact",), Strategy.FREE, most_jobs=FEW_JOBS),
        Stage(("prices", "exact", "lns", "greedy"), Strategy.FREE),
    ),
}
"""A stage of a narrower strategy gives solutions, one of a wider strategy bounds, one of the same strategy both."""


class Auto(TopologySolver):
    """Picks by strategy and size, and never returns worse than the stages it ran."""

    name: ClassVar[str] = "auto"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(Strategy), frozenset({Promise.ANYTIME, Promise.BOUND}), "any", side_constraints=True
    )

    _kernels: ClassVar[dict[tuple[Strategy, bool, bool], tuple[Callable[..., Any], ...]]] = {}
    """Asking the solvers takes a fifth of a millisecond; it is done once in a process, for they all answer alike."""

    def __init__(self) -> None:
        self._shortlist = Shortlist()

    def solve(
        self,
        problem: TopologyProblem,
        budget: Budget,
        seed: int,
        warm_start: Allocation | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Load the solvers of the list before the clock starts; then run them."""
        self.kernels(problem)
        return super().solve(problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        """Compiled entries of the solvers that take the first problem of its like; others wait for their own."""
        like = problem.strategy, problem.has_side_constraints, len(problem.jobs) <= FEW_JOBS
        if like not in self._kernels:
            stages = (stage for stage in STAGES[problem.strategy] if stage.takes(problem))
            staged = [(stage.strategy, self._first_that_takes(problem, stage)) for stage in stages]
            asked = [(solver, problem.with_strategy(strategy)) for strategy, solver in staged if solver is not None]
            self._kernels[like] = tuple({entry for pair in asked for entry in kernels_of(*pair)})
        return self._kernels[like]

    def is_ready(self, problem: TopologyProblem, run: Run) -> bool:
        """Begin to compile what is missing; every stage waits for its own kernels."""
        begin_compiling(self.kernels(problem))
        return True

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Run the stages of the problem's strategy; see `TopologySolver.search`."""
        stopped_by = StopReason.COMPLETED
        stages = [stage for stage in STAGES[problem.strategy] if stage.takes(problem)]
        for number, stage in enumerate(stages):
            if run.interrupted or run.is_proved():
                break
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            solver = self._first_that_takes(problem, stage)
            if solver is None:
                continue
            left = 0.0 if stage.share == 1.0 else (1.0 - stage.share) * run.clock.remaining()
            if all(left < later.least_s for later in stages[number + 1 :]):
                # There is no time for a second opinion.
                stage = replace(stage, share=1.0, iterations=None)
            stopped_by = _run_stage(stage, solver, problem, budget, seed, run)
        return stopped_by

    def _first_that_takes(self, problem: TopologyProblem, stage: Stage) -> Solver | None:
        """Return the first solver of a stage that is there and takes a problem of this size."""
        return self._shortlist.first_that_takes(stage.solvers, problem.with_strategy(stage.strategy))


def _run_stage(
    stage: Stage, solver: Solver, problem: TopologyProblem, budget: Budget, seed: int, run: Run
) -> StopReason:
    """Run one stage from the incumbent where the strategies agree, and take what it found; return why it stopped."""
    # A gap of another strategy says nothing about this one's.
    gap = budget.gap if stage.strategy is problem.strategy else 0.0
    granted = run.clock.grant(stage.share, budget.iterations or stage.iterations, gap)
    return ask(solver, problem.with_strategy(stage.strategy), granted, seed, problem, run)
