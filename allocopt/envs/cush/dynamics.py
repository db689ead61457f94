"""State, observations, rewards and kernels of an episode of CuSH.

In every step either a job is chosen, which starts now or later, or a timestep passes.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.cush.jobsets import CPUS, GPUS
from allocopt.envs.side_by_side import (
    Batch,
    EpisodeTally,
    Layout,
    OfJobs,
    Own,
    OwnByJob,
    Shared,
    Simulation,
    clear_tally,
    rewind,
)
from allocopt.errors import UsageError
from allocopt.kernels.arrays import FloatMatrix, Records
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import find_shadow, fits, keeps_shadow
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, queued
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, RUNNING, Clock, JobRecord, State

DEPTH_FIRST, N_POLICIES = int(Policy.DEPTH_FIRST), len(Policy)
NEVER = -1  # delay of a job that cannot start within reach
NONE, FIRST_FIT, EASY = int(Backfill.NONE), int(Backfill.FIRST_FIT), int(Backfill.EASY)


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the terms of the reward.

    Raises `UsageError` if a weight is not finite.

    Parameters
    ----------
    waiting
        Weight of the paper's local reward (section 3.2), paid after every action: minus the sum of wait / length over
        the jobs that wait then, in the queue or the backlog.
    normalized_turnaround
        Weight of the gain in normalized turnaround time. Every timestep costs 1 / length for each waiting job; when
        a job is chosen, a correction makes its total cost exact. Over an episode the gains add up to 1 - mean
        normalized turnaround time.
    penalty
        Weight of minus the locality penalty of a job, paid when it is chosen.
    """

    waiting: float = 1.0
    normalized_turnaround: float = 0.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the weight of {part.name} is {getattr(self, part.name)}, must be finite")


class _Tally(EpisodeTally, Protocol):
    # Sums over the jobs that have started.
    wait: float
    service: float
    turnaround: float
    normalized_turnaround: float
    penalty: float
    total_reward: float  # sum of the rewards so far
    local_reward: float  # sum of the paper's local rewards so far, whatever the weights


class _Terms(Weights):
    skips_forced: int  # whether time passes automatically while no job can be chosen
    over_requested: int  # whether turnaround is divided by the requested time, not by the service time
    reach: int  # number of timesteps, from now on, at which a job may start; 1: only now


class Episode(NamedTuple):
    """One episode of ``n`` jobs; for each job there is a row, and records have shape ``(1,)``."""

    state: Simulation  # of CPUs and GPUs, in timesteps; its queue is the backlog, whose head leaves for a slot
    tally: Own[Records[_Tally]]
    terms: Shared[Records[_Terms]]
    slots: Own[IntArray]  # jobs among which the agent chooses, ``NOBODY`` in an empty slot, shape ``(Q,)``
    policy: OwnByJob[IntArray]  # policy by which each job was allocated, ``NOBODY`` before
    planned: OwnByJob[FloatArray]  # start of each job that was chosen for a later timestep, otherwise infinity
    holder: Own[IntArray]  # last job on each unit, shape ``(U,)``: the CPUs node by node, then the GPUs
    until: Own[FloatArray]  # timestep from which on each unit is free, shape ``(U,)``
    room: Shared[IntArray]  # scratch space, a number per node, shape ``(N,)``
    # The jobs, see `JobSet`.
    length: OfJobs[FloatArray]
    service: OfJobs[FloatMatrix]
    traits: OfJobs[FloatMatrix]
    first_clock: Shared[Records[Clock]]  # before the first event
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of

# Functions that take an episode are inlined, because every call would copy its more than one hundred words. The code
# that handles events takes only the simulation and is not inlined: it is large, and every inlined copy of it would be
# compiled again.


@inlined
def _fill(episode: Episode, job: int, first: int, end: int, wanted: int) -> None:
    now, unit = episode.state.clock[0].now, first
    while wanted > 0 and unit < end:
        if episode.until[unit] <= now:
            episode.holder[unit] = job
            episode.until[unit] = episode.state.jobs[job].end
            wanted -= 1
        unit += 1


