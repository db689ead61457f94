"""Runs a comparison: every instance, solver, strategy and seed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocopt.errors import UsageError
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.kind import get_kind, kind_names, kind_of
from allocopt.report.journal import Journal
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.trajectories import points_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.solution_files import NO_STRATEGY, BestKnown
from allocopt.solving.solve import solve


@dataclass(frozen=True, slots=True)
class Contender:
    """A solver under one strategy, or, with None, on problems of the kinds that have no strategies."""

    solver: Solver
    strategy: str | None


@dataclass(frozen=True, slots=True)
class Task:
    """One solve to be done."""

    problem: Problem
    contender: Contender
    seed: int

    @property
    def key(self) -> str:
        """What tells it from the other tasks of a run."""
        return f"{self.problem.name} {self.contender.strategy or '-'} {self.contender.solver.name} {self.seed}"


def contenders(
    specifications: Sequence[tuple[Solver, str | None]],
    strategies: Sequence[str],
) -> list[Contender]:
    """Pair solvers with strategies, each pair once.

    Parameters
    ----------
    specifications
        Solvers, each with the one strategy it is to run under, or None for each of ``strategies`` that it takes, where
        its kind has strategies.
    strategies
        Strategies to compare under.

    Raises
    ------
    UsageError
        If there is no such strategy, or a solver takes none of those it was given.
    """
    pairs: dict[tuple[str, str, str | None], Contender] = {}
    for name in [*strategies, *(only for _, only in specifications if only)]:
        known = [strategy for kind in kind_names() for strategy in get_kind(kind).strategies]
        if name not in known:
            raise UsageError(f"there is no strategy {name!r}; there are scas, dcas and free")
    for solver, only in specifications:
        asked = [only] if only else strategies if get_kind(solver.kind).strategies else []
        taken: list[str | None] = [strategy for strategy in asked if strategy in solver.capabilities.strategies]
        if not asked:
            taken = [None]
        if not taken:
            able = ", ".join(sorted(solver.capabilities.strategies)) or f"{solver.kind} problems"
            raise UsageError(f"solver {solver.name!r} does not take {', '.join(asked)}; it takes {able}")
        for strategy in taken:
            pairs.setdefault((solver.kind, solver.name, strategy), Contender(solver, strategy))
    return list(pairs.values())


def plan(
    problems: Sequence[Problem], contenders: Sequence[Contender], seeds: Sequence[int]
) -> tuple[list[Task], dict[str, list[str]]]:
    """List the solves to be done, and per solver why it refuses which instances."""
    tasks: list[Task] = []
    refusals: dict[str, list[str]] = {}
    for problem in problems:
        for contender in contenders:
            solver = contender.solver
            if solver.kind == problem.kind:
                asked = kind_of(problem).posed(problem, contender.strategy)
                refusal = solver.refusal(asked) if solver.takes(asked) else "not its rules"
            elif any((other.solver.name, other.solver.kind) == (solver.name, problem.kind) for other in contenders):
                continue
            else:
                refusal = "not its kind"
            if refusal is None:
                tasks += [Task(asked, contender, seed) for seed in seeds]
            elif (reason := f"{problem.name}: {refusal}") not in refusals.setdefault(solver.name, []):
                refusals[solver.name].append(reason)
    return tasks, refusals


def run_tasks(
    tasks: Sequence[Task],
    budget: Budget,
    known: Mapping[str, Mapping[str, BestKnown]],
    journal: Journal | None = None,
) -> Iterator[BenchRow]:
    """Solve one task after the other, every answer verified.

    Parameters
    ----------
    tasks
        What to solve.
    budget
        What each solve may spend.
    known
        Best-known values by instance and strategy.
    journal
        Where finished solves are kept; those in it already are not solved again.

    Raises
    ------
    KeyboardInterrupt
        After an interrupted solve.
    """
    for task in tasks:
        record = None if journal is None else journal.records.get(task.key)
        if record is None:
            record = _solve(task, budget)
            if journal is not None:
                journal.add(task.key, record)
        values = known.get(task.problem.name, {})
        best, scas = values.get(task.contender.strategy or NO_STRATEGY), values.get(Strategy.SCAS)
        yield BenchRow(SolveRow(**record["solve"]), record["version"], best, scas, tuple(map(tuple, record["points"])))


def _solve(task: Task, budget: Budget) -> dict[str, Any]:
    """Solve one task; return its row and the version of what did the work."""
    result = solve(
        task.problem,
        solver=task.contender.solver,
        time_limit=budget.seconds,
        seed=task.seed,
        iterations=budget.iterations,
    )
    solved = SolveRow.of(task.problem, result).as_dict()
    return {"solve": solved, "version": result.version, "points": points_of(result)}
