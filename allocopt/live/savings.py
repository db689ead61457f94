"""What an order is expected to save: how long the waiting jobs still wait in it, and in Slurm's."""

from typing import NamedTuple

import numpy as np

from allocopt.live.order import LiveOrder
from allocopt.live.plan import EASY, Queue, present
from allocopt.live.slurm import Look, SlurmJob
from allocopt.simulator.shared.present import waits_without_arrivals
from allocopt.simulator.shared.state import SharedMachine

MOST_JOBS = 2000
"""Waiting jobs, the first ones in Slurm's order, that are simulated: some tenths of a second."""


class Savings(NamedTuple):
    """Mean of how long jobs still wait in seconds, in Slurm's order and in another one."""

    jobs: int
    slurm_s: float
    ordered_s: float


def expected_savings(look: Look, queue: Queue, ordered: Queue, order: LiveOrder) -> Savings | None:
    """Return what an order is expected to save for the jobs that wait now; None if fewer than two of them start.

    The cluster is simulated until all of them have started, under EASY backfilling by their limits. Jobs run as long as
    their users' last jobs let expect, at most for their limits. No job joins them, so this tells of this queue alone.

    Parameters
    ----------
    look
        The cluster now.
    queue, ordered
        The same waiting jobs, in Slurm's order and in the other one.
    order
        What was seen of the users' jobs.
    """

    def end_s(job: SlurmJob) -> float:
        predicted = job.start_s + order.run_s(job)
        # It has run for longer than that.
        return predicted if predicted > look.now_s else job.end_s

    machine, running = SharedMachine.of(look.cluster).without_tiers(), present(look, end_s).running
    counted = {job.id for job in queue.jobs[:MOST_JOBS]}
    waits = []
    for one in (queue, ordered):
        of = one.taken([at for at, job in enumerate(one.jobs) if job.id in counted])
        run = np.array([order.run_s(job) for job in of.jobs])
        limits = np.array(of.limits_s)
        found = waits_without_arrivals(machine, running, of.requests, run, limits, EASY, look.now_s)
        waits.append(found[~np.isnan(found)])
    if min(map(len, waits)) < 2 or len(waits[0]) != len(waits[1]):
        return None
    return Savings(len(waits[0]), float(waits[0].mean()), float(waits[1].mean()))
