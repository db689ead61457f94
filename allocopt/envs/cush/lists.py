"""Episodes that a list decides: the job of the queue with the lowest value starts first."""

import numpy as np
from numba import float64 as real
from numba import int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.batch import BATCH, NOBODY, Batch, Episode
from allocopt.envs.cush.kernels import act, begin, episode_of, may_start
from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.rules import Backfill

NONE, EASY = int(Backfill.NONE), int(Backfill.EASY)


@inlined
def precedes(values: FloatArray, job: int, other: int) -> bool:
    """Whether a job stands before another one in the list, which may be ``NOBODY``."""
    if other == NOBODY:
        return True
    return bool(values[job] < values[other] or (values[job] == values[other] and job < other))


@inlined
def first_of_list(episode: Episode, values: FloatArray, only_fitting: bool) -> int:
    """Slot of the first job of the list, or of those that fit; ``NOBODY`` where there is none."""
    best, lead = NOBODY, NOBODY
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job == NOBODY or (only_fitting and not may_start(episode, slot)):
            continue
        if precedes(values, job, lead):
            best, lead = slot, job
    return best


@inlined
def backfilled(episode: Episode, values: FloatArray, policies: IntArray, head: int) -> int:
    """Slot of the first job of the list that may start without delaying the job in the head's slot, or ``NOBODY``."""
    tally, request = episode.tally[0], episode.request
    waits, best, lead = episode.slots[head], NOBODY, NOBODY
    cpus, gpus, shadow, at = tally.free_cpus, tally.free_gpus, tally.now, 0
    # All that end together free their units together.
    while at < tally.running and (
        request[waits, 0] > cpus or request[waits, 1] > gpus or episode.end[episode.list[at]] == shadow
    ):
        ended = episode.list[at]
        cpus, gpus, shadow = cpus + request[ended, 0], gpus + request[ended, 1], episode.end[ended]
        at += 1
    cpus, gpus = cpus - request[waits, 0], gpus - request[waits, 1]
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job == NOBODY or slot == head or not may_start(episode, slot):
            continue
        in_time = tally.now + np.ceil(episode.service[job, policies[job]] - 1e-9) <= shadow
        beside = request[job, 0] <= cpus and request[job, 1] <= gpus
        if (in_time or beside) and precedes(values, job, lead):
            best, lead = slot, job
    return best


@kernel(void(BATCH, int64, int64, real[:, ::1], int64[::1], int64))
def follow_list(batch: Batch, number: int, jobset: int, values: FloatArray, policies: IntArray, backfill: int) -> None:
    """Run an episode by a list; see `Episodes.follow_list`."""
    begin(batch, number, jobset)
    episode = episode_of(batch, number)
    while not episode.tally[0].over:
        row = values[episode.tally[0].started % values.shape[0]]
        slot = first_of_list(episode, row, backfill != NONE and backfill != EASY)
        if slot != NOBODY and not may_start(episode, slot):
            slot = backfilled(episode, row, policies, slot) if backfill == EASY else NOBODY
        if slot == NOBODY:
            act(episode, episode.slots.size, 0)
        else:
            act(episode, slot, policies[episode.slots[slot]])
