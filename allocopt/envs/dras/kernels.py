"""The hot loops of two-level scheduling: an instance opens, a job is chosen, time goes on to the next choice."""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.dras.batch import BATCH, MASK, MASKS, OBSERVATIONS, Batch, Episode, Observations
from allocopt.envs.dras.describe import describe_legal, describe_slots, describe_state, is_legal
from allocopt.envs.side_by_side import STAY
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import find_shadow, fits, keeps_shadow, take_spare
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, place_in_queue, queued
from allocopt.simulator.rules import Level, Mode, Reservations
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import CAPACITY, EXTRA, FREE, NOBODY, State

CLOSED, FIRST, SECOND = int(Level.CLOSED), int(Level.FIRST), int(Level.SECOND)
READY, RESERVED, BACKFILLED = int(Mode.READY), int(Mode.RESERVED), int(Mode.BACKFILLED)
KEPT, NO_RESERVATIONS = int(Reservations.KEPT), int(Reservations.NONE)


@inlined
def start(episode: Episode, place: int, mode: int) -> None:
    """Start the job at a place of the queue, and count it."""
    state, total = episode.state, episode.tally[0]
    job = queued(state, place)
    dequeue(state, place)
    start_job(state, job)
    record = state.jobs[job]
    wait, run = record.start - record.release, record.end - record.start
    total.bounded_slowdown += max(1.0, (wait + run) / max(run, SLOWDOWN_BOUND_S))
    total.makespan_s = max(total.makespan_s, record.end - state.jobs[0].submit)
    total.started += 1
    episode.modes[job] = mode
    if episode.instance[0].holder == job:
        episode.instance[0].holder = NOBODY


@inlined
def promise(episode: Episode, job: int) -> None:
    """Find when the job that has the reservation starts at the latest; what it was promised before still holds."""
    state = episode.state
    find_shadow(state, job)
    state.jobs[job].reserved = min(state.jobs[job].reserved, state.clock[0].shadow)


@inlined
def reserve(episode: Episode, job: int) -> None:
    """Give a job the reservation; another one that had it loses it."""
    holder = episode.instance[0].holder
    if holder != NOBODY and holder != job:
        episode.state.jobs[holder].reserved = np.inf
    episode.instance[0].holder = job
    promise(episode, job)
    episode.instance[0].level = SECOND


@inlined
def open_instance(episode: Episode) -> None:
    """Begin a scheduling instance: the job that has the reservation starts if it fits."""
    instance, state = episode.instance[0], episode.state
    episode.tally[0].instances += 1
    instance.level = FIRST
    holder = instance.holder
    if episode.terms[0].reservations != KEPT or holder == NOBODY:
        return
    if fits(state, holder, FREE):
        start(episode, place_in_queue(state, holder), RESERVED)
    else:
        promise(episode, holder)
        instance.level = SECOND


@inlined
def _fill_with_first(episode: Episode) -> bool:
    """Put the first waiting jobs into the window; return whether one of them may be chosen."""
    state, slots = episode.state, episode.slots
    filled = min(slots.size, state.clock[0].n_queued)
    legal = filled > 0 and episode.terms[0].reservations != NO_RESERVATIONS
    for slot in range(filled):
        slots[slot] = slot
        legal = legal or fits(state, queued(state, slot), FREE)
    episode.instance[0].n_slots = filled
    return legal


@inlined
def _fill_with_candidates(episode: Episode) -> bool:
    """Put the first waiting jobs that may be backfilled into the window; return whether there are any."""
    state, slots = episode.state, episode.slots
    filled = at = 0
    while filled < slots.size and at < state.clock[0].n_queued and state.units[FREE, 0] > 0:
        job = queued(state, at)
        if job != episode.instance[0].holder and keeps_shadow(state, job):
            slots[filled] = at
            filled += 1
        at += 1
    instance = episode.instance[0]
    instance.n_slots, instance.shadow, instance.spare = filled, state.clock[0].shadow, state.units[EXTRA, 0]
    return filled > 0


@inlined
def accrue(episode: Episode, before: float) -> None:
    """Count the time that has passed as wait of the jobs that were in the queue."""
    state, total = episode.state, episode.tally[0]
    clock = state.clock[0]
    squares = episode.terms[0].mean_square_wait != 0.0
    for at in range(clock.n_queued):
        release = state.jobs[queued(state, at)].release
        if release >= clock.now:
            break
        total.wait_s += clock.now - before
        if squares:
            total.square_wait += (clock.now - before) * (clock.now + before - 2.0 * release)
    if clock.n_queued > 0:
        total.longest_wait_s = max(total.longest_wait_s, clock.now - state.jobs[queued(state, 0)].release)


