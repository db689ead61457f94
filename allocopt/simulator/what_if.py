"""What if another allocator or scheduler had been there: one workload on one machine under every combination."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import Topology
from allocopt.errors import UsageError
from allocopt.kernels.ready import make_ready
from allocopt.problems.base import Strategy
from allocopt.simulator.described import Described
from allocopt.simulator.execution import HopSlowdown
from allocopt.simulator.metrics import Metrics, measure
from allocopt.simulator.placement import DepthFirst
from allocopt.simulator.recorded import RECORDED, Record
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import AnyScheduler
from allocopt.simulator.shared.kernel import simulate_shared
from allocopt.simulator.shared.simulation import allocation_named, listed
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver
from allocopt.traces.workload import Workload

FIRST = "first"  # name of the allocator that gives every job the first idle nodes


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Schedule and metrics of one combination, the seconds that its simulation took, and sentences on it."""

    allocator: str
    scheduler: str
    schedule: Schedule
    metrics: Metrics
    runtime_s: float
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Runs a workload under combinations of allocators and schedulers.

    Parameters
    ----------
    workload
        The jobs; on a topology in whole nodes.
    machine
        How whole nodes are connected, or nodes that jobs may share.
    limits
        What jobs that start together may cost an allocator.
    hop_slowdown
        How far jobs are slowed down by hops (`HopSlowdown`); 0 for not at all, so that allocators change no times.
    record
        What the site did itself, where the trace tells.
    described
        What is known of the jobs beside that, of which groups are made.
    by
        Names of the groupings by which jobs are measured, see `allocopt.simulator.groups`.
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

    @property
    def topology(self) -> Topology:
        """How the nodes are connected."""
        return self.machine.topology.tree if isinstance(self.machine, Cluster) else self.machine

    def check(self, allocators: Sequence[str], schedulers: Sequence[str]) -> None:
        """Raise `UsageError` if there is no allocator or scheduler of a name, or it does not take the problem."""
        for scheduler, name in product(schedulers, allocators):
            self._parts(name, scheduler)

    def outcomes(self, allocators: Sequence[str], schedulers: Sequence[str]) -> Iterator[Outcome]:
        """Yield the outcome of every combination, one scheduler after the other; names as `check` takes them.

        Allocators are topology solvers or ``first``, on a cluster those of `allocation_named`; schedulers as
        `as_scheduler` takes them, or ``window``: then the allocator allocates every period's window.
        """
        # All names are tried before the first simulation.
        runs = [(name, scheduler, *self._parts(name, scheduler)) for scheduler, name in product(schedulers, allocators)]
        slows = HopSlowdown(self.topology, self.hop_slowdown) if self.hop_slowdown else None
        if isinstance(self.machine, Cluster):
            # Compiling is no part of the first one's time.
            make_ready((simulate_shared,))
        for name, scheduler, chosen, places in runs:
            started = time.perf_counter()
            how = chosen, self.rules, self.seed
            if isinstance(self.machine, Cluster):
                schedule: Schedule = simulate(self.workload, self.machine, *how, allocator=places)
            else:
                platform = Platform.whole_nodes(self.machine)
                schedule = simulate(self.workload, platform, *how, allocator=places, execution=slows)
            yield Outcome(name, scheduler, schedule, measure(schedule), time.perf_counter() - started)

    def recorded(self) -> Outcome:
        """Return the outcome of the record, which is there."""
        assert self.record is not None
        started = time.perf_counter()
        schedule, remarks = self.record.schedule, self.record.remarks()
        return Outcome(RECORDED, RECORDED, schedule, measure(schedule), time.perf_counter() - started, remarks)

    def _parts(self, allocator: str, scheduler: str) -> tuple[AnyScheduler, Any]:
        time_limit, iterations = self.limits.seconds, self.limits.iterations
        if isinstance(self.machine, Cluster):
            if self.hop_slowdown:
                raise UsageError("hops do not slow jobs down where these share nodes, on blocks or on a forest")
            return listed(as_scheduler(scheduler)), allocation_named(allocator, self.limits)
        if scheduler == "window":
            solver = _solver("sequential" if allocator == FIRST else allocator)
            return WindowScheduler(solver=solver, time_limit=time_limit, iterations=iterations, seed=self.seed), None
        if allocator == FIRST:
            return as_scheduler(scheduler), DepthFirst()
        solver = _solver(allocator)
        widest = [strategy for strategy in Strategy if strategy in solver.capabilities.strategies][-1]
        places = TopologyAllocator(self.topology, solver, widest.value, time_limit, iterations, seed=self.seed)
        return as_scheduler(scheduler), places


def _solver(name: str) -> Solver:
    solver = get_solver(name)
    if not solver.capabilities.strategies:
        raise UsageError(f"allocator {name!r} takes no topology problems")
    return solver
