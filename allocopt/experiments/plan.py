"""Sweep files: a grid in TOML, and the files that it names; everything is checked before anything runs."""

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import fields, replace
from glob import glob
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.multicore import Machine
from allocopt.errors import AllocoptError, BadFileError, MissingPackageError, UsageError
from allocopt.experiments.cells import Cell, Grid, Row, Task, digest
from allocopt.experiments.engine import Here, run
from allocopt.experiments.grids import (
    SimulateTask,
    SolveTask,
    content_digest,
    machine_digest,
    options_text,
)
from allocopt.experiments.simulations import PreparedSimulation, SimulationInputs
from allocopt.experiments.specs import BackfillName, Seconds, SettingFields, SimulationSpec
from allocopt.experiments.store import Store
from allocopt.experiments.workers import LocalWorkers
from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, Node, Positive, Text, validated
from allocopt.files.reading import read_toml
from allocopt.problems.base import Problem
from allocopt.problems.instances import read_instances
from allocopt.problems.kind import kind_of
from allocopt.report.provenance import provenance
from allocopt.report.rows import check_suffix, write_table
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.solve import check_takes
from allocopt.tables import RowTable
from allocopt.traces.workload import Workload

_DEFAULT_TIME_LIMIT_S = 10.0  # For each solve, if a file gives neither a time limit nor iterations
# Settings on which a row of a simulation depends, in addition to jobs and machine.
_RULES = ("event_order", "kill_at_limit", "dependencies", "exact_estimates", "execution", "sharing")

_Texts = Annotated[list[Text], Field(min_length=1)]
_Planned = Iterator[tuple[str, Any, Sequence[Task], Sequence[Path]]]
"""Digest and content of each input, its tasks, and its files."""


class _LimitsModel(FileModel):
    """Seeds and limits of cells; those of the whole file are the defaults for its tables."""

    seeds: Annotated[list[Node], Field(min_length=1)] | None = None
    time_limit: Seconds | None = None
    iterations: Positive | None = None

    def limits(self, whole: "_LimitsModel") -> tuple[list[int], float | None, int | None]:
        seeds = self.seeds or whole.seeds or [0]
        seconds, iterations = self.time_limit, self.iterations
        # One limit of a table replaces both of the file. Otherwise a table could not remove a time limit.
        if seconds is None and iterations is None:
            seconds, iterations = whole.time_limit, whole.iterations
        return list(dict.fromkeys(seeds)), seconds, iterations


class _InstancesModel(FileModel):
    """Instance files, glob patterns, or shipped instances such as ``@tiny``."""

    files: _Texts

    def paths(self, folder: Path) -> Iterator[Path]:
        """Yield the files, relative to ``folder``; raise `UsageError` if a pattern matches no file."""
        for name in self.files:
            # These characters make a name a pattern.
            if name.startswith("@") or not any(character in name for character in "*?["):
                yield Path(name) if name.startswith("@") else folder / name
                continue
            found = sorted(glob(name, root_dir=folder, recursive=True))
            if not found:
                raise UsageError(f"no file matches {name!r}")
            yield from (folder / one for one in found)


class _SolverModel(_LimitsModel):
    name: Text
    strategies: _Texts | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    gap: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None


class _TraceModel(SettingFields):
    """A trace, its machine and the rules of its simulation; the name is in the column ``trace``."""

    file: Text
    name: Text | None = None


class _PolicyModel(_LimitsModel):
    name: Text
    backfill: Annotated[list[BackfillName], Field(min_length=1)] | None = None
    backfill_order: Text | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    allocator: Text | None = None
    strategy: Text | None = None


class _SweepModel(_LimitsModel):
    gap: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    attempts: Positive = 3
    instances: list[_InstancesModel] = Field(default_factory=list)
    solvers: list[_SolverModel] = Field(default_factory=list)
    traces: list[_TraceModel] = Field(default_factory=list)
    policies: list[_PolicyModel] = Field(default_factory=list)


