"""Kernels of multicore machines: a policy selects jobs and cores, tasks end, time advances to the next decision.

Processors draw power, and their tasks slow one another down (`allocopt.simulator.multicore.contention`).
"""

import numpy as np
from numba import float64, int64, void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.random import splitmix_below
from allocopt.simulator.kernels.events import HAPPENED, advance, change_speed, start_job
from allocopt.simulator.kernels.queue import dequeue, queued
from allocopt.simulator.multicore.contention import factor_of
from allocopt.simulator.multicore.policies import EVERY, VOID, JobSelection, NodeSelection
from allocopt.simulator.multicore.state import IDLE, MULTICORE, Multicore
from allocopt.simulator.state import ENDED, FREE, STATE, State

RANDOM_JOB, FIRST = int(JobSelection.RANDOM), int(JobSelection.FIRST)
RANDOM_NODE, HIGH_GFLOPS, HIGH_CORES = (int(NodeSelection[n]) for n in ("RANDOM", "HIGH_GFLOPS", "HIGH_CORES"))
HIGH_MEM, HIGH_MEM_BW = int(NodeSelection.HIGH_MEM), int(NodeSelection.HIGH_MEM_BW)

ROUNDING = 1e-9
"""Least difference of values that count as different, relative to 1 + value. Sums over tasks differ by rounding errors,
which depend on the order of the tasks."""


@inlined
def core_power(multicore: Multicore, processor: int, factor: float) -> float:
    """Return the power in watts that an active core draws at a speed factor, without shared power."""
    record = multicore.processors[processor]
    return float(record.core_w * (record.stalled + (1.0 - record.stalled) * factor))


@kernel(void(MULTICORE, int64, float64), forceinline=True)
def count_energy(multicore: Multicore, processor: int, now: float) -> None:
    """Add the energy of a processor and its tasks up to now; powers have been constant since the last call."""
    record = multicore.processors[processor]
    seconds = now - record.changed
    record.changed = now
    if seconds <= 0.0:
        return
    record.energy += seconds * record.power
    if record.active == 0:
        return
    shared = record.processor_w / record.active
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task != IDLE:
            power = core_power(multicore, processor, multicore.tasks[task].factor) + shared
            multicore.tasks[task].energy += seconds * power


@inlined
def _touch(multicore: Multicore, processor: int, now: float) -> None:
    """Add a processor's energy before a change, and mark that its speeds must be set."""
    count_energy(multicore, processor, now)
    record, tally = multicore.processors[processor], multicore.tally[0]
    if not record.dirty:
        record.dirty = 1
        multicore.dirty[tally.n_dirty] = processor
        tally.n_dirty += 1


@inlined
def _set_factors(multicore: Multicore, processor: int) -> None:
    """Set the speed factors of the tasks of a processor, and its power."""
    record, sharing = multicore.processors[processor], multicore.tally[0].sharing
    # Sum up again, so that rounding errors do not accumulate.
    record.demand = 0.0
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task != IDLE:
            record.demand += multicore.tasks[task].intensity * record.speed
    if record.active == 0:
        record.power = record.idle_w
        return
    record.power = record.processor_w
    others = float(record.active - 1)
    for core in range(record.first_core, record.first_core + record.cores):
        task = multicore.core_task[core]
        if task == IDLE:
            continue
        rate = multicore.tasks[task].intensity * record.speed
        factor = factor_of(
            rate, record.demand, others, sharing, record.b, record.c, record.da, record.db, record.dc, record.dd
        )
        multicore.tasks[task].factor = factor
        record.power += core_power(multicore, processor, factor)


@inlined
def _settle(state: State, multicore: Multicore) -> None:
    """Set speeds and powers on processors on which tasks have started or ended."""
    tally = multicore.tally[0]
    for at in range(tally.n_dirty):
        processor = multicore.dirty[at]
        multicore.processors[processor].dirty = 0
        _set_factors(multicore, processor)
        record = multicore.processors[processor]
        for core in range(record.first_core, record.first_core + record.cores):
            task = multicore.core_task[core]
            # Setting an unchanged speed again would move the end by a rounding error.
            if task != IDLE and state.jobs[task].speed != multicore.tasks[task].factor * record.speed:
                change_speed(state, task, multicore.tasks[task].factor * record.speed)
    tally.n_dirty = 0


