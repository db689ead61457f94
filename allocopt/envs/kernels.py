"""The environments' hot loops: an episode begins, an action is carried out, and the waiting jobs are described."""

import numpy as np
from numba import int64, void

from allocopt.arrays import IntArray
from allocopt.envs.batch import (
    BATCH,
    MASKS,
    OBSERVATIONS,
    Batch,
    Goal,
    Masks,
    Observations,
    Tally,
)
from allocopt.envs.rewards import HOUR_S, RewardKind
from allocopt.kernels.compiled import helper, kernel
from allocopt.simulator.kernels.backfilling import backfill_queue, find_shadow, fits, is_overdue
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, insert, queued
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, QUEUE, STARTED, Records, State

EASY = int(Backfill.EASY)
WAIT, MAKESPAN, UTILIZATION = int(RewardKind.WAIT), int(RewardKind.MAKESPAN), int(RewardKind.UTILIZATION)


@helper()
def count_started(state: State, tally: Records[Tally]) -> None:
    """Add the jobs started since the last event to the tally."""
    clock, total = state.clock[0], tally[0]
    for i in range(clock.n_started):
        job = state.lists[STARTED, i]
        record = state.jobs[job]
        wait, run = record.start - record.release, min(record.run, record.limit)
        total.bounded_slowdown += max(1.0, (wait + run) / max(run, SLOWDOWN_BOUND_S))
        total.wait_s += wait
        total.area += run * state.request[job, 0]
        total.makespan_s = max(total.makespan_s, record.end)
    total.started += clock.n_started
    clock.n_started = 0


@helper()
def value(state: State, tally: Records[Tally], goals: Records[Goal]) -> float:
    """Say what the jobs started so far are worth; rewards are its changes."""
    total, goal = tally[0], goals[0]
    if goal.kind == WAIT:
        return -total.wait_s / (goal.unit_s * state.jobs.size)
    if goal.kind == MAKESPAN:
        return -total.makespan_s / goal.unit_s
    if goal.kind == UTILIZATION:
        return total.area / (total.makespan_s * float(state.units[CAPACITY, 0])) if total.makespan_s > 0 else 0.0
    return -total.bounded_slowdown / state.jobs.size


@helper()
def backfill(state: State) -> None:
    """Start the jobs that do not delay the head, as `allocopt.simulator.kernels.backfilling.list_pass` does.

    A new head finds no job examined, for the last one started at once or right after a job ended.
    """
    clock = state.clock[0]
    if clock.n_queued < 2:
        return
    if is_overdue(state):
        clock.examined = 0
    if clock.examined == 0:
        find_shadow(state, queued(state, 0))
    backfill_queue(state)
    clock.examined = clock.n_queued


@helper()
def serve(state: State, tally: Records[Tally], place: int) -> None:
    """Let the job at a place of the queue start before all others, except those that may be backfilled."""
    clock = state.clock[0]
    job = queued(state, place)
    insert(state.lists[QUEUE], clock.first, clock.first + place, job)
    while not fits(state, job, FREE):
        if state.rules[0].backfill == EASY:
            backfill(state)
        count_started(state, tally)
        advance(state, np.inf)
    dequeue(state, 0)
    start_job(state, job)
    count_started(state, tally)


@helper()
def await_job(state: State, tally: Records[Tally]) -> None:
    """Go on until a job waits, or all have started."""
    while state.clock[0].n_queued == 0 and tally[0].started < state.jobs.size:
        if advance(state, np.inf) != HAPPENED:
            break
    tally[0].over = tally[0].started == state.jobs.size


@helper()
def act(state: State, tally: Records[Tally], goals: Records[Goal], slot: int, window: int) -> None:
    """Serve the job in a slot of the window, the first one if nobody waits there, and go on to the next decision."""
    before = value(state, tally, goals)
    occupied = min(window, state.clock[0].n_queued)
    tally[0].invalid = slot >= occupied
    serve(state, tally, slot if slot < occupied else 0)
    await_job(state, tally)
    tally[0].reward = value(state, tally, goals) - before


