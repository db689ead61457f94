"""Observations of batch scheduling: a few numbers per waiting job."""

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.batch_scheduling.dynamics import HOUR_S, Episode
from allocopt.kernels.compiled import helper
from allocopt.simulator.kernels.queue import queued
from allocopt.simulator.state import CAPACITY, FREE

MEANINGS = {
    "is_job": "1 where a job waits, else the whole row is 0",
    "wait": "wait / (wait + 1 h)",
    "estimate": "estimate / (estimate + 1 h)",
    "size": "processors asked for / processors of the machine",
    "fits": "1 if the job fits now",
    "free": "idle processors / processors of the machine",
    "queue": "waiting jobs, in the window or not / `n_jobs`",
    "wait_over_response": "wait / (wait + estimate)",
}
"""Numbers that describe a slot, in their order."""


@helper()
def describe(episode: Episode, observation: Float32Array, legal: BoolArray) -> None:
    """Write the features of every slot and which of them are occupied; where an episode is over, slot 0 is legal."""
    state = episode.state
    clock = state.clock[0]
    machine = 1.0 / state.units[CAPACITY, 0]
    free = state.units[FREE, 0]
    free_share, queue_share = free * machine, clock.n_queued / state.jobs.size
    occupied = min(clock.n_queued, legal.size)
    for slot in range(occupied):
        job = queued(state, slot)
        record, size = state.jobs[job], state.request[job, 0]
        wait, estimate = clock.now - record.release, record.estimate
        legal[slot] = True
        observation[slot, 0] = 1.0
        observation[slot, 1] = wait / (wait + HOUR_S)
        observation[slot, 2] = estimate / (estimate + HOUR_S)
        observation[slot, 3] = size * machine
        observation[slot, 4] = 1.0 if size <= free else 0.0
        observation[slot, 5] = free_share
        observation[slot, 6] = queue_share
        observation[slot, 7] = wait / (wait + estimate)
    legal[occupied:] = False
    observation[occupied:] = 0.0
    if episode.tally[0].over:
        legal[0] = True
