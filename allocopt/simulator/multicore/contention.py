"""Speed of tasks that share memory channels (IRMaSim, Eq. 2 to 4), as a function and as an execution model."""

from collections.abc import Iterable

import numpy as np
from numba import float64, void
from numpy.typing import ArrayLike

from allocopt.arrays import FloatArray
from allocopt.cluster.multicore import ContentionConstants, Machine
from allocopt.errors import UsageError
from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.execution import Change, Placed
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.traces.tasks import TaskWorkload


@inlined
def factor_of(
    rate: float,
    total: float,
    others: float,
    sharing: float,
    b: float,
    c: float,
    da: float,
    db: float,
    dc: float,
    dd: float,
) -> float:
    """Return the speed factor of a task (Eq. 2), between 1 / (1 + sharing x others) and 1."""
    if total <= c:
        return 1.0
    # Eq. 4: a smooth step of order five that falls from 1 at 0 to 0 at 1; the sign is corrected to make it a step. If
    # its width is not positive, because there are many other tasks, it is a sharp step.
    width, beyond = dc - others * dd, rate - (da - others) * db
    if beyond <= 0.0:
        step = 1.0
    elif width <= 0.0 or beyond >= width:
        step = 0.0
    else:
        x = beyond / width
        step = 1.0 - x * x * x * (x * (6.0 * x - 15.0) + 10.0)
    # Eq. 3: the lower bound of the factor.
    weight = sharing * others
    floor = (step * weight + 1.0) / (1.0 + weight)
    return float(max(floor, min(1.0, 1.0 + b * (total - c))))


@kernel(void(float64[:, ::1], float64[::1]))
def _fill_factors(tasks: FloatArray, factors: FloatArray) -> None:
    """Write the speed factors of tasks; each task has a column with the arguments of `factor_of`."""
    for i in range(factors.size):
        rate, total, others, sharing, b = tasks[0, i], tasks[1, i], tasks[2, i], tasks[3, i], tasks[4, i]
        c, da, db, dc, dd = tasks[5, i], tasks[6, i], tasks[7, i], tasks[8, i], tasks[9, i]
        factors[i] = factor_of(rate, total, others, sharing, b, c, da, db, dc, dd)


def speed_factor(
    rate: ArrayLike, others_rate: ArrayLike, others: ArrayLike, constants: ContentionConstants, sharing: float = 1.0
) -> FloatArray:
    """Return the speed factor S_m of tasks: 1 for a task that runs alone, less if memory channels are shared.

    ``rate`` is the rate, in MB/s, at which a task would access memory if it ran alone; ``others_rate`` is the sum for
    the other tasks on its processor. In the floor, the number of others is multiplied by ``sharing``, which is 1 in the
    paper and 0.6 in IRMaSim's later code.
    """
    own, k = np.asarray(rate, dtype=np.float64), constants
    given = np.broadcast_arrays(own, own + np.asarray(others_rate), others, sharing, k.b, k.c, k.da, k.db, k.dc, k.dd)
    factors = np.empty(given[0].size)
    _fill_factors(np.array([values.ravel() for values in given], dtype=np.float64), factors)
    return factors.reshape(given[0].shape)


class SharedMemory:
    """Jobs run at the speed of their slowest task; each task is slowed down by other tasks on its processor.

    Meant for ``simulate(jobs.workload_at(reference), machine.platform(), ...)``; ``reference`` is the core speed at
    which jobs take the workload's run times, in billions of operations per second. Unlike in
    ``simulate(jobs, machine, ...)``, the tasks of a job end together. They take the first idle cores of each of its
    nodes. Without ``execution``, jobs run under contention. Raises `UsageError` if the reference speed is not positive.
    """

    name = "contention"

    def __init__(
        self, machine: Machine, jobs: TaskWorkload, reference: float, execution: Execution | None = None
    ) -> None:
        if not 0 < reference < np.inf:
            raise UsageError(f"the reference speed is {reference:g}, must be a positive number")
        self._execution, self._reference = execution or Execution(), reference
        self._intensity = jobs.volume_mb / jobs.work
        self._kinds = list(machine.processors())
        counts = [len(node.processors) for node in machine.nodes()]
        ends = np.cumsum(counts).tolist()
        self._of_node = [range(end - count, end) for end, count in zip(ends, counts, strict=True)]
        self._placement: Placed | None = None
        # For each processor, the number of tasks of each job; for each job, its speed on each of its processors.
        self._tasks: list[dict[int, int]] = []
        self._paces: dict[int, dict[int, float]] = {}

    def speeds(self, change: Change) -> Iterable[tuple[int, float]]:
        """Return the jobs on whose processors a job has started or ended, and their speeds."""
        if change.placement is None:
            raise UsageError("memory contention needs a platform with nodes: machine.platform()")
        # A different placement object means a new simulation, which begins with an empty machine.
        if change.placement is not self._placement:
            self._placement, self._paces = change.placement, {}
            self._tasks = [{} for _ in self._kinds]
        touched: set[int] = set()
        for job in change.ended.tolist():
            for processor in self._paces.pop(job):
                del self._tasks[processor][job]
                touched.add(processor)
        for job in change.started.tolist():
            touched.update(self._enter(job, change.placement))
        affected: set[int] = set()
        for processor in touched:
            kind, tasks = self._kinds[processor], self._tasks[processor]
            rates = {job: float(self._intensity[job]) * kind.core_speed for job in tasks}
            total, count = sum(rates[job] * number for job, number in tasks.items()), sum(tasks.values())
            constants = None if self._execution.kind is ExecutionKind.BASELINE else kind.contention
            for job, rate in rates.items():
                factor = 1.0
                if constants is not None:
                    factor = float(speed_factor(rate, total - rate, count - 1, constants, self._execution.sharing))
                self._paces[job][processor] = kind.core_speed * factor
            affected |= tasks.keys()
        return [(job, min(self._paces[job].values()) / self._reference) for job in sorted(affected)]

    def _enter(self, job: int, placement: Placed) -> Iterable[int]:
        share, self._paces[job] = placement.held_by(job), {}
        for node, cores in zip(share.nodes.tolist(), share.units[:, 0].tolist(), strict=True):
            missing = cores
            for processor in self._of_node[node]:
                tasks = self._tasks[processor]
                taken = min(missing, self._kinds[processor].cores - sum(tasks.values()))
                missing -= taken
                if taken:
                    tasks[job], self._paces[job][processor] = taken, 0.0
        return self._paces[job]
