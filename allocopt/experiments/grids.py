"""Tasks of cells, digests that identify their inputs, and the grids of ``bench``, ``what-if`` and ``reproduce``."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from hashlib import sha256
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.topology import Topology
from allocopt.errors import AllocoptError, UsageError
from allocopt.experiments.cells import Cell, Grid, Row, Task, digest
from allocopt.experiments.engine import Here, run
from allocopt.experiments.simulations import PreparedSimulation, SimulationInputs
from allocopt.experiments.specs import SimulationSpec
from allocopt.experiments.store import Store
from allocopt.files.writing import compact_json
from allocopt.kernels.ready import make_ready
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.problems.kind import get_kind, kind_of, working_kinds
from allocopt.report.rows import BenchRow, SimulateRow, SolveRow, TrajectoryRow
from allocopt.report.what_if import WhatIfRow
from allocopt.report.what_if_groups import GroupRow
from allocopt.report.what_if_rows import WhatIfRows
from allocopt.reproduction import ReproductionRequest, get_reproduction
from allocopt.simulator.groups import GROUPINGS
from allocopt.simulator.metrics import measure
from allocopt.simulator.recorded import RECORDED
from allocopt.simulator.schedule import ClusterSchedule, Schedule
from allocopt.simulator.what_if import WhatIf
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver, kinds_of_solver
from allocopt.solving.result import Result
from allocopt.solving.solution_files import NO_STRATEGY, BestKnown
from allocopt.solving.solve import check_available, solve
from allocopt.tables import RowTable
from allocopt.traces.workload import COLUMNS, Workload

_PATIENCE_S = 300.0  # Time that a cell may take in addition to its solve


@dataclass(frozen=True, slots=True)
class SolveTask(Task):
    """A solver on an instance, with one seed; options are JSON, ``strategy`` is None if the kind has no strategies."""

    columns: ClassVar[Sequence[str]] = (
        *(field.name for field in fields(SolveRow)),
        *("options", "time_limit_s", "iterations", "gap_limit", "solver_version", "error"),
    )

    instance: str
    kind: str
    strategy: str | None
    solver: str
    options: str
    seed: int
    time_limit_s: float | None
    iterations: int | None
    gap_limit: float

    @property
    def deadline_s(self) -> float | None:
        """Three times the time limit, plus time for loading and compiling; None without a time limit."""
        return None if self.time_limit_s is None else 3.0 * self.time_limit_s + _PATIENCE_S

    def run(self, given: Problem) -> Row:
        result = self._result(given)
        row = asdict(SolveRow.of(given, result))
        # Keep the requested names: the result of a portfolio has the name of the part that solved it.
        return {**row, **self.asked(), "solver_version": result.version}

    def _result(self, given: Problem) -> Result:
        solver = _warm_solver(self.solver, self.options, self.kind, self.strategy)
        return solve(
            given,
            strategy=self.strategy,
            solver=solver,
            time_limit=self.time_limit_s,
            seed=self.seed,
            iterations=self.iterations,
            gap=self.gap_limit,
        )


@dataclass(frozen=True, slots=True)
class _BenchTask(SolveTask):
    """A solve of a comparison; its row names the part of a portfolio that answered, and has the trajectory."""

    # As in `solve`, the row names the part of a portfolio that answered. Rows of a sweep have the requested names.
    columns: ClassVar[Sequence[str]] = (*(field.name for field in fields(SolveRow)), "solver_version", "points")

    def run(self, given: Problem) -> Row:
        result = self._result(given)
        row = {**asdict(SolveRow.of(given, result)), "strategy": self.strategy}
        return {**row, "solver_version": result.version, "points": TrajectoryRow.points_of(result)}


@dataclass(frozen=True, slots=True, eq=False)
class SimulateTask(Task):
    """A policy on a trace, with one seed; the limits apply to the allocator."""

    trace: str
    spec: SimulationSpec
    time_limit_s: float | None
    iterations: int | None

    @property
    def columns(self) -> Sequence[str]:
        return (
            *("trace", "policy", "backfill", "allocator", "strategy", "status"),
            *(field.name for field in fields(SimulateRow)),
            *("seed", "options", "backfill_order", "time_limit_s", "iterations", "error"),
            *(() if self.spec.platform is None else ("energy_j",)),
        )

    def asked(self) -> Row:
        names = ("policy", "backfill", "backfill_order", "allocator", "strategy", "seed")
        limits = {"time_limit_s": self.time_limit_s, "iterations": self.iterations}
        spec = {name: getattr(self.spec, name) for name in names}
        return {"trace": self.trace, **spec, "options": options_text(self.spec.options), **limits}

    def run(self, given: SimulationInputs) -> Row:
        simulation = PreparedSimulation.of(self.spec, given)
        schedule, runtime_s = simulation.timed()
        # On a multicore machine some policies report another name: keep the requested one.
        return {**simulation.row(schedule, measure(schedule), runtime_s), **self.asked(), "status": "done"}


def options_text(options: dict[str, Any]) -> str:
    """Return options as JSON text; equal options give equal texts."""
    try:
        return compact_json(dict(sorted((name.replace("-", "_"), value) for name, value in options.items())))
    except (TypeError, ValueError):
        raise UsageError("options must be finite numbers, texts, true, false, or lists and tables of these") from None


def content_digest(given: Problem | Workload) -> str:
    """Return a digest of the content of an instance or of jobs; the files do not matter."""
    if not isinstance(given, Workload):
        return digest(object_from_problem(given))
    jobs = sha256()
    for column in COLUMNS:
        values = getattr(given, column)
        # Columns that earlier versions did not have count only if they hold values, so that stored results stay valid.
        if values.dtype == np.object_:
            jobs.update(repr([column, *values]).encode() if any(values) else b"")
        elif column != "recorded_start" or not np.isnan(values).all():
            jobs.update(values.tobytes())
    return jobs.hexdigest()


def machine_digest(machine: Topology | Cluster) -> str:
    """Return a digest of the topology and the resources of the nodes; the files do not matter."""
    if isinstance(machine, Cluster):
        named = machine.topology
        # The order of a set is not fixed.
        nodes = [repr(replace(node, features=frozenset())) + str(sorted(node.features)) for node in machine.nodes]
        how = [named.is_joined, named.block_sizes, machine.is_exclusive]
        return digest([machine_digest(named.tree), nodes, list(map(asdict, machine.partitions)), *how])
    groups = sha256(machine.groups_of(np.arange(machine.size)).tobytes()).hexdigest()
    return digest([groups, machine.hops, machine.pairs])


@cache
def _warm_solver(name: str, options: str, kind: str, strategy: str | None) -> Solver:
    # Solve something small first, so that measured times include neither loading kernels nor starting processes.
    solver = get_solver(name, json.loads(options), kind)
    # A solver that does not take the shipped instance is not warmed up.
    with suppress(AllocoptError):
        for problem in shipped_problems(kind)[:1]:
            solve(problem, strategy=strategy, solver=solver, time_limit=5.0, iterations=1)
    return solver


BestKnownValues = Mapping[str, Mapping[str, BestKnown]]
"""Best-known values by instance and strategy."""


class _Contender(NamedTuple):
    solver: Solver
    strategy: str | None  # None on problems of a kind that has none


def _contenders(names: Sequence[str], strategies: Sequence[str], kinds: Sequence[str]) -> list[_Contender]:
    found: dict[tuple[str, str, str | None], _Contender] = {}
    parts = [tuple(part.strip() for part in name.partition(":")) for name in names]
    known = [strategy for kind in working_kinds() for strategy in kind.strategies]
    solvers: list[tuple[Solver, str]] = []
    for name, _, only in parts:
        taken_kinds = kinds_of_solver(name)
        if taken_kinds and not set(taken_kinds) & set(kinds):
            able = ", ".join(taken_kinds)
            raise UsageError(f"solver {name!r} does not take {', '.join(kinds)}; it takes {able} problems")
        for kind in [kind for kind in kinds if kind in taken_kinds] or kinds:
            solver = get_solver(name, None, kind)
            # Report a solver that cannot run here before any other solver runs.
            check_available(solver)
            if not only or solver.capabilities.strategies:
                solvers.append((solver, only))
    for strategy in [*strategies, *(only for *_, only in parts if only)]:
        if strategy not in known:
            raise UsageError(f"there is no strategy {strategy!r}; strategies are scas, dcas and free")
    for solver, only in solvers:
        asked = [only] if only else strategies if get_kind(solver.kind).strategies else []
        taken: list[str | None] = [strategy for strategy in asked if strategy in solver.capabilities.strategies]
        if asked and not taken:
            able = ", ".join(sorted(solver.capabilities.strategies)) or f"{solver.kind} problems"
            raise UsageError(f"solver {solver.name!r} does not take {', '.join(asked)}; it takes {able}")
        for each in taken or [None]:
            found.setdefault((solver.kind, solver.name, each), _Contender(solver, each))
    return list(found.values())


class _Bench(NamedTuple):
    grid: Grid
    refusals: dict[str, list[str]]  # By solver, the instances that it leaves out, with reasons
    kernels: set[Callable[..., Any]]  # All entries that the solves may call


def bench_grid(
    problems: Sequence[Problem],
    solvers: Sequence[str],
    strategies: Sequence[str],
    seeds: Sequence[int],
    budget: Budget,
) -> _Bench:
    """Return the grid of instances, solvers (``NAME:STRATEGY`` for only one strategy), strategies and seeds."""
    pairs = _contenders(solvers, strategies, sorted({problem.kind for problem in problems}))
    cells: list[Cell] = []
    refusals: dict[str, list[str]] = {}
    kernels: set[Callable[..., Any]] = set()
    inputs = {content_digest(problem): problem for problem in problems}
    for source, problem in inputs.items():
        for pair in pairs:
            solver = pair.solver
            if solver.kind == problem.kind:
                asked = kind_of(problem).posed(problem, pair.strategy)
                refusal = solver.refusal(asked) if solver.takes(asked) else "unsupported constraints"
            # Another solver of the same name takes this kind.
            elif any((other.solver.name, other.solver.kind) == (solver.name, problem.kind) for other in pairs):
                continue
            else:
                refusal = "unsupported kind"
            if refusal is None:
                kernels.update(solver.kernels(asked))
                who = (problem.name, problem.kind, pair.strategy, solver.name, options_text({}))
                limits = (budget.seconds, budget.iterations, budget.gap)
                cells += [Cell(_BenchTask(*who, seed, *limits), source) for seed in seeds]
            elif (reason := f"{problem.name}: {refusal}") not in refusals.setdefault(solver.name, []):
                refusals[solver.name].append(reason)
    return _Bench(Grid(tuple(cells), inputs), refusals, kernels)


def bench_row(cell: Cell, row: Row, known: BestKnownValues) -> BenchRow:
    """Return the row of a solve, with the best-known values of its instance."""
    held = dict(row)
    version, points = held.pop("solver_version"), tuple(map(tuple, held.pop("points")))
    asked = cell.task.asked()
    values = known.get(asked["instance"], {})
    best, scas = values.get(asked["strategy"] or NO_STRATEGY), values.get(Strategy.SCAS)
    return BenchRow(SolveRow(**held), version, best, scas, points)


def compare(
    problems: Sequence[Problem],
    solvers: Sequence[str],
    strategies: Sequence[str] = ("scas", "dcas", "free"),
    *,
    seeds: Sequence[int] = (0,),
    budget: Budget | None = None,
    known: BestKnownValues | None = None,
) -> RowTable[BenchRow]:
    """Solve every problem with every solver and seed, one after the other in this process, as ``allocopt bench`` does.

    A solver leaves out the problems and strategies that it does not take; ``NAME:STRATEGY`` runs it only under that
    strategy. Without a budget each solve may take 10 s.

    Raises
    ------
    UsageError
        If a solver or strategy does not exist, or a solver takes none of the kinds or strategies.
    MissingPackageError
        If a solver needs a package that is not installed.
    """
    grid, _, kernels = bench_grid(problems, solvers, strategies, seeds, budget or Budget(10.0))
    make_ready(kernels)
    rows = run(grid, Store(None, {}), lambda: nullcontext(Here(grid)))
    return RowTable(tuple(bench_row(cell, row, known or {}) for cell, row in zip(grid.cells, rows, strict=True)))


@dataclass(frozen=True, slots=True)
class _WhatIfTask(Task):
    """A simulation of a site's trace; its row has measures, groups of jobs and, if ``has_schedule``, the schedule."""

    columns: ClassVar[Sequence[str]] = ("row", "groups", "schedule")

    scheduler: str
    allocator: str
    has_schedule: bool

    def run(self, given: WhatIf) -> Row:
        if self.allocator == RECORDED:
            outcome = given.recorded()
        else:
            (outcome,) = given.outcomes([self.allocator], [self.scheduler])
        row: Row = {"row": asdict(WhatIfRow.of(outcome)), "groups": [], "schedule": None}
        if given.by:
            row["groups"] = [asdict(one) for one in GroupRow.all_of(outcome, given.description, given.by)]
        if self.has_schedule:
            schedule, nodes = outcome.schedule, outcome.schedule.nodes
            assert nodes is not None, "every job has nodes"
            known: dict[str, FloatArray | IntArray] = {
                "release": schedule.release,
                "start": schedule.start,
                "end": schedule.end,
            }
            if isinstance(schedule, ClusterSchedule):
                known |= {"tasks": np.concatenate(schedule.tasks), "amounts": schedule.amounts}
            # Compressed arrays as Base64 text are exact and take a tenth of the space of numbers in JSON.
            file = io.BytesIO()
            ends = np.cumsum([len(held) for held in nodes])
            np.savez_compressed(file, allow_pickle=False, **known, nodes=np.concatenate(nodes), ends=ends)
            row["schedule"] = base64.b64encode(file.getvalue()).decode()
        return row


