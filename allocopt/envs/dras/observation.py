"""Observations of two-level scheduling: the paper's state, or some numbers per slot, the same on every machine."""

import numpy as np
from numba import float32, void

from allocopt.arrays import BoolArray, Float32Array, IntArray
from allocopt.envs.dras.dynamics import LAYOUT, SECOND, Episode, is_legal
from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.kernels.queue import queued
from allocopt.simulator.state import CAPACITY, FREE, RUNNING, State

MEANINGS = {
    "size": "size / machine",
    "log_size": "log(1 + size) / log(1 + machine)",
    "size_over_free": "size / (size + idle)",
    "log_estimate": "L(estimate)",
    "log_wait": "L(wait)",
    "wait_over_response": "wait / (wait + estimate)",
    "wait_over_longest": "wait / longest wait in the queue",
    "rank": "place in the window / `window`",
    "fits": "1 if the job fits now",
    "log_delay": "L(time until it does by the estimates)",
    "log_area": "L(size x estimate / machine)",
    "estimate_over_gap": "at level 2, estimate / (estimate + time to the reservation)",
    "within_spare": "at level 2, 1 if it could stay beyond the reservation",
    "level": "1 at level 2; from here on the same in all slots",
    "free": "idle / machine",
    "log_gap": "at level 2, L(time to the reservation)",
    "spare": "at level 2, what is spare at the reservation / machine",
    "log_half": "L(time until half of the machine is idle)",
    "log_all": "L(time until all of it is)",
    "queue": "waiting jobs / (waiting jobs + `window`)",
    "log_load": "L(sum of size x estimate in the queue / machine)",
}
"""Numbers that describe a slot, in their order; ``L(t) = min(2, log2(1 + t / 60 s) / 10)``."""
FEATURES = tuple(MEANINGS)
N_FEATURES = len(FEATURES)

DAY_S, MINUTE_S = 86_400.0, 60.0
LOG_UNIT = 10.0  # doublings of a minute that count as 1: some 17 hours
MOST, MOST_DAYS = 2.0, 1_000.0  # no feature is larger, and no number of the paper's state, in days
LOG_SIZE, LOG_ESTIMATE = range(2)  # columns of the traits of jobs


@inlined
def _log_time(seconds: float) -> float:
    return float(min(np.log2(1.0 + max(seconds, 0.0) / MINUTE_S) / LOG_UNIT, MOST))


@inlined
def _days(seconds: float) -> float:
    return float(min(max(seconds, 0.0) / DAY_S, MOST_DAYS))


@inlined
def _delay(state: State, ladder: IntArray, size: int) -> float:
    clock = state.clock[0]
    if size <= state.units[FREE, 0]:
        return 0.0
    # The ladder rises, so that the first step of enough processors is found by bisection.
    first, end = 0, clock.n_running - 1
    while first < end:
        middle = (first + end) // 2
        if ladder[middle] < size:
            first = middle + 1
        else:
            end = middle
    return float(max(state.jobs[state.lists[RUNNING, first]].expected_end - clock.now, 0.0))


@inlined
def _mark_legal(episode: Episode, legal: BoolArray) -> None:
    # Of the slots and, if there is one action more, of ending the instance.
    window = episode.slots.size
    for slot in range(window):
        legal[slot] = is_legal(episode, slot)
    if legal.size > window:
        legal[window] = episode.instance[0].n_slots > 0 and episode.state.clock[0].n_running > 0
    if episode.tally[0].over:
        legal[0] = True


