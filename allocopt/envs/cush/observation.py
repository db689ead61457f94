"""Observations of CuSH: the paper's image, or features of each slot that do not depend on the size of the machine."""

import numpy as np

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.cush.dynamics import LAYOUT, Episode, may_start
from allocopt.envs.cush.jobsets import CPUS, GPUS
from allocopt.kernels.compiled import inlined
from allocopt.simulator.kernels.backfilling import find_shadow
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, RUNNING

JOB_MEANINGS = {
    "is_job": "1 where a job waits; the numbers of a job are 0 in an empty slot",
    "log_length": "log2(1 + length) / 5",
    "cpus": "CPUs / all CPUs",
    "gpus": "GPUs / all GPUs",
    "cpus_over_free": "CPUs / (CPUs + free CPUs)",
    "gpus_over_free": "GPUs / (GPUs + free GPUs)",
    "log_gpus": "log2(1 + GPUs) / 10",
    "wait": "wait / (wait + 10 timesteps)",
    "wait_over_response": "wait / (wait + length)",
    "fits": "1 if the job can start now",
    "delay": "time t until it can if no other starts, t / (t + 10)",
    "area": "length times the larger share of CPUs or GPUs, a / (a + 10)",
    "rank": "share of the slots with a shorter job",
    "cpus_left": "CPUs that are free beside it / all CPUs, 0 if it cannot start",
    "gpus_left": "GPUs that are free beside it / all GPUs, 0 if it cannot start",
}
CLUSTER_MEANINGS = {
    "does_nothing": "1 in the last row, that of doing nothing; what follows is the same in all rows",
    "free_cpus": "free CPUs / all CPUs",
    "free_gpus": "free GPUs / all GPUs",
    "slots": "share of the slots with a job",
    "backlog": "jobs n that wait outside the queue, n / (n + 10)",
    "running": "jobs n that run, n / (n + 10)",
    "impatience": "sum s of 1 / length of the jobs in the queue, s / (1 + s)",
    "gap": "time t until the first running job ends, t / (t + 10)",
}
AHEAD = (1, 2, 4, 8, 16)
"""Timesteps after which the shares of CPUs and GPUs are told that are free then if no other job starts."""
N_JOB, N_CLUSTER, N_AHEAD = len(JOB_MEANINGS), len(CLUSTER_MEANINGS), len(AHEAD)
FIRST_TRAIT = N_JOB + N_CLUSTER + 2 * N_AHEAD  # features of a row before the traits of its job

MOST = 4.0  # no feature is larger
HALF = 10.0  # timesteps that count as a half where times are squeezed into 0 .. 1
NEW = 0.5  # what an image shows of a job that has just arrived; a longer wait comes closer to 1


@inlined
def _squeezed(time: float) -> float:
    return float(time / (time + HALF))


@inlined
def _describe_cluster(episode: Episode, rows: Float32Array) -> None:
    # What is the same in all rows, into the first one, from which it is copied.
    state, clock, row = episode.state, episode.state.clock[0], rows[0]
    cpus, gpus = 1.0 / state.units[CAPACITY, CPUS], 1.0 / state.units[CAPACITY, GPUS]
    free_cpus, free_gpus = state.units[FREE, CPUS], state.units[FREE, GPUS]
    occupied, impatience = 0, 0.0
    for slot in range(episode.slots.size):
        job = episode.slots[slot]
        if job != NOBODY:
            occupied += 1
            impatience += 1.0 / episode.length[job]
    row[N_JOB] = 0.0
    row[N_JOB + 1] = free_cpus * cpus
    row[N_JOB + 2] = free_gpus * gpus
    row[N_JOB + 3] = occupied / episode.slots.size
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
        row[N_JOB + N_CLUSTER + 2 * i] = free_cpus * cpus
        row[N_JOB + N_CLUSTER + 2 * i + 1] = free_gpus * gpus


@inlined
def _describe_job(episode: Episode, slot: int, rows: Float32Array) -> None:
    state, clock, row, job = episode.state, episode.state.clock[0], rows[slot], episode.slots[slot]
    wait, length = clock.now - state.jobs[job].submit, episode.length[job]
    cpus, gpus = state.request[job, CPUS], state.request[job, GPUS]
    all_cpus, all_gpus = float(state.units[CAPACITY, CPUS]), float(state.units[CAPACITY, GPUS])
    free_cpus, free_gpus = state.units[FREE, CPUS], state.units[FREE, GPUS]
    starts = may_start(episode, slot)
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
    row[10] = 0.0
    if not starts:
        # What this leaves in the state nobody reads before it is found anew.
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
    n_slots = episode.slots.size
    if episode.tally[0].over:
        rows[:] = 0.0
        return
    _describe_cluster(episode, rows)
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
def _draw(episode: Episode, image: Float32Array) -> None:
    # The cluster, then the jobs in the queue; a row is a timestep, a column a CPU or a GPU.
    state, now = episode.state, episode.state.clock[0].now
    if episode.tally[0].over:
        image[:] = 0.0
        return
    for row in range(image.shape[1]):
        line = image[0, row]
        for unit in range(line.size):
            line[unit] = np.float32(1.0) if episode.until[unit] > now + row else np.float32(0.0)
    first_gpu = state.units[CAPACITY, CPUS]
    for slot in range(episode.slots.size):
        image[slot + 1] = 0.0
        job = episode.slots[slot]
        if job == NOBODY:
            continue
        # A request in the shape of the cluster, as dark as the job has waited long.
        value = np.float32(NEW + (1.0 - NEW) * _squeezed(now - state.jobs[job].submit))
        for row in range(min(image.shape[1], int(np.ceil(episode.length[job])))):
            image[slot + 1, row, : state.request[job, CPUS]] = value
            image[slot + 1, row, first_gpu : first_gpu + state.request[job, GPUS]] = value


@inlined
def _mark_legal(episode: Episode, legal: BoolArray) -> None:
    for slot in range(episode.slots.size):
        legal[slot] = not episode.tally[0].over and may_start(episode, slot)
    legal[episode.slots.size] = True


describe_all = LAYOUT.describe_kernel(_mark_legal, _describe, 2)
draw_all = LAYOUT.describe_kernel(_mark_legal, _draw, 3)
