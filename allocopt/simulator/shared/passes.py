"""Scheduling passes over shared nodes: which jobs start, and where.

EASY backfilling makes a reservation for the first job of each partition that does not fit. A later job may start if it
ends by its estimate before the reservation begins, or fits beside it. Conservative backfilling is Slurm's: at
events, jobs start as without backfilling; periodically, a walk along the queue (`walk`) starts each job or reserves
whole nodes for it.

Two things make passes over a long queue cheap. First, room only shrinks until a job ends. Once a job of a shape does
not fit, other jobs of this shape do not fit either, so a pass compares only the first jobs of lines. Second, the room
at that time is recorded: only nodes that were released since then can provide more.
"""

import numpy as np
from numba import int64

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import HAPPENED, advance, distrust_plans, hold, start_job
from allocopt.simulator.kernels.in_order import (
    CHOOSE_NODES,
    EASY,
    NO_ROOM,
    OVER,
    PAUSED,
    ROOM,
    is_blocked,
    leave_waiting,
    look_for_room,
    must_pause,
    next_job,
    start_in_order,
    start_in_room,
)
from allocopt.simulator.kernels.scoring import planned_run
from allocopt.simulator.rules import Backfill
from allocopt.simulator.shared.allocation import amount_on, amounts_held, choose, useful_tasks
from allocopt.simulator.shared.queue import begin_part, put_in_place, take_from_queue
from allocopt.simulator.shared.reservations import look_at
from allocopt.simulator.shared.state import (
    ALONG_QUEUE,
    BACKFILLING,
    NO_PASS,
    NOW,
    SHARED,
    WALK,
    Shared,
    release,
)
from allocopt.simulator.shared.walk import open_nodes, period_after, plan_start
from allocopt.simulator.state import NOBODY

FIRST_FIT, CONSERVATIVE = int(Backfill.FIRST_FIT), int(Backfill.CONSERVATIVE)


@hold.answer(Shared)
@helper()
def _hold_nodes(s: Shared, job: int, sign: int) -> None:
    """Subtract a job's amounts (sign 1), or add them again (sign -1), in the tables of now and of reservations."""
    record = s.jobs[job]
    for place in range(record.first, record.first + record.n_nodes):
        node, tasks = s.held[0, place], s.held[1, place]
        amounts_held(s, NOW, record.shape, node, tasks, sign)
        if s.held_by.shape[0] > 0:
            for resource in range(s.total.size):
                s.held_by[record.user, resource] += sign * amount_on(s, record.shape, node, tasks, resource)
        if sign < 0:
            release(s, node)
        for partition in range(s.partitions.size):
            plan = s.partitions[partition]
            if plan.job < 0:
                continue
            # The table of a reservation does not count jobs that end before the reservation begins.
            is_there = record.expected_end > plan.shadow and s.reserved[partition, node]
            if is_there:
                amounts_held(s, 1 + partition, record.shape, node, tasks, sign)
            if sign > 0:
                # Earlier jobs in the queue need not respect the reservation, so it may have become invalid.
                plan.is_stale |= int(is_there)
            else:
                plan.is_stale |= int(s.allowed[s.shapes[s.jobs[plan.job].shape].union, node])


@distrust_plans.answer(Shared)
@inlined
def _distrust_plans(s: Shared) -> None:
    """Mark every reservation as stale, so that it is made again."""
    for partition in range(s.partitions.size):
        s.partitions[partition].is_stale = 1


@helper()
def start_on_chosen(s: Shared, job: int, used: int) -> None:
    """Start a job that has left the queue on the chosen nodes."""
    record = s.jobs[job]
    record.n_nodes = used
    for i in range(used):
        s.held[0, record.first + i] = s.chosen[0, i]
        s.held[1, record.first + i] = s.chosen[3, i]
    start_job(s, job)


@inlined
def _has_no_room(s: Shared, shape: int, failure: int) -> bool:
    """Whether jobs of a shape that did not fit still do not; only nodes released since then may have more room."""
    about, clock, last = s.shapes[shape], s.clock[0], s.failures[failure]
    if last.released < 0:
        return False
    for partition in range(s.respected.size):
        # There may be more room if a reservation that was respected then is not respected now.
        if failure != shape and s.respected_then[shape, partition] and not s.respected[partition]:
            return False
    if clock.n_released - last.released > s.releases.size:
        return False
    clock.work -= clock.n_released - last.released
    for place in range(last.released, clock.n_released):
        node = s.releases[place % s.releases.size]
        if s.allowed[s.shapes[shape].union, node]:
            tasks = useful_tasks(s, node, shape)
            last.tasks += tasks
            last.nodes += tasks > 0
    last.released = clock.n_released
    for partition in range(s.respected.size):
        # The updated count is valid only while at least these reservations are respected.
        s.respected_then[shape, partition] |= failure != shape and s.respected[partition]
    return bool(last.tasks < about.tasks or last.nodes < about.least_nodes)


