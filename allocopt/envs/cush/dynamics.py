"""What an episode of CuSH holds, and its hot loops: it begins, a job starts, a timestep passes."""

from typing import NamedTuple, Protocol

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import Machine
from allocopt.envs.cush.reward import Weights
from allocopt.envs.side_by_side import Batch, EpisodeTally, Layout, OfJobs, Own, Shared, cleared, step_kernel
from allocopt.kernels.arrays import FloatMatrix, IntMatrix
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import NOBODY, Records

DEPTH_FIRST, N_POLICIES = int(Policy.DEPTH_FIRST), len(Policy)
NONE, EASY = int(Backfill.NONE), int(Backfill.EASY)


class Tally(EpisodeTally, Protocol):
    """Where an episode stands, and what it has come to."""

    now: int  # the timestep
    arrived: int  # jobs that have arrived so far: the first ones of the job set
    admitted: int  # jobs that have come into the queue so far; those between wait in the backlog
    started: int  # jobs that have started so far
    ended: int  # jobs that have ended so far
    running: int  # jobs that run now
    free_cpus: int  # units that nobody holds
    free_gpus: int
    steps: int  # actions so far
    # Sums over the jobs that have started.
    wait: float
    service: float
    turnaround: float
    normalized_turnaround: float
    penalty: float
    makespan: int  # timestep by which the last of them has ended
    total_reward: float  # sum of the rewards so far
    local_reward: float  # sum of the paper's local rewards so far, whatever is paid


class Terms(Protocol):
    """What the episodes have in common besides machine and reward."""

    skips_forced: int  # whether time passes by itself where nothing can be chosen


class Episode(NamedTuple):
    """One episode of ``n`` jobs; for each job there is a row, and records have shape ``(1,)``."""

    tally: Own[Records[Tally]]
    machine: Shared[Records[Machine]]
    terms: Shared[Records[Terms]]
    weights: Shared[Records[Weights]]
    slots: Own[IntArray]  # jobs in the queue, ``NOBODY`` in an empty slot, shape ``(Q,)``
    list: Own[IntArray]  # the running jobs, those that end first in front, as many as run; shape ``(n,)``
    start: Own[IntArray]  # timestep in which each job started, ``NOBODY`` before
    end: Own[IntArray]  # timestep from which on its units are free
    policy: Own[IntArray]  # how it was allocated
    holder: Own[IntArray]  # who held each unit last, shape ``(U,)``: the CPUs node by node, then the GPUs
    until: Own[IntArray]  # timestep from which on each unit is free, shape ``(U,)``
    room: Shared[IntArray]  # for a number per node
    # The jobs, see `JobSet`.
    arrival: OfJobs[IntArray]
    length: OfJobs[FloatArray]
    request: OfJobs[IntMatrix]
    service: OfJobs[FloatMatrix]
    traits: OfJobs[FloatMatrix]


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of


@inlined
def _hold(episode: Episode, job: int, unit: int) -> None:
    episode.holder[unit] = job
    episode.until[unit] = episode.end[job]


@inlined
def _fill(episode: Episode, job: int, first: int, end: int, wanted: int) -> None:
    now, unit = episode.tally[0].now, first
    while wanted > 0 and unit < end:
        if episode.until[unit] <= now:
            _hold(episode, job, unit)
            wanted -= 1
        unit += 1


@inlined
def _level(episode: Episode, first: int, width: int, wanted: int) -> int:
    """Count free units per node; return how many every node, or all it has, gives without giving more than wanted."""
    now, until, count = episode.tally[0].now, episode.until, episode.room
    for node in range(count.size):
        free = 0
        for unit in range(first + node * width, first + (node + 1) * width):
            free += until[unit] <= now
        count[node] = free
    level, given = 0, 0
    while level < width:
        more = 0
        for node in range(count.size):
            more += count[node] > level
        if given + more > wanted:
            break
        given += more
        level += 1
    return level


