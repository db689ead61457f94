"""State, observations, rewards and kernels of an episode of batch scheduling.

A reward is the gain of an objective over a step, so that an episode's rewards add up to the objective.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numba import boolean, float32, float64, int64, void

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.side_by_side import Batch, EpisodeTally, Layout, OfJobs, Own, Shared, Simulation, rewind
from allocopt.kernels.arrays import Records
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.backfilling import backfill_queue, find_shadow, fits, is_overdue
from allocopt.simulator.kernels.events import HAPPENED, advance, dequeue, insert, queued, start_job
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, QUEUE, STARTED, Clock, JobRecord, State

EASY = int(Backfill.EASY)
HOUR_S = 3600.0
BOUNDED_SLOWDOWN, WAIT, MAKESPAN, UTILIZATION = range(4)  # what the kernels know the objectives by


@dataclass(frozen=True, slots=True)
class BoundedSlowdown:
    """Minus the mean bounded slowdown: at its start a job costs ``max(1, (wait + run) / max(run, 10 s)) / n_jobs``."""

    kind: ClassVar[int] = BOUNDED_SLOWDOWN
    unit_s: ClassVar[float] = 1.0


@dataclass(frozen=True, slots=True)
class MeanWait:
    """Minus the mean wait: at its start a job costs ``wait / (unit_s * n_jobs)``; ``unit_s`` is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = WAIT


@dataclass(frozen=True, slots=True)
class Makespan:
    """Minus the makespan: a start costs the time by which it moves the last end, over ``unit_s``, which is positive."""

    unit_s: float = HOUR_S
    kind: ClassVar[int] = MAKESPAN


@dataclass(frozen=True, slots=True)
class Utilization:
    """The share of the processor-seconds up to the last end that the jobs started so far hold; a step gains its change.

    That is the utilization of the machine once all jobs have started.
    """

    kind: ClassVar[int] = UTILIZATION
    unit_s: ClassVar[float] = 1.0


Reward = BoundedSlowdown | MeanWait | Makespan | Utilization


class _Tally(EpisodeTally, Protocol):
    # Over the jobs that have started. The jobset is the number of an episode's first job in the workload.
    started: int
    bounded_slowdown: float
    wait_s: float
    area: float  # processor-seconds held
    makespan_s: float  # last end; the first submission is at 0


class _Terms(Protocol):
    # The fields of `Reward`, and the number of slots.
    kind: int
    unit_s: float
    window: int


class Episode(NamedTuple):
    """One episode: ``n`` consecutive jobs of a workload."""

    state: Simulation
    tally: Own[Records[_Tally]]  # what it has come to, shape ``(1,)``
    terms: Shared[Records[_Terms]]  # the rules, shape ``(1,)``
    first_clock: Shared[Records[Clock]]  # before the first event, shape ``(1,)``
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of


@helper()
def _count_started(state: State, total: _Tally) -> None:
    clock = state.clock[0]
    # The simulator lists the jobs that started since it was last asked; the list is emptied here.
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
def _await_job(state: State, total: _Tally) -> None:
    while state.clock[0].n_queued == 0 and total.started < state.jobs.size:
        if advance(state, np.inf) != HAPPENED:
            break
    total.over = total.started == state.jobs.size


@inlined
def _worth(total: _Tally, terms: _Terms, n_jobs: int, machine: int) -> float:
    # Of the jobs started so far; rewards are its changes.
    if terms.kind == WAIT:
        return -total.wait_s / (terms.unit_s * n_jobs)
    if terms.kind == MAKESPAN:
        return -total.makespan_s / terms.unit_s
    if terms.kind == UTILIZATION:
        return total.area / (total.makespan_s * float(machine)) if total.makespan_s > 0 else 0.0
    return -total.bounded_slowdown / n_jobs


