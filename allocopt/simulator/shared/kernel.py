"""Simulation on shared nodes: which nodes have room for a job, where it is put, and what happens in time.

Backfilling is EASY with a reservation for the first waiting job of every partition: a job behind it may start if it
ends by the estimates before that, or leaves the nodes free that are reserved by then.

Three things make passes over a long queue cheap. Within a pass, and until a job ends, room only shrinks, so that after
one job of a shape has found none the others need not look: a pass looks at shapes. What was missing then is kept, and
only nodes from which jobs have gone since can make it up. And a reservation is found anew only after a job has gone
from a node that it might take.
"""

import numpy as np
from numba import int64

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.shared.state import (
    ALONE,
    ASKS,
    ENDED,
    ENDS,
    GOES_ON,
    NOW,
    RUNNING,
    SCRATCH,
    SHARED,
    Allocation,
    Shared,
)

FIRST_FIT, LEAST_LOADED = int(Allocation.FIRST_FIT), int(Allocation.LEAST_LOADED)
LOWEST_SWITCH = int(Allocation.LOWEST_SWITCH)


@inlined
def _tasks_in(s: Shared, table: int, node: int, shape: int) -> int:
    """Tasks of a shape that a node has room for in a table of amounts."""
    about = s.shapes[shape]
    if s.users[table, node] >= (1 if about.is_exclusive else ALONE):
        return 0
    tasks = about.most_tasks
    for resource in range(s.capacity.shape[1]):
        left = s.room[table, node, resource] - s.per_node[shape, resource]
        if left < 0:
            return 0
        needed = s.per_task[shape, resource]
        if needed > 0 and left < needed * tasks:
            tasks = left // needed
    return tasks


@inlined
def _tasks_on(s: Shared, node: int, shape: int) -> int:
    """Tasks of a shape that a node has room for, beside the reservations that are respected."""
    tasks = _tasks_in(s, s.clock[0].table, node, shape)
    for partition in range(s.respected.size):
        # At its begin a reservation leaves all that is free now on other nodes than its own.
        if tasks > 0 and s.respected[partition] and s.reserved[partition, node]:
            tasks = min(tasks, _tasks_in(s, 1 + partition, node, shape))
    return tasks


@inlined
def _useful_tasks(s: Shared, node: int, shape: int) -> int:
    """Tasks of a shape that a node has room for, 0 where one node has to take all and cannot."""
    tasks = _tasks_on(s, node, shape)
    return 0 if s.shapes[shape].most_nodes == 1 and tasks < s.shapes[shape].tasks else tasks


@inlined
def _is_behind(s: Shared, a: int, b: int) -> bool:
    """Whether a chosen node comes behind another by key, then by number."""
    return bool(
        s.chosen[2, a] > s.chosen[2, b] or (s.chosen[2, a] == s.chosen[2, b] and s.chosen[0, a] > s.chosen[0, b])
    )


@inlined
def _swap(s: Shared, a: int, b: int) -> None:
    for row in range(3):
        s.chosen[row, a], s.chosen[row, b] = s.chosen[row, b], s.chosen[row, a]


@inlined
def _sink(s: Shared, at: int, size: int) -> None:
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_behind(s, child + 1, child):
            child += 1
        if not _is_behind(s, child, at):
            break
        _swap(s, at, child)
        at = child