def what_if_grid(
    asked: WhatIf, allocators: Sequence[str], schedulers: Sequence[str], *, with_schedules: bool = False
) -> Grid:
    """Return the grid of schedulers and allocators on a trace, preceded by the site's own record; check all names."""
    # Check before anything runs, because a simulation may take hours.
    asked.check(allocators, schedulers)
    limits = [asked.limits.seconds, asked.limits.iterations, asked.hop_slowdown, asked.seed]
    machine = machine_digest(asked.machine)
    rules = [asked.rules.event_order.name, asked.rules.kill_at_limit, asked.rules.dependencies]
    parts: list[Any] = [content_digest(asked.workload), machine, rules, limits]
    # Without variants the digest stays as it was, so that stored results stay valid.
    parts += [{"variants": asked.variants}] if asked.variants else []
    tasks = [_WhatIfTask(scheduler, name, with_schedules) for scheduler, name in product(schedulers, allocators)]
    if asked.record is not None:
        held = asked.record.schedule
        parts.append([content_digest(held.workload), held.processors, asked.record.cluster.nodes])
        tasks.insert(0, _WhatIfTask(RECORDED, RECORDED, has_schedule=False))
    if asked.by:
        groupings, described = [GROUPINGS[name] for name in ("partition", *asked.by)], asked.description
        parts.append([[one.name, sorted(described.labels(one).items())] for one in groupings])
    source = digest(parts)
    return Grid(tuple(Cell(task, source) for task in tasks), {source: asked})


