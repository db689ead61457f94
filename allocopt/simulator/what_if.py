"""Simulates one workload on one machine under all combinations of allocators and schedulers."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import UsageError
from allocopt.kernels.ready import make_ready
from allocopt.problems.base import Strategy
from allocopt.simulator.described import Described
from allocopt.simulator.engine import is_built_in_only
from allocopt.simulator.execution import HopSlowdown
from allocopt.simulator.groups import GROUPINGS
from allocopt.simulator.held_nodes import DepthFirst
from allocopt.simulator.metrics import Metrics, measure
from allocopt.simulator.recorded import RECORDED, Record
from allocopt.simulator.rooms import kernels_of
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import AnyScheduler, WithExecution
from allocopt.simulator.shared.room import allocation_named
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.traces.variants import varied_run_times
from allocopt.traces.workload import Workload

FIRST = "first"  # name of the allocator that gives every job the first idle nodes
_RULES_AS_SOLVERS = {FIRST: "first-fit", "lowest-switch": "cons-tres"}  # solvers that place a window by these rules


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Schedule and metrics of one combination, the seconds that its simulation took, and remarks on it.

    ``variants`` are the schedules of variants of the workload, if there are any.
    """

    allocator: str
    scheduler: str
    schedule: Schedule
    metrics: Metrics
    runtime_s: float
    remarks: tuple[str, ...] = ()
    variants: tuple[Schedule, ...] = ()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """Schedules over which measures are averaged: those of the variants, or the only schedule if there are none."""
        return self.variants or (self.schedule,)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Runs a workload under combinations of allocators and schedulers.

    Parameters
    ----------
    workload
        The jobs; on a topology, their sizes are in whole nodes.
    machine
        The topology of whole nodes, or a cluster whose nodes jobs may share.
    rules
        Rules for events, and whether jobs are killed.
    limits
        Limits of solvers that allocate: on a topology, for all jobs that start together; on a cluster, for each job.
    hop_slowdown
        Share by which hops slow down jobs (`HopSlowdown`). With 0, allocators of whole nodes do not change any times.
    seed
        Seed of random queue orders and of solvers.
    record
        The site's own record, if the trace has one.
    described
        Further information on the jobs, by which they are grouped.
    by
        Names of the groupings by which jobs are measured, see `allocopt.simulator.groups`.
    variants
        Number of variants of the workload on which each combination is also simulated (`allocopt.traces.variants`). All
        combinations get the same variants.
    """

    workload: Workload
    machine: Topology | Cluster
    rules: Rules
    limits: Budget
    hop_slowdown: float = 0.0
    seed: int = 0
    record: Record | None = None
    described: Described | None = None
    by: tuple[str, ...] = ()
    variants: int = 0

    @property
    def topology(self) -> Topology:
        """Topology of the nodes."""
        return self.machine.topology.tree if isinstance(self.machine, Cluster) else self.machine

    @property
    def description(self) -> Described:
        """`described`; without it, what the workload and the machine hold."""
        cluster = self.machine if isinstance(self.machine, Cluster) else None
        return self.described or Described(self.workload, cluster)

    def check(self, allocators: Sequence[str], schedulers: Sequence[str]) -> None:
        """Raise `UsageError` if an allocator, scheduler or grouping does not exist, or does not suit the machine."""
        if unknown := [name for name in self.by if name not in GROUPINGS]:
            raise UsageError(f"there is no grouping {unknown[0]!r}; choose from {', '.join(GROUPINGS)}")
        for scheduler, name in product(schedulers, allocators):
            self._parts(name, scheduler)

    def outcomes(self, allocators: Sequence[str], schedulers: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every combination, one scheduler after the other.

        Allocators are topology solvers or ``first``; on a cluster, those of `allocation_named`. Schedulers are those of
        `as_scheduler`; under ``window`` the allocator allocates the window of every period.
        """
        # Check all names before the first simulation.
        runs = [(name, scheduler, *self._parts(name, scheduler)) for scheduler, name in product(schedulers, allocators)]
        slows = HopSlowdown(self.topology, self.hop_slowdown) if self.hop_slowdown else None
        machine: Any = self.machine
        if not isinstance(self.machine, Cluster):
            machine = Platform.whole_nodes(self.machine)
        for name, scheduler, chosen, places in runs:
            # Compile first, so that the time of the simulation excludes it.
            built_in_only = is_built_in_only(chosen, slows, None)
            make_ready(kernels_of(machine, chosen, is_built_in_only=built_in_only, changes_speed=slows is not None))
            how: Any = (machine, chosen, self.rules, self.seed)
            started = time.perf_counter()
            schedule: Schedule = simulate(self.workload, *how, allocator=places, execution=slows)
            runtime_s, rng = time.perf_counter() - started, np.random.default_rng(self.seed)
            others = [varied_run_times(self.workload, rng) for _ in range(self.variants)]
            variants = tuple(simulate(other, *how, allocator=places, execution=slows) for other in others)
            yield Outcome(name, scheduler, schedule, measure(schedule), runtime_s, variants=variants)

    def recorded(self) -> Outcome:
        """Return the outcome of the record, which must not be None."""
        assert self.record is not None
        started = time.perf_counter()
        schedule, remarks = self.record.schedule, self.record.remarks()
        return Outcome(RECORDED, RECORDED, schedule, measure(schedule), time.perf_counter() - started, remarks)

    def _parts(self, allocator: str, scheduler: str) -> tuple[AnyScheduler, Any]:
        time_limit, iterations = self.limits.seconds, self.limits.iterations
        shares_nodes = isinstance(self.machine, Cluster)
        if scheduler != "window" and isinstance(as_scheduler(scheduler), WithExecution):
            raise UsageError(
                f"scheduler {scheduler!r} lets jobs share cores, which needs a pool; this machine has nodes"
            )
        if scheduler == "window":
            named = _RULES_AS_SOLVERS if shares_nodes else {FIRST: "sequential"}
            solver: str | Solver = named.get(allocator, allocator)
            solver = solver if shares_nodes else _solver(str(solver))
            return WindowScheduler(solver=solver, time_limit=time_limit, iterations=iterations, seed=self.seed), None
        if shares_nodes:
            return as_scheduler(scheduler), allocation_named(allocator, self.limits)
        if allocator == FIRST:
            return as_scheduler(scheduler), DepthFirst()
        solver = _solver(allocator)
        widest = [strategy for strategy in Strategy if strategy in solver.capabilities.strategies][-1]
        places = TopologyAllocator(self.topology, solver, widest.value, time_limit, iterations, seed=self.seed)
        return as_scheduler(scheduler), places


def _solver(name: str) -> Solver:
    solver = get_solver(name)
    if not solver.capabilities.strategies:
        raise UsageError(f"allocator {name!r} cannot allocate windows of whole nodes")
    return solver
