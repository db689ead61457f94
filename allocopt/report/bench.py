"""Runs a comparison: every instance, solver, strategy and seed."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocopt.errors import UsageError
from allocopt.files.best_known import BestKnown
from allocopt.files.models import NO_STRATEGY
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.report.journal import Journal
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.trajectories import points_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, takes
from allocopt.solving.solve import solve


@dataclass(frozen=True, slots=True)
class Contender:
    """A solver under one strategy, or, with None, on problems of the kinds that have no strategies."""

    solver: Solver
    strategy: Strategy | None


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
    kinds: Collection[str] = (TopologyProblem.kind,),
) -> list[Contender]:
    """Pair solvers with strategies, each pair once.

    Parameters
    ----------
    specifications
        Solvers, each with the one strategy it is to run under, or None for each of ``strategies`` that it takes, and
        for problems of the kinds without strategies if it takes such.
    strategies
        Strategies to compare under.
    kinds
        Kinds of the problems.

    Raises
    ------
    UsageError
        If there is no such strategy, or a solver takes none of those it was given, nor a kind without them.
    """
    pairs: dict[tuple[str, Strategy | None], Contender] = {}
    compared = _strategies(strategies)
    for solver, only in specifications:
        asked = _strategies([only]) if only else compared if TopologyProblem.kind in kinds else []
        taken: list[Strategy | None] = [strategy for strategy in asked if strategy in solver.capabilities.strategies]
        others = frozenset(kinds) - {TopologyProblem.kind}
        if not only and solver.capabilities.kinds & others:
            taken.append(None)
        if not taken:
            able = ", ".join(sorted(solver.capabilities.strategies))
            wanted = ", ".join([*asked, *(() if only else sorted(others))])
            raise UsageError(f"solver {solver.name!r} does not take {wanted}; it takes {able}")
        for strategy in taken:
            pairs.setdefault((solver.name, strategy), Contender(solver, strategy))
    return list(pairs.values())


def _strategies(names: Sequence[str]) -> list[Strategy]:
    """Turn names into strategies."""
    try:
        return [Strategy(name) for name in names]
    except ValueError:
        unknown = next(name for name in names if name not in list(Strategy))
        raise UsageError(f"there is no strategy {unknown!r}; there are scas, dcas and free") from None


def plan(
    problems: Sequence[Problem], contenders: Sequence[Contender], seeds: Sequence[int]
) -> tuple[list[Task], dict[str, list[str]]]:
    """List the solves to be done, and per solver why it refuses which instances."""
    tasks: list[Task] = []
    refusals: dict[str, list[str]] = {}
    for problem in problems:
        for contender in contenders:
            asked = _posed(problem, contender, contenders)
            if asked is None:
                continue
            refusal = contender.solver.refusal(asked) if takes(contender.solver, asked) else "not its kind or rules"
            if refusal is None:
                tasks += [Task(asked, contender, seed) for seed in seeds]
            elif (reason := f"{problem.name}: {refusal}") not in refusals.setdefault(contender.solver.name, []):
                refusals[contender.solver.name].append(reason)
    return tasks, refusals


def _posed(problem: Problem, contender: Contender, contenders: Sequence[Contender]) -> Problem | None:
    """Return the problem under the contender's strategy; None where the same solver contends in the fitting way."""
    if isinstance(problem, TopologyProblem):
        if contender.strategy is not None:
            return problem.with_strategy(contender.strategy)
        fits = [other for other in contenders if other.strategy is not None]
    else:
        fits = [other for other in contenders if other.strategy is None]
    return None if any(other.solver is contender.solver and other is not contender for other in fits) else problem


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