@kernel(void(LAYOUT.episode, float32[:, ::1]))
def describe_slots(episode: Episode, observation: Float32Array) -> None:
    """Write the features of every slot, see `MEANINGS`; 0 where nobody stands in it."""
    state, instance = episode.state, episode.instance[0]
    clock, machine, free = state.clock[0], state.units[CAPACITY, 0], state.units[FREE, 0]
    observation[instance.n_slots :] = 0.0
    if instance.n_slots == 0:
        return
    # Processors that are idle once each running job has ended, in the order of the expected ends: a search in this
    # ladder is all that a delay needs, of each slot and of half and all of the machine.
    units = free
    for i in range(clock.n_running):
        units += state.request[state.lists[RUNNING, i], 0]
        episode.ladder[i] = units
    # What is the same in all slots is computed once, for the queue may be long.
    area = 0.0
    for at in range(clock.n_queued):
        job = queued(state, at)
        area += state.request[job, 0] * state.jobs[job].estimate
    window = observation.shape[0]
    longest = clock.now - state.jobs[queued(state, 0)].release
    second = instance.level == SECOND
    gap = max(instance.shadow - clock.now, 0.0) if second else 0.0
    spare = instance.spare if second else 0
    log_gap = _log_time(gap)
    log_half = _log_time(_delay(state, episode.ladder, (machine + 1) // 2))
    log_all = _log_time(_delay(state, episode.ladder, machine))
    queue, log_load = clock.n_queued / (clock.n_queued + window), _log_time(area / machine)
    for slot in range(instance.n_slots):
        job = queued(state, episode.slots[slot])
        size, record, row = state.request[job, 0], state.jobs[job], observation[slot]
        wait, estimate = clock.now - record.release, record.estimate
        row[0] = size / machine
        row[1] = episode.traits[job, LOG_SIZE]
        row[2] = size / (size + free)
        row[3] = episode.traits[job, LOG_ESTIMATE]
        row[4] = _log_time(wait)
        row[5] = wait / (wait + estimate)
        row[6] = wait / longest if longest > 0.0 else 0.0
        row[7] = slot / window
        row[8] = 1.0 if size <= free else 0.0
        row[9] = 0.0 if size <= free else _log_time(_delay(state, episode.ladder, size))
        row[10] = _log_time(size * estimate / machine)
        row[11] = estimate / (estimate + gap) if second else 0.0
        row[12] = 1.0 if second and size <= spare else 0.0
        row[13] = 1.0 if second else 0.0
        row[14] = free / machine
        row[15] = log_gap
        row[16] = spare / machine
        row[17] = log_half
        row[18] = log_all
        row[19] = queue
        row[20] = log_load


@kernel(void(LAYOUT.episode, float32[:, ::1]))
def describe_state(episode: Episode, observation: Float32Array) -> None:
    """Write the paper's state, shape ``(2 W + N, 2)`` for a machine of N nodes (section 3.1).

    Rows 2 w and 2 w + 1 are the job in slot w: (size / N, estimate), (priority, which is 0, wait); zeros where nobody
    stands in it. Then a row per node: (1, 0) if it is idle, else (0, time until it is by the estimates); idle nodes
    first, then the others by that time. Times are in days.
    """
    state = episode.state
    clock, machine, free = state.clock[0], state.units[CAPACITY, 0], state.units[FREE, 0]
    row = 2 * episode.slots.size
    observation[:row] = 0.0
    for slot in range(episode.instance[0].n_slots):
        job = queued(state, episode.slots[slot])
        observation[2 * slot, 0] = state.request[job, 0] / machine
        observation[2 * slot, 1] = _days(state.jobs[job].estimate)
        observation[2 * slot + 1, 1] = _days(clock.now - state.jobs[job].release)
    # Nodes are alike: idle ones first, then those of each running job, in the order of the expected ends.
    for _ in range(free):
        observation[row, 0], observation[row, 1] = 1.0, 0.0
        row += 1
    for i in range(clock.n_running):
        job = state.lists[RUNNING, i]
        left = _days(state.jobs[job].expected_end - clock.now)
        for _ in range(state.request[job, 0]):
            observation[row, 0], observation[row, 1] = 0.0, left
            row += 1


describe_slots_all = LAYOUT.describe_kernel(_mark_legal, describe_slots, 2)
describe_state_all = LAYOUT.describe_kernel(_mark_legal, describe_state, 2)