@helper()
def _act(episode: Episode, slot: int) -> None:
    state, total, terms = episode.state, episode.tally[0], episode.terms[0]
    n_jobs, machine = state.jobs.size, state.units[CAPACITY, 0]
    before = _worth(total, terms, n_jobs, machine)
    clock = state.clock[0]
    occupied = min(terms.window, clock.n_queued)
    total.invalid = slot >= occupied
    place = slot if slot < occupied else 0
    # The chosen job is moved to the head of the queue, where the kernels of EASY look for the reserved one: it starts
    # before all others, except those that may be backfilled.
    job = queued(state, place)
    insert(state.lists[QUEUE], clock.first, clock.first + place, job)
    while not fits(state, job, FREE):
        if state.rules[0].backfill == EASY and clock.n_queued > 1:
            # As `allocopt.simulator.kernels.backfilling.list_pass` does. A new head finds no job examined, for the last
            # one started at once or right after a job ended.
            if is_overdue(state):
                clock.examined = 0
            if clock.examined == 0:
                find_shadow(state, queued(state, 0))
            backfill_queue(state)
            clock.examined = clock.n_queued
        _count_started(state, total)
        advance(state, np.inf)
    dequeue(state, 0)
    start_job(state, job)
    _count_started(state, total)
    _await_job(state, total)
    total.reward = _worth(total, terms, n_jobs, machine) - before


@helper()
def _begin(episode: Episode) -> None:
    rewind(episode.state, episode.first_clock, episode.pool)
    jobs, first = episode.state.jobs, episode.tally[0].jobset
    for i in range(jobs.size):
        record = jobs[i]
        # The first job is submitted at 0. A preceding job outside the episode is not waited for.
        record.submit -= episode.pool[0].submit
        record.preceding -= first
        record.dependent = record.next_dependent = NOBODY
        if record.preceding < 0 or record.preceding >= jobs.size:
            record.preceding = NOBODY
    # Backwards, so that the dependents of a job are chained in the order of their numbers.
    for i in range(jobs.size - 1, -1, -1):
        if jobs[i].preceding != NOBODY:
            before = jobs[jobs[i].preceding]
            jobs[i].next_dependent = before.dependent
            before.dependent = i
    _await_job(episode.state, episode.tally[0])


_step_all = helper()(LAYOUT.stepping(_act, _begin))


MEANINGS = {
    "is_job": "1 where a job waits, else the whole row is 0",
    "wait": "wait / (wait + 1 h)",
    "estimate": "estimate / (estimate + 1 h)",
    "size": "processors asked for / processors of the machine",
    "fits": "1 if the job fits now",
    "free": "idle processors / processors of the machine",
    "queue": "waiting jobs, in the window or not / `n_jobs`",
    "wait_over_response": "wait / (wait + estimate)",
}
"""Numbers that describe a slot, in their order."""


@helper()
def _describe(episode: Episode, observation: Float32Array, legal: BoolArray) -> None:
    state = episode.state
    clock = state.clock[0]
    machine = 1.0 / state.units[CAPACITY, 0]
    free = state.units[FREE, 0]
    free_share, queue_share = free * machine, clock.n_queued / state.jobs.size
    occupied = min(clock.n_queued, legal.size)
    for slot in range(occupied):
        job = queued(state, slot)
        record, size = state.jobs[job], state.request[job, 0]
        wait, estimate = clock.now - record.release, record.estimate
        legal[slot] = True
        observation[slot, 0] = 1.0
        observation[slot, 1] = wait / (wait + HOUR_S)
        observation[slot, 2] = estimate / (estimate + HOUR_S)
        observation[slot, 3] = size * machine
        observation[slot, 4] = 1.0 if size <= free else 0.0
        observation[slot, 5] = free_share
        observation[slot, 6] = queue_share
        observation[slot, 7] = wait / (wait + estimate)
    legal[occupied:] = False
    observation[occupied:] = 0.0
    if episode.tally[0].over:
        legal[0] = True


@kernel(void(LAYOUT.batch, int64[::1], int64[::1], float64[::1], boolean[::1], float32[:, :, ::1], boolean[:, ::1]))
def step_and_describe_all(
    batch: Batch,
    actions: IntArray,
    jobsets: IntArray,
    rewards: FloatArray,
    over: BoolArray,
    observations: Float32Array,
    legal: BoolArray,
) -> None:
    """Step all episodes as `Layout.stepping` does, and write what is seen of them.

    Both in one call: a second one would take as long.
    """
    _step_all(batch, actions, jobsets, rewards, over)
    for e in range(actions.size):
        _describe(episode_of(batch, e), observations[e], legal[e])
