"""Grids of the commands ``bench``, ``what-if`` and ``reproduce``, and `compare` for Python."""

import base64
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.errors import UsageError
from allocopt.experiments.cells import Cell, Grid, Row, Task, digest
from allocopt.experiments.engine import Here, run
from allocopt.experiments.store import Store
from allocopt.experiments.tasks import BenchTask, content_digest, machine_digest, options_text
from allocopt.kernels.ready import make_ready
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.kind import get_kind, kind_names, kind_of
from allocopt.report.rows import BenchRow, SolveRow
from allocopt.report.what_if import WhatIfRow
from allocopt.reproduction import ReproductionRequest, get_reproduction
from allocopt.simulator.recorded import RECORDED
from allocopt.simulator.schedule import ClusterSchedule, Schedule
from allocopt.simulator.what_if import WhatIf
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver, kinds_of_solver
from allocopt.solving.solution_files import NO_STRATEGY, BestKnown
from allocopt.solving.solve import check_available

BestKnownValues = Mapping[str, Mapping[str, BestKnown]]
"""Best-known values by instance and strategy."""


@dataclass(frozen=True, slots=True)
class _Contender:
    """A solver under one strategy, or, with None, on problems of a kind that has none."""

    solver: Solver
    strategy: str | None


def contenders(names: Sequence[str], strategies: Sequence[str], kinds: Sequence[str]) -> list[_Contender]:
    """Pair solvers with strategies, each pair once, for problems of some kinds.

    ``NAME:STRATEGY`` runs a solver under that strategy alone, others run under each that they take.
    """
    found: dict[tuple[str, str, str | None], _Contender] = {}
    parts = [tuple(part.strip() for part in name.partition(":")) for name in names]
    known = [strategy for kind in kind_names() for strategy in get_kind(kind).strategies]
    solvers: list[tuple[Solver, str]] = []
    for name, _, only in parts:
        taken_kinds = kinds_of_solver(name)
        if taken_kinds and not set(taken_kinds) & set(kinds):
            able = ", ".join(taken_kinds)
            raise UsageError(f"solver {name!r} does not take {', '.join(kinds)}; it takes {able} problems")
        for kind in [kind for kind in kinds if kind in taken_kinds] or kinds:
            solver = get_solver(name, None, kind)
            # What cannot run here is told before any other solver has run.
            check_available(solver)
            if not only or solver.capabilities.strategies:
                solvers.append((solver, only))
    for strategy in [*strategies, *(only for *_, only in parts if only)]:
        if strategy not in known:
            raise UsageError(f"there is no strategy {strategy!r}; there are scas, dcas and free")
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
    refusals: dict[str, list[str]]  # By solver, why it leaves out which instances
    kernels: set[Callable[..., Any]]  # All entries that the solves may call


def bench_grid(
    problems: Sequence[Problem], pairs: Sequence[_Contender], seeds: Sequence[int], budget: Budget
) -> _Bench:
    """Return the grid of instances, contenders and seeds."""
    cells: list[Cell] = []
    refusals: dict[str, list[str]] = {}
    kernels: set[Callable[..., Any]] = set()
    inputs = {content_digest(problem): problem for problem in problems}
    for source, problem in inputs.items():
        for pair in pairs:
            solver = pair.solver
            if solver.kind == problem.kind:
                asked = kind_of(problem).posed(problem, pair.strategy)
                refusal = solver.refusal(asked) if solver.takes(asked) else "not its rules"
            # Another solver of that name is for the kind.
            elif any((other.solver.name, other.solver.kind) == (solver.name, problem.kind) for other in pairs):
                continue
            else:
                refusal = "not its kind"
            if refusal is None:
                kernels.update(solver.kernels(asked))
                who = (problem.name, problem.kind, pair.strategy, solver.name, options_text({}))
                limits = (budget.seconds, budget.iterations, budget.gap)
                cells += [Cell(BenchTask(*who, seed, *limits), source) for seed in seeds]
            elif (reason := f"{problem.name}: {refusal}") not in refusals.setdefault(solver.name, []):
                refusals[solver.name].append(reason)
    return _Bench(Grid(tuple(cells), inputs), refusals, kernels)


