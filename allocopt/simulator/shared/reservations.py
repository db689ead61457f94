"""Future room on shared nodes, and the reservations of EASY backfilling.

A reservation is kept until it begins, a job leaves a node that the reserved job may use, or a job starts on reserved
room.
"""

import numpy as np

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.in_order import reserve_room
from allocopt.simulator.kernels.look_ahead import begin_ahead, fits_ahead, next_downtime_end, release_ahead, shadow_time
from allocopt.simulator.shared.allocation import amounts_held, choose, useful_tasks
from allocopt.simulator.shared.downtimes import is_known_downtime
from allocopt.simulator.shared.state import NOW, SCRATCH, Shared, release


@inlined
def look_at(s: Shared, table: int, time: float) -> None:
    """Make later searches use the room in a table, and respect no reservation.

    They avoid nodes whose downtimes a job would meet if it started at ``time``; NaN ignores downtimes.
    """
    s.clock[0].table, s.clock[0].looks_at = table, time
    for partition in range(s.respected.size):
        s.respected[partition] = False


@begin_ahead.answer(Shared)
@inlined
def begin_ahead_on_nodes(s: Shared, job: int) -> None:
    """Copy the current room to the scratch table; count the tasks of a job that fit, and the nodes where some fit."""
    clock, shape = s.clock[0], s.jobs[job].shape
    look_at(s, SCRATCH, clock.now)
    clock.ahead_used = 0
    _count_ahead(s, shape, True)


@inlined
def _count_ahead(s: Shared, shape: int, copies: bool) -> None:
    """Count the tasks of a job that fit in the scratch table, and the nodes where some fit.

    If ``copies``, first copy the current room to the scratch table.
    """
    clock = s.clock[0]
    clock.work -= s.order.size
    tasks, nodes = 0, 0
    for node in range(s.order.size):
        if s.allowed[s.shapes[shape].union, node]:
            if copies:
                s.users[SCRATCH, node] = s.users[NOW, node]
                for resource in range(s.capacity.shape[1]):
                    s.room[SCRATCH, node, resource] = s.room[NOW, node, resource]
            s.tasks_at[node] = useful_tasks(s, node, shape)
            tasks += s.tasks_at[node]
            nodes += s.tasks_at[node] > 0
    clock.ahead_tasks, clock.ahead_nodes = tasks, nodes


@helper()
def _count_again(s: Shared, job: int, time: float) -> None:
    """Count the room again for another time, because other nodes may be down then."""
    s.clock[0].looks_at = time
    _count_ahead(s, s.jobs[job].shape, False)


@inlined
def give_back_ahead(s: Shared, running: int, job: int) -> bool:
    """Release the job ``running`` in the scratch table; return whether ``job`` may use one of its nodes."""
    record, clock, shape = s.jobs[running], s.clock[0], s.jobs[job].shape
    clock.work -= 1 + record.n_nodes
    more_tasks, more_nodes, is_there = 0, 0, False
    for place in range(record.first, record.first + record.n_nodes):
        node = s.held[0, place]
        if s.allowed[s.shapes[shape].union, node]:
            amounts_held(s, SCRATCH, record.shape, node, s.held[1, place], -1)
            tasks = useful_tasks(s, node, shape)
            more_tasks += tasks - s.tasks_at[node]
            more_nodes += int(tasks > 0) - int(s.tasks_at[node] > 0)
            s.tasks_at[node] = tasks
            is_there |= not s.closed[node]
    clock.ahead_tasks += more_tasks
    clock.ahead_nodes += more_nodes
    return is_there


@release_ahead.answer(Shared)
@inlined
def _release_ahead(s: Shared, running: int, job: int) -> None:
    """Release a running job in the scratch table."""
    give_back_ahead(s, running, job)


@fits_ahead.answer(Shared)
@inlined
def fits_ahead_on_nodes(s: Shared, job: int, time: float) -> bool:
    """Whether a job fits in the scratch table from ``time`` on; if so, choose ``clock.ahead_used`` nodes."""
    clock, about = s.clock[0], s.shapes[s.jobs[job].shape]
    # Check first, because the call of a helper takes longer than the check.
    if s.downtimes.size > 0:
        _count_again(s, job, time)
    # The sums over nodes show whether a search is worthwhile.
    if clock.ahead_tasks < about.tasks or clock.ahead_nodes < about.least_nodes:
        return False
    return _choose_ahead(s, job)


@helper()
def _choose_ahead(s: Shared, job: int) -> bool:
    """Choose nodes for a job in the scratch table; return whether there are enough."""
    s.clock[0].ahead_used = choose(s, s.jobs[job].shape)
    return bool(s.clock[0].ahead_used > 0)


@next_downtime_end.answer(Shared)
@inlined
def _next_downtime_end(s: Shared, time: float) -> float:
    """Return when the next known downtime ends."""
    first = np.inf
    for place in range(s.downtimes.size):
        if is_known_downtime(s, place) and time < s.downtimes[place].end < first:
            first = s.downtimes[place].end
    return first


@helper()
def find_shadow(s: Shared, job: int) -> int:
    """Choose nodes for a job at the earliest time when it can start by the estimates; return how many.

    The time is written to ``clock.shadow``; table ``SCRATCH`` has the room at that time.
    """
    s.clock[0].shadow = shadow_time(s, job)
    return int(s.clock[0].ahead_used)


@reserve_room.answer(Shared)
@helper()
def reserve(s: Shared, job: int) -> None:
    """Reserve nodes for a job from the earliest time when it can start by the estimates of the running jobs.

    If the reservation of its partition is for this job and still valid, it is kept.
    """
    shape = s.jobs[job].shape
    partition = s.shapes[shape].partition
    plan = s.partitions[partition]
    if plan.job == job and not plan.is_stale and plan.shadow > s.clock[0].now:
        return
    used = find_shadow(s, job)
    was_kept = plan.job >= 0
    plan.job = job
    plan.shadow = s.jobs[job].reserved = s.clock[0].shadow
    plan.is_stale = 0
    for i in range(plan.n_nodes):
        s.reserved[partition, s.planned[partition, i]] = False
    for i in range(used):
        node = s.chosen[0, i]
        s.reserved[partition, node] = True
        amounts_held(s, SCRATCH, shape, node, s.chosen[3, i], 1)
        # Swap the tables, so that the scratch table has the room beside the old reservation, for the comparison below.
        s.users[1 + partition, node], s.users[SCRATCH, node] = s.users[SCRATCH, node], s.users[1 + partition, node]
        for resource in range(s.capacity.shape[1]):
            free = s.room[SCRATCH, node, resource]
            s.room[SCRATCH, node, resource] = s.room[1 + partition, node, resource]
            s.room[1 + partition, node, resource] = free
    for i in range(plan.n_nodes):
        node = s.planned[partition, i]
        # Whether more of any resource is free beside the new reservation than beside the old one.
        has_grown = s.users[1 + partition, node] < s.users[SCRATCH, node]
        for resource in range(s.capacity.shape[1]):
            has_grown |= s.room[1 + partition, node, resource] > s.room[SCRATCH, node, resource]
        # Jobs that did not fit beside the old reservation may fit now.
        if has_grown or not (was_kept and s.reserved[partition, node]):
            release(s, node)
    for i in range(used):
        s.planned[partition, i] = s.chosen[0, i]
    plan.n_nodes = used
