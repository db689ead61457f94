"""What an episode of two-level scheduling holds, and its hot loops.

An instance opens, a job is chosen, time goes on to the next choice.
"""

from typing import NamedTuple, Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.envs.dras.reward import Waits, Weights, gained, worth_of_choice, worth_of_job
from allocopt.envs.side_by_side import (
    Batch,
    EpisodeTally,
    Layout,
    OfJobs,
    Own,
    OwnByJob,
    Shared,
    Simulation,
    cleared,
    rewind,
    step_kernel,
)
from allocopt.kernels.arrays import FloatMatrix
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.backfilling import find_shadow, fits, keeps_shadow, take_spare
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, place_in_queue, queued
from allocopt.simulator.rules import Level, Mode, Reservations
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import EXTRA, FREE, NOBODY, Clock, JobRecord, Records

CLOSED, FIRST, SECOND = int(Level.CLOSED), int(Level.FIRST), int(Level.SECOND)
READY, RESERVED, BACKFILLED = int(Mode.READY), int(Mode.RESERVED), int(Mode.BACKFILLED)
KEPT, NO_RESERVATIONS = int(Reservations.KEPT), int(Reservations.NONE)


class Instance(Protocol):
    """A scheduling instance: what is to be chosen now."""

    level: int  # a `Level`
    n_slots: int  # occupied slots of the window
    holder: int  # the job that has the reservation, or ``NOBODY``
    shadow: float  # when that job starts at the latest, by the estimates
    spare: int  # processors that a job may hold beyond that time


class Tally(EpisodeTally, Waits, Protocol):
    """What an episode has come to."""

    episode: int  # episodes before it in its place
    started: int  # jobs started so far
    instances: int  # scheduling instances so far
    choices: int  # actions so far
    makespan_s: float  # from the first submission to the last end
    total_reward: float  # sum of the rewards so far


class Terms(Protocol):
    """What the episodes have in common besides the reward."""

    reservations: int  # a `Reservations`
    skips_forced: int  # whether a choice is made by itself where only one action is legal


class Episode(NamedTuple):
    """One episode of ``n`` jobs; records have shape ``(1,)`` where nothing else is said."""

    state: Simulation  # its list ``CANDIDATES`` is not used
    instance: Own[Records[Instance]]
    tally: Own[Records[Tally]]
    terms: Shared[Records[Terms]]
    weights: Shared[Records[Weights]]
    modes: OwnByJob[IntArray]  # the `Mode` of each job, shape ``(n,)``
    slots: Own[IntArray]  # places in the queue of the jobs in the window, shape ``(W,)``
    traits: OfJobs[FloatMatrix]  # what is known beforehand, see `allocopt.envs.dras.observation.traits`, ``(n, 2)``
    ladder: Shared[IntArray]  # room for as many numbers as there are jobs
    first_clock: Shared[Records[Clock]]  # before the first event
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of


@inlined
def _start(episode: Episode, place: int, mode: int) -> None:
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
def _promise(episode: Episode, job: int) -> None:
    """Find when the job that has the reservation starts at the latest; what it was promised before still holds."""
    state = episode.state
    find_shadow(state, job)
    state.jobs[job].reserved = min(state.jobs[job].reserved, state.clock[0].shadow)


@inlined
def _open_instance(episode: Episode) -> None:
    instance, state = episode.instance[0], episode.state
    episode.tally[0].instances += 1
    instance.level = FIRST
    holder = instance.holder
    if episode.terms[0].reservations != KEPT or holder == NOBODY:
        return
    if fits(state, holder, FREE):
        _start(episode, place_in_queue(state, holder), RESERVED)
    else:
        _promise(episode, holder)
        instance.level = SECOND


