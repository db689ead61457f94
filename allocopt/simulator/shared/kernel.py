"""Simulation on shared nodes: which nodes have room for a job, where it is put, and what happens in time.

EASY backfilling has a reservation for the first waiting job of every partition: a job behind it may start if it ends by
the estimates before that, or leaves the nodes free that are reserved by then. Conservative backfilling is Slurm's: at
events jobs start without any, and every period a walk along the queue starts a job, or reserves whole nodes for it.

Three things make passes over a long queue cheap. Within a pass, and until a job ends, room only shrinks, so that after
one job of a shape has found none the others need not look: a pass looks at shapes. What was missing then is kept, and
only nodes from which jobs have gone since can make it up. And a reservation is found anew only after a job has gone
from a node that it might take.
"""

import numpy as np
from numba import int64

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.events import HAPPENED, advance, enqueue, hold, settle_queue, start_job
from allocopt.simulator.rules import Backfill
from allocopt.simulator.shared.allocation import amounts_held, choose, sink, useful_tasks
from allocopt.simulator.shared.state import (
    ASKS,
    GOES_ON,
    NOW,
    OVER,
    RESOLUTION_S,
    SCRATCH,
    SHARED,
    WINDOW_S,
    Shared,
)
from allocopt.simulator.state import RUNNING

EASY, CONSERVATIVE = int(Backfill.EASY), int(Backfill.CONSERVATIVE)


@inlined
def _look_at(s: Shared, table: int) -> None:
    """Let jobs be placed where there is room in a table, beside no reservation."""
    s.clock[0].table = table
    for partition in range(s.respected.size):
        s.respected[partition] = False


@inlined
def _expected_end(s: Shared, place: int) -> float:
    job: int = s.lists[RUNNING, place]
    return max(s.jobs[job].expected_end, s.clock[0].now)


@inlined
def _release(s: Shared, node: int) -> None:
    """Note that a node has got more room."""
    s.releases[s.clock[0].n_released % s.releases.size] = node
    s.clock[0].n_released += 1


@inlined
def _give_back(s: Shared, shape: int, job: int) -> tuple[int, int, bool]:
    """End a job in the scratch table; return how many more tasks and nodes a shape has, and whether it was on these."""
    record = s.jobs[job]
    s.clock[0].work -= 1 + record.n_nodes
    tasks, nodes, is_there = 0, 0, False
    for place in range(record.first, record.first + record.n_nodes):
        node = s.held[0, place]
        if s.allowed[s.shapes[shape].union, node]:
            amounts_held(s, SCRATCH, record.shape, node, s.held[1, place], -1)
            now = useful_tasks(s, node, shape)
            tasks += now - s.tasks_at[node]
            nodes += (now > 0) - (s.tasks_at[node] > 0)
            s.tasks_at[node] = now
            is_there |= not s.closed[node]
    return tasks, nodes, is_there


@inlined
def _find_shadow(s: Shared, plan: int, shape: int) -> int:
    """Choose nodes for a job at the first time when it can start by the estimates; return how many."""
    about, total, count = s.shapes[shape], 0, 0
    _look_at(s, SCRATCH)
    s.clock[0].work -= s.order.size
    for node in range(s.order.size):
        if s.allowed[s.shapes[shape].union, node]:
            s.users[SCRATCH, node] = s.users[NOW, node]
            for resource in range(s.capacity.shape[1]):
                s.room[SCRATCH, node, resource] = s.room[NOW, node, resource]
            # Sums over the nodes tell whether to look for nodes at all.
            s.tasks_at[node] = useful_tasks(s, node, shape)
            total += s.tasks_at[node]
            count += s.tasks_at[node] > 0
    at, used, begin, window = 0, 0, np.inf, WINDOW_S
    s.partitions[plan].shadow = np.inf
    is_walk = s.clock[0].is_walk
    while at < s.clock[0].n_running and used == 0:
        # All that end at the same time have given back what they hold; in a walk, as in Slurm, all of a window.
        shadow = _expected_end(s, at)
        until = begin + window if is_walk else shadow
        is_within = True
        while is_within:
            tasks, nodes, is_there = _give_back(s, shape, s.lists[RUNNING, at])
            total += tasks
            count += nodes
            if is_walk and is_there:
                shadow = _expected_end(s, at)
                begin = min(begin, np.floor(shadow / WINDOW_S + 1.0) * WINDOW_S)
                until = begin + window
            at += 1
            # Behind a job on other nodes Slurm takes the next one, too, whenever it ends.
            is_within = at < s.clock[0].n_running and ((is_walk and not is_there) or _expected_end(s, at) <= until)
        s.partitions[plan].shadow = shadow
        if total >= about.tasks and count >= about.least_nodes:
            used = choose(s, shape)
        window *= 2.0
        while at < s.clock[0].n_running and begin + window < _expected_end(s, at):
            window *= 2.0
    return used