@inlined
def find_room(s: Shared, job: int) -> int:
    """Choose nodes for a job; respect the reservations of blocked partitions that begin before it ends.

    Returns the number of nodes, 0 if the job does not fit.
    """
    clock, shape = s.clock[0], s.jobs[job].shape
    failure = shape
    look_at(s, NOW, clock.now)
    if _has_no_room(s, shape, failure):
        return 0
    for partition in range(s.partitions.size):
        plan = s.partitions[partition]
        if plan.is_blocked > 0 and plan.job >= 0 and clock.now + planned_run(s, job) > plan.shadow:
            s.respected[partition] = True
            failure = s.shapes.size + shape
    if failure != shape and _has_no_room(s, shape, failure):
        return 0
    # Most jobs are rejected above, without the call of a helper, which copies the state and takes longer.
    return _choose_or_count(s, shape, failure)


@helper()
def _choose_or_count(s: Shared, shape: int, failure: int) -> int:
    """Choose nodes for a job and return how many; if it does not fit, record the available room and return 0."""
    used = choose(s, shape)
    if used > 0:
        return used
    last = s.failures[failure]
    last.released = s.clock[0].n_released
    for partition in range(s.respected.size):
        if failure != shape:
            s.respected_then[shape, partition] = s.respected[partition]
    last.tasks = 0
    last.nodes = 0
    for node in range(s.order.size):
        if s.allowed[s.shapes[shape].union, node]:
            tasks = useful_tasks(s, node, shape)
            last.tasks += tasks
            last.nodes += tasks > 0
    return 0


@helper()
def _begin_pass(s: Shared, part: int) -> None:
    """Begin a pass: no partition with waiting jobs is blocked, no shape refused, and every line is at its first job."""
    s.clock[0].work -= s.clock[0].n_waiting
    for partition in range(s.partitions.size):
        s.partitions[partition].is_blocked = int(s.rules[0].backfill != EASY)
    for place in range(s.clock[0].n_waiting):
        shape = s.shapes[s.queue[s.waiting[0, place]].shape]
        s.partitions[shape.partition].is_blocked = 0
        shape.is_refused = 0
    begin_part(s, part)


@inlined
def forget_empty_lines(s: Shared) -> None:
    """Remove lines without waiting jobs."""
    clock, kept = s.clock[0], 0
    for place in range(clock.n_waiting):
        line = s.waiting[0, place]
        if s.queue[line].first_waiting >= 0:
            s.waiting[0, kept] = line
            kept += 1
    clock.n_waiting = kept


@helper()
def end_pass(s: Shared) -> None:
    """End a pass: remove lines without waiting jobs, and reservations of partitions that are not blocked."""
    s.clock[0].part = NO_PASS
    forget_empty_lines(s)
    for partition in range(s.partitions.size):
        if not s.partitions[partition].is_blocked:
            s.partitions[partition].job = NOBODY


@inlined
def _may_start(s: Shared, shape: int) -> bool:
    """Whether jobs of a shape may start in this part of a pass if they fit."""
    is_blocked = s.partitions[s.shapes[shape].partition].is_blocked
    if s.shapes[shape].is_refused:
        return False
    if s.clock[0].part == ALONG_QUEUE and s.rules[0].own_backfill_order:
        return not is_blocked
    return s.rules[0].backfill == EASY or s.rules[0].backfill == FIRST_FIT or not is_blocked


@inlined
def _is_over(s: Shared) -> bool:
    """Whether a part of a pass is over: a walk has reached its depth, or all partitions are blocked."""
    if s.clock[0].part == WALK:
        return bool(s.clock[0].n_slots == s.slots.size)
    if s.rules[0].backfill == EASY or s.rules[0].backfill == FIRST_FIT:
        return False
    for partition in range(s.partitions.size):
        if not s.partitions[partition].is_blocked:
            return False
    return True


@next_job.answer(Shared)
@inlined
def _next_job(s: Shared) -> int:
    """Return the next job to examine: the first of the next jobs of the remaining lines; ``NOBODY`` if none remains."""
    return int(s.queue[s.waiting[1, 0]].looked_at) if s.clock[0].n_left > 0 else NOBODY


@must_pause.answer(Shared)
@inlined
def _must_pause(s: Shared) -> bool:
    """Count the examined job as work; return whether the allowed work is used up."""
    s.clock[0].work -= 1
    return bool(s.clock[0].work < 0)


