"""From a sweep file to its grid; everything is tried before anything runs."""

import json
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
    placed,
)
from allocopt.experiments.inputs import instances_of, problem_digest, trace_of
from allocopt.experiments.simulations import Simulation, SimulationInputs
from allocopt.experiments.specs import SimulationSpec
from allocopt.experiments.tasks import SimulateOnCoresTask, SimulateTask, SolveTask, options_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import check_takes

_Planned = Iterator[tuple[str, Any, Sequence[Task], Sequence[Path]]]
"""Digests and contents of inputs, what is to be done with them, and their files."""


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
    described = SweepModel.read(path)
    inputs: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    files = [path]
    for source, given, tasks, read in (_solves if described.instances else _simulations)(path, described):
        inputs[source] = given
        files += read
        for cell in (Cell(task, source) for task in tasks):
            cells.setdefault(cell.key, cell)
    files += [file for table in described.instances for file in table.paths(path.parent)]
    read_once = tuple(dict.fromkeys(file.resolve() for file in files))
    return Grid(tuple(cells.values()), inputs, described.attempts, read_once)


def _solves(path: Path, described: SweepModel) -> _Planned:
    solvers: dict[tuple[int, str], Solver] = {}
    for problem in instances_of(path, described.instances):
        source = problem_digest(problem)
        for number, table in enumerate(described.solvers):
            with placed(path, f"solvers[{number}]"):
                if (number, problem.kind) not in solvers:
                    options = json.loads(options_text(table.options))
                    solvers[number, problem.kind] = get_solver(table.name, options, problem.kind)
                strategies = _strategies(problem, table, solvers[number, problem.kind])
                tasks = _solve_tasks(problem, table, strategies, described)
            yield source, problem, tasks, ()


def _strategies(problem: Problem, table: SolverModel, solver: Solver) -> Sequence[str | None]:
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
    seeds, seconds, iterations = table.limits(described)
    if seconds is None and iterations is None:
        seconds = DEFAULT_TIME_LIMIT_S
    gap = described.gap if table.gap is None else table.gap
    Budget(seconds, iterations, gap)
    options = options_text(table.options)
    return [
        SolveTask(problem.name, problem.kind, strategy, table.name, options, seed, seconds, iterations, gap)
        for strategy, seed in product(strategies, seeds)
    ]


def _simulations(path: Path, described: SweepModel) -> _Planned:
    names: dict[str, str] = {}
    for number, trace in enumerate(described.traces):
        with placed(path, f"traces[{number}]"):
            setting, inputs, source = trace_of(path, trace)
        name = inputs.workload.name
        with placed(path, f"traces[{number}].name"):
            if names.setdefault(name, source) != source:
                raise UsageError(f"{name!r} is the name of another trace too: give it one of its own")
        for place, table in enumerate(described.policies):
            with placed(path, f"policies[{place}]"):
                tasks = _simulate_tasks(setting, inputs, table, described)
            yield source, inputs, tasks, [file for *_, file in setting.files()]


def _simulate_tasks(
    setting: SimulationSpec, inputs: SimulationInputs, table: PolicyModel, described: SweepModel
) -> list[SimulateTask]:
    kind = SimulateTask if setting.platform is None else SimulateOnCoresTask
    seeds, seconds, iterations = table.limits(described)
    Budget(seconds, iterations)
    asked = {name: getattr(table, name) for name in ("backfill_order", "allocator", "strategy")}
    # Limits are those of an allocator; a file may have them for policies with and without one.
    if table.allocator is not None:
        asked |= {"time_limit": seconds, "iterations": iterations}
    fields = {**setting.model_dump(exclude_unset=True), **asked, "policy": table.name, "options": table.options}
    # This refuses dates and infinity, which TOML has and JSON has not.
    options_text(table.options)
    tasks = []
    backfills: Sequence[str | None] = table.backfill or [None]
    for backfill in backfills:
        specs = [SimulationSpec(**{**fields, "backfill": backfill, "seed": seed}) for seed in seeds]
        # Whatever the seed, what is made is the same.
        Simulation.of(specs[0], inputs)
        tasks += [kind(inputs.workload.name, spec, seconds, iterations) for spec in specs]
    return tasks