def what_if(asked: WhatIf, allocators: Sequence[str], schedulers: Sequence[str] = ("easy",)) -> WhatIfRows:
    """Simulate every combination, one after the other in this process, as ``allocopt what-if`` does.

    The first combination is the one with which others are compared. If there is a record of the site, it comes before.
    Jobs are grouped by ``asked.by``; without ``asked.described``, by what the workload holds.

    Raises
    ------
    UsageError
        If an allocator, scheduler or grouping does not exist, or cannot be used on the machine; see `WhatIf.outcomes`.
    """
    grid, rows = what_if_grid(asked, allocators, schedulers), WhatIfRows()
    for held in run(grid, Store(None, {}), lambda: nullcontext(Here(grid))):
        rows.add(held)
    return rows


def schedule_of(asked: WhatIf, row: Row) -> Schedule:
    """Return the schedule of a row; if it has none, the schedule of the record."""
    if row["schedule"] is None:
        assert asked.record is not None
        return asked.record.schedule
    with np.load(io.BytesIO(base64.b64decode(row["schedule"])), allow_pickle=False) as held:
        nodes, *tasks = (
            tuple(np.split(held[name], held["ends"][:-1])) for name in ("nodes", "tasks") if name in held.files
        )
        times = {name: held[name] for name in ("release", "start", "end")}
        if isinstance(asked.machine, Cluster):
            known: dict[str, Any] = {**times, "nodes": nodes, "tasks": tasks[0], "amounts": held["amounts"]}
            return ClusterSchedule.of(asked.workload, asked.machine, **known)
        return Schedule(asked.workload, asked.topology.size, **times, nodes=nodes, topology=asked.topology)


@dataclass(frozen=True, slots=True)
class _PieceTask(Task):
    columns: ClassVar[Sequence[str]] = ("record",)

    artifact: str
    options: str
    piece: str

    def run(self, given: ReproductionRequest) -> Row:
        made = get_reproduction(self.artifact, json.loads(self.options))
        return {"record": made.measure(given, self.piece)}


def reproduction_grid(name: str, options: Mapping[str, Any], request: ReproductionRequest) -> Grid:
    """Return the grid of the pieces of a table or figure."""
    pieces = get_reproduction(name, options).pieces(request)
    source = digest(request.as_dict())
    tasks = [_PieceTask(name, options_text(dict(options)), piece) for piece in pieces]
    return Grid(tuple(Cell(task, source) for task in tasks), {source: request})
