"""What happens on a multicore machine: jobs start by a policy, tasks end, time goes on to the next decision."""

import numpy as np
from numba import int64, void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import HAPPENED, advance, start_job
from allocopt.simulator.kernels.queue import queued
from allocopt.simulator.multicore.policies import VOID
from allocopt.simulator.multicore.rates import preview, settle, touch
from allocopt.simulator.multicore.selection import fits, leave_queue, next_place, next_processor
from allocopt.simulator.multicore.state import IDLE, MULTICORE, Multicore
from allocopt.simulator.state import ENDED, FREE, STATE, State

OVER, DECISION, STALLED = 0, 1, 2
"""What `to_decision` found: all jobs have ended, one waits and a core is idle, or jobs wait and nothing will happen."""


@inlined
def put_task(state: State, multicore: Multicore, task: int, processor: int) -> None:
    """Start a task on the first idle core of a processor."""
    now = state.clock[0].now
    touch(multicore, processor, now)
    record, mine = multicore.processors[processor], multicore.tasks[task]
    core = record.idle_from
    while multicore.core_task[core] != IDLE:
        core += 1
    multicore.core_task[core] = task
    record.idle_from = core + 1
    mine.core, mine.processor = core, processor
    record.active += 1
    record.demand += mine.intensity * record.speed
    node, job = multicore.nodes[record.node], multicore.jobs[mine.job]
    node.free_cores -= 1
    node.free_mb -= job.memory_mb
    node.taken_by = mine.job
    multicore.tally[0].running += 1
    start_job(state, task)


@inlined
def start_at(state: State, multicore: Multicore, place: int, selection: int) -> None:
    """Start the job at a place of the queue, which fits, on the cores that a selection takes."""
    task = queued(state, place)
    job = multicore.tasks[task].job
    record = multicore.jobs[job]
    leave_queue(state, multicore, place)
    record.start = state.clock[0].now
    end = task + record.tasks
    while task < end:
        node = multicore.processors[next_processor(multicore, selection, job, IDLE)].node
        last = min(end, task + record.per_node)
        while task < last:
            put_task(state, multicore, task, next_processor(multicore, selection, job, node))
            task += 1


@inlined
def free_ended(state: State, multicore: Multicore) -> None:
    """Free the cores of the tasks that have just ended."""
    now, tally = state.clock[0].now, multicore.tally[0]
    for at in range(state.clock[0].n_ended):
        task = state.lists[ENDED, at]
        mine = multicore.tasks[task]
        touch(multicore, mine.processor, now)
        record, job = multicore.processors[mine.processor], multicore.jobs[mine.job]
        multicore.core_task[mine.core] = IDLE
        record.idle_from = min(record.idle_from, mine.core)
        record.active -= 1
        record.demand -= multicore.tasks[task].intensity * record.speed
        node = multicore.nodes[record.node]
        node.free_cores += 1
        node.free_mb += job.memory_mb
        tally.running -= 1
        job.unfinished -= 1
        if job.unfinished == 0:
            job.end = now
            tally.finished += 1


@kernel(int64(STATE, MULTICORE, int64, int64))
def decide(state: State, multicore: Multicore, jobs: int, nodes: int) -> int:
    """Start waiting jobs by a policy until the one that is next does not fit; return how many."""
    started = 0
    while jobs != VOID and state.clock[0].n_queued > 0:
        place = next_place(state, multicore, jobs)
        if not fits(multicore, multicore.tasks[queued(state, place)].job):
            break
        start_at(state, multicore, place, nodes)
        started += 1
    settle(state, multicore)
    return started


@helper()
def start_all(state: State, multicore: Multicore, nodes: int) -> None:
    """Start every waiting job that fits, none of which blocks another."""
    place = 0
    while place < state.clock[0].n_queued:
        if fits(multicore, multicore.tasks[queued(state, place)].job):
            start_at(state, multicore, place, nodes)
        else:
            place += 1
    settle(state, multicore)


@helper()
def next_event(state: State, multicore: Multicore) -> bool:
    """Go on to the next time at which jobs come or tasks end; return False when nothing is left to happen."""
    settle(state, multicore)
    if advance(state, np.inf) != HAPPENED:
        return False
    free_ended(state, multicore)
    return True


@kernel(int64(STATE, MULTICORE))
def to_decision(state: State, multicore: Multicore) -> int:
    """Go on until a job waits and a core is idle, with the speed factors of that time."""
    while next_event(state, multicore):
        if state.clock[0].n_queued > 0 and state.units[FREE, 0] > 0:
            preview(multicore)
            return DECISION
    return STALLED if state.clock[0].n_queued > 0 else OVER


@kernel(int64(STATE, MULTICORE, int64, int64, int64))
def run_policy(state: State, multicore: Multicore, jobs: int, nodes: int, events: int) -> int:
    """Simulate under one policy until nothing is left to happen, or for a number of events; return how many."""
    for done in range(events):
        if not next_event(state, multicore):
            return done
        decide(state, multicore, jobs, nodes)
    return events


@kernel(void(STATE, MULTICORE, int64))
def run_placed(state: State, multicore: Multicore, nodes: int) -> None:
    """Simulate jobs that come when they are to start, each on its own node, until nothing is left to happen."""
    while next_event(state, multicore):
        start_all(state, multicore, nodes)
