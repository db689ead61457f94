"""Cells that simulate a trace."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.report.simulate_row import SimulateRow
from allocopt.simulator.metrics import measure
from allocopt.simulator.named import backfilled
from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.topology_allocator import TopologyAllocator
from allocopt.simulator.window import WindowScheduler
from allocopt.solving.registry import get_solver
from allocopt.traces.workload import Workload

DONE = "done"
"""Status of a simulation that came to its end."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What is simulated.

    Parameters
    ----------
    workload
        The jobs.
    platform
        The machine.
    rules
        How events are taken and whether jobs are killed.
    """

    workload: Workload
    platform: Platform
    rules: Rules


@dataclass(frozen=True, slots=True)
class SimulateTask:
    """A policy on a trace, with one seed.

    Parameters
    ----------
    trace
        Name of the trace.
    policy, options
        Name of the policy, and its options as JSON.
    backfill, backfill_order
        For a queue order the kind of backfilling, and the order in which jobs are tried for it; None otherwise.
    allocator, strategy
        Solver that places the jobs, and its strategy; None for the first idle nodes.
    seed
        The seed.
    time_limit_s, iterations
        What the allocator may spend on jobs that start together.
    """

    columns: ClassVar[Sequence[str]] = (
        *("trace", "policy", "backfill", "allocator", "strategy", "status"),
        *(field.name for field in fields(SimulateRow)),
        *("seed", "options", "backfill_order", "time_limit_s", "iterations", "error"),
    )

    trace: str
    policy: str
    options: str
    backfill: str | None
    backfill_order: str | None
    allocator: str | None
    strategy: str | None
    seed: int
    time_limit_s: float | None
    iterations: int | None

    @property
    def deadline_s(self) -> None:
        """None: how long a simulation takes is not known."""

    def asked(self) -> dict[str, Any]:
        """Return what is asked for, by column."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def run(self, given: Replay) -> dict[str, Any]:
        """Simulate the trace and measure the schedule."""
        scheduler, allocator = self.scheduler(), self.allocator_on(given.platform)
        started = time.perf_counter()
        schedule = simulate(given.workload, given.platform, scheduler, given.rules, self.seed, allocator=allocator)
        runtime_s = time.perf_counter() - started
        return {"status": DONE, **SimulateRow.of(schedule, measure(schedule), runtime_s).as_dict()}

    def scheduler(self) -> ListScheduler | Scheduler:
        """Make the scheduler.

        Raises
        ------
        UsageError
            If there is none of that name, or backfilling does not go with it.
        """
        found = get_policy(self.policy, json.loads(self.options))
        scheduler = as_scheduler(backfilled(self.policy, found, self.backfill, self.backfill_order))
        if isinstance(scheduler, WindowScheduler) and self.allocator is not None:
            raise UsageError("policy 'window' allocates by itself: give it options = {solver = ..., strategy = ...}")
        return scheduler

    def allocator_on(self, platform: Platform) -> TopologyAllocator | None:
        """Make the allocator for a machine; None where none is asked for.

        Raises
        ------
        UsageError
            If there is no such solver, or nothing is known of how the nodes are connected.
        """
        if self.allocator is None:
            if self.strategy is not None:
                raise UsageError("strategy is that of an allocator, which is not given")
            return None
        if platform.topology is None:
            raise UsageError("an allocator needs to know how the nodes are connected: give fat_tree or topology")
        solver, strategy = get_solver(self.allocator), self.strategy or "free"
        if strategy not in solver.capabilities.strategies:
            raise UsageError(f"allocator {self.allocator!r} does not take {strategy}")
        return TopologyAllocator(
            platform.topology, solver, strategy, self.time_limit_s, self.iterations, seed=self.seed
        )
