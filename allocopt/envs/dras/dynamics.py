"""State, observations, rewards and kernels of an episode of two-level scheduling.

A scheduling instance opens, a job is chosen, and time advances to the next choice. A reward is a weighted sum of parts.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numba import float32, void

from allocopt.arrays import BoolArray, Float32Array, IntArray
from allocopt.envs.side_by_side import EpisodeTally, Layout, OfJobs, Own, OwnByJob, Shared, Simulation, rewind
from allocopt.errors import UsageError
from allocopt.kernels.arrays import FloatMatrix, Records
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import find_shadow, fits, keeps_shadow, take_spare
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, place_in_queue, queued
from allocopt.simulator.rules import Level, Mode, Reservations
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import CAPACITY as ALL
from allocopt.simulator.state import EXTRA, FREE, NOBODY, RUNNING, Clock, JobRecord, State

CLOSED, FIRST, SECOND = int(Level.CLOSED), int(Level.FIRST), int(Level.SECOND)
READY, RESERVED, BACKFILLED = int(Mode.READY), int(Mode.RESERVED), int(Mode.BACKFILLED)
KEPT, NO_RESERVATIONS = int(Reservations.KEPT), int(Reservations.NONE)
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the parts of a reward; the first three are those of Eq. 1, ``capacity`` is that of Eq. 2.

    The parts of Eq. 1 and 2 are paid per choice. The others are gains: over an episode they add up to an objective of
    its schedule. Waits cost while time passes, whichever job is chosen later. Raises `UsageError` if a weight is not
    finite, or the unit is not positive.

    Parameters
    ----------
    oldest
        w1: weight of the wait of the chosen job / the longest wait in the queue; 0 if no job has waited yet.
    size
        w2: weight of the size of the chosen job / the size of the machine.
    used
        w3: weight of the share of the machine in use after the choice.
    capacity
        Weight of the sum of -1 / t over the jobs that wait after the choice, divided by the number of jobs that waited
        before it; t is the estimate in units of ``unit_s``.
    mean_wait
        Weight of minus the mean wait of the episode's jobs, in ``unit_s``.
    mean_square_wait
        Weight of minus the mean of the squared waits.
    longest_wait
        Weight of minus the longest wait.
    bounded_slowdown
        Weight of minus the mean bounded slowdown; the part of each job is paid when it starts.
    unit_s
        Seconds that count as 1, positive.
    """

    oldest: float = 0.0
    size: float = 0.0
    used: float = 0.0
    capacity: float = 0.0
    mean_wait: float = 0.0
    mean_square_wait: float = 0.0
    longest_wait: float = 0.0
    bounded_slowdown: float = 0.0
    unit_s: float = HOUR_S

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the reward's {part.name} is {getattr(self, part.name)}, must be a finite number")
        if self.unit_s <= 0:
            raise UsageError(f"the reward's unit is {self.unit_s} s, must be positive")


CAPABILITY = Weights(oldest=1 / 3, size=1 / 3, used=1 / 3)
"""Eq. 1 with the paper's weights, for machines that are built for large jobs."""
CAPACITY = Weights(capacity=1.0)  # Eq. 2, for machines that are built for many jobs


class _Instance(Protocol):
    # A scheduling instance: the choice to be made now.
    level: int  # a `Level`
    n_slots: int  # occupied slots of the window
    holder: int  # the job that has the reservation, or ``NOBODY``
    shadow: float  # when that job starts at the latest, by the estimates
    spare: int  # processors that a job may hold beyond that time
    episode: int  # number of episodes so far in this place of the batch


class _Tally(EpisodeTally, Protocol):
    # Sums over jobs so far, waiting ones included, and the longest wait; gains are computed from these.
    wait_s: float
    square_wait: float  # sum of the squares of waits; kept only if the reward has a weight for it
    longest_wait_s: float
    bounded_slowdown: float  # over the jobs that have started
    started: int  # jobs started so far
    instances: int  # scheduling instances so far
    choices: int  # actions so far
    makespan_s: float  # from the first submission to the last end
    total_reward: float  # sum of the rewards so far


