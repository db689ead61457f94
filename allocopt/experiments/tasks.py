"""What cells do: solve an instance, or simulate a trace; and by which digests their inputs are told apart."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.topology import Topology
from allocopt.errors import AllocoptError, UsageError
from allocopt.experiments.cells import Row, Task, digest
from allocopt.experiments.simulations import Simulation, SimulationInputs
from allocopt.experiments.specs import SimulationSpec
from allocopt.files.writing import compact_json
from allocopt.problems.base import Problem
from allocopt.problems.instances import object_from_problem, shipped_problems
from allocopt.report.rows import SimulateRow, SolveRow, TrajectoryRow
from allocopt.simulator.metrics import measure
from allocopt.solving.protocol import Solver, get_solver
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.traces.workload import COLUMNS, Workload

_PATIENCE_S = 300.0  # That a cell may take beside its solve


@dataclass(frozen=True, slots=True)
class SolveTask(Task):
    """A solver on an instance, with one seed; options are JSON, ``strategy`` is None where the kind has none."""

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
        """Three times the time limit, and what loading and compiling may take; None without a limit."""
        return None if self.time_limit_s is None else 3.0 * self.time_limit_s + _PATIENCE_S

    def run(self, given: Problem) -> Row:
        result = self._result(given)
        row = asdict(SolveRow.of(given, result))
        # The row's own names stay those that were asked for: a portfolio answers under its part's.
        return {**row, **self.asked(), "solver_version": result.version}

    def _result(self, given: Problem) -> Result:
        solver = _warm_solver(self.solver, self.options, self.kind, self.strategy)
        return solve(
            given, self.strategy, solver, self.time_limit_s, self.seed, iterations=self.iterations, gap=self.gap_limit
        )


@dataclass(frozen=True, slots=True)
class BenchTask(SolveTask):
    """A solve of a comparison, whose row names the part of a portfolio that answered, and has the trajectory."""

    # A comparison lists the part of a portfolio that answered, as `solve` does; a sweep's rows go by what was asked.
    columns: ClassVar[Sequence[str]] = (*(field.name for field in fields(SolveRow)), "solver_version", "points")

    def run(self, given: Problem) -> Row:
        result = self._result(given)
        row = {**asdict(SolveRow.of(given, result)), "strategy": self.strategy}
        return {**row, "solver_version": result.version, "points": TrajectoryRow.points_of(result)}


@dataclass(frozen=True, slots=True, eq=False)
class SimulateTask(Task):
    """A policy on a trace, with one seed; the limits are those of an allocator."""

    columns: ClassVar[Sequence[str]] = (
        *("trace", "policy", "backfill", "allocator", "strategy", "status"),
        *(field.name for field in fields(SimulateRow)),
        *("seed", "options", "backfill_order", "time_limit_s", "iterations", "error"),
    )

    trace: str
    spec: SimulationSpec
    time_limit_s: float | None
    iterations: int | None

    def asked(self) -> Row:
        names = ("policy", "backfill", "backfill_order", "allocator", "strategy", "seed")
        limits = {"time_limit_s": self.time_limit_s, "iterations": self.iterations}
        spec = {name: getattr(self.spec, name) for name in names}
        return {"trace": self.trace, **spec, "options": options_text(self.spec.options), **limits}

    def run(self, given: SimulationInputs) -> Row:
        simulation = Simulation.of(self.spec, given)
        simulation.make_ready()
        started = time.perf_counter()
        schedule = simulation.run()
        runtime_s = time.perf_counter() - started
        # A multicore machine has other names for some policies.
        return {**simulation.row(schedule, measure(schedule), runtime_s), **self.asked(), "status": "done"}


@dataclass(frozen=True, slots=True, eq=False)
class SimulateOnCoresTask(SimulateTask):
    """A policy on a trace of tasks and a multicore machine."""

    columns: ClassVar[Sequence[str]] = (*SimulateTask.columns, "energy_j")


def options_text(options: dict[str, Any]) -> str:
    """Return options as JSON, the same for the same options."""
    try:
        return compact_json(dict(sorted((name.replace("-", "_"), value) for name, value in options.items())))
    except (TypeError, ValueError):
        raise UsageError("options must be finite numbers, texts, true, false, or lists and tables of these") from None


def content_digest(given: Problem | Workload) -> str:
    """Return a digest of an instance or of jobs, from whatever files these were read."""
    if not isinstance(given, Workload):
        return digest(object_from_problem(given))
    jobs = sha256()
    for column in COLUMNS:
        values = getattr(given, column)
        # What no trace of earlier versions had counts where it is known: results that are kept stay those of a trace.
        if values.dtype == np.object_:
            jobs.update(repr([column, *values]).encode() if any(values) else b"")
        elif column != "recorded_start" or not np.isnan(values).all():
            jobs.update(values.tobytes())
    return jobs.hexdigest()


def machine_digest(machine: Topology | Cluster) -> str:
    """Return a digest of how the nodes are connected, and of what they have, from whatever files that was read."""
    if isinstance(machine, Cluster):
        named = machine.topology
        # Sets have no order that stays.
        nodes = [repr(replace(node, features=frozenset())) + str(sorted(node.features)) for node in machine.nodes]
        how = [named.is_joined, named.block_sizes, machine.is_exclusive]
        return digest([machine_digest(named.tree), nodes, list(map(asdict, machine.partitions)), *how])
    groups = sha256(machine.groups_of(np.arange(machine.size)).tobytes()).hexdigest()
    return digest([groups, machine.hops, machine.pairs])


@cache
def _warm_solver(name: str, options: str, kind: str, strategy: str | None) -> Solver:
    # It solves something small first, so that no time includes loading a kernel or starting a process.
    solver = get_solver(name, json.loads(options), kind)
    # A solver that does not take the shipped instance starts cold.
    with suppress(AllocoptError):
        for problem in shipped_problems(kind)[:1]:
            solve(problem, strategy, solver, 5.0, iterations=1)
    return solver
