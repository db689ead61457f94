"""What an episode of batch scheduling holds, and its hot loops: it begins, an action is carried out."""

from typing import NamedTuple, Protocol

import numpy as np

from allocopt.envs.batch_scheduling.reward import Goal, Sums, worth
from allocopt.envs.side_by_side import (
    Batch,
    EpisodeTally,
    Layout,
    OfJobs,
    Own,
    Shared,
    Simulation,
    cleared,
    rewind,
    stepping,
)
from allocopt.kernels.compiled import helper
from allocopt.simulator.kernels.backfilling import backfill_queue, find_shadow, fits, is_overdue
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import dequeue, insert, queued
from allocopt.simulator.rules import Backfill
from allocopt.simulator.schedule import SLOWDOWN_BOUND_S
from allocopt.simulator.state import CAPACITY, FREE, NOBODY, QUEUE, STARTED, Clock, JobRecord, Records, State

EASY = int(Backfill.EASY)


class Tally(EpisodeTally, Sums, Protocol):
    """What an episode has come to; its jobset is the number of its first job in the workload."""


class Terms(Goal, Protocol):
    """What the episodes have in common."""

    window: int  # slots


class Episode(NamedTuple):
    """One episode: ``n`` consecutive jobs of a workload."""

    state: Simulation
    tally: Own[Records[Tally]]  # what it has come to, shape ``(1,)``
    terms: Shared[Records[Terms]]  # the rules, shape ``(1,)``
    first_clock: Shared[Records[Clock]]  # before the first event, shape ``(1,)``
    pool: OfJobs[Records[JobRecord]]  # the jobs before the first event, shape ``(n,)``


LAYOUT = Layout(Episode)
episode_of = LAYOUT.episode_of


@helper()
def _count_started(state: State, total: Tally) -> None:
    clock = state.clock[0]
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
def _backfill(state: State) -> None:
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
def _serve(state: State, total: Tally, place: int) -> None:
    """Let the job at a place of the queue start before all others, except those that may be backfilled."""
    clock = state.clock[0]
    job = queued(state, place)
    insert(state.lists[QUEUE], clock.first, clock.first + place, job)
    while not fits(state, job, FREE):
        if state.rules[0].backfill == EASY:
            _backfill(state)
        _count_started(state, total)
        advance(state, np.inf)
    dequeue(state, 0)
    start_job(state, job)
    _count_started(state, total)


@helper()
def _await_job(state: State, total: Tally) -> None:
    while state.clock[0].n_queued == 0 and total.started < state.jobs.size:
        if advance(state, np.inf) != HAPPENED:
            break
    total.over = total.started == state.jobs.size


@helper()
def act(episode: Episode, slot: int) -> None:
    """Serve the job in a slot of the window, the first one if nobody waits there, and go on to the next decision."""
    state, total, terms = episode.state, episode.tally[0], episode.terms[0]
    n_jobs, machine = state.jobs.size, state.units[CAPACITY, 0]
    before = worth(total, terms, n_jobs, machine)
    occupied = min(terms.window, state.clock[0].n_queued)
    total.invalid = slot >= occupied
    _serve(state, total, slot if slot < occupied else 0)
    _await_job(state, total)
    total.reward = worth(total, terms, n_jobs, machine) - before


@helper()
def begin(batch: Batch, e: int, jobset: int) -> None:
    """Begin an episode with jobs of the workload, the first submitted at 0; others are not waited for."""
    cleared(batch, e, jobset)
    episode = episode_of(batch, e)
    rewind(episode.state, episode.first_clock, episode.pool)
    jobs = episode.state.jobs
    for i in range(jobs.size):
        record = jobs[i]
        record.submit -= episode.pool[0].submit
        record.preceding -= jobset
        record.dependent = record.next_dependent = NOBODY
        if record.preceding < 0 or record.preceding >= jobs.size:
            record.preceding = NOBODY
    for i in range(jobs.size - 1, -1, -1):
        if jobs[i].preceding != NOBODY:
            before = jobs[jobs[i].preceding]
            jobs[i].next_dependent = before.dependent
            before.dependent = i
    _await_job(episode.state, episode.tally[0])


step_all = helper()(stepping(LAYOUT, act, begin))