class _Terms(Protocol):
    reservations: int  # a `Reservations`
    skips_forced: int  # whether a choice is made automatically if only one action is legal


class Episode(NamedTuple):
    """One episode of ``n`` jobs; records have shape ``(1,)`` unless noted otherwise."""

    state: Simulation  # its list ``CANDIDATES`` is not used
    instance: Own[Records[_Instance]]
    tally: Own[Records[_Tally]]
    terms: Shared[Records[_Terms]]
    weights: Shared[Records[Weights]]
    modes: OwnByJob[IntArray]  # the `Mode` of each job, shape ``(n,)``
    slots: Own[IntArray]  # places in the queue of the jobs in the window, shape ``(W,)``
    traits: OfJobs[FloatMatrix]  # logarithms of sizes and estimates, ``(n, 2)``
    ladder: Shared[IntArray]  # scratch space, shape ``(n,)``
    first_clock: Shared[Records[Clock]]  # before the first event
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)


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
    # Compute the latest start of the job. An earlier promise still holds.
    state = episode.state
    find_shadow(state, job)
    state.jobs[job].reserved = min(state.jobs[job].reserved, state.clock[0].shadow)


@inlined
def _fill_with_first(episode: Episode) -> bool:
    # Fill the slots with the first waiting jobs; returns whether one of them may be chosen.
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
    # Fill the slots with the first waiting jobs that may be backfilled; returns whether there are any.
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
    # Add the time since ``before`` to the waits of the jobs that were in the queue.
    state, total = episode.state, episode.tally[0]
    clock = state.clock[0]
    squares = episode.weights[0].mean_square_wait != 0.0
    for at in range(clock.n_queued):
        release = state.jobs[queued(state, at)].release
        if release >= clock.now:
            break
        total.wait_s += clock.now - before
        if squares:
            # (now - release)^2 - (before - release)^2 in factored form, since subtracting large squares loses digits.
            total.square_wait += (clock.now - before) * (clock.now + before - 2.0 * release)
    if clock.n_queued > 0:
        total.longest_wait_s = max(total.longest_wait_s, clock.now - state.jobs[queued(state, 0)].release)


@helper()
def _await_choice(episode: Episode) -> None:
    state, instance, total = episode.state, episode.instance[0], episode.tally[0]
    instance.n_slots = 0
    # An event may open an instance in which nothing can be chosen; advance until there is a choice.
    while total.started < state.jobs.size:
        if instance.level == FIRST and _fill_with_first(episode):
            return
        if instance.level == SECOND and _fill_with_candidates(episode):
            return
        before = state.clock[0].now
        if advance(state, np.inf) == HAPPENED:
            _accrue(episode, before)
            total.instances += 1
            instance.level = FIRST
            holder = instance.holder
            if episode.terms[0].reservations == KEPT and holder != NOBODY:
                # A kept reservation precedes every choice: its job starts if it fits, otherwise level 2 is next.
                if fits(state, holder, FREE):
                    _start(episode, place_in_queue(state, holder), RESERVED)
                else:
                    _promise(episode, holder)
                    instance.level = SECOND
        elif state.clock[0].n_queued > 0:
            # The instance was ended while no job runs, so that no event can occur before a job starts: open it again.
            instance.level = FIRST
        else:
            break
    instance.n_slots, instance.level = 0, CLOSED
    total.over = 1


@inlined
def _is_legal(episode: Episode, slot: int) -> bool:
    if slot >= episode.instance[0].n_slots:
        return False
    if episode.terms[0].reservations != NO_RESERVATIONS:
        return True
    return fits(episode.state, queued(episode.state, episode.slots[slot]), FREE)


@inlined
def _first_legal(episode: Episode) -> int:
    slot = 0
    while not _is_legal(episode, slot):
        slot += 1
    return slot