@inlined
def _next_place(state: State, multicore: Multicore, selection: int) -> int:
    """Return the position in the queue, counted from its head, of the next job; the queue must not be empty."""
    n_queued, tally = state.clock[0].n_queued, multicore.tally[0]
    if selection == FIRST:
        return 0
    if selection == RANDOM_JOB:
        return splitmix_below(multicore.word, n_queued)
    if tally.sought_by != selection:
        tally.sought_by, tally.sought, tally.best = selection, 1, 0
    # Values never change, so search only positions behind those of the last search.
    lowest = multicore.values[selection, queued(state, tally.best)]
    while tally.sought < n_queued:
        value = multicore.values[selection, queued(state, tally.sought)]
        if value < lowest:
            tally.best, lowest = tally.sought, value
        tally.sought += 1
    return int(tally.best)


@inlined
def _may_host(multicore: Multicore, job: int, node: int) -> bool:
    record, wanted = multicore.nodes[node], multicore.jobs[job]
    if wanted.fixed_node != IDLE and wanted.fixed_node != node:
        return False
    memory = wanted.per_node * wanted.memory_mb
    return bool(record.taken_by != job and record.free_cores >= wanted.per_node and record.free_mb >= memory)


@inlined
def _fits(multicore: Multicore, job: int) -> bool:
    missing = multicore.jobs[job].nodes
    for node in range(multicore.nodes.size):
        if _may_host(multicore, job, node):
            missing -= 1
            if missing == 0:
                return True
    return False


@inlined
def _may_take(multicore: Multicore, job: int, node: int, processor: int) -> bool:
    """Whether a processor has an idle core on a node, or if ``node`` is ``IDLE``, on any node that can host the job."""
    record = multicore.processors[processor]
    if record.active == record.cores:
        return False
    return bool(record.node == node) if node != IDLE else _may_host(multicore, job, record.node)


@inlined
def _random_processor(multicore: Multicore, job: int, node: int) -> int:
    """Draw an idle core among those that `_may_take` allows, and return its processor."""
    idle = 0
    for processor in range(multicore.processors.size):
        if _may_take(multicore, job, node, processor):
            idle += multicore.processors[processor].cores - multicore.processors[processor].active
    drawn = splitmix_below(multicore.word, idle)
    for processor in range(multicore.processors.size):
        if _may_take(multicore, job, node, processor):
            drawn -= multicore.processors[processor].cores - multicore.processors[processor].active
            if drawn < 0:
                return processor
    return IDLE


@inlined
def _next_processor(multicore: Multicore, selection: int, job: int, node: int) -> int:
    """Return the processor with the next idle core among those that `_may_take` allows."""
    if selection == RANDOM_NODE:
        return _random_processor(multicore, job, node)
    best, lowest = IDLE, 0.0
    for processor in range(multicore.processors.size):
        if not _may_take(multicore, job, node, processor):
            continue
        record = multicore.processors[processor]
        # The processor with the lowest value is next.
        if selection == HIGH_GFLOPS:
            value = float(-record.speed)
        elif selection == HIGH_CORES:
            value = float(-multicore.nodes[record.node].free_cores)
        elif selection == HIGH_MEM:
            value = float(-multicore.nodes[record.node].free_mb)
        elif selection == HIGH_MEM_BW:
            value = float(record.demand - record.bandwidth)
        else:
            value = float((record.processor_w if record.active else record.idle_w) / record.cores)
        if best == IDLE or value < lowest - ROUNDING * (1.0 + abs(lowest)):
            best, lowest = processor, value
    return best


OVER, DECISION, STALLED = 0, 1, 2
"""Results of `to_decision`: all jobs have ended; a job waits and a core is idle; or jobs wait but no event is left."""