@inlined
def _spread(episode: Episode, job: int, first: int, width: int, wanted: int) -> None:
    # Take the same number of units from every node, or all its free units; take the remainder from the first nodes.
    now, until, count = episode.state.clock[0].now, episode.until, episode.room
    for node in range(count.size):
        free = 0
        for unit in range(first + node * width, first + (node + 1) * width):
            free += until[unit] <= now
        count[node] = free
    # ``level`` units come from every node that has that many; ``over`` remain when one more from each is too much.
    level, over = 0, wanted
    while level < width:
        more = 0
        for node in range(count.size):
            more += count[node] > level
        if more > over:
            break
        over -= more
        level += 1
    for node in range(count.size):
        one_more = over > 0 and count[node] > level
        over -= one_more
        unit = first + node * width
        _fill(episode, job, unit, unit + width, min(count[node], level) + one_more)


@inlined
def _takes(episode: Episode, job: int, policy: int) -> float:
    # Round up to whole timesteps, but ignore rounding errors of service times.
    return float(np.ceil(episode.service[job, policy] - 1e-9))


@helper()
def _has_room(state: State, planned: FloatArray, job: int, time: float) -> bool:
    # Whether a job's units are free at a time, given the jobs that run then or are planned to.
    cpus, gpus = state.units[FREE, CPUS], state.units[FREE, GPUS]
    for place in range(state.clock[0].n_running):
        other = state.lists[RUNNING, place]
        if state.jobs[other].expected_end <= time:
            cpus += state.request[other, CPUS]
            gpus += state.request[other, GPUS]
    for other in range(planned.size):
        if planned[other] <= time < planned[other] + state.jobs[other].run:
            cpus -= state.request[other, CPUS]
            gpus -= state.request[other, GPUS]
    return bool(state.request[job, CPUS] <= cpus and state.request[job, GPUS] <= gpus)


@helper()
def _delay_ahead(state: State, planned: FloatArray, job: int, run: float, reach: int) -> int:
    # Free units only decrease when a planned job starts, so that no other times need to be checked.
    for delay in range(reach):
        start = state.clock[0].now + delay
        is_free = _has_room(state, planned, job, start)
        for other in range(planned.size):
            if is_free and start < planned[other] < start + run:
                is_free = _has_room(state, planned, job, planned[other])
        if is_free:
            return delay
    return NEVER


@inlined
def _delay(episode: Episode, job: int, run: float) -> int:
    """Return after how many timesteps a job with this run time can start; ``NEVER`` if not within reach."""
    reach = episode.terms[0].reach
    if reach == 1:
        return 0 if fits(episode.state, job, FREE) else NEVER
    return int(_delay_ahead(episode.state, episode.planned, job, run, reach))


@inlined
def _sure_delay(episode: Episode, job: int) -> int:
    """Return after how many timesteps a job can start under either policy; ``NEVER`` if not within reach."""
    return _delay(episode, job, max(_takes(episode, job, 0), _takes(episode, job, 1)))


@inlined
def _may_start(episode: Episode, slot: int) -> bool:
    """Return whether a job waits in a slot and can start at a timestep within reach."""
    return episode.slots[slot] != NOBODY and _sure_delay(episode, episode.slots[slot]) != NEVER


@inlined
def _is_forced(episode: Episode) -> bool:
    for slot in range(episode.slots.size):
        if _may_start(episode, slot):
            return False
    return True


@inlined
def _fill_slots(episode: Episode) -> None:
    # Move jobs from the backlog, in order of arrival, to the first empty slots.
    state, slot = episode.state, 0
    while state.clock[0].n_queued > 0 and slot < episode.slots.size:
        if episode.slots[slot] == NOBODY:
            episode.slots[slot] = queued(state, 0)
            dequeue(state, 0)
        slot += 1


