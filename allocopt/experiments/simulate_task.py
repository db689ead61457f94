"""Cells that simulate a trace."""

import json
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Generic, TypeVar

from allocopt.cluster.multicore import Machine
from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.experiments.cells import Row, Task
from allocopt.report.rows import SimulateRow
from allocopt.simulator.metrics import measure
from allocopt.simulator.multicore.policies import Action, get_action
from allocopt.simulator.multicore.state import Execution
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.registry import AnyScheduler, backfilled, get_policy
from allocopt.simulator.rules import Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import WithExecution
from allocopt.simulator.simulate import as_scheduler, simulate
from allocopt.simulator.window import TopologyAllocator, WindowScheduler
from allocopt.solving.registry import get_solver
from allocopt.traces.executables import Executables, profiled_jobs
from allocopt.traces.tasks import TaskWorkload
from allocopt.traces.workload import Workload

DONE = "done"
"""Status of a simulation that came to its end."""


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """What is simulated: jobs on processors or nodes, some of which may share cores.

    Parameters
    ----------
    rules
        How events are taken.
    kill_at_limit
        Whether jobs are killed; None for where they do not share cores.
    executables
        What jobs ask for that share cores; None for what their scheduler takes them for.
    """

    workload: Workload
    platform: Platform
    rules: Rules
    kill_at_limit: bool | None
    executables: Executables | None


@dataclass(frozen=True, slots=True, eq=False)
class TaskReplay:
    """What is simulated on a multicore machine."""

    workload: TaskWorkload
    platform: Machine
    execution: Execution


R = TypeVar("R", Replay, TaskReplay)


@dataclass(frozen=True, slots=True)
class SimulationTask(Task, Generic[R]):
    """A policy on a trace, with one seed; ``R`` is what is simulated.

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

    @abstractmethod
    def check(self, given: R) -> None:
        """Make everything that the simulation takes.

        Raises
        ------
        UsageError
            If there is no policy or solver of a name, or they do not go with each other or with the machine.
        InvalidProblemError
            If jobs are to share cores, and there is no profile of what one of them runs.
        """


@dataclass(frozen=True, slots=True)
class SimulateTask(SimulationTask[Replay]):
    """A policy on a trace of a cluster."""

    columns: ClassVar[Sequence[str]] = (
        *("trace", "policy", "backfill", "allocator", "strategy", "status"),
        *(field.name for field in fields(SimulateRow)),
        *("seed", "options", "backfill_order", "time_limit_s", "iterations", "error"),
    )

    def run(self, given: Replay) -> Row:
        """Simulate the trace and measure the schedule."""
        scheduler, allocator = self.scheduler(), self.allocator_on(given.platform)
        kills = not isinstance(scheduler, WithExecution) if given.kill_at_limit is None else given.kill_at_limit
        rules = replace(given.rules, kill_at_limit=kills)
        execution = _sharing(scheduler, given) if isinstance(scheduler, QuotaScheduler) else None
        started = time.perf_counter()
        schedule = simulate(
            given.workload, given.platform, scheduler, rules, self.seed, allocator=allocator, execution=execution
        )
        return _row(schedule, started)

    def check(self, given: Replay) -> None:
        """Make scheduler, allocator and profiles; see `SimulationTask.check`."""
        scheduler, _ = self.scheduler(), self.allocator_on(given.platform)
        if isinstance(scheduler, QuotaScheduler):
            _sharing(scheduler, given)

    def scheduler(self) -> AnyScheduler:
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


@dataclass(frozen=True, slots=True)
class SimulateOnCoresTask(SimulationTask[TaskReplay]):
    """A policy on a trace of tasks and a multicore machine."""

    columns: ClassVar[Sequence[str]] = (*SimulateTask.columns, "energy_j")

    def run(self, given: TaskReplay) -> Row:
        """Simulate the trace, and measure the schedule and its energy."""
        started = time.perf_counter()
        made = simulate(given.workload, given.platform, self._policy(), seed=self.seed, execution=given.execution)
        return {**_row(made, started), "energy_j": made.energy_j}

    def check(self, given: TaskReplay) -> None:
        """Make the policy; see `SimulationTask.check`."""
        self._policy()

    def _policy(self) -> Action:
        asked = {"backfill": self.backfill, "backfill_order": self.backfill_order, "allocator": self.allocator}
        for name, value in asked.items():
            if value is not None:
                raise UsageError(f"{name} does not go with a multicore platform")
        if json.loads(self.options):
            raise UsageError(f"policy {self.policy!r} has no options")
        return get_action(self.policy)


def _row(schedule: Schedule, started: float) -> Row:
    runtime_s = time.perf_counter() - started
    return {"status": DONE, **SimulateRow.of(schedule, measure(schedule), runtime_s).as_dict()}


def _sharing(scheduler: QuotaScheduler, given: Replay) -> QuotaExecution:
    if given.platform.has_nodes:
        raise UsageError(f"policy {scheduler.name!r} lets jobs share cores of a pool: it takes no fat_tree or topology")
    if given.executables is None:
        return scheduler.execution(given.workload)
    return QuotaExecution(profiled_jobs(given.workload, given.executables))
