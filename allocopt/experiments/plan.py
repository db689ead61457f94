"""From a sweep file to its grid; everything is tried before anything runs."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from allocopt.errors import UsageError
from allocopt.experiments.cells import Cell, Grid, Task
from allocopt.experiments.description import (
    DEFAULT_TIME_LIMIT_S,
    PolicyModel,
    SolverModel,
    SweepModel,
    limits_of,
    placed,
    read_description,
)
from allocopt.experiments.inputs import files_of, instances_of, problem_digest, traces_of
from allocopt.experiments.simulate_task import R, Replay, SimulateOnCoresTask, SimulateTask, SimulationTask
from allocopt.experiments.solve_task import SolveTask, made_solver, options_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.solve import check_takes

Planned = Iterator[tuple[str, Any, Sequence[Task]]]
"""Inputs with the digests of their contents, and what is to be done with them."""


def plan(path: Path) -> Grid:
    """Read a sweep file, and all that it names, and list its cells in their order.

    The order is that of the instances (or traces), then solvers (policies), strategies (backfillings) and seeds.

    Raises
    ------
    BadFileError
        If a file is wrong or missing, there is no such solver, policy or option, or one does not take its input; the
        sweep file, the table and the key are named.
    MissingPackageError
        If a package is missing.
    """
    described = read_description(path)
    inputs: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    for source, given, tasks in (_solves if described.instances else _simulations)(path, described):
        inputs[source] = given
        for cell in (Cell(task, source) for task in tasks):
            cells.setdefault(cell.key, cell)
    return Grid(tuple(cells.values()), inputs, described.attempts, (path, *files_of(path, described)))


def _solves(path: Path, described: SweepModel) -> Planned:
    """Yield the instances with their solves."""
    solvers: dict[tuple[int, str], Solver] = {}
    for problem in instances_of(path, described.instances):
        source = problem_digest(problem)
        for number, table in enumerate(described.solvers):
            with placed(path, f"solvers[{number}]"):
                if (number, problem.kind) not in solvers:
                    solvers[number, problem.kind] = made_solver(table.name, options_text(table.options), problem.kind)
                strategies = _strategies(problem, table, solvers[number, problem.kind])
                tasks = _solve_tasks(problem, table, strategies, described)
            yield source, problem, tasks


def _strategies(problem: Problem, table: SolverModel, solver: Solver) -> Sequence[str | None]:
    """Return the strategies under which an instance is solved; the solver must take it under each."""
    kind = kind_of(problem)
    if table.strategies is not None and not kind.strategies:
        raise UsageError(f"strategies are for topology problems, {problem.name!r} is a {problem.kind} problem")
    asked: Sequence[str | None] = table.strategies or [kind.strategy_of(problem)]
    for strategy in asked:
        check_takes(solver, kind.posed(problem, strategy))
    return asked


def _solve_tasks(
    problem: Problem, table: SolverModel, strategies: Sequence[str | None], described: SweepModel
) -> list[Task]:
    """List the solves of an instance by a solver."""
    seeds, seconds, iterations = limits_of(table, described)
    if seconds is None and iterations is None:
        seconds = DEFAULT_TIME_LIMIT_S
    gap = described.gap if table.gap is None else table.gap
    Budget(seconds, iterations, gap)
    options = options_text(table.options)
    return [
        SolveTask(problem.name, problem.kind, strategy, table.name, options, seed, seconds, iterations, gap)
        for strategy, seed in product(strategies, seeds)
    ]


def _simulations(path: Path, described: SweepModel) -> Planned:
    """Yield the traces with their simulations."""
    names: dict[str, str] = {}
    for number, (source, replay) in enumerate(traces_of(path, described.traces)):
        with placed(path, f"traces[{number}].name"):
            if names.setdefault(replay.workload.name, source) != source:
                raise UsageError(f"{replay.workload.name!r} is the name of another trace too: give it one of its own")
        for place, table in enumerate(described.policies):
            with placed(path, f"policies[{place}]"):
                Budget(*limits_of(table, described)[1:])
                if isinstance(replay, Replay):
                    tasks: Sequence[Task] = _simulate_tasks(SimulateTask, replay, table, described)
                else:
                    tasks = _simulate_tasks(SimulateOnCoresTask, replay, table, described)
            yield source, replay, tasks


def _simulate_tasks(
    kind: type[SimulationTask[R]], replay: R, table: PolicyModel, described: SweepModel
) -> list[SimulationTask[R]]:
    """List the simulations of a trace under a policy."""
    seeds, seconds, iterations = limits_of(table, described)
    backfills: Sequence[str | None] = table.backfill or [None]
    options, name = options_text(table.options), replay.workload.name
    who = (table.backfill_order, table.allocator, table.strategy)
    tasks = [
        kind(name, table.name, options, backfill, *who, seed, seconds, iterations)
        for backfill, seed in product(backfills, seeds)
    ]
    # Whatever the seed, what is made is the same.
    for task in {task.backfill: task for task in tasks}.values():
        task.check(replay)
    return tasks