@helper()
def await_choice(episode: Episode) -> None:
    """Go on until a job is to be chosen, or all have started."""
    state, instance, total = episode.state, episode.instance[0], episode.tally[0]
    instance.n_slots = 0
    while total.started < state.jobs.size:
        if instance.level == FIRST and _fill_with_first(episode):
            return
        if instance.level == SECOND and _fill_with_candidates(episode):
            return
        before = state.clock[0].now
        if advance(state, np.inf) == HAPPENED:
            accrue(episode, before)
            open_instance(episode)
        elif state.clock[0].n_queued > 0:
            # The instance was ended with nothing running: nothing can happen before a job starts.
            instance.level = FIRST
        else:
            break
    instance.n_slots, instance.level = 0, CLOSED
    total.over = 1


@inlined
def gained(episode: Episode) -> float:
    """Say what the waits so far are worth; rewards are its changes."""
    terms, total, n = episode.terms[0], episode.tally[0], episode.state.jobs.size
    return -(
        terms.mean_wait * total.wait_s / (n * terms.unit_s)
        + terms.mean_square_wait * total.square_wait / (n * terms.unit_s * terms.unit_s)
        + terms.longest_wait * total.longest_wait_s / terms.unit_s
        + terms.bounded_slowdown * total.bounded_slowdown / n
    )


@inlined
def worth_of_job(episode: Episode, job: int) -> float:
    """Terms 1 and 2 of Eq. 1 for a job that is about to be chosen."""
    state, terms = episode.state, episode.terms[0]
    now = state.clock[0].now
    longest = now - state.jobs[queued(state, 0)].release
    share = (now - state.jobs[job].release) / longest if longest > 0.0 else 0.0
    return float(terms.oldest * share + terms.size * state.request[job, 0] / state.units[CAPACITY, 0])


@inlined
def worth_of_choice(episode: Episode, n_queued: int) -> float:
    """Term 3 of Eq. 1, and Eq. 2, after a choice among so many waiting jobs."""
    state, terms = episode.state, episode.terms[0]
    machine = state.units[CAPACITY, 0]
    worth = terms.used * (machine - state.units[FREE, 0]) / machine
    if terms.capacity != 0.0:
        total = 0.0
        for at in range(state.clock[0].n_queued):
            total -= terms.unit_s / state.jobs[queued(state, at)].estimate
        worth += terms.capacity * total / n_queued
    return float(worth)


@inlined
def _first_legal(episode: Episode) -> int:
    """First slot whose job may be chosen."""
    slot = 0
    while not is_legal(episode, slot):
        slot += 1
    return slot


@inlined
def choose(episode: Episode, slot: int) -> None:
    """Start or reserve the job in a slot."""
    state, instance = episode.state, episode.instance[0]
    place = episode.slots[slot]
    job = queued(state, place)
    if instance.level == SECOND:
        take_spare(state, job)
        start(episode, place, BACKFILLED)
    elif fits(state, job, FREE):
        start(episode, place, RESERVED if job == instance.holder else READY)
    else:
        reserve(episode, job)


@helper()
def take(episode: Episode, action: int) -> None:
    """Choose the job in a slot, or end the instance, and go on to the next choice."""
    state, total = episode.state, episode.tally[0]
    before, n_queued, reward = gained(episode), state.clock[0].n_queued, 0.0
    total.choices += 1
    if action == episode.slots.size:
        episode.instance[0].level = CLOSED
    else:
        reward += worth_of_job(episode, queued(state, episode.slots[action]))
        choose(episode, action)
        reward += worth_of_choice(episode, n_queued)
    await_choice(episode)
    reward += gained(episode) - before
    total.reward += reward
    total.total_reward += reward


@inlined
def is_forced(episode: Episode) -> bool:
    """Whether only one slot is legal."""
    if episode.terms[0].reservations != NO_RESERVATIONS:
        return bool(episode.instance[0].n_slots == 1)
    legal = 0
    for slot in range(episode.instance[0].n_slots):
        legal += is_legal(episode, slot)
    return legal == 1