@inlined
def _gained(total: _Tally, weights: Weights, n: int) -> float:
    # Total of the gains of n jobs so far; a reward contains its change.
    return -(
        weights.mean_wait * total.wait_s / (n * weights.unit_s)
        + weights.mean_square_wait * total.square_wait / (n * weights.unit_s * weights.unit_s)
        + weights.longest_wait * total.longest_wait_s / weights.unit_s
        + weights.bounded_slowdown * total.bounded_slowdown / n
    )


@helper()
def _take(episode: Episode, action: int) -> None:
    # The last action ends the instance, the others choose the job in a slot.
    state, instance, total = episode.state, episode.instance[0], episode.tally[0]
    weights, n, machine, now = episode.weights[0], state.jobs.size, state.units[ALL, 0], state.clock[0].now
    before, n_queued, reward = _gained(total, weights, n), state.clock[0].n_queued, 0.0
    total.choices += 1
    if action == episode.slots.size:
        instance.level = CLOSED
    else:
        place, holder = episode.slots[action], instance.holder
        job = queued(state, place)
        # Terms 1 and 2 of Eq. 1.
        longest = now - state.jobs[queued(state, 0)].release
        share = (now - state.jobs[job].release) / longest if longest > 0.0 else 0.0
        reward += weights.oldest * share + weights.size * state.request[job, 0] / machine
        if instance.level == SECOND:
            take_spare(state, job)
            _start(episode, place, BACKFILLED)
        elif fits(state, job, FREE):
            _start(episode, place, RESERVED if job == holder else READY)
        else:
            # A job that held the reservation before loses its promise.
            if holder != NOBODY and holder != job:
                state.jobs[holder].reserved = np.inf
            instance.holder, instance.level = job, SECOND
            _promise(episode, job)
        # Term 3 of Eq. 1, and Eq. 2.
        worth = weights.used * (machine - state.units[FREE, 0]) / machine
        if weights.capacity != 0.0:
            rate = 0.0
            for at in range(state.clock[0].n_queued):
                rate -= weights.unit_s / state.jobs[queued(state, at)].estimate
            worth += weights.capacity * rate / n_queued
        reward += worth
    _await_choice(episode)
    reward += _gained(total, weights, n) - before
    total.reward += reward
    total.total_reward += reward


@helper()
def _make_forced_choices(episode: Episode) -> None:
    while episode.terms[0].skips_forced and not episode.tally[0].over:
        legal = 0
        for slot in range(episode.instance[0].n_slots):
            legal += _is_legal(episode, slot)
        if legal != 1:
            return
        _take(episode, _first_legal(episode))


@helper()
def _act(episode: Episode, action: int) -> None:
    # An illegal action counts as the first legal slot.
    total = episode.tally[0]
    total.reward = 0.0
    ends = action == episode.slots.size and episode.state.clock[0].n_running > 0
    total.invalid = not ends and not _is_legal(episode, action)
    _take(episode, _first_legal(episode) if total.invalid else action)
    _make_forced_choices(episode)


@helper()
def _begin(episode: Episode) -> None:
    instance = episode.instance[0]
    instance.level, instance.n_slots, instance.holder = CLOSED, 0, NOBODY
    instance.shadow, instance.spare = 0.0, 0
    # Unlike the tally, the count of episodes in this place is not reset: it tells views of different episodes apart.
    instance.episode += 1
    rewind(episode.state, episode.first_clock, episode.pool)
    for job in range(episode.modes.size):
        episode.modes[job] = 0
    _await_choice(episode)
    _make_forced_choices(episode)
    # Rewards of forced choices before the agent's first action belong to no action.
    episode.tally[0].reward = 0.0


