"""State, kernels and rewards of an episode of CuSH.

An episode begins, a job starts, a timestep passes.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
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
    cleared,
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
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, Clock, JobRecord, State

DEPTH_FIRST, N_POLICIES = int(Policy.DEPTH_FIRST), len(Policy)
NONE, FIRST_FIT, EASY = int(Backfill.NONE), int(Backfill.FIRST_FIT), int(Backfill.EASY)


@dataclass(frozen=True, slots=True)
class Weights:
    """What an agent is rewarded for: a weighted sum.

    Raises `UsageError` if a weight is not finite.

    Parameters
    ----------
    waiting
        On the local reward of the paper (section 3.2), paid after every action: minus the sum of wait over length of
        the jobs that wait then, in the queue or the backlog.
    normalized_turnaround
        On minus the mean normalized turnaround time, but for its 1, accrued: every timestep costs 1 over length for
        each job that waits, and its start corrects that to 1 over service. Over an episode this adds up to
        1 - mean normalized turnaround time.
    penalty
        On minus the locality penalty of a job, paid when it starts.
    """

    waiting: float = 1.0
    normalized_turnaround: float = 0.0
    penalty: float = 0.0

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the weight of {part.name} is {getattr(self, part.name)}, must be a finite number")


class _Tally(EpisodeTally, Protocol):
    # Sums over the jobs that have started.
    wait: float
    service: float
    turnaround: float
    normalized_turnaround: float
    penalty: float
    total_reward: float  # sum of the rewards so far
    local_reward: float  # sum of the paper's local rewards so far, whatever is paid


class _Terms(Weights):
    skips_forced: int  # whether time passes by itself where nothing can be chosen


class Episode(NamedTuple):
    """One episode of ``n`` jobs; for each job there is a row, and records have shape ``(1,)``."""

    state: Simulation  # of CPUs and GPUs, in timesteps; its queue is the backlog, whose head leaves for a slot
    tally: Own[Records[_Tally]]
    terms: Shared[Records[_Terms]]
    slots: Own[IntArray]  # jobs among which is chosen, ``NOBODY`` in an empty slot, shape ``(Q,)``
    policy: OwnByJob[IntArray]  # how each job was allocated, ``NOBODY`` before
    holder: Own[IntArray]  # who held each unit last, shape ``(U,)``: the CPUs node by node, then the GPUs
    until: Own[FloatArray]  # timestep from which on each unit is free, shape ``(U,)``
    room: Shared[IntArray]  # for a number per node, shape ``(N,)``
    # The jobs, see `JobSet`.
    length: OfJobs[FloatArray]
    service: OfJobs[FloatMatrix]
    traits: OfJobs[FloatMatrix]
    first_clock: Shared[Records[Clock]]  # before the first event
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of

# What takes an episode is inlined: every call would copy the hundred words and more that it is. What happens until a
# time takes the simulation alone, for it is large, and each copy of it would be compiled anew.


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
    # As many units from every node, or all it has; what is over comes from the first ones.
    now, until, count = episode.state.clock[0].now, episode.until, episode.room
    for node in range(count.size):
        free = 0
        for unit in range(first + node * width, first + (node + 1) * width):
            free += until[unit] <= now
        count[node] = free
    # ``level`` units come from every node that has as many; ``over`` are left when a level more is too much.
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
def may_start(episode: Episode, slot: int) -> bool:
    """Whether a job waits in a slot and fits now."""
    return episode.slots[slot] != NOBODY and fits(episode.state, episode.slots[slot], FREE)


@inlined
def _is_forced(episode: Episode) -> bool:
    for slot in range(episode.slots.size):
        if may_start(episode, slot):
            return False
    return True


@inlined
def _fill_slots(episode: Episode) -> None:
    # Jobs leave the backlog in the order of their arrival, each for the first empty slot.
    state, slot = episode.state, 0
    while state.clock[0].n_queued > 0 and slot < episode.slots.size:
        if episode.slots[slot] == NOBODY:
            episode.slots[slot] = queued(state, 0)
            dequeue(state, 0)
        slot += 1


@inlined
def _over_length(episode: Episode, waits: bool) -> float:
    # Sum over the jobs in slots and backlog of wait over length (section 3.2), or of what a timestep adds to that.
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
    # Whole timesteps, of which rounding errors of service times must not make more.
    record = episode.state.jobs[job]
    record.run = record.estimate = np.ceil(episode.service[job, policy] - 1e-9)


@inlined
def _start(episode: Episode, slot: int, policy: int) -> float:
    # Returns the gain that is paid at once.
    state, tally, weights, job = episode.state, episode.tally[0], episode.terms[0], episode.slots[slot]
    length, service = episode.length[job], episode.service[job, policy]
    wait = state.clock[0].now - state.jobs[job].submit
    _plan(episode, job, policy)
    start_job(state, job)
    cpus, gpus = state.request[job, CPUS], state.request[job, GPUS]
    all_cpus, all_gpus = state.units[CAPACITY, CPUS], state.units[CAPACITY, GPUS]
    if policy == DEPTH_FIRST:
        _fill(episode, job, 0, all_cpus, cpus)
        _fill(episode, job, all_cpus, all_cpus + all_gpus, gpus)
    else:
        _spread(episode, job, 0, all_cpus // episode.room.size, cpus)
        _spread(episode, job, all_cpus, all_gpus // episode.room.size, gpus)
    episode.policy[job] = policy
    tally.wait += wait
    tally.service += service
    tally.turnaround += wait + service
    tally.normalized_turnaround += (wait + service) / service
    tally.penalty += service - length
    episode.slots[slot] = NOBODY
    _fill_slots(episode)
    gain = weights.normalized_turnaround * (wait / length - wait / service) / state.jobs.size
    return float(gain - weights.penalty * (service - length))


@helper()
def _go_on_to(state: State, time: float) -> None:
    # All events up to that time happen before an agent looks again.
    while advance(state, time) == HAPPENED:
        pass
    state.clock[0].now = time


@inlined
def _go_on(episode: Episode, until: float) -> None:
    state, clock = episode.state, episode.state.clock[0]
    _go_on_to(state, until)
    episode.tally[0].over = clock.n_begun == state.jobs.size and clock.n_running == 0
    _fill_slots(episode)


@inlined
def _pass_time(episode: Episode) -> float:
    # Jobs wait, end and arrive in a timestep; returns the gain that is paid for it.
    gain = -episode.terms[0].normalized_turnaround * _over_length(episode, False) / episode.state.jobs.size
    _go_on(episode, episode.state.clock[0].now + 1.0)
    return float(gain)


@inlined
def _act(episode: Episode, action: int) -> None:
    # Slot and policy are one number, as every task's action is; see `Episodes.step`.
    tally, weight = episode.tally[0], episode.terms[0].waiting
    slot, policy = action // N_POLICIES, action % N_POLICIES
    named = 0 <= slot < episode.slots.size
    chosen = named and may_start(episode, slot)
    tally.invalid = named and not chosen
    gain = _start(episode, slot, policy) if chosen else _pass_time(episode)
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
def _begin(batch: Batch, e: int, jobset: int) -> None:
    cleared(batch, e, jobset)
    episode = episode_of(batch, e)
    rewind(episode.state, episode.first_clock, episode.pool)
    episode.slots[:] = NOBODY
    episode.policy[:] = NOBODY
    episode.holder[:] = NOBODY
    episode.until[:] = 0.0
    _go_on(episode, 0.0)
    if episode.terms[0].skips_forced:
        while _is_forced(episode):
            _pass_time(episode)


step_all = LAYOUT.step_kernel(_act, _begin)


@inlined
def _first_slot(episode: Episode, values: FloatArray, backfill: int) -> int:
    # That of the job with the lowest value, of all or of those that may be backfilled; ``NOBODY`` if there is none.
    state, best, lead = episode.state, NOBODY, NOBODY
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job == NOBODY or (backfill == FIRST_FIT and not fits(state, job, FREE)):
            continue
        if backfill == EASY and not keeps_shadow(state, job):
            continue
        if lead == NOBODY or values[job] < values[lead] or (values[job] == values[lead] and job < lead):
            best, lead = slot, job
    return best


@kernel(void(LAYOUT.batch, int64, int64, float64[:, ::1], int64[::1], int64))
def follow_list(batch: Batch, e: int, jobset: int, values: FloatArray, policies: IntArray, backfill: int) -> None:
    """Run an episode by a list; see `Episodes.follow_list`."""
    _begin(batch, e, jobset)
    episode = episode_of(batch, e)
    state = episode.state
    for job in range(state.jobs.size):
        _plan(episode, job, policies[job])
    while not episode.tally[0].over:
        row = values[state.clock[0].n_begun % values.shape[0]]
        # Without EASY a job that does not fit is passed over (first fit), or waited for.
        slot = _first_slot(episode, row, FIRST_FIT if backfill == FIRST_FIT else NONE)
        if slot != NOBODY and not may_start(episode, slot):
            find_shadow(state, episode.slots[slot])
            slot = _first_slot(episode, row, EASY) if backfill == EASY else NOBODY
        waits = slot == NOBODY
        _act(episode, N_POLICIES * episode.slots.size if waits else N_POLICIES * slot + policies[episode.slots[slot]])
