"""Simulates jobs that share allocations by quotas."""

from collections.abc import Sequence

from allocopt.problems.coallocation.interference import Interference, Sharing
from allocopt.simulator.quota.decisions import QuotaScheduler
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.schedule import QuotaSchedule
from allocopt.simulator.simulate import simulate
from allocopt.traces.asax_queue import QueuedJob, queue_workload


def simulate_quotas(
    jobs: Sequence[QueuedJob],
    cores: int,
    scheduler: QuotaScheduler,
    seed: int = 0,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference | None = None,
) -> QuotaSchedule:
    """Simulate a queue to its end.

    A guest whose host has ended owns as many of the cores as it asked for, and the others become free; a host whose
    guest has ended has all its cores again. Jobs are not killed at their limits (ASAX paper, section 5).

    Parameters
    ----------
    jobs
        The jobs.
    cores
        Cores of the cluster.
    scheduler
        Who decides.
    seed
        Fixes every random choice of the scheduler.
    sharing, interference
        How jobs that share slow each other down.

    Returns
    -------
    QuotaSchedule
        What happened, the jobs by submission.

    Raises
    ------
    InvalidProblemError
        If a job asks for more cores than there are.
    SchedulerError
        If the scheduler decides what cannot be, or nothing any more.
    """
    queue = tuple(sorted(jobs, key=lambda one: one.submit_s))
    execution = QuotaExecution(queue, sharing, interference, scheduler.period_s)
    done = simulate(queue_workload(queue), cores, scheduler, seed=seed, execution=execution)
    return QuotaSchedule(queue, cores, done.start, done.end, execution.accounts)