step_all = LAYOUT.step_kernel(_act, _begin)


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
    "log_delay": "L(time until it fits by the estimates)",
    "log_area": "L(size x estimate / machine)",
    "estimate_over_gap": "at level 2, estimate / (estimate + time to the reservation)",
    "within_spare": "at level 2, 1 if it could run beyond the reservation",
    "level": "1 at level 2; this number and all below are the same in all slots",
    "free": "idle / machine",
    "log_gap": "at level 2, L(time to the reservation)",
    "spare": "at level 2, spare processors at the reservation / machine",
    "log_half": "L(time until half of the machine is idle)",
    "log_all": "L(time until all of the machine is idle)",
    "queue": "waiting jobs / (waiting jobs + `window`)",
    "log_load": "L(sum of size x estimate in the queue / machine)",
}
"""Numbers that describe a slot, in their order; ``L(t) = min(2, log2(1 + t / 60 s) / 10)``."""
FEATURES = tuple(MEANINGS)
N_FEATURES = len(FEATURES)

DAY_S, MINUTE_S = 86_400.0, 60.0
LOG_UNIT = 10.0  # doublings of a minute that are mapped to 1: about 17 hours
MOST, MOST_DAYS = 2.0, 1_000.0  # upper bounds of features, and of times in the paper's state, in days
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
    # The ladder rises, so that bisection finds its first step with enough processors.
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
    # Mark the legal slots and, if there is one more action, whether ending the instance is legal.
    window = episode.slots.size
    for slot in range(window):
        legal[slot] = _is_legal(episode, slot)
    if legal.size > window:
        legal[window] = episode.instance[0].n_slots > 0 and episode.state.clock[0].n_running > 0


@kernel(void(LAYOUT.episode_type, float32[:, ::1]))
def _describe_slots(episode: Episode, observation: Float32Array) -> None:
    # The features of every slot; 0 in an empty one.
    state, instance = episode.state, episode.instance[0]
    clock, machine, free = state.clock[0], state.units[ALL, 0], state.units[FREE, 0]
    observation[instance.n_slots :] = 0.0
    if instance.n_slots == 0:
        return
    # Step i of the ladder is the number of idle processors after the first i + 1 expected ends. A search in it gives
    # the delay of each slot, and those of half and all of the machine.
    units = free
    for i in range(clock.n_running):
        units += state.request[state.lists[RUNNING, i], 0]
        episode.ladder[i] = units
    # Compute numbers that are the same in all slots only once, because the queue may be long.
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


@kernel(void(LAYOUT.episode_type, float32[:, ::1]))
def _describe_state(episode: Episode, observation: Float32Array) -> None:
    # The paper's state, shape ``(2 W + N, 2)`` for a machine of N nodes; see `TwoLevel.about`.
    state = episode.state
    clock, machine, free = state.clock[0], state.units[ALL, 0], state.units[FREE, 0]
    row = 2 * episode.slots.size
    observation[:row] = 0.0
    for slot in range(episode.instance[0].n_slots):
        job = queued(state, episode.slots[slot])
        observation[2 * slot, 0] = state.request[job, 0] / machine
        observation[2 * slot, 1] = _days(state.jobs[job].estimate)
        observation[2 * slot + 1, 1] = _days(clock.now - state.jobs[job].release)
    # All nodes are equal: list idle ones first, then those of each running job, in the order of the expected ends.
    for _ in range(free):
        observation[row, 0], observation[row, 1] = 1.0, 0.0
        row += 1
    for i in range(clock.n_running):
        job = state.lists[RUNNING, i]
        left = _days(state.jobs[job].expected_end - clock.now)
        for _ in range(state.request[job, 0]):
            observation[row, 0], observation[row, 1] = 0.0, left
            row += 1


describe_slots_all = LAYOUT.describe_kernel(_mark_legal, _describe_slots, 2)
describe_state_all = LAYOUT.describe_kernel(_mark_legal, _describe_state, 2)
DESCRIBE = {"slots": (_describe_slots, describe_slots_all), "state": (_describe_state, describe_state_all)}
"""By observation: the kernel that writes it for one episode, and the one that writes it for all, with masks."""