@helper()
def _reserve(s: Shared, partition: int, job: int) -> None:
    """Find when a job can start by the estimates of those that run, and what is free then beside it."""
    plan, shape = s.partitions[partition], s.jobs[job].shape
    used = _find_shadow(s, partition, shape)
    was_kept = plan.job >= 0
    plan.job = job
    plan.is_stale = 0
    for i in range(plan.n_nodes):
        s.reserved[partition, s.planned[partition, i]] = False
    for i in range(used):
        node = s.chosen[0, i]
        s.reserved[partition, node] = True
        amounts_held(s, SCRATCH, shape, node, s.chosen[3, i], 1)
        # The table and the scratch change places, for what was free before is asked below.
        s.users[1 + partition, node], s.users[SCRATCH, node] = s.users[SCRATCH, node], s.users[1 + partition, node]
        for resource in range(s.capacity.shape[1]):
            free = s.room[SCRATCH, node, resource]
            s.room[SCRATCH, node, resource] = s.room[1 + partition, node, resource]
            s.room[1 + partition, node, resource] = free
    for i in range(plan.n_nodes):
        node = s.planned[partition, i]
        # Whether it has more of anything beside the reservation than the scratch table says that it had before.
        has_grown = s.users[1 + partition, node] < s.users[SCRATCH, node]
        for resource in range(s.capacity.shape[1]):
            has_grown |= s.room[1 + partition, node, resource] > s.room[SCRATCH, node, resource]
        # Jobs that found no room beside the reservation may find some now.
        if has_grown or not (was_kept and s.reserved[partition, node]):
            _release(s, node)
    for i in range(used):
        s.planned[partition, i] = s.chosen[0, i]
    plan.n_nodes = used


@helper()
def _close(s: Shared, since: float, until: float) -> float:
    """Close the nodes that are reserved within a time, both ends included; return when the first of them opens."""
    opens = np.inf
    s.clock[0].work -= s.clock[0].n_slots
    for node in range(s.order.size):
        s.closed[node] = False
    for at in range(s.clock[0].n_slots):
        if s.slots[at].until > since and s.slots[at].since <= until:
            s.clock[0].work -= s.order.size
            opens = min(opens, s.slots[at].until)
            for node in range(s.order.size):
                s.closed[node] |= s.slot_nodes[at, node]
    return opens


@inlined
def _is_reserved(s: Shared, since: float, until: float, used: int) -> bool:
    for at in range(s.clock[0].n_slots):
        if s.slots[at].since < until and s.slots[at].until > since:
            for i in range(used):
                if s.slot_nodes[at, s.chosen[0, i]]:
                    return True
    return False