@helper()
def go_on(episode: Episode) -> None:
    """Make the choices that are made by themselves."""
    if episode.terms[0].skips_forced:
        while not episode.tally[0].over and is_forced(episode):
            take(episode, _first_legal(episode))


@helper()
def act(episode: Episode, action: int) -> None:
    """Make a choice; an action that is not legal stands for the first slot that is."""
    total = episode.tally[0]
    total.reward = 0.0
    if total.over:
        return
    ends = action == episode.slots.size and episode.state.clock[0].n_running > 0
    total.invalid = not ends and not is_legal(episode, action)
    take(episode, _first_legal(episode) if total.invalid else action)
    go_on(episode)


@helper()
def reset(batch: Batch, e: int, jobset: int) -> None:
    """Put an episode back before the first event of a jobset."""
    total, clock, instance = batch.tally[e, 0], batch.clock[e, 0], batch.instance[e, 0]
    total.jobset = jobset
    total.episode += 1
    total.over = total.invalid = total.started = total.instances = total.choices = 0
    total.wait_s = total.square_wait = total.longest_wait_s = total.bounded_slowdown = 0.0
    total.makespan_s = total.reward = total.total_reward = 0.0
    clock.now, clock.wake, clock.shadow = -np.inf, np.inf, 0.0
    clock.next_submission = clock.first = clock.examined = clock.ended_early = 0
    clock.n_queued = clock.n_events = clock.n_running = clock.n_started = clock.n_ended = 0
    instance.level, instance.n_slots, instance.holder = CLOSED, 0, NOBODY
    instance.shadow, instance.spare = 0.0, 0
    batch.units[e, FREE, 0] = batch.units[e, CAPACITY, 0]
    batch.held[e, 0, 0] = 0
    first = batch.bounds[jobset]
    for job in range(batch.bounds[jobset + 1] - first):
        batch.jobs[e, job] = batch.pool[first + job]
        batch.modes[e, job] = 0


@inlined
def _episode(batch: Batch, e: int) -> Episode:
    """Take an episode out of the batch."""
    jobset = batch.tally[e, 0].jobset
    first, end = batch.bounds[jobset], batch.bounds[jobset + 1]
    state = State(
        batch.clock[e],
        batch.rules,
        batch.jobs[e, : end - first],
        batch.request[first:end],
        batch.lists[e],
        batch.units[e],
        batch.held[e],
        batch.steps,
        batch.unpromised,
        batch.least,
    )
    return Episode(
        state,
        batch.instance[e],
        batch.tally[e],
        batch.terms,
        batch.modes[e, : end - first],
        batch.slots[e],
        batch.traits[first:end],
        batch.ladder,
    )


@helper()
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with a jobset, and go on to the first choice."""
    reset(batch, e, jobset)
    await_choice(_episode(batch, e))
    go_on(_episode(batch, e))
    batch.tally[e, 0].reward = 0.0


@kernel(void(BATCH, int64[::1]))
def begin_all(batch: Batch, jobsets: IntArray) -> None:
    """Begin an episode wherever a jobset is named."""
    for e in range(jobsets.size):
        if jobsets[e] != STAY:
            begin(batch, e, jobsets[e])


@kernel(void(BATCH, int64[::1], float64[::1], MASK))
def step_all(batch: Batch, actions: IntArray, rewards: FloatArray, ended: BoolArray) -> None:
    """Act in every episode, and where that ends it begin the one that follows, if any."""
    for e in range(actions.size):
        act(_episode(batch, e), actions[e])
        total = batch.tally[e, 0]
        rewards[e], ended[e] = total.reward, total.over != 0
        if total.over:
            batch.last[e, 0] = total
            if batch.following[e] != STAY:
                begin(batch, e, batch.following[e])


@kernel(void(BATCH, OBSERVATIONS, MASKS))
def describe_all_slots(batch: Batch, observations: Observations, legal: BoolArray) -> None:
    """Write the features of the slots of all episodes, and what is legal."""
    for e in range(observations.shape[0]):
        describe_slots(_episode(batch, e), observations[e])
        describe_legal(_episode(batch, e), legal[e])


@kernel(void(BATCH, OBSERVATIONS, MASKS))
def describe_all_states(batch: Batch, observations: Observations, legal: BoolArray) -> None:
    """Write the paper's state of all episodes, and what is legal."""
    for e in range(observations.shape[0]):
        describe_state(_episode(batch, e), observations[e])
        describe_legal(_episode(batch, e), legal[e])