def plan(path: Path) -> Grid:
    """Read a sweep file; order its cells by instance or trace, solver or policy, strategy or backfilling, and seed."""
    held = read_toml(path)
    # In TOML, single brackets make one table. Pydantic would report that as a value that is not a list.
    for name in ("instances", "solvers", "traces", "policies"):
        if isinstance(held.get(name), dict):
            raise bad_file(path, f"[{name}]", f"must be written [[{name}]]: there may be several")
    described = validated(_SweepModel, held, path)
    pairs = (("instances", "solvers"), ("traces", "policies"))
    for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
        if getattr(described, one) and not getattr(described, other):
            raise bad_file(path, f"[[{other}]]", f"is missing: [[{one}]] are swept with [[{other}]]")
    if described.instances and described.traces:
        raise bad_file(path, "[[traces]]", "cannot be combined with [[instances]]: their rows differ; make two files")
    if len({table.platform is None for table in described.traces}) > 1:
        raise bad_file(path, "[[traces]]", "some have platform, others not, so their rows differ; make two files")
    if not described.instances and not described.traces:
        raise bad_file(path, "must hold [[instances]] and [[solvers]], or [[traces]] and [[policies]]")
    given_by: dict[str, Any] = {}
    cells: dict[str, Cell] = {}
    files = [path]
    for source, given, tasks, read in (_solves if described.instances else _simulations)(path, described):
        given_by[source] = given
        files += read
        for cell in (Cell(task, source) for task in tasks):
            cells.setdefault(cell.key, cell)
    read_once = tuple(dict.fromkeys(file.resolve() for file in files))
    return Grid(tuple(cells.values()), given_by, described.attempts, read_once)


def sweep(file: Path | str, *, out: Path | str | None = None, workers: int | None = None) -> RowTable[Row]:
    """Run the grid of a sweep file, as ``allocopt sweep`` does, and return a row for each cell.

    Parameters
    ----------
    out
        Table ``.csv`` or ``.jsonl`` to write. Finished cells are kept in ``OUT.sqlite``: a second call, or the command
        with the same table, goes on from there. None for no file.
    workers
        Number of processes that run cells: a cell that fails has the status ``failed`` and an ``error``. None to run
        them one after the other in this process: the error of a cell is raised.

    Raises
    ------
    BadFileError
        If the file, or one that it names, cannot be read, or the table cannot be written.
    UsageError
        If another run is writing the table, or its name has another suffix.
    """
    path, table = Path(file), None if out is None else Path(out)
    if table is not None:
        check_suffix(table, ".csv", ".jsonl")
    grid = plan(path)
    with closing(Store(table, provenance())) as store:
        here = nullcontext(Here(grid))
        found = run(grid, store, lambda: here if workers is None else closing(LocalWorkers(grid, workers)))
        rows = RowTable(tuple(found))
        if table is not None:
            write_table(table, rows.records())
    return rows


def _solves(path: Path, described: _SweepModel) -> _Planned:
    problems: dict[str, Problem] = {}
    read: set[Path] = set()
    for number, files in enumerate(described.instances):
        with _placed(path, f"instances[{number}].files"):
            named = dict.fromkeys(files.paths(path.parent))
            for problem in read_instances([file for file in named if file not in read]):
                if problem.name in problems:
                    raise UsageError(f"{problem.name!r} is also the name of an instance in another table")
                problems[problem.name] = problem
            read.update(named)
    solvers: dict[tuple[int, str], Solver] = {}
    for problem in problems.values():
        kind, source = kind_of(problem), content_digest(problem)
        for number, table in enumerate(described.solvers):
            with _placed(path, f"solvers[{number}]"):
                options = options_text(table.options)
                if (number, problem.kind) not in solvers:
                    solvers[number, problem.kind] = get_solver(table.name, json.loads(options), problem.kind)
                if table.strategies is not None and not kind.strategies:
                    fault = f"{problem.name!r} is a {problem.kind} problem"
                    raise UsageError(f"strategies are for topology problems, {fault}")
                strategies: Sequence[str | None] = table.strategies or [kind.strategy_of(problem)]
                for strategy in strategies:
                    check_takes(solvers[number, problem.kind], kind.posed(problem, strategy))
                seeds, seconds, iterations = table.limits(described)
                if seconds is None and iterations is None:
                    seconds = _DEFAULT_TIME_LIMIT_S
                gap = described.gap if table.gap is None else table.gap
                Budget(seconds, iterations, gap)
                tasks = [
                    SolveTask(problem.name, problem.kind, strategy, table.name, options, seed, seconds, iterations, gap)
                    for strategy, seed in product(strategies, seeds)
                ]
            yield source, problem, tasks, list(read)