@look_for_room.answer(Shared)
@inlined
def _look_for_room(s: Shared, job: int) -> int:
    """Choose nodes for a job that may start in this part of a pass, if the caller has not chosen them."""
    clock = s.clock[0]
    if clock.n_chosen > 0:
        return ROOM
    if clock.part == WALK:
        clock.n_chosen = plan_start(s, job)
    elif _may_start(s, s.jobs[job].shape):
        clock.n_chosen = find_room(s, job)
    if clock.n_chosen > 1 and s.rules[0].is_asking:
        return CHOOSE_NODES
    return ROOM if clock.n_chosen > 0 else NO_ROOM


@inlined
def _look_at_next(s: Shared, n_started: int) -> None:
    """Move the line of the examined job to its new position, or end this part of the pass; see `put_in_place`."""
    if _is_over(s):
        s.clock[0].n_left = 0
    else:
        put_in_place(s, s.waiting[1, 0], n_started)


@start_in_room.answer(Shared)
@inlined
def _start_in_room(s: Shared, job: int) -> None:
    """Start a job on the chosen nodes."""
    used = s.clock[0].n_chosen
    s.clock[0].n_chosen = 0
    take_from_queue(s, s.jobs[job].line)
    start_on_chosen(s, job, used)
    _look_at_next(s, 1)


@is_blocked.answer(Shared)
@inlined
def _is_blocked(s: Shared, job: int) -> bool:
    """Whether another job of its partition did not fit in this pass."""
    return bool(s.partitions[s.shapes[s.jobs[job].shape].partition].is_blocked)


@leave_waiting.answer(Shared)
@inlined
def _leave_waiting(s: Shared, job: int) -> None:
    """Leave the job waiting; a walk goes on with the next job of its line, other parts skip jobs of its shape."""
    line, shape = s.queue[s.jobs[job].line], s.shapes[s.jobs[job].shape]
    if s.clock[0].part == WALK:
        line.passed = job
        line.looked_at = s.jobs[job].next_waiting
    else:
        # If the partition was already blocked, the search for room may have been skipped.
        shape.is_refused |= int(_may_start(s, s.jobs[job].shape))
        s.partitions[shape.partition].is_blocked = 1
        line.looked_at = NOBODY
    _look_at_next(s, 0)


@inlined
def _begin_walk(s: Shared) -> None:
    """Begin a walk; its end determines when the next one is due."""
    s.clock[0].next_walk = np.inf
    _begin_pass(s, WALK)


@helper()
def schedule(s: Shared) -> int:
    """Continue the passes of this time: one along the queue, and a walk if one is due; see `start_in_order`."""
    clock, rules = s.clock[0], s.rules[0]
    if clock.part == NO_PASS:
        has_changed = clock.n_ended + clock.n_joined + clock.n_changed > 0
        clock.n_changed = 0
        if rules.backfill == CONSERVATIVE and has_changed:
            clock.next_walk = min(clock.next_walk, period_after(s, clock.now))
        if rules.backfill == CONSERVATIVE and not has_changed and clock.next_walk <= clock.now:
            _begin_walk(s)
        else:
            _begin_pass(s, ALONG_QUEUE)
    while clock.part != NO_PASS:
        said = start_in_order(s)
        if said != OVER:
            return said
        if clock.part == ALONG_QUEUE and rules.own_backfill_order:
            begin_part(s, BACKFILLING)
            continue
        was_walk = clock.part == WALK
        end_pass(s)
        if was_walk:
            # Only walks make reservations in slots and close nodes.
            clock.n_slots = 0
            open_nodes(s)
            clock.next_walk = period_after(s, clock.next_walk)
        elif clock.next_walk <= clock.now:
            _begin_walk(s)
    return OVER


@kernel(int64(SHARED, int64))
def simulate_shared(s: Shared, work: int) -> int:
    """Simulate until about ``work`` nodes and jobs have been examined.

    Returns `OVER` if no event is left, `CHOOSE_NODES` if the caller has to choose nodes for a job, otherwise `PAUSED`.
    The caller chooses nodes for jobs of several nodes if ``rules.is_asking``. The job is ``looked_at`` of line
    ``waiting[1, 0]``; it fits on the nodes in ``chosen``, which the caller may replace.
    """
    clock = s.clock[0]
    clock.work = work
    while clock.work > 0:
        # Advance only if no pass is unfinished.
        if clock.part == NO_PASS:
            clock.wake = clock.next_walk
            if advance(s, np.inf) != HAPPENED:
                return OVER
            clock.work -= 1
        said = schedule(s)
        if said != OVER:
            return said
    return PAUSED
