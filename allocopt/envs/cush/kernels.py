"""The hot loops of the CuSH environment: an episode begins, a job starts, a timestep passes."""

import numpy as np
from numba import boolean, float64, int64, void

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.envs.cush.batch import BATCH, NOBODY, Batch, Episode
from allocopt.envs.cush.placement import place
from allocopt.kernels.compiled import helper, inlined, kernel


@inlined
def episode_of(batch: Batch, number: int) -> Episode:
    """Return one episode, with the jobs of its set."""
    jobset = batch.tally[number, 0].jobset
    first, end = batch.bounds[jobset], batch.bounds[jobset + 1]
    return Episode(
        batch.tally[number],
        batch.terms,
        batch.slots[number],
        batch.list[number],
        batch.start[number],
        batch.end[number],
        batch.policy[number],
        batch.holder[number],
        batch.until[number],
        batch.room,
        batch.arrival[first:end],
        batch.length[first:end],
        batch.request[first:end],
        batch.service[first:end],
        batch.traits[first:end],
    )


@inlined
def may_start(episode: Episode, slot: int) -> bool:
    """Whether a job waits in a slot and fits now."""
    job = episode.slots[slot]
    if job == NOBODY:
        return False
    tally, request = episode.tally[0], episode.request
    return bool(request[job, 0] <= tally.free_cpus and request[job, 1] <= tally.free_gpus)


@inlined
def is_forced(episode: Episode) -> bool:
    """Whether nothing can be done but to let time pass."""
    for slot in range(episode.slots.size):
        if may_start(episode, slot):
            return False
    return True


@inlined
def admit(episode: Episode) -> None:
    """Let the jobs that arrive now wait, and move the first of the backlog into empty slots."""
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
def waiting(episode: Episode) -> float:
    """Sum of wait over length of the jobs in the queue and the backlog (section 3.2)."""
    tally, total = episode.tally[0], 0.0
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job != NOBODY:
            total += (tally.now - episode.arrival[job]) / episode.length[job]
    for job in range(tally.admitted, tally.arrived):
        total += (tally.now - episode.arrival[job]) / episode.length[job]
    return total


@inlined
def urgency(episode: Episode) -> float:
    """Sum of 1 / length of the jobs that wait: what a timestep costs."""
    total = 0.0
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job != NOBODY:
            total += 1.0 / episode.length[job]
    for job in range(episode.tally[0].admitted, episode.tally[0].arrived):
        total += 1.0 / episode.length[job]
    return total


@helper()
def start(episode: Episode, slot: int, policy: int) -> float:
    """Start the job in a slot; return the gain that is paid at once."""
    tally, terms, job = episode.tally[0], episode.terms[0], episode.slots[slot]
    wait, length, service = tally.now - episode.arrival[job], episode.length[job], episode.service[job, policy]
    # A job holds its units for whole timesteps; rounding errors of service times must not make one more.
    end = tally.now + int(np.ceil(service - 1e-9))
    episode.start[job], episode.end[job], episode.policy[job] = tally.now, end, policy
    place(episode, job, policy)
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
    admit(episode)
    gain = terms.normalized_turnaround * (wait / length - wait / service) / episode.arrival.size
    return float(gain - terms.penalty * (service - length))


@helper()
def pass_time(episode: Episode) -> float:
    """Let a timestep pass: jobs wait, end and arrive; return the gain that is paid for it."""
    tally, n = episode.tally[0], episode.arrival.size
    gain = -episode.terms[0].normalized_turnaround * urgency(episode) / n
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
    admit(episode)
    return float(gain)


@helper()
def act(episode: Episode, slot: int, policy: int) -> None:
    """Start the job in a slot, or let a timestep pass, and pay for it."""
    tally, weight = episode.tally[0], episode.terms[0].waiting
    named = 0 <= slot < episode.slots.size
    chosen = named and may_start(episode, slot)
    tally.invalid = named and not chosen
    tally.steps += 1
    gain = start(episode, slot, policy) if chosen else pass_time(episode)
    local = waiting(episode)
    reward = gain - weight * local
    if episode.terms[0].skips_forced:
        while not tally.over and is_forced(episode):
            reward += pass_time(episode)
            more = waiting(episode)
            reward -= weight * more
            local += more
    tally.reward = reward
    tally.total_reward += reward
    tally.local_reward -= local


@helper()
def begin(batch: Batch, number: int, jobset: int) -> None:
    """Begin an episode with a job set, on an empty cluster, before the first timestep has passed."""
    batch.tally[number, 0].jobset = jobset
    episode = episode_of(batch, number)
    tally, terms = episode.tally[0], episode.terms[0]
    tally.over = tally.now = tally.arrived = tally.admitted = tally.started = tally.ended = tally.running = 0
    tally.steps = tally.invalid = tally.makespan = 0
    tally.free_cpus, tally.free_gpus = terms.nodes * terms.cpus, terms.nodes * terms.gpus
    tally.wait = tally.service = tally.turnaround = tally.normalized_turnaround = tally.penalty = 0.0
    tally.reward = tally.total_reward = tally.local_reward = 0.0
    episode.slots[:] = NOBODY
    episode.start[:] = NOBODY
    episode.end[:] = NOBODY
    episode.policy[:] = NOBODY
    episode.holder[:] = NOBODY
    episode.until[:] = 0
    admit(episode)
    if terms.skips_forced:
        while not tally.over and is_forced(episode):
            pass_time(episode)


@kernel(void(BATCH, int64[::1]))
def begin_all(batch: Batch, jobsets: IntArray) -> None:
    """Begin an episode wherever a job set is named."""
    for number in range(jobsets.size):
        if jobsets[number] >= 0:
            begin(batch, number, jobsets[number])


@kernel(void(BATCH, int64[::1], int64[::1], float64[::1], boolean[::1]))
def step_all(batch: Batch, slots: IntArray, policies: IntArray, rewards: FloatArray, ended: BoolArray) -> None:
    """Carry out an action in every episode; one that is over stays, or begins anew where a job set follows."""
    for number in range(slots.size):
        tally = batch.tally[number, 0]
        rewards[number] = 0.0
        if not tally.over:
            act(episode_of(batch, number), slots[number], policies[number])
            rewards[number] = tally.reward
        ended[number] = tally.over
        if tally.over:
            batch.last[number, 0] = tally
            if batch.following[number] >= 0:
                begin(batch, number, batch.following[number])


@inlined
def mark_legal(episode: Episode, mask: BoolArray) -> None:
    """Write which actions are legal; the last one, to do nothing, always is."""
    for slot in range(episode.slots.size):
        mask[slot] = not episode.tally[0].over and may_start(episode, slot)
    mask[episode.slots.size] = True