def _simulations(path: Path, described: _SweepModel) -> _Planned:
    names: dict[str, str] = {}
    for number, trace in enumerate(described.traces):
        with _placed(path, f"traces[{number}]"):
            setting = {"trace": trace.file, **trace.model_dump(exclude_unset=True, exclude={"file", "name"})}
            spec = SimulationSpec(**SimulationSpec.seen_from_here(setting, path.parent))
            inputs = SimulationInputs.of(spec)
            source = _trace_digest(spec, inputs)
            if trace.name is not None:
                inputs = replace(inputs, workload=replace(inputs.workload, name=trace.name))
        name = inputs.workload.name
        with _placed(path, f"traces[{number}].name"):
            if names.setdefault(name, source) != source:
                raise UsageError(f"{name!r} is also the name of another trace: give this one a different name")
        for place, table in enumerate(described.policies):
            with _placed(path, f"policies[{place}]"):
                seeds, seconds, iterations = table.limits(described)
                Budget(seconds, iterations)
                asked = {name: getattr(table, name) for name in ("backfill_order", "allocator", "strategy", "options")}
                # Limits apply to allocators. A file may give them although some of its policies have no allocator.
                if table.allocator is not None:
                    asked |= {"time_limit": seconds, "iterations": iterations}
                # Refuse dates and infinity, which TOML has and JSON does not.
                options_text(table.options)
                tasks: list[SimulateTask] = []
                backfills: Sequence[str | None] = table.backfill or [None]
                for backfill in backfills:
                    values = {
                        **spec.model_dump(exclude_unset=True),
                        **asked,
                        "policy": table.name,
                        "backfill": backfill,
                    }
                    specs = [SimulationSpec(**{**values, "seed": seed}) for seed in seeds]
                    # A check with one seed is enough, as the seed does not matter here.
                    PreparedSimulation.of(specs[0], inputs)
                    tasks += [SimulateTask(inputs.workload.name, one, seconds, iterations) for one in specs]
            yield source, inputs, tasks, [file for *_, file in spec.files()]


def _trace_digest(spec: SimulationSpec, inputs: SimulationInputs) -> str:
    """Return a digest of jobs, machine and rules; raise `BadFileError` if there are no jobs, or one does not fit."""
    jobs, machine = inputs.workload, inputs.machine
    how: list[object] = [getattr(spec, name) for name in _RULES]
    # Digest contents, not files, so that rows stay valid if an input is moved, compressed or rewritten.
    if not isinstance(jobs, Workload) or isinstance(machine, Machine):
        columns = [np.asarray(getattr(jobs, field.name)).tolist() for field in fields(jobs)]
        return digest([repr(columns), repr(machine), *how])
    if not len(jobs):
        raise BadFileError(f"{jobs.name} holds no jobs")
    if isinstance(machine, Cluster):
        return digest([content_digest(jobs), machine_digest(machine), *how, repr(inputs.downtimes)])
    largest = int(jobs.processors.argmax())
    asked = int(jobs.processors[largest])
    if asked > machine.size:
        fault = f"job {jobs.ids[largest]} asks for {asked} {machine.resources[0]}, the machine has {machine.size}"
        raise BadFileError(f"{jobs.name}: {fault}; skip_oversized = true drops such jobs")
    nodes = None if machine.topology is None else machine_digest(machine.topology)
    content = [content_digest(jobs), machine.size, spec.processors_per_node, nodes]
    return digest([*content, *how, repr(inputs.executables)])


@contextmanager
def _placed(path: Path, place: str) -> Iterator[None]:
    """Put file and place before the message of an error that their content causes."""
    try:
        yield
    except MissingPackageError as error:
        raise MissingPackageError(f"{path}: {place}: {error}") from None
    except AllocoptError as error:
        raise bad_file(path, place, str(error)) from None