@inlined
def _spread(episode: Episode, job: int, first: int, width: int, wanted: int) -> None:
    """Take units from all nodes alike; what is over comes from the first ones."""
    level, count, now = _level(episode, first, width, wanted), episode.room, episode.tally[0].now
    over = wanted
    for node in range(count.size):
        over -= min(count[node], level)
    for node in range(count.size):
        take = min(count[node], level)
        if count[node] > level and over > 0:
            take += 1
            over -= 1
        unit = first + node * width
        while take > 0:
            if episode.until[unit] <= now:
                _hold(episode, job, unit)
                take -= 1
            unit += 1


@helper()
def _place(episode: Episode, job: int, policy: int) -> None:
    machine = episode.machine[0]
    nodes, cpus, gpus = machine.nodes, machine.cpus, machine.gpus
    if policy == DEPTH_FIRST:
        _fill(episode, job, 0, nodes * cpus, episode.request[job, 0])
        _fill(episode, job, nodes * cpus, nodes * (cpus + gpus), episode.request[job, 1])
    else:
        _spread(episode, job, 0, cpus, episode.request[job, 0])
        _spread(episode, job, nodes * cpus, gpus, episode.request[job, 1])


@inlined
def may_start(episode: Episode, slot: int) -> bool:
    """Whether a job waits in a slot and fits now."""
    job = episode.slots[slot]
    if job == NOBODY:
        return False
    tally, request = episode.tally[0], episode.request
    return bool(request[job, 0] <= tally.free_cpus and request[job, 1] <= tally.free_gpus)


@inlined
def _is_forced(episode: Episode) -> bool:
    for slot in range(episode.slots.size):
        if may_start(episode, slot):
            return False
    return True


@inlined
def _admit(episode: Episode) -> None:
    tally, arrival = episode.tally[0], episode.arrival
    while tally.arrived < arrival.size and arrival[tally.arrived] <= tally.now:
        tally.arrived += 1
    slot = 0
    while tally.admitted < tally.arrived and slot < episode.slots.size:
        if episode.slots[slot] == NOBODY:
            episode.slots[slot] = tally.admitted
            tally.admitted += 1
        slot += 1


@inlined
def _over_length(episode: Episode, waits: bool) -> float:
    """Sum over the jobs in queue and backlog of wait over length (section 3.2), or of what a timestep adds to that."""
    tally, total = episode.tally[0], 0.0
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job != NOBODY:
            total += (tally.now - episode.arrival[job] if waits else 1.0) / episode.length[job]
    for job in range(tally.admitted, tally.arrived):
        total += (tally.now - episode.arrival[job] if waits else 1.0) / episode.length[job]
    return total


@helper()
def _start(episode: Episode, slot: int, policy: int) -> float:
    """Return the gain that is paid at once."""
    tally, weights, job = episode.tally[0], episode.weights[0], episode.slots[slot]
    wait, length, service = tally.now - episode.arrival[job], episode.length[job], episode.service[job, policy]
    # A job holds its units for whole timesteps; rounding errors of service times must not make one more.
    end = tally.now + int(np.ceil(service - 1e-9))
    episode.start[job], episode.end[job], episode.policy[job] = tally.now, end, policy
    _place(episode, job, policy)
    tally.free_cpus -= episode.request[job, 0]
    tally.free_gpus -= episode.request[job, 1]
    at = tally.running
    while at > 0 and episode.end[episode.list[at - 1]] > end:
        episode.list[at] = episode.list[at - 1]
        at -= 1
    episode.list[at] = job
    tally.running += 1
    tally.started += 1
    tally.wait += wait
    tally.service += service
    tally.turnaround += wait + service
    tally.normalized_turnaround += (wait + service) / service
    tally.penalty += service - length
    tally.makespan = max(tally.makespan, end)
    episode.slots[slot] = NOBODY
    _admit(episode)
    gain = weights.normalized_turnaround * (wait / length - wait / service) / episode.arrival.size
    return float(gain - weights.penalty * (service - length))