@helper()
def _plan_start(s: Shared, job: int) -> int:
    """Choose nodes for a job that can start now beside the reservations of all before it; return how many, or reserve.

    So does Slurm 22.05 (``_attempt_backfill`` in ``backfill.c``): a job reserves its nodes whole for its time limit.
    """
    clock, shape = s.clock[0], s.jobs[job].shape
    opens, estimate = clock.now, s.shapes[shape].estimate
    while opens < np.inf:
        since = opens
        opens = _close(s, since, since + estimate)
        _look_at(s, NOW)
        used, begin = choose(s, shape), clock.now
        if used == 0:
            used = _find_shadow(s, s.shapes[shape].partition, shape)
            begin = max(s.partitions[s.shapes[shape].partition].shadow, clock.now + 1.0)
        begin = max(begin, since)
        if used == 0 or begin > opens:
            continue
        if begin <= clock.now:
            return used
        first = np.floor(begin / RESOLUTION_S) * RESOLUTION_S
        last = max(np.floor((begin + estimate) / RESOLUTION_S) * RESOLUTION_S, first + RESOLUTION_S)
        # Until then jobs before it may have reserved the nodes that it would get.
        if begin > since and _is_reserved(s, first, last, used):
            opens = begin
            continue
        slot = s.slots[clock.n_slots]
        slot.since, slot.until = first, last
        for node in range(s.order.size):
            s.slot_nodes[clock.n_slots, node] = False
        for i in range(used):
            s.slot_nodes[clock.n_slots, s.chosen[0, i]] = True
        clock.n_slots += 1
        clock.next_walk = min(clock.next_walk, begin)
        return 0
    return 0


@hold.answer(Shared)
@helper()
def _hold_nodes(s: Shared, job: int, sign: int) -> None:
    """Take what a job holds on its nodes, or give it back, now and where reservations begin."""
    record = s.jobs[job]
    for place in range(record.first, record.first + record.n_nodes):
        node, tasks = s.held[0, place], s.held[1, place]
        amounts_held(s, NOW, record.shape, node, tasks, sign)
        if sign < 0:
            _release(s, node)
        for partition in range(s.partitions.size):
            plan = s.partitions[partition]
            if plan.job < 0:
                continue
            # What ends before leaves no trace then.
            is_there = record.expected_end > plan.shadow and s.reserved[partition, node]
            if is_there:
                amounts_held(s, 1 + partition, record.shape, node, tasks, sign)
            if sign > 0:
                # A job ahead in the queue takes what it needs, reserved or not.
                plan.is_stale |= int(is_there)
            else:
                plan.is_stale |= int(s.allowed[s.shapes[s.jobs[plan.job].shape].union, node])


@helper()
def _start(s: Shared, job: int, used: int) -> None:
    """Start a job on the chosen nodes."""
    clock, record = s.clock[0], s.jobs[job]
    record.first = clock.n_held
    record.n_nodes = used
    for i in range(used):
        s.held[0, clock.n_held] = s.chosen[0, i]
        s.held[1, clock.n_held] = s.chosen[3, i]
        clock.n_held += 1
    start_job(s, job)


@inlined
def _has_no_room(s: Shared, shape: int, failure: int) -> bool:
    """Whether jobs that had no room have none still: only nodes that were released since then may have got more."""
    about, clock, last = s.shapes[shape], s.clock[0], s.failures[failure]
    if last.released < 0:
        return False
    for partition in range(s.respected.size):
        # Where more is respected than then, there is no more room.
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
        # What was counted now holds only where as much is respected.
        s.respected_then[shape, partition] |= failure != shape and s.respected[partition]
    return bool(last.tasks < about.tasks or last.nodes < about.least_nodes)


