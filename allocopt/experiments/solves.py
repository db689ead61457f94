"""From the specification of solves to the solves themselves."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import BadFileError, InvalidProblemError, InvalidSolutionError
from allocopt.experiments.fields import FieldError
from allocopt.experiments.specs import SolveSpec
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_instances
from allocopt.problems.kind import kind_of
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Incumbent, Result, SolveInterrupted
from allocopt.solving.solution_files import read_solution, solution_of
from allocopt.solving.solve import prepare, solve
from allocopt.solving.verify import verify


@dataclass(frozen=True, slots=True, eq=False)
class Solves:
    """Solves that are ready to run: instances under a strategy without excluded nodes, and a solver by their kind."""

    problems: tuple[Problem, ...]
    solvers: dict[str, Solver]
    budget: Budget
    spec: SolveSpec

    @classmethod
    def of(cls, spec: SolveSpec, excluded: Sequence[int] = ()) -> "Solves":
        """Read the instances and make the solvers; numbers of nodes are excluded as `nodes_in` reads them."""
        problems: list[Problem] = []
        for problem in read_instances([Path(name) for name in spec.instances]):
            kind = kind_of(problem)
            if spec.strategy is not None and not kind.strategies:
                raise FieldError("strategy", f"{problem.name}: a {problem.kind} problem takes none")
            posed = kind.posed(problem, spec.strategy)
            if excluded:
                if not isinstance(posed, TopologyProblem):
                    raise FieldError("exclude_nodes", f"{problem.name}: a {problem.kind} problem takes none")
                try:
                    posed = posed.without_nodes(list(excluded))
                except InvalidProblemError as error:
                    raise FieldError("exclude_nodes", f"{problem.name}: {error.fault}") from None
            problems.append(posed)
        if len(problems) > 1 and spec.warm_start is not None:
            raise FieldError("warm_start", f"takes one instance, {len(problems)} were given")
        kinds = dict.fromkeys(problem.kind for problem in problems)
        solvers = {name: get_solver(spec.solver, spec.options, name) for name in kinds}
        return cls(tuple(problems), solvers, Budget(spec.time_limit, spec.iterations, spec.gap), spec)

    def make_ready(self) -> None:
        """Compile what the solves call, which is no part of their times."""
        for name, solver in self.solvers.items():
            prepare(solver, [problem for problem in self.problems if problem.kind == name])

    def run(self, on_incumbent: Callable[[Incumbent], None] | None = None) -> Iterator[tuple[Problem, Result]]:
        """Yield each instance with its answer; an interrupted solve has one too, and is the last one."""
        for problem in self.problems:
            start = None
            if self.spec.warm_start is not None:
                stored = read_solution(Path(self.spec.warm_start))
                if stored.answer is None:
                    fault = f"{stored.answer_key}: is null, must be a solution to begin with"
                    raise BadFileError(f"{self.spec.warm_start}: {fault}")
                try:
                    start = solution_of(problem, stored)
                    verify(problem, start)
                except InvalidSolutionError as error:
                    raise InvalidSolutionError(f"{self.spec.warm_start}: {error}") from None
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
