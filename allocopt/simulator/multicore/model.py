"""Memory contention as an execution model: for schedulers and allocators of any kind, on the machine's nodes."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from allocopt.cluster.multicore import Machine, Processor
from allocopt.errors import UsageError
from allocopt.simulator.execution import Change
from allocopt.simulator.multicore.rates import speed_factor
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.placement import Placement
from allocopt.traces.tasks import TaskWorkload


class SharedMemory:
    """Jobs go at the pace of the slowest of their tasks, each of which is slowed down by those beside it.

    It goes with ``simulate(jobs.workload_at(reference), machine.platform(), ...)``. Unlike in
    ``simulate(jobs, machine, ...)`` the tasks of a job end together. They take the first idle cores of each of its
    nodes.

    Parameters
    ----------
    machine
        The machine.
    jobs
        The jobs.
    reference
        Speed in billions of operations per second of the core to which the workload's run times belong.
    execution
        How jobs run; None for contention.

    Raises
    ------
    UsageError
        If the reference speed is not positive.
    """

    name = "contention"

    def __init__(
        self, machine: Machine, jobs: TaskWorkload, reference: float, execution: Execution | None = None
    ) -> None:
        if not 0 < reference < np.inf:
            raise UsageError(f"the reference speed is {reference:g}, must be a positive number")
        self._execution = execution or Execution()
        self._reference = reference
        self._intensity = jobs.volume_mb / jobs.work
        self._kinds = list(machine.processors())
        counts = [len(node.processors) for node in machine.nodes()]
        ends = np.cumsum(counts).tolist()
        self._of_node = [range(end - count, end) for end, count in zip(ends, counts, strict=True)]
        self._placement: Placement | None = None
        self._tasks: list[dict[int, int]] = []
        self._where: dict[int, list[int]] = {}
        self._paces: dict[int, dict[int, float]] = {}

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs beside which another one has started or ended, and their speeds."""
        if change.placement is None:
            raise UsageError("memory contention needs a platform with nodes: machine.platform()")
        if change.placement is not self._placement:
            self._begin(change.placement)
        touched = {processor for job in change.ended.tolist() for processor in self._leave(job)}
        touched |= {processor for job in change.started.tolist() for processor in self._enter(job, change.placement)}
        affected = {job for processor in touched for job in self._set_paces(processor)}
        return [(job, min(self._paces[job].values()) / self._reference) for job in sorted(affected)]

    def _begin(self, placement: Placement) -> None:
        self._placement = placement
        self._tasks = [defaultdict(int) for _ in self._kinds]
        self._where, self._paces = {}, {}

    def _leave(self, job: int) -> list[int]:
        del self._paces[job]
        for processor in self._where[job]:
            del self._tasks[processor][job]
        return self._where.pop(job)

    def _enter(self, job: int, placement: Placement) -> list[int]:
        share = placement.shares[job]
        assert share is not None, "a job that runs holds something"
        self._where[job], self._paces[job] = [], {}
        for node, cores in zip(share.nodes.tolist(), share.units[:, 0].tolist(), strict=True):
            missing = cores
            for processor in self._of_node[node]:
                tasks = self._tasks[processor]
                taken = min(missing, self._kinds[processor].cores - sum(tasks.values()))
                missing -= taken
                if taken:
                    tasks[job] = taken
                    self._where[job].append(processor)
        return self._where[job]

    def _set_paces(self, processor: int) -> list[int]:
        """Set the speeds of the tasks of a processor, and return their jobs."""
        kind, tasks = self._kinds[processor], self._tasks[processor]
        rates = {job: float(self._intensity[job]) * kind.core_speed for job in tasks}
        total, count = sum(rates[job] * number for job, number in tasks.items()), sum(tasks.values())
        for job, rate in rates.items():
            self._paces[job][processor] = kind.core_speed * self._factor(kind, rate, total - rate, count - 1)
        return list(tasks)

    def _factor(self, kind: Processor, rate: float, others_rate: float, others: int) -> float:
        if kind.contention is None or self._execution.kind is ExecutionKind.BASELINE:
            return 1.0
        return float(speed_factor(rate, others_rate, others, kind.contention, self._execution.sharing))