@inlined
def _start_at(state: State, multicore: Multicore, place: int, selection: int) -> None:
    """Start the job at a position of the queue, which must fit, on cores by a selection."""
    task = queued(state, place)
    job = multicore.tasks[task].job
    asked, tally, now = multicore.jobs[job], multicore.tally[0], state.clock[0].now
    dequeue(state, place)
    # Keep the result of the last search, except if this job was its result.
    if place == tally.best:
        tally.sought_by = IDLE
    if place < tally.best:
        tally.best -= 1
    if place < tally.sought:
        tally.sought -= 1
    asked.start = now
    last, end, number = task, task + asked.tasks, IDLE
    while task < end:
        if task == last:
            number = multicore.processors[_next_processor(multicore, selection, job, IDLE)].node
            last = min(end, task + asked.per_node)
        processor = _next_processor(multicore, selection, job, number)
        _touch(multicore, processor, now)
        record, mine, node = multicore.processors[processor], multicore.tasks[task], multicore.nodes[number]
        core = record.idle_from
        while multicore.core_task[core] != IDLE:
            core += 1
        multicore.core_task[core] = task
        record.idle_from = core + 1
        mine.core, mine.processor = core, processor
        record.active += 1
        record.demand += mine.intensity * record.speed
        node.free_cores -= 1
        node.free_mb -= asked.memory_mb
        node.taken_by = job
        tally.running += 1
        start_job(state, task)
        task += 1


@kernel(int64(STATE, MULTICORE, int64, int64))
def decide(state: State, multicore: Multicore, jobs: int, nodes: int) -> int:
    """Start jobs by a policy until the next one does not fit, or with ``EVERY`` all that fit; return how many."""
    started = passed_over = 0
    while jobs != VOID and passed_over < state.clock[0].n_queued:
        place = passed_over if jobs == EVERY else _next_place(state, multicore, jobs)
        if _fits(multicore, multicore.tasks[queued(state, place)].job):
            _start_at(state, multicore, place, nodes)
            started += 1
        elif jobs == EVERY:
            passed_over += 1
        else:
            break
    _settle(state, multicore)
    return started


@helper()
def _next_event(state: State, multicore: Multicore) -> bool:
    """Advance to the next time at which jobs arrive or tasks end; return False if no event is left."""
    _settle(state, multicore)
    if advance(state, np.inf) != HAPPENED:
        return False
    now, tally = state.clock[0].now, multicore.tally[0]
    for at in range(state.clock[0].n_ended):
        task = multicore.tasks[state.lists[ENDED, at]]
        _touch(multicore, task.processor, now)
        record, job = multicore.processors[task.processor], multicore.jobs[task.job]
        multicore.core_task[task.core] = IDLE
        record.idle_from = min(record.idle_from, task.core)
        record.active -= 1
        record.demand -= task.intensity * record.speed
        node = multicore.nodes[record.node]
        node.free_cores += 1
        node.free_mb += job.memory_mb
        tally.running -= 1
        job.unfinished -= 1
        if job.unfinished == 0:
            job.end = now
            tally.finished += 1
    return True


@kernel(int64(STATE, MULTICORE))
def to_decision(state: State, multicore: Multicore) -> int:
    """Advance until a job waits and a core is idle; speed factors are those of that time."""
    while _next_event(state, multicore):
        if state.clock[0].n_queued > 0 and state.units[FREE, 0] > 0:
            # Set factors and powers, but no speeds yet: other tasks may start before time advances. A speed that
            # changes and changes back would move the end by a rounding error, so that equal tasks would not end
            # together.
            for at in range(multicore.tally[0].n_dirty):
                _set_factors(multicore, multicore.dirty[at])
            return DECISION
    return STALLED if state.clock[0].n_queued > 0 else OVER


@kernel(int64(STATE, MULTICORE, int64, int64, int64))
def run_policy(state: State, multicore: Multicore, jobs: int, nodes: int, work: int) -> int:
    """Simulate with one policy, see `decide`, to the end or until about ``work`` is done; return how much was done."""
    clock = state.clock[0]
    clock.work = 0
    while clock.work < work:
        if not _next_event(state, multicore):
            return int(clock.work)
        clock.work += 1 + clock.n_queued
        decide(state, multicore, jobs, nodes)
    return work