def bench_row(cell: Cell, row: Row, known: BestKnownValues) -> BenchRow:
    """Return the row of a solve beside the best-known values of its instance."""
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
) -> list[BenchRow]:
    """Solve every problem with every solver and seed, one after the other in this process, as ``allocopt bench`` does.

    A solver leaves out the problems and strategies that it does not take; ``NAME:STRATEGY`` runs it under that strategy
    alone. Without a budget each solve may take 10 s.
    """
    pairs = contenders(solvers, strategies, sorted({problem.kind for problem in problems}))
    grid, _, kernels = bench_grid(problems, pairs, seeds, budget or Budget(10.0))
    make_ready(kernels)
    rows = run(grid, Store(None, {}), Here(grid))
    return [bench_row(cell, row, known or {}) for cell, row in zip(grid.cells, rows, strict=True)]


@dataclass(frozen=True, slots=True)
class _WhatIfTask(Task):
    """A scheduler and an allocator on a site's trace; its row has the schedule where it is to be shown."""

    columns: ClassVar[Sequence[str]] = ("row", "schedule")

    scheduler: str
    allocator: str
    has_schedule: bool

    def run(self, given: WhatIf) -> Row:
        if self.allocator == RECORDED:
            outcome = given.recorded()
        else:
            (outcome,) = given.outcomes([self.allocator], [self.scheduler])
        row: Row = {"row": asdict(WhatIfRow.of(outcome)), "schedule": None}
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
            # Base64 makes text of compressed arrays: exact, and a tenth of the numbers in JSON.
            file = io.BytesIO()
            ends = np.cumsum([len(held) for held in nodes])
            np.savez_compressed(file, allow_pickle=False, **known, nodes=np.concatenate(nodes), ends=ends)
            row["schedule"] = base64.b64encode(file.getvalue()).decode()
        return row


def what_if_grid(
    asked: WhatIf, allocators: Sequence[str], schedulers: Sequence[str], *, with_schedules: bool = False
) -> Grid:
    """Return the grid of schedulers and allocators on a trace, what the site did before them; all names are tried."""
    # Before anything runs, for a simulation may take hours.
    asked.check(allocators, schedulers)
    limits = [asked.limits.seconds, asked.limits.iterations, asked.hop_slowdown, asked.seed]
    machine = machine_digest(asked.machine)
    rules = [asked.rules.event_order.name, asked.rules.kill_at_limit, asked.rules.dependencies]
    parts = [content_digest(asked.workload), machine, rules, limits]
    tasks = [_WhatIfTask(scheduler, name, with_schedules) for scheduler, name in product(schedulers, allocators)]
    if asked.record is not None:
        held = asked.record.schedule
        parts.append([content_digest(held.workload), held.processors, asked.record.cluster.nodes])
        tasks.insert(0, _WhatIfTask(RECORDED, RECORDED, has_schedule=False))
    source = digest(parts)
    return Grid(tuple(Cell(task, source) for task in tasks), {source: asked})


def schedule_of(asked: WhatIf, row: Row) -> Schedule:
    """Return the schedule that a row has, or that of the record."""
    if row["schedule"] is None:
        assert asked.record is not None
        return asked.record.schedule
    with np.load(io.BytesIO(base64.b64decode(row["schedule"])), allow_pickle=False) as held:
        nodes, *tasks = (
            tuple(np.split(held[name], held["ends"][:-1])) for name in ("nodes", "tasks") if name in held.files
        )
        times = held["release"], held["start"], held["end"]
        if isinstance(asked.machine, Cluster):
            known: dict[str, Any] = {"cluster": asked.machine, "tasks": tasks[0], "amounts": held["amounts"]}
            return ClusterSchedule(asked.workload, asked.machine.processors, *times, nodes, asked.topology, **known)
        return Schedule(asked.workload, asked.topology.size, *times, nodes, asked.topology)


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
