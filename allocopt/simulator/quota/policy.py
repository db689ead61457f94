"""A scheduler of shared allocations as a scheduler of the simulator."""

from collections.abc import Iterator

import numpy as np

from allocopt.errors import UsageError
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.quota.decisions import QuotaScheduler
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.state import Allocation, QuotaView
from allocopt.simulator.scheduler import Decision
from allocopt.simulator.view import View
from allocopt.traces.executables import WORKFLOWS, profiled_jobs
from allocopt.traces.workload import Workload


def sharing_of(
    scheduler: QuotaScheduler, workload: Workload, execution: ExecutionModel | None, seed: int
) -> "tuple[QuotaPolicy, QuotaExecution]":
    """Return a scheduler of shared allocations as one of the simulator, and the execution model that it needs.

    Raises
    ------
    UsageError
        If another execution model is given.
    InvalidProblemError
        If none is given, and there is no profile of what a job runs.
    """
    if execution is None:
        execution = QuotaExecution(profiled_jobs(workload, WORKFLOWS), period_s=scheduler.period_s)
    if not isinstance(execution, QuotaExecution) or len(execution.jobs) != len(workload):
        raise UsageError(f"policy {scheduler.name!r} needs a QuotaExecution of the workload's {len(workload)} jobs")
    return QuotaPolicy(scheduler, execution, np.random.default_rng(seed)), execution


class QuotaPolicy:
    """Shows a scheduler the allocations besides the queue, and passes its decisions on.

    Parameters
    ----------
    scheduler
        Who decides.
    execution
        The execution model of the simulation, which follows the allocations.
    rng
        Source of randomness of the scheduler.
    """

    def __init__(self, scheduler: QuotaScheduler, execution: QuotaExecution, rng: np.random.Generator) -> None:
        self.name = scheduler.name
        self._scheduler = scheduler
        self._execution = execution
        self._rng = rng

    def schedule(self, view: View) -> Iterator[Decision]:
        """Say which allocations are over, then let the scheduler decide; see `Scheduler.schedule`.

        Jobs that should end together may do so a rounding error apart; the scheduler is called once they all have.
        """
        over = self._follow(view)
        shown = QuotaView(
            view.now,
            int(view.platform.total[0]),
            self._execution.jobs,
            view.queue.tolist(),
            self._execution.allocations,
            self._rng,
        )
        for allocation in over:
            self._scheduler.ended(shown, allocation)
        if self._execution.is_one_over():
            return
        for decision in self._scheduler.schedule(shown):
            yield decision
            self._follow(view)
            shown.queue[:] = view.queue.tolist()

    def _follow(self, view: View) -> list[Allocation]:
        """Let the model see who runs where; return the allocations that are over."""
        return self._execution.follow(view.now, view.running.tolist(), view.guests)