@inlined
def _fill_with_first(episode: Episode) -> bool:
    """Return whether one of the jobs in the window may be chosen."""
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
    """Return whether there are jobs in the window: the first waiting ones that may be backfilled."""
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
def _accrue(episode: Episode, before: float) -> None:
    """Count the time that has passed as wait of the jobs that were in the queue."""
    state, total = episode.state, episode.tally[0]
    clock = state.clock[0]
    squares = episode.weights[0].mean_square_wait != 0.0
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
def _await_choice(episode: Episode) -> None:
    state, instance, total = episode.state, episode.instance[0], episode.tally[0]
    instance.n_slots = 0
    while total.started < state.jobs.size:
        if instance.level == FIRST and _fill_with_first(episode):
            return
        if instance.level == SECOND and _fill_with_candidates(episode):
            return
        before = state.clock[0].now
        if advance(state, np.inf) == HAPPENED:
            _accrue(episode, before)
            _open_instance(episode)
        elif state.clock[0].n_queued > 0:
            # The instance was ended with nothing running: nothing can happen before a job starts.
            instance.level = FIRST
        else:
            break
    instance.n_slots, instance.level = 0, CLOSED
    total.over = 1


@inlined
def is_legal(episode: Episode, slot: int) -> bool:
    """Whether the job in a slot may be chosen."""
    if slot >= episode.instance[0].n_slots:
        return False
    if episode.terms[0].reservations != NO_RESERVATIONS:
        return True
    return fits(episode.state, queued(episode.state, episode.slots[slot]), FREE)


@inlined
def _first_legal(episode: Episode) -> int:
    slot = 0
    while not is_legal(episode, slot):
        slot += 1
    return slot


@inlined
def _choose(episode: Episode, slot: int) -> None:
    state, instance = episode.state, episode.instance[0]
    place, holder = episode.slots[slot], instance.holder
    job = queued(state, place)
    if instance.level == SECOND:
        take_spare(state, job)
        _start(episode, place, BACKFILLED)
    elif fits(state, job, FREE):
        _start(episode, place, RESERVED if job == holder else READY)
    else:
        if holder != NOBODY and holder != job:
            state.jobs[holder].reserved = np.inf
        instance.holder, instance.level = job, SECOND
        _promise(episode, job)


@helper()
def _take(episode: Episode, action: int) -> None:
    """Choose the job in a slot, or end the instance, and go on to the next choice."""
    state, total = episode.state, episode.tally[0]
    weights, n = episode.weights[0], state.jobs.size
    before, n_queued, reward = gained(total, weights, n), state.clock[0].n_queued, 0.0
    total.choices += 1
    if action == episode.slots.size:
        episode.instance[0].level = CLOSED
    else:
        reward += worth_of_job(state, weights, queued(state, episode.slots[action]))
        _choose(episode, action)
        reward += worth_of_choice(state, weights, n_queued)
    _await_choice(episode)
    reward += gained(total, weights, n) - before
    total.reward += reward
    total.total_reward += reward


@inlined
def _is_forced(episode: Episode) -> bool:
    legal = 0
    for slot in range(episode.instance[0].n_slots):
        legal += is_legal(episode, slot)
    return legal == 1


@helper()
def _make_forced_choices(episode: Episode) -> None:
    if episode.terms[0].skips_forced:
        while not episode.tally[0].over and _is_forced(episode):
            _take(episode, _first_legal(episode))


@helper()
def act(episode: Episode, action: int) -> None:
    """Make a choice; an action that is not legal stands for the first slot that is."""
    total = episode.tally[0]
    total.reward = 0.0
    ends = action == episode.slots.size and episode.state.clock[0].n_running > 0
    total.invalid = not ends and not is_legal(episode, action)
    _take(episode, _first_legal(episode) if total.invalid else action)
    _make_forced_choices(episode)


@helper()
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with a jobset, and go on to the first choice."""
    total, instance = batch.tally[e, 0], batch.instance[e, 0]
    before = total.episode
    cleared(batch, e, jobset)
    total.episode = before + 1
    instance.level, instance.n_slots, instance.holder = CLOSED, 0, NOBODY
    instance.shadow, instance.spare = 0.0, 0
    episode = episode_of(batch, e)
    rewind(episode.state, episode.first_clock, episode.pool)
    for job in range(episode.modes.size):
        episode.modes[job] = 0
    _await_choice(episode)
    _make_forced_choices(episode)
    total.reward = 0.0


step_all = step_kernel(LAYOUT, act, begin)
