"""From the specification of solves to the solves themselves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocopt.errors import BadFileError, InvalidProblemError, InvalidSolutionError
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SolveSpec
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_instances
from allocopt.problems.kind import kind_of
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Incumbent, Result, SolveInterrupted
from allocopt.solving.solution_files import read_solution, solution_of
from allocopt.solving.solve import prepare, solve
from allocopt.solving.verify import verify


@dataclass(frozen=True, slots=True, eq=False)
class Solves:
    """Solves that are ready to run.

    Parameters
    ----------
    problems
        The instances, under the strategy and without the excluded nodes.
    solvers
        The solver by kind of problem.
    budget
        Limits on each solve.
    spec
        What they are made of.
    """

    problems: tuple[Problem, ...]
    solvers: dict[str, Solver]
    budget: Budget
    spec: SolveSpec

    @classmethod
    def of(cls, spec: SolveSpec, excluded: Sequence[int] = ()) -> "Solves":
        """Read the instances and make the solvers; numbers of nodes are excluded as `nodes_in` reads them.

        Raises
        ------
        BadFileError
            If a file is missing or wrong.
        UsageError
            If there is no solver or option of a name, or something does not go with an instance; `FieldError` names it.
        """
        read = read_instances([Path(name) for name in spec.instances])
        problems = tuple(_posed(problem, spec.strategy, excluded) for problem in read)
        if len(problems) > 1 and spec.warm_start is not None:
            raise FieldError("warm_start", f"takes one instance, {len(problems)} were given")
        kinds = dict.fromkeys(problem.kind for problem in problems)
        solvers = {kind: get_solver(spec.solver, spec.options, kind) for kind in kinds}
        return cls(problems, solvers, Budget(spec.time_limit, spec.iterations, spec.gap), spec)

    def make_ready(self) -> None:
        """Compile what the solves call, which is no part of their times."""
        for kind, solver in self.solvers.items():
            prepare(solver, [problem for problem in self.problems if problem.kind == kind])

    def run(self, on_incumbent: Callable[[Incumbent], None] | None = None) -> Iterator[tuple[Problem, Result]]:
        """Yield each instance with its answer; an interrupted solve has one too, and is the last one."""
        for problem in self.problems:
            start = None if self.spec.warm_start is None else _start(problem, Path(self.spec.warm_start))
            try:
                yield (
                    problem,
                    solve(
                        problem,
                        solver=self.solvers[problem.kind],
                        time_limit=self.budget.seconds,
                        seed=self.spec.seed,
                        iterations=self.budget.iterations,
                        gap=self.budget.gap,
                        warm_start=start,
                        on_incumbent=on_incumbent,
                    ),
                )
            except SolveInterrupted as interruption:
                yield problem, interruption.result
                return


def _posed(problem: Problem, strategy: str | None, nodes: Sequence[int]) -> Problem:
    kind = kind_of(problem)
    if strategy is not None and not kind.strategies:
        raise FieldError("strategy", f"{problem.name}: a {problem.kind} problem takes none")
    posed = kind.posed(problem, strategy)
    if not nodes:
        return posed
    if not isinstance(posed, TopologyProblem):
        raise FieldError("exclude_nodes", f"{problem.name}: a {problem.kind} problem takes none")
    try:
        return posed.without_nodes(list(nodes))
    except InvalidProblemError as error:
        raise FieldError("exclude_nodes", f"{problem.name}: {error.fault}") from None


def _start(problem: Problem, path: Path) -> Any:
    stored = read_solution(path)
    if stored.answer is None:
        raise BadFileError(f"{path}: {stored.answer_key}: is null, must be a solution to begin with")
    try:
        solution = solution_of(problem, stored)
        verify(problem, solution)
    except InvalidSolutionError as error:
        raise InvalidSolutionError(f"{path}: {error}") from None
    return solution
