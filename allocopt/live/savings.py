"""Expected savings of a queue order: how long the waiting jobs still wait in it, and in Slurm's order."""

import math
from typing import NamedTuple

import numpy as np

from allocopt.live.order import LiveOrder
from allocopt.live.plan import EASY, Queue, present
from allocopt.live.slurm import Look, SlurmJob
from allocopt.simulator.shared.present import waits_without_arrivals
from allocopt.simulator.shared.state import SharedMachine

MOST_JOBS = 2000
"""Largest number of waiting jobs that are simulated, the first in Slurm's order; this takes some tenths of a second."""


class Savings(NamedTuple):
    """Mean remaining wait of jobs in seconds, in Slurm's order and in another one."""

    jobs: int
    slurm_s: float
    ordered_s: float


def expected_savings(look: Look, queue: Queue, ordered: Queue, order: LiveOrder) -> Savings | None:
    """Return the expected mean waits of the waiting jobs in both orders; None if fewer than two jobs start in both.

    The cluster is simulated until all of them have started, under EASY backfilling by their limits. Run times are
    predicted from the users' last jobs, and are at most the limits. Jobs that are submitted later are ignored.

    Parameters
    ----------
    look
        The cluster now.
    queue, ordered
        The same waiting jobs, in Slurm's order and in the other one.
    order
        Predicts run times.
    """

    def end_s(job: SlurmJob) -> float:
        predicted = job.start_s + order.run_s(job)
        # A job that has run for longer than predicted is expected to use its whole limit.
        return predicted if predicted > look.now_s else job.end_s

    machine, running = SharedMachine.of(look.cluster).without_tiers(), present(look, end_s).running
    counted = {job.id for job in queue.jobs[:MOST_JOBS]}
    waits: list[dict[str, float]] = []
    for one in (queue, ordered):
        some = one.taken([at for at, job in enumerate(one.jobs) if job.id in counted])
        run = np.array([order.run_s(job) for job in some.jobs])
        limits = np.array(some.limits_s)
        found = waits_without_arrivals(machine, running, some.requests, run, limits, EASY, look.now_s).tolist()
        # A job that a reservation keeps from every node never starts.
        waits.append({job.id: wait for job, wait in zip(some.jobs, found, strict=True) if not math.isnan(wait)})
    both = waits[0].keys() & waits[1].keys()
    if len(both) < 2:
        return None
    means = (float(np.mean([of[job] for job in sorted(both)])) for of in waits)
    return Savings(len(both), *means)