@helper()
def _pass_time(episode: Episode) -> float:
    """Let a timestep pass: jobs wait, end and arrive; return the gain that is paid for it."""
    tally, n = episode.tally[0], episode.arrival.size
    gain = -episode.weights[0].normalized_turnaround * _over_length(episode, False) / n
    tally.now += 1
    ended = 0
    while ended < tally.running and episode.end[episode.list[ended]] <= tally.now:
        job = episode.list[ended]
        tally.free_cpus += episode.request[job, 0]
        tally.free_gpus += episode.request[job, 1]
        ended += 1
    if ended:
        for at in range(ended, tally.running):
            episode.list[at - ended] = episode.list[at]
        tally.running -= ended
        tally.ended += ended
    tally.over = tally.ended == n
    _admit(episode)
    return float(gain)


@helper()
def act(episode: Episode, action: int) -> None:
    """Start the job in a slot under a policy, or let a timestep pass, and pay for it; see `Episodes.step`."""
    tally, weight = episode.tally[0], episode.weights[0].waiting
    slot, policy = action // N_POLICIES, action % N_POLICIES
    named = 0 <= slot < episode.slots.size
    chosen = named and may_start(episode, slot)
    tally.invalid = named and not chosen
    tally.steps += 1
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
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with a job set, on an empty cluster, before the first timestep has passed."""
    cleared(batch, e, jobset)
    episode = episode_of(batch, e)
    tally, machine = episode.tally[0], episode.machine[0]
    tally.free_cpus, tally.free_gpus = machine.nodes * machine.cpus, machine.nodes * machine.gpus
    episode.slots[:] = NOBODY
    episode.start[:] = NOBODY
    episode.end[:] = NOBODY
    episode.policy[:] = NOBODY
    episode.holder[:] = NOBODY
    episode.until[:] = 0
    _admit(episode)
    if episode.terms[0].skips_forced:
        while not tally.over and _is_forced(episode):
            _pass_time(episode)


step_all = step_kernel(LAYOUT, act, begin)


@inlined
def _precedes(values: FloatArray, job: int, other: int) -> bool:
    """Whether a job stands before another one in the list, which may be ``NOBODY``."""
    if other == NOBODY:
        return True
    return bool(values[job] < values[other] or (values[job] == values[other] and job < other))


@inlined
def _first_of_list(episode: Episode, values: FloatArray, only_fitting: bool) -> int:
    """Slot of the first job of the list, or of those that fit; ``NOBODY`` where there is none."""
    best, lead = NOBODY, NOBODY
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job == NOBODY or (only_fitting and not may_start(episode, slot)):
            continue
        if _precedes(values, job, lead):
            best, lead = slot, job
    return best


@inlined
def _backfilled(episode: Episode, values: FloatArray, policies: IntArray, head: int) -> int:
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
        if (in_time or beside) and _precedes(values, job, lead):
            best, lead = slot, job
    return best


@kernel(void(LAYOUT.batch, int64, int64, float64[:, ::1], int64[::1], int64))
def follow_list(batch: Batch, e: int, jobset: int, values: FloatArray, policies: IntArray, backfill: int) -> None:
    """Run an episode by a list; see `Episodes.follow_list`."""
    begin(batch, e, jobset)
    episode = episode_of(batch, e)
    while not episode.tally[0].over:
        row = values[episode.tally[0].started % values.shape[0]]
        slot = _first_of_list(episode, row, backfill != NONE and backfill != EASY)
        if slot != NOBODY and not may_start(episode, slot):
            slot = _backfilled(episode, row, policies, slot) if backfill == EASY else NOBODY
        if slot == NOBODY:
            act(episode, N_POLICIES * episode.slots.size)
        else:
            act(episode, N_POLICIES * slot + policies[episode.slots[slot]])