@helper()
def _find_room(s: Shared, job: int) -> int:
    """Choose nodes for a job where there is room beside the reservations; return how many, 0 for none."""
    clock, shape = s.clock[0], s.jobs[job].shape
    failure = shape
    _look_at(s, NOW)
    if _has_no_room(s, shape, failure):
        return 0
    for partition in range(s.partitions.size):
        plan = s.partitions[partition]
        if plan.is_blocked > 0 and plan.job >= 0 and clock.now + s.shapes[shape].estimate > plan.shadow:
            s.respected[partition] = True
            failure = s.shapes.size + shape
    if failure != shape and _has_no_room(s, shape, failure):
        return 0
    used = choose(s, shape)
    if used > 0:
        return used
    last = s.failures[failure]
    last.released = clock.n_released
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
def _begin_pass(s: Shared) -> None:
    """Block no partition in which jobs wait, and make the heap of the shapes of which jobs wait."""
    s.clock[0].work -= s.clock[0].n_waiting
    for partition in range(s.partitions.size):
        s.partitions[partition].is_blocked = int(s.rules[0].backfill != EASY)
    for place in range(s.clock[0].n_waiting):
        shape = s.waiting[0, place]
        s.partitions[s.shapes[shape].partition].is_blocked = 0
        s.waiting[1, place] = shape
        s.shapes[shape].looked_at = s.shapes[shape].first_waiting
        s.shapes[shape].passed = -1
        s.waiting[2, shape] = s.jobs[s.shapes[shape].looked_at].rank
    for place in range(s.clock[0].n_waiting // 2 - 1, -1, -1):
        sink(s.waiting[1], s.waiting[2], place, s.clock[0].n_waiting)
    s.clock[0].n_left = s.clock[0].n_waiting


@helper()
def _end_pass(s: Shared) -> None:
    """Forget shapes of which no job waits any more, and reservations of partitions that are not blocked."""
    clock, kept = s.clock[0], 0
    for place in range(clock.n_waiting):
        shape = s.waiting[0, place]
        if s.shapes[shape].first_waiting >= 0:
            s.waiting[0, kept] = shape
            kept += 1
    clock.n_waiting = kept
    for partition in range(s.partitions.size):
        if not s.partitions[partition].is_blocked:
            s.partitions[partition].job = -1


@inlined
def _take_from_queue(s: Shared, shape: int) -> None:
    """Let the job of a shape that is looked at wait no longer."""
    about = s.shapes[shape]
    s.clock[0].n_queued -= 1
    after = s.jobs[about.looked_at].next_waiting
    if about.passed < 0:
        about.first_waiting = after
    else:
        s.jobs[about.passed].next_waiting = after
    if after < 0:
        about.last_waiting = about.passed


@inlined
def _pass_over(s: Shared, shape: int) -> None:
    """Let the job of a shape that is looked at wait on."""
    about = s.shapes[shape]
    job, plan = about.looked_at, s.partitions[about.partition]
    if s.clock[0].is_walk:
        about.passed = job
        about.looked_at = s.jobs[job].next_waiting
        return
    is_old = plan.job != job or plan.is_stale or plan.shadow <= s.clock[0].now
    if s.rules[0].backfill == EASY and not plan.is_blocked and is_old:
        _reserve(s, about.partition, job)
    plan.is_blocked = 1
    about.looked_at = -1


@inlined
def _is_over(s: Shared) -> bool:
    """Whether no further job can start in a pass: the depth of a walk is reached, or every partition is blocked."""
    if s.clock[0].is_walk or s.rules[0].backfill == EASY:
        return bool(s.clock[0].n_slots == s.slots.size)
    for partition in range(s.partitions.size):
        if not s.partitions[partition].is_blocked:
            return False
    return True


@helper()
def _pass(s: Shared) -> int:
    """Start what may start, in the order of the queue.

    The first waiting job of each shape is looked at, until it finds no room; in a walk all jobs are, within its depth.

    Returns `OVER`; or before the end `GOES_ON`, if there was too much work, or `ASKS`, if a job waits for its nodes.
    """
    clock, rules = s.clock[0], s.rules[0]
    while clock.n_left > 0:
        if clock.work <= 0:
            return GOES_ON
        clock.work -= 1
        shape = s.waiting[1, 0]
        about = s.shapes[shape]
        job, plan = about.looked_at, s.partitions[about.partition]
        used = clock.n_chosen
        if used == 0:
            if clock.is_walk:
                used = _plan_start(s, job)
            elif rules.backfill == EASY or not plan.is_blocked:
                used = _find_room(s, job)
            if used > 1 and rules.is_asking:
                clock.n_chosen = used
                return ASKS
        clock.n_chosen = 0
        if used > 0:
            _take_from_queue(s, shape)
            _start(s, job, used)
            about.looked_at = s.jobs[job].next_waiting
        else:
            _pass_over(s, shape)
        if _is_over(s):
            clock.n_left = 0
        elif about.looked_at >= 0:
            s.waiting[2, shape] = s.jobs[about.looked_at].rank
        else:
            # The shape has no room, or no more jobs.
            clock.n_left -= 1
            s.waiting[1, 0] = s.waiting[1, clock.n_left]
        sink(s.waiting[1], s.waiting[2], 0, clock.n_left)
    _end_pass(s)
    return OVER


@enqueue.answer(Shared)
@inlined
def _enqueue(s: Shared, job: int) -> None:
    """Let a job join those of its shape that wait."""
    clock, shape = s.clock[0], s.shapes[s.jobs[job].shape]
    if s.rules[0].is_by_arrival:
        s.jobs[job].rank += clock.n_arrived
    s.jobs[job].release = clock.now
    clock.n_arrived += 1
    clock.n_joined += 1
    clock.n_queued += 1
    s.jobs[job].next_waiting = -1
    if shape.first_waiting < 0:
        s.waiting[0, clock.n_waiting] = s.jobs[job].shape
        clock.n_waiting += 1
        shape.first_waiting = shape.last_waiting = job
    elif s.jobs[shape.last_waiting].rank < s.jobs[job].rank:
        s.jobs[shape.last_waiting].next_waiting = job
        shape.last_waiting = job
    elif s.jobs[job].rank < s.jobs[shape.first_waiting].rank:
        s.jobs[job].next_waiting = shape.first_waiting
        shape.first_waiting = job
    else:
        at = shape.first_waiting
        while s.jobs[s.jobs[at].next_waiting].rank < s.jobs[job].rank:
            at = s.jobs[at].next_waiting
        s.jobs[job].next_waiting = s.jobs[at].next_waiting
        s.jobs[at].next_waiting = job


@settle_queue.answer(Shared)
@inlined
def _settle_shapes(s: Shared) -> None:
    """Leave the jobs of each shape where they are: each has joined in its place."""


@inlined
def _period_after(s: Shared, time: float) -> float:
    """Return the first time of a walk that is not before a time."""
    period = s.rules[0].period
    return np.ceil(time / period) * period if time < np.inf else time


@kernel(int64(SHARED, int64, int64))
def simulate_shared(s: Shared, passes: int, work: int) -> int:
    """Go on for so many passes over the queue, or until some work is done: about so many nodes and jobs looked at.

    Returns `OVER` if nothing is left to happen, else `GOES_ON`, or `ASKS` if a job waits for its nodes. Jobs of
    several nodes ask where `RulesRecord.is_asking`: the job of the shape in ``waiting[1, 0]`` that is looked at has
    room on the nodes of ``chosen``, which may be changed then.
    """
    clock, rules = s.clock[0], s.rules[0]
    clock.work = work
    for _ in range(passes):
        # If work is left of a pass, it goes on.
        if clock.n_left == 0 and not clock.is_walk:
            clock.wake = clock.next_walk
            if advance(s, np.inf) != HAPPENED:
                return OVER
            if rules.backfill == CONSERVATIVE and clock.n_ended + clock.n_joined > 0:
                clock.next_walk = min(clock.next_walk, _period_after(s, clock.now))
            _begin_pass(s)
        said = _pass(s)
        if said != OVER:
            return said
        if clock.is_walk:
            # Nodes are closed in walks only.
            clock.n_slots = 0
            _close(s, 0.0, 0.0)
            clock.is_walk = 0
            clock.next_walk = _period_after(s, clock.next_walk)
        elif clock.next_walk <= clock.now:
            clock.is_walk = 1
            clock.next_walk = np.inf
            _begin_pass(s)
    return GOES_ON
