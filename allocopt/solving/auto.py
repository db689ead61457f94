"""Solver ``auto`` of every kind: runs several solvers in turn, each starting from the answer of the one before."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from allocopt.errors import MissingPackageError
from allocopt.kernels.ready import begin_compiling, load_stored, make_compiled
from allocopt.problems.base import Problem
from allocopt.problems.kind import Stage, get_kind
from allocopt.solving.base import SearchSolver, ask
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, IncumbentCallback, Promise, Solver, get_solver
from allocopt.solving.result import Result, StopReason
from allocopt.solving.run import Run

# From this time limit on, loading rarely needed kernels, which takes about 10 ms, counts as solve time.
UNHURRIED_S = 1.0


@dataclass(frozen=True)
class Auto(SearchSolver[Problem, Any]):
    """Runs the stages of a kind in turn.

    A stage under a narrower strategy than the problem's gives solutions, a stage under a wider one gives bounds, and a
    stage under the same strategy gives both.
    """

    name: ClassVar[str] = "auto"

    kind: str = "topology"  # type: ignore[misc]

    # Asking the solvers for their kernels takes a fifth of a millisecond; all instances share the answers.
    _kernels: ClassVar[dict[tuple[str, str, tuple[Stage, ...], float], tuple[Callable[..., object], ...]]] = {}
    # Solvers are made when they are first needed; None stands for one that cannot run here.
    _solvers: dict[str, Solver | None] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def capabilities(self) -> Capabilities:
        strategies = frozenset(get_kind(self.kind).strategies)
        promises = frozenset({Promise.ANYTIME, Promise.BOUND})
        return Capabilities(strategies, promises, get_kind(self.kind).largest, side_constraints=True)

    def takes(self, problem: Problem) -> bool:
        return get_kind(self.kind).misposed(problem) is None

    def solve(
        self,
        problem: Problem,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result[Any]:
        if not budget.includes_compiling:
            make_compiled(self._entries(problem, math.inf))
        if budget.seconds is not None and budget.seconds < UNHURRIED_S:
            load_stored(self._entries(problem, math.inf))
        return super().solve(problem, budget, seed, warm_start, on_incumbent)

    def kernels(self, problem: Problem) -> Iterable[Callable[..., object]]:
        return self._entries(problem, 1.0)

    def is_ready(self, problem: Problem, run: Run) -> bool:
        # If compiling counts as solve time, each stage waits only for its own kernels.
        begin_compiling(self.kernels(problem))
        return True

    def search(self, problem: Problem, run: Run, budget: Budget, seed: int) -> StopReason:
        stopped_by, kind = StopReason.COMPLETED, get_kind(self.kind)
        stages = kind.stages(problem)
        for number, stage in enumerate(stages):
            if run.interrupted or run.is_proved():
                break
            if run.clock.expired():
                return StopReason.TIME_LIMIT
            solver = self._solver(problem, stage)
            if solver is None:
                continue
            left = 0.0 if stage.share == 1.0 else (1.0 - stage.share) * run.clock.remaining()
            if all(left < later.least_s for later in stages[number + 1 :]):
                # There is not enough time for later stages, so this one gets all of it.
                stage = replace(stage, share=1.0, iterations=None)
            # The gap refers to the strategy of the problem; a stage under another strategy ignores it.
            gap = budget.gap if stage.strategy in (None, kind.strategy_of(problem)) else 0.0
            granted = run.clock.grant(stage.share, budget.iterations or stage.iterations, gap)
            stopped_by = ask(solver, kind.posed(problem, stage.strategy), granted, seed, problem, run)
        return stopped_by

    def _entries(self, problem: Problem, last_share: float) -> tuple[Callable[..., object], ...]:
        # Kernels of the stages up to the first whose share of the time is at least `last_share`.
        kind = get_kind(self.kind)
        like = self.kind, kind.asked(problem), tuple(kind.stages(problem)), last_share
        if like not in self._kernels:
            found: list[Callable[..., object]] = []
            for stage in kind.stages(problem):
                solver = self._solver(problem, stage)
                if solver is not None:
                    found += solver.kernels(kind.posed(problem, stage.strategy))
                    if stage.share >= last_share:
                        break
            self._kernels[like] = tuple(dict.fromkeys(found))
        return self._kernels[like]

    def _solver(self, problem: Problem, stage: Stage) -> Solver | None:
        posed = get_kind(self.kind).posed(problem, stage.strategy)
        for name in stage.solvers:
            if name not in self._solvers:
                self._solvers[name] = None
                with suppress(MissingPackageError):
                    made = get_solver(name, None, self.kind)
                    self._solvers[name] = made if made.is_available() else None
            solver = self._solvers[name]
            if solver is not None and solver.takes(posed) and solver.refusal(posed) is None:
                return solver
        return None