@inlined
def _over_length(episode: Episode, waits: bool) -> float:
    # Sum of wait / length over the jobs in slots and backlog (section 3.2), or what one timestep adds to it.
    state, now, total = episode.state, episode.state.clock[0].now, 0.0
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job != NOBODY:
            total += (now - state.jobs[job].submit if waits else 1.0) / episode.length[job]
    for place in range(state.clock[0].n_queued):
        job = queued(state, place)
        total += (now - state.jobs[job].submit if waits else 1.0) / episode.length[job]
    return total


@inlined
def _plan(episode: Episode, job: int, policy: int) -> None:
    record = episode.state.jobs[job]
    record.run = record.estimate = _takes(episode, job, policy)


@inlined
def _divisor(episode: Episode, job: int, policy: int) -> float:
    # The time by which a job's turnaround is normalized.
    return float(episode.length[job] if episode.terms[0].over_requested else episode.service[job, policy])


@inlined
def _begin_job(episode: Episode, job: int) -> None:
    state, tally, policy = episode.state, episode.tally[0], episode.policy[job]
    length, service = episode.length[job], episode.service[job, policy]
    wait = state.clock[0].now - state.jobs[job].submit
    start_job(state, job)
    cpus, gpus = state.request[job, CPUS], state.request[job, GPUS]
    all_cpus, all_gpus = state.units[CAPACITY, CPUS], state.units[CAPACITY, GPUS]
    if policy == DEPTH_FIRST:
        _fill(episode, job, 0, all_cpus, cpus)
        _fill(episode, job, all_cpus, all_cpus + all_gpus, gpus)
    else:
        _spread(episode, job, 0, all_cpus // episode.room.size, cpus)
        _spread(episode, job, all_cpus, all_gpus // episode.room.size, gpus)
    tally.wait += wait
    tally.service += service
    tally.turnaround += wait + service
    tally.normalized_turnaround += (wait + service) / _divisor(episode, job, policy)
    tally.penalty += service - length


@inlined
def _begin_planned(episode: Episode) -> None:
    for job in range(episode.planned.size):
        if episode.planned[job] <= episode.state.clock[0].now:
            episode.planned[job] = np.inf
            _begin_job(episode, job)


@inlined
def _choose(episode: Episode, slot: int, policy: int) -> float:
    # Start the job now, or plan it for the first time at which it fits. Returns the gain that is paid at once.
    state, weights, job = episode.state, episode.terms[0], episode.slots[slot]
    length, service = episode.length[job], episode.service[job, policy]
    waited = state.clock[0].now - state.jobs[job].submit
    _plan(episode, job, policy)
    delay = _delay(episode, job, state.jobs[job].run)
    episode.policy[job] = policy
    episode.planned[job] = state.clock[0].now + delay
    _begin_planned(episode)
    episode.slots[slot] = NOBODY
    _fill_slots(episode)
    normalized = (waited + delay + service) / _divisor(episode, job, policy)
    gain = weights.normalized_turnaround * (waited / length + 1.0 - normalized) / state.jobs.size
    return float(gain - weights.penalty * (service - length))


@helper()
def _go_on_to(state: State, time: float) -> None:
    # Process all events up to that time before the next observation.
    while advance(state, time) == HAPPENED:
        pass
    state.clock[0].now = time


@inlined
def _go_on(episode: Episode, until: float) -> None:
    state, clock = episode.state, episode.state.clock[0]
    _go_on_to(state, until)
    if episode.terms[0].reach > 1:
        _begin_planned(episode)
    episode.tally[0].over = clock.n_begun == state.jobs.size and clock.n_running == 0
    _fill_slots(episode)


@inlined
def _pass_time(episode: Episode) -> float:
    # Let a timestep pass; returns the gain that is paid for it.
    gain = -episode.terms[0].normalized_turnaround * _over_length(episode, False) / episode.state.jobs.size
    _go_on(episode, episode.state.clock[0].now + 1.0)
    return float(gain)


@inlined
def _act(episode: Episode, action: int) -> None:
    # Slot and policy are encoded in one number, as every action in a kernel; see `CushEpisodes.step`.
    tally, weight = episode.tally[0], episode.terms[0].waiting
    slot, policy = action // N_POLICIES, action % N_POLICIES
    named = 0 <= slot < episode.slots.size
    chosen = named and _may_start(episode, slot)
    tally.invalid = named and not chosen
    gain = _choose(episode, slot, policy) if chosen else _pass_time(episode)
    local = _over_length(episode, True)
    reward = gain - weight * local
    if episode.terms[0].skips_forced:
        while not tally.over and _is_forced(episode):
            reward += _pass_time(episode)
            more = _over_length(episode, True)
            reward -= weight * more
            local += more
    tally.reward = reward
    tally.total_reward += reward
    tally.local_reward -= local


@helper()
def _begin(episode: Episode) -> None:
    rewind(episode.state, episode.first_clock, episode.pool)
    episode.slots[:] = NOBODY
    episode.policy[:] = NOBODY
    episode.planned[:] = np.inf
    episode.holder[:] = NOBODY
    episode.until[:] = 0.0
    _go_on(episode, 0.0)
    if episode.terms[0].skips_forced:
        while _is_forced(episode):
            _pass_time(episode)


step_all = LAYOUT.step_kernel(_act, _begin)


@inlined
def _first_slot(episode: Episode, values: FloatArray, backfill: int) -> int:
    # Slot of the job with the lowest value, among all jobs or those that may be backfilled; ``NOBODY`` if none.
    state, best, lead = episode.state, NOBODY, NOBODY
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job == NOBODY or (backfill == FIRST_FIT and not _may_start(episode, slot)):
            continue
        if backfill == EASY and not keeps_shadow(state, job):
            continue
        if lead == NOBODY or values[job] < values[lead] or (values[job] == values[lead] and job < lead):
            best, lead = slot, job
    return best


@kernel(void(LAYOUT.batch_type, int64, int64, float64[:, ::1], int64[::1], int64))
def follow_list(batch: Batch, e: int, jobset: int, values: FloatArray, policies: IntArray, backfill: int) -> None:
    """Run an episode by a list; see `CushEpisodes.follow_list`."""
    clear_tally(batch, e, jobset)
    episode = episode_of(batch, e)
    _begin(episode)
    state = episode.state
    for job in range(state.jobs.size):
        _plan(episode, job, policies[job])
    while not episode.tally[0].over:
        row = values[state.clock[0].n_begun % values.shape[0]]
        # Without EASY, a job that does not fit is skipped (first fit), or the queue waits for it.
        slot = _first_slot(episode, row, FIRST_FIT if backfill == FIRST_FIT else NONE)
        if slot != NOBODY and not _may_start(episode, slot):
            find_shadow(state, episode.slots[slot])
            slot = _first_slot(episode, row, EASY) if backfill == EASY else NOBODY
        waits = slot == NOBODY
        _act(episode, N_POLICIES * episode.slots.size if waits else N_POLICIES * slot + policies[episode.slots[slot]])


JOB_MEANINGS = {
    "is_job": "1 if a job waits in the slot; in an empty slot all numbers of the job are 0",
    "log_length": "log2(1 + length) / 5",
    "cpus": "CPUs / all CPUs",
    "gpus": "GPUs / all GPUs",
    "cpus_over_free": "CPUs / (CPUs + free CPUs)",
    "gpus_over_free": "GPUs / (GPUs + free GPUs)",
    "log_gpus": "log2(1 + GPUs) / 10",
    "wait": "wait / (wait + 10 timesteps)",
    "wait_over_response": "wait / (wait + length)",
    "fits": "1 if the job can start now",
    "delay": "time t until it can start if no other job is chosen, t / (t + 10)",
    "area": "area a (length x the larger of its shares of the CPUs and of the GPUs), a / (a + 10)",
    "rank": "share of the slots with a shorter job",
    "cpus_left": "CPUs that stay free if it starts / all CPUs; 0 if it cannot start now",
    "gpus_left": "GPUs that stay free if it starts / all GPUs; 0 if it cannot start now",
}
CLUSTER_MEANINGS = {
    "does_nothing": "1 in the last row, which stands for doing nothing; the numbers below are the same in all rows",
    "free_cpus": "free CPUs / all CPUs",
    "free_gpus": "free GPUs / all GPUs",
    "slots": "share of the slots with a job",
    "backlog": "number n of jobs that wait outside the queue, n / (n + 10)",
    "running": "number n of running jobs, n / (n + 10)",
    "impatience": "sum s of 1 / length over the jobs in the queue, s / (1 + s)",
    "gap": "time t until the first running job ends, t / (t + 10)",
}
AHEAD = (1, 2, 4, 8, 16)
"""Timesteps ahead; a row has the shares of CPUs and GPUs that are free then if no other job starts."""
N_JOB, N_CLUSTER, N_AHEAD = len(JOB_MEANINGS), len(CLUSTER_MEANINGS), len(AHEAD)
FIRST_TRAIT = N_JOB + N_CLUSTER + 2 * N_AHEAD  # features of a row before the traits of its job

MOST = 4.0  # upper bound of all features
HALF = 10.0  # timesteps that are mapped to 0.5 when times are squeezed into 0 .. 1
NEW = 0.5  # value in an image of a job that has just arrived; it approaches 1 with a longer wait


@inlined
def _squeezed(time: float) -> float:
    return float(time / (time + HALF))


@inlined
def _is_planned_at(episode: Episode, job: int, time: float) -> bool:
    return bool(episode.planned[job] <= time < episode.planned[job] + episode.state.jobs[job].run)


@inlined
def _planned_units(episode: Episode, resource: int, time: float) -> int:
    # CPUs or GPUs that planned jobs will hold at a time.
    total = 0
    if episode.terms[0].reach > 1:
        for job in range(episode.planned.size):
            if _is_planned_at(episode, job, time):
                total += episode.state.request[job, resource]
    return total


@inlined
def _describe_job(episode: Episode, slot: int, rows: Float32Array) -> None:
    state, clock, row, job = episode.state, episode.state.clock[0], rows[slot], episode.slots[slot]
    wait, length = clock.now - state.jobs[job].submit, episode.length[job]
    cpus, gpus = state.request[job, CPUS], state.request[job, GPUS]
    all_cpus, all_gpus = float(state.units[CAPACITY, CPUS]), float(state.units[CAPACITY, GPUS])
    free_cpus, free_gpus = state.units[FREE, CPUS], state.units[FREE, GPUS]
    delay = _sure_delay(episode, job)
    starts = delay == 0
    shorter = 0
    for other in range(episode.slots.size):
        shorter += episode.slots[other] != NOBODY and episode.length[episode.slots[other]] < length
    row[0] = 1.0
    row[1] = min(np.log2(1.0 + length) / 5.0, MOST)
    row[2] = cpus / all_cpus
    row[3] = gpus / all_gpus
    row[4] = cpus / (cpus + free_cpus) if cpus else 0.0
    row[5] = gpus / (gpus + free_gpus) if gpus else 0.0
    row[6] = min(np.log2(1.0 + gpus) / 10.0, MOST)
    row[7] = _squeezed(wait)
    row[8] = wait / (wait + length)
    row[9] = 1.0 if starts else 0.0
    row[10] = _squeezed(float(max(delay, 0)))
    if delay == NEVER:
        # This overwrites the shadow time in the state, which is always computed again before it is read.
        find_shadow(state, job)
        row[10] = _squeezed(clock.shadow - clock.now)
    row[11] = _squeezed(length * max(cpus / all_cpus, gpus / all_gpus))
    row[12] = shorter / episode.slots.size
    row[13] = (free_cpus - cpus) / all_cpus if starts else 0.0
    row[14] = (free_gpus - gpus) / all_gpus if starts else 0.0
    for trait in range(episode.traits.shape[1]):
        row[FIRST_TRAIT + trait] = episode.traits[job, trait]


@inlined
def _describe(episode: Episode, rows: Float32Array) -> None:
    # Write the numbers that are the same in all rows into the first row, and copy them from there.
    state, clock, row = episode.state, episode.state.clock[0], rows[0]
    cpus, gpus = 1.0 / state.units[CAPACITY, CPUS], 1.0 / state.units[CAPACITY, GPUS]
    free_cpus, free_gpus = state.units[FREE, CPUS], state.units[FREE, GPUS]
    n_slots, occupied, impatience = episode.slots.size, 0, 0.0
    for slot in range(n_slots):
        job = episode.slots[slot]
        if job != NOBODY:
            occupied += 1
            impatience += 1.0 / episode.length[job]
    row[N_JOB] = 0.0
    row[N_JOB + 1] = free_cpus * cpus
    row[N_JOB + 2] = free_gpus * gpus
    row[N_JOB + 3] = occupied / n_slots
    row[N_JOB + 4] = _squeezed(float(clock.n_queued))
    row[N_JOB + 5] = _squeezed(float(clock.n_running))
    row[N_JOB + 6] = impatience / (1.0 + impatience)
    row[N_JOB + 7] = _squeezed(state.jobs[state.lists[RUNNING, 0]].expected_end - clock.now) if clock.n_running else 0.0
    at = 0
    for i in range(N_AHEAD):
        while at < clock.n_running and state.jobs[state.lists[RUNNING, at]].expected_end <= clock.now + AHEAD[i]:
            free_cpus += state.request[state.lists[RUNNING, at], CPUS]
            free_gpus += state.request[state.lists[RUNNING, at], GPUS]
            at += 1
        row[N_JOB + N_CLUSTER + 2 * i] = (free_cpus - _planned_units(episode, CPUS, clock.now + AHEAD[i])) * cpus
        row[N_JOB + N_CLUSTER + 2 * i + 1] = (free_gpus - _planned_units(episode, GPUS, clock.now + AHEAD[i])) * gpus
    for slot in range(n_slots + 1):
        if slot > 0:
            for i in range(N_JOB, FIRST_TRAIT):
                rows[slot, i] = rows[0, i]
        if slot < n_slots and episode.slots[slot] != NOBODY:
            _describe_job(episode, slot, rows)
        else:
            rows[slot, :N_JOB] = 0.0
            rows[slot, FIRST_TRAIT:] = 0.0
    rows[n_slots, N_JOB] = 1.0


@inlined
def _draw_first(line: Float32Array, wanted: int) -> None:
    # A planned job gets its units only when it starts; until then it is drawn on the first free ones.
    unit = 0
    while wanted > 0 and unit < line.size:
        if line[unit] == 0.0:
            line[unit] = np.float32(1.0)
            wanted -= 1
        unit += 1


@inlined
def _draw(episode: Episode, image: Float32Array) -> None:
    # Draw the cluster, then the jobs in the queue; a row is a timestep, a column a CPU or a GPU.
    state, now = episode.state, episode.state.clock[0].now
    first_gpu = state.units[CAPACITY, CPUS]
    for row in range(image.shape[1]):
        line = image[0, row]
        for unit in range(line.size):
            line[unit] = np.float32(1.0) if episode.until[unit] > now + row else np.float32(0.0)
        _draw_first(line[:first_gpu], _planned_units(episode, CPUS, now + row))
        _draw_first(line[first_gpu:], _planned_units(episode, GPUS, now + row))
    for slot in range(episode.slots.size):
        image[slot + 1] = 0.0
        job = episode.slots[slot]
        if job == NOBODY:
            continue
        # Draw the request in the shape of the cluster; its value grows with the job's wait.
        value = np.float32(NEW + (1.0 - NEW) * _squeezed(now - state.jobs[job].submit))
        for row in range(min(image.shape[1], int(np.ceil(episode.length[job])))):
            image[slot + 1, row, : state.request[job, CPUS]] = value
            image[slot + 1, row, first_gpu : first_gpu + state.request[job, GPUS]] = value


@inlined
def _mark_legal(episode: Episode, legal: BoolArray) -> None:
    for slot in range(episode.slots.size):
        legal[slot] = _may_start(episode, slot)
    legal[episode.slots.size] = True


describe_all = LAYOUT.describe_kernel(_mark_legal, _describe, 2, -1)
draw_all = LAYOUT.describe_kernel(_mark_legal, _draw, 3, -1)