@helper()
def describe(state: State, observation: Observations, mask: Masks) -> None:
    """Write the features of every slot and which of them are occupied.

    The features are, in their order: 1 for an occupied slot; wait over wait plus an hour; estimate over estimate plus
    an hour; processors asked for over all; 1 if they are idle; idle processors over all; waiting jobs over the jobs of
    the episode; wait over wait plus estimate. All are 0 in a slot that is not occupied.
    """
    clock = state.clock[0]
    machine = 1.0 / state.units[CAPACITY, 0]
    free = state.units[FREE, 0]
    free_share, queue_share = free * machine, clock.n_queued / state.jobs.size
    occupied = min(clock.n_queued, mask.size)
    for slot in range(occupied):
        job = queued(state, slot)
        record, size = state.jobs[job], state.request[job, 0]
        wait, estimate = clock.now - record.release, record.estimate
        mask[slot] = 1
        observation[slot, 0] = 1.0
        observation[slot, 1] = wait / (wait + HOUR_S)
        observation[slot, 2] = estimate / (estimate + HOUR_S)
        observation[slot, 3] = size * machine
        observation[slot, 4] = 1.0 if size <= free else 0.0
        observation[slot, 5] = free_share
        observation[slot, 6] = queue_share
        observation[slot, 7] = wait / (wait + estimate)
    for slot in range(occupied, mask.size):
        mask[slot] = 0
        for feature in range(observation.shape[1]):
            observation[slot, feature] = 0.0


@helper()
def copy_jobs(batch: Batch, episode: int, offset: int) -> None:
    """Take the jobs of an episode from the pool, the first submitted at 0; jobs outside it are not waited for."""
    jobs, n = batch.jobs[episode], batch.jobs.shape[1]
    for i in range(n):
        jobs[i] = batch.pool[offset + i]
        record = jobs[i]
        record.submit -= batch.pool[offset].submit
        record.preceding -= offset
        record.dependent = record.next_dependent = NOBODY
        if record.preceding < 0 or record.preceding >= n:
            record.preceding = NOBODY
    for i in range(n - 1, -1, -1):
        if jobs[i].preceding != NOBODY:
            before = jobs[jobs[i].preceding]
            jobs[i].next_dependent = before.dependent
            before.dependent = i


@helper()
def begin(batch: Batch, episode: int, offset: int) -> None:
    """Begin an episode with the job of the pool at an offset, before its first event."""
    total, clock = batch.tally[episode, 0], batch.clock[episode, 0]
    total.offset = offset
    total.over = total.invalid = total.started = 0
    total.bounded_slowdown = total.wait_s = total.area = total.makespan_s = total.reward = 0.0
    clock.now, clock.wake, clock.shadow = -np.inf, np.inf, 0.0
    clock.next_submission = clock.first = clock.examined = clock.ended_early = 0
    clock.n_queued = clock.n_events = clock.n_running = clock.n_started = clock.n_ended = 0
    batch.units[episode, FREE, 0] = batch.units[episode, CAPACITY, 0]
    batch.held[episode, 0, 0] = 0
    copy_jobs(batch, episode, offset)


@kernel(void(BATCH, int64[::1], int64[::1], OBSERVATIONS, MASKS))
def step_all(batch: Batch, slots: IntArray, offsets: IntArray, observations: Observations, masks: Masks) -> None:
    """Carry out an action in every episode, or begin a new one at an offset that is not negative."""
    for episode in range(slots.size):
        tally = batch.tally[episode]
        begins = offsets[episode] >= 0
        if begins:
            begin(batch, episode, offsets[episode])
        offset = tally[0].offset
        state = State(
            batch.clock[episode],
            batch.rules,
            batch.jobs[episode],
            batch.request[offset : offset + batch.jobs.shape[1]],
            batch.lists[episode],
            batch.units[episode],
            batch.held[episode],
            batch.steps,
            batch.unpromised,
            batch.least,
        )
        if begins:
            await_job(state, tally)
        else:
            act(state, tally, batch.goal, slots[episode], masks.shape[1])
        describe(state, observations[episode], masks[episode])