@helper()
def _sort(s: Shared, size: int) -> None:
    """Sort the first of the chosen nodes (by a heap: there may be thousands)."""
    for at in range(size // 2 - 1, -1, -1):
        _sink(s, at, size)
    for end in range(size - 1, 0, -1):
        _swap(s, 0, end)
        _sink(s, 0, end)


@inlined
def _take(s: Shared, shape: int, n: int) -> int:
    """Give a job's tasks to the first of ``n`` candidates; return how many it takes, 0 if they are too few."""
    about, left, used = s.shapes[shape], s.shapes[shape].tasks, 0
    while used < n and used < about.most_nodes and (left > 0 or used < about.least_nodes):
        # Every node that is still to come gets one task at least.
        given = min(s.chosen[1, used], left - max(about.least_nodes - used - 1, 0))
        s.chosen[3, used] = given
        left -= given
        used += 1
    return used if left == 0 and used >= about.least_nodes else 0


@inlined
def _is_inside(s: Shared, shape: int, mask: int, level: int, group: int, node: int) -> bool:
    """Whether a node is in a set, in a group unless the level is -1, and in a group below that is allowed."""
    if not s.masks[mask, node] or (level >= 0 and s.groups[level, node] != group):
        return False
    return bool(s.shapes[shape].most_below == 0 or s.sums[2, s.groups[level - 1, node]] > 0)


@helper()
def _choose_among(s: Shared, shape: int, mask: int, level: int, group: int) -> int:
    """Choose nodes for a job from a set, and from a group of a level if that is not -1; return how many, 0 for none.

    They and their tasks stand in rows 0 and 3 of ``chosen``.
    """
    about, rule = s.shapes[shape], s.rules[0].allocation
    n, total, table = 0, 0, s.clock[0].table
    for place in range(s.order.size):
        node = s.order[place]
        if not _is_inside(s, shape, mask, level, group, node):
            continue
        tasks = _useful_tasks(s, node, shape)
        if tasks == 0:
            continue
        s.chosen[0, n] = node
        s.chosen[1, n] = tasks
        free = s.room[table, node, 0]
        s.chosen[2, n] = -free if rule == LEAST_LOADED else free
        n += 1
        total += tasks
        if rule == FIRST_FIT and total >= about.tasks and n >= about.least_nodes and n <= about.most_nodes:
            break
    if n < about.least_nodes or total < about.tasks:
        return 0
    if rule != FIRST_FIT:
        _sort(s, n)
    used = _take(s, shape, n)
    if used == 0:
        # Those with most room together hold what others do not.
        for i in range(n):
            s.chosen[2, i] = -s.chosen[1, i]
        _sort(s, n)
        used = _take(s, shape, n)
    return used


@helper()
def _count_room(s: Shared, shape: int, mask: int, level: int) -> None:
    """Count what each group of a level has room for: tasks in row 0 of ``sums``, nodes in row 1."""
    for group in range(s.sums.shape[1]):
        s.sums[0, group] = 0
        s.sums[1, group] = 0
    for node in range(s.order.size):
        if s.masks[mask, node]:
            tasks = _tasks_on(s, node, shape)
            s.sums[0, s.groups[level, node]] += tasks
            s.sums[1, s.groups[level, node]] += tasks > 0


@helper()
def _allow_below(s: Shared, shape: int, mask: int, level: int, group: int) -> None:
    """Allow only so many groups below a group as a job may span: those with most room; row 2 of ``sums`` is 1."""
    _count_room(s, shape, mask, level - 1)
    for below in range(s.sums.shape[1]):
        s.sums[2, below] = 0
    for _ in range(s.shapes[shape].most_below):
        best = -1
        for node in range(s.order.size):
            below = s.groups[level - 1, node]
            inside = s.groups[level, node] == group and s.sums[2, below] == 0 and s.sums[0, below] > 0
            if inside and (best < 0 or s.sums[0, below] > s.sums[0, best]):
                best = below
        if best < 0:
            break
        s.sums[2, best] = 1


@helper()
def _choose_within(s: Shared, shape: int, mask: int, level: int) -> int:
    """Choose nodes within the group of a level that has room for the job, and the least of all that have."""
    about, fullest = s.shapes[shape], 0
    while True:
        _count_room(s, shape, mask, level)
        best = -1
        for group in range(s.sums.shape[1]):
            tasks = s.sums[0, group]
            if tasks < about.tasks or s.sums[1, group] < about.least_nodes or tasks * 2**20 + group <= fullest:
                continue
            if best < 0 or tasks < s.sums[0, best]:
                best = group
        if best < 0:
            return 0
        fullest = s.sums[0, best] * 2**20 + best
        if about.most_below > 0:
            _allow_below(s, shape, mask, level, best)
        used = _choose_among(s, shape, mask, level, best)
        if used > 0:
            return used


@helper()
def choose(s: Shared, shape: int) -> int:
    """Choose nodes that have room for a job beside the reservations that are respected; return how many, 0 for none."""
    about = s.shapes[shape]
    for mask in range(about.first_mask, about.first_mask + about.n_masks):
        used = 0
        if s.rules[0].allocation == LOWEST_SWITCH:
            # A job of one node fits below a leaf switch or nowhere.
            for level in range(s.groups.shape[0] if about.level < 0 else about.level):
                if used == 0 and about.most_below == 0:
                    used = _choose_within(s, shape, mask, level)
        if used == 0 and about.level >= 0:
            used = _choose_within(s, shape, mask, about.level)
        elif used == 0:
            used = _choose_among(s, shape, mask, -1, -1)
        if used > 0:
            return used
    return 0


@inlined
def _amount(s: Shared, shape: int, node: int, tasks: int, resource: int) -> int:
    if s.shapes[shape].is_exclusive:
        return int(s.capacity[node, resource])
    return int(s.per_node[shape, resource] + tasks * s.per_task[shape, resource])


@inlined
def hold(s: Shared, table: int, shape: int, node: int, tasks: int, sign: int) -> None:
    """Take from a table what a job holds on a node (sign 1), or give it back (sign -1)."""
    s.users[table, node] += sign * (ALONE if s.shapes[shape].is_exclusive else 1)
    for resource in range(s.capacity.shape[1]):
        s.room[table, node, resource] -= sign * _amount(s, shape, node, tasks, resource)


@inlined
def _look_at(s: Shared, table: int) -> None:
    """Let jobs be placed where there is room in a table, beside no reservation."""
    s.clock[0].table = table
    for partition in range(s.respected.size):
        s.respected[partition] = False


@inlined
def _expected_end(s: Shared, job: int) -> float:
    return max(s.jobs[job].expected_end, s.clock[0].now)


@inlined
def _release(s: Shared, node: int) -> None:
    """Note that a node has got more room."""
    s.releases[s.clock[0].n_released % s.releases.size] = node
    s.clock[0].n_released += 1


@inlined
def _find_shadow(s: Shared, plan: int, shape: int) -> int:
    """Choose nodes for a job at the first time when it can start by the estimates; return how many."""
    about, total, count = s.shapes[shape], 0, 0
    _look_at(s, SCRATCH)
    for node in range(s.order.size):
        if s.allowed[shape, node]:
            s.users[SCRATCH, node] = s.users[NOW, node]
            for resource in range(s.capacity.shape[1]):
                s.room[SCRATCH, node, resource] = s.room[NOW, node, resource]
            # Sums over the nodes tell whether to look for nodes at all.
            s.tasks_at[node] = _useful_tasks(s, node, shape)
            total += s.tasks_at[node]
            count += s.tasks_at[node] > 0
    at, used = 0, 0
    s.partitions[plan].shadow = np.inf
    while at < s.clock[0].n_running and used == 0:
        # All that end at the same time have given back what they hold.
        shadow = _expected_end(s, s.lists[RUNNING, at])
        while at < s.clock[0].n_running and _expected_end(s, s.lists[RUNNING, at]) == shadow:
            other = s.jobs[s.lists[RUNNING, at]]
            for place in range(other.first, other.first + other.n_nodes):
                node = s.held[0, place]
                if s.allowed[shape, node]:
                    hold(s, SCRATCH, other.shape, node, s.held[1, place], -1)
                    tasks = _useful_tasks(s, node, shape)
                    total += tasks - s.tasks_at[node]
                    count += (tasks > 0) - (s.tasks_at[node] > 0)
                    s.tasks_at[node] = tasks
            at += 1
        s.partitions[plan].shadow = shadow
        if total >= about.tasks and count >= about.least_nodes:
            used = choose(s, shape)
    return used


@inlined
def _has_grown(s: Shared, partition: int, node: int) -> bool:
    """Whether a node has more of anything beside a reservation than the scratch table says that it had before."""
    if s.users[1 + partition, node] < s.users[SCRATCH, node]:
        return True
    for resource in range(s.capacity.shape[1]):
        if s.room[1 + partition, node, resource] > s.room[SCRATCH, node, resource]:
            return True
    return False


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
        hold(s, SCRATCH, shape, node, s.chosen[3, i], 1)
        # The table and the scratch change places, for what was free before is asked below.
        s.users[1 + partition, node], s.users[SCRATCH, node] = s.users[SCRATCH, node], s.users[1 + partition, node]
        for resource in range(s.capacity.shape[1]):
            free = s.room[SCRATCH, node, resource]
            s.room[SCRATCH, node, resource] = s.room[1 + partition, node, resource]
            s.room[1 + partition, node, resource] = free
    for i in range(plan.n_nodes):
        node = s.planned[partition, i]
        # Jobs that found no room beside the reservation may find some now.
        if not (was_kept and s.reserved[partition, node]) or _has_grown(s, partition, node):
            _release(s, node)
    for i in range(used):
        s.planned[partition, i] = s.chosen[0, i]
    plan.n_nodes = used


@inlined
def _running_place(s: Shared, end: float) -> int:
    """First place of the running jobs, which are sorted by expected end, behind all that end until a time."""
    first, last = 0, s.clock[0].n_running
    while first < last:
        middle = (first + last) // 2
        if s.jobs[s.lists[RUNNING, middle]].expected_end <= end:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def _is_before(s: Shared, a: int, b: int) -> bool:
    return s.jobs[a].end < s.jobs[b].end or (s.jobs[a].end == s.jobs[b].end and a < b)


@helper()
def _start(s: Shared, job: int, used: int) -> None:
    """Start a job on the chosen nodes."""
    clock, record = s.clock[0], s.jobs[job]
    record.start = clock.now
    record.end = clock.now + record.run
    record.expected_end = clock.now + s.shapes[record.shape].estimate
    record.first = clock.n_held
    record.n_nodes = used
    for i in range(used):
        node, tasks = s.chosen[0, i], s.chosen[3, i]
        s.held[0, clock.n_held] = node
        s.held[1, clock.n_held] = tasks
        clock.n_held += 1
        hold(s, NOW, record.shape, node, tasks, 1)
        for partition in range(s.partitions.size):
            plan = s.partitions[partition]
            # What ends before leaves no trace then.
            if plan.job >= 0 and record.expected_end > plan.shadow and s.reserved[partition, node]:
                hold(s, 1 + partition, record.shape, node, tasks, 1)
    at = _running_place(s, record.expected_end)
    for place in range(clock.n_running, at, -1):
        s.lists[RUNNING, place] = s.lists[RUNNING, place - 1]
    s.lists[RUNNING, at] = job
    clock.n_running += 1
    at = clock.n_events
    clock.n_events += 1
    while at > 0 and _is_before(s, job, s.lists[ENDS, (at - 1) // 2]):
        s.lists[ENDS, at] = s.lists[ENDS, (at - 1) // 2]
        at = (at - 1) // 2
    s.lists[ENDS, at] = job


@helper()
def _end_next(s: Shared) -> None:
    """End the running job whose end comes next."""
    clock, job = s.clock[0], s.lists[ENDS, 0]
    record = s.jobs[job]
    clock.n_events -= 1
    last, at = s.lists[ENDS, clock.n_events], 0
    while 2 * at + 1 < clock.n_events:
        child = 2 * at + 1
        if child + 1 < clock.n_events and _is_before(s, s.lists[ENDS, child + 1], s.lists[ENDS, child]):
            child += 1
        if _is_before(s, last, s.lists[ENDS, child]):
            break
        s.lists[ENDS, at] = s.lists[ENDS, child]
        at = child
    s.lists[ENDS, at] = last
    for place in range(record.first, record.first + record.n_nodes):
        node, tasks = s.held[0, place], s.held[1, place]
        hold(s, NOW, record.shape, node, tasks, -1)
        _release(s, node)
        for partition in range(s.partitions.size):
            plan = s.partitions[partition]
            if plan.job >= 0:
                if record.expected_end > plan.shadow and s.reserved[partition, node]:
                    hold(s, 1 + partition, record.shape, node, tasks, -1)
                plan.is_stale |= int(s.allowed[s.jobs[plan.job].shape, node])
    # Several may be expected to end at one time; it stands before the place behind all of them.
    at = _running_place(s, record.expected_end) - 1
    while s.lists[RUNNING, at] != job:
        at -= 1
    clock.n_running -= 1
    for place in range(at, clock.n_running):
        s.lists[RUNNING, place] = s.lists[RUNNING, place + 1]


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
    for place in range(last.released, clock.n_released):
        node = s.releases[place % s.releases.size]
        if s.allowed[shape, node]:
            tasks = _useful_tasks(s, node, shape)
            last.tasks += tasks
            last.nodes += tasks > 0
    last.released = clock.n_released
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
        if s.allowed[shape, node]:
            tasks = _useful_tasks(s, node, shape)
            last.tasks += tasks
            last.nodes += tasks > 0
    return 0


@inlined
def _rank(s: Shared, shape: int) -> int:
    return s.jobs[s.shapes[shape].first_waiting].rank


@helper()
def _sink_shape(s: Shared, at: int, size: int) -> None:
    """Restore the heap of the shapes that are left in a pass below a place."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _rank(s, s.waiting[1, child + 1]) < _rank(s, s.waiting[1, child]):
            child += 1
        if _rank(s, s.waiting[1, at]) < _rank(s, s.waiting[1, child]):
            break
        s.waiting[1, at], s.waiting[1, child] = s.waiting[1, child], s.waiting[1, at]
        at = child


@helper()
def _begin_pass(s: Shared) -> None:
    """Block no partition, and make the heap of the shapes of which jobs wait."""
    for partition in range(s.partitions.size):
        s.partitions[partition].is_blocked = 0
    for place in range(s.clock[0].n_waiting):
        s.waiting[1, place] = s.waiting[0, place]
    for place in range(s.clock[0].n_waiting // 2 - 1, -1, -1):
        _sink_shape(s, place, s.clock[0].n_waiting)
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


@helper()
def _pass(s: Shared) -> bool:
    """Start what may start, in the order of the queue: the first waiting job of each shape, until it finds no room.

    Return False where it stops before its end, to be told the nodes of a job.
    """
    clock, rules = s.clock[0], s.rules[0]
    while clock.n_left > 0:
        shape = s.waiting[1, 0]
        about = s.shapes[shape]
        job, plan = about.first_waiting, s.partitions[about.partition]
        used = clock.n_chosen
        if used == 0 and (rules.is_easy or not plan.is_blocked):
            used = _find_room(s, job)
            if used > 1 and rules.is_asking:
                clock.n_chosen = used
                return False
        clock.n_chosen = 0
        if used > 0:
            _start(s, job, used)
            about.first_waiting = s.jobs[job].next_waiting
            if about.first_waiting >= 0:
                _sink_shape(s, 0, clock.n_left)
                continue
        elif rules.is_easy and not plan.is_blocked and (plan.job != job or plan.is_stale or plan.shadow <= clock.now):
            _reserve(s, about.partition, job)
        # The shape has no room, or no more jobs.
        plan.is_blocked |= int(about.first_waiting == job)
        clock.n_left -= 1
        s.waiting[1, 0] = s.waiting[1, clock.n_left]
        _sink_shape(s, 0, clock.n_left)
    _end_pass(s)
    return True


@inlined
def _enqueue(s: Shared, job: int) -> None:
    clock, shape = s.clock[0], s.shapes[s.jobs[job].shape]
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


@kernel(int64(SHARED, int64))
def simulate_shared(s: Shared, steps: int) -> int:
    """Go on for so many scheduling points; return whether something is left to happen, or a job waits for its nodes.

    These are `ENDED`, `GOES_ON` and `ASKS`. Jobs of several nodes ask where `RulesRecord.is_asking`: the first one of
    the shape in ``waiting[1, 0]`` has room on the nodes of ``chosen``, which may be changed before it goes on.
    """
    clock = s.clock[0]
    for _ in range(steps):
        if clock.n_chosen == 0:
            submission = s.jobs[clock.next_submission].submit if clock.next_submission < s.jobs.size else np.inf
            end = s.jobs[s.lists[ENDS, 0]].end if clock.n_events > 0 else np.inf
            if min(submission, end) == np.inf:
                return ENDED
            clock.now = min(submission, end)
            while clock.n_events > 0 and s.jobs[s.lists[ENDS, 0]].end == clock.now:
                _end_next(s)
            while clock.next_submission < s.jobs.size and s.jobs[clock.next_submission].submit == clock.now:
                _enqueue(s, clock.next_submission)
                clock.next_submission += 1
            _begin_pass(s)
        if not _pass(s):
            return ASKS
    return GOES_ON
