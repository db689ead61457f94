"""Chooses nodes for a job on shared nodes, and books the amounts that it holds there."""

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined
from allocopt.problems.placement.window import tasks_in_room
from allocopt.simulator.shared.downtimes import meets_downtime
from allocopt.simulator.shared.state import ALONE, AllocationRule, Shared

FIRST_FIT, LEAST_LOADED = int(AllocationRule.FIRST_FIT), int(AllocationRule.LEAST_LOADED)
LOWEST_SWITCH = int(AllocationRule.LOWEST_SWITCH)
MANY = 2**20  # more than any number of nodes or groups, so that value * MANY + number sorts by value, then number


@inlined
def _tasks_in(s: Shared, table: int, node: int, shape: int) -> int:
    """Return how many tasks of a shape a node has room for, by a table of amounts."""
    about = s.shapes[shape]
    if s.users[table, node] >= (1 if about.is_exclusive else ALONE):
        return 0
    return tasks_in_room(s.room[table], node, s.per_node, s.per_task, shape, about.most_tasks)


@inlined
def _tasks_on(s: Shared, node: int, shape: int) -> int:
    """Return how many tasks of a shape a node has room for, leaving respected reservations their room."""
    tasks = _tasks_in(s, s.clock[0].table, node, shape)
    # On a full machine the function returns here for most nodes.
    if tasks == 0 or s.closed[node] or meets_downtime(s, node, s.clock[0].looks_at, s.shapes[shape].estimate):
        return 0
    for partition in range(s.respected.size):
        # A reservation only matters on its own nodes.
        if tasks > 0 and s.respected[partition] and s.reserved[partition, node]:
            tasks = min(tasks, _tasks_in(s, 1 + partition, node, shape))
    return tasks


@inlined
def useful_tasks(s: Shared, node: int, shape: int) -> int:
    """Return how many tasks of a shape a node has room for; 0 if a one-node job does not fit completely."""
    tasks = _tasks_on(s, node, shape)
    return 0 if s.shapes[shape].most_nodes == 1 and tasks < s.shapes[shape].tasks else tasks


@helper()
def sink(heap: IntArray, keys: IntArray, at: int, size: int) -> None:
    """Restore a heap below position ``at``; its least key is at the top."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and keys[heap[child + 1]] < keys[heap[child]]:
            child += 1
        if keys[heap[at]] < keys[heap[child]]:
            break
        heap[at], heap[child] = heap[child], heap[at]
        at = child


@helper()
def _sort(s: Shared, size: int) -> None:
    """Sort the first ``size`` chosen nodes by descending key; use a heap, because there may be thousands."""
    nodes, keys = s.chosen[0], s.chosen[2]
    for at in range(size // 2 - 1, -1, -1):
        sink(nodes, keys, at, size)
    for end in range(size - 1, 0, -1):
        nodes[0], nodes[end] = nodes[end], nodes[0]
        sink(nodes, keys, 0, end)


@inlined
def _take(s: Shared, shape: int, n: int) -> int:
    """Give a job's tasks to the first of ``n`` candidates; return how many nodes it takes, 0 if there are too few."""
    about, left, used, room = s.shapes[shape], s.shapes[shape].tasks, 0, 0
    part = about.part
    least, most = -(-about.least_nodes // part) * part, min(n, about.most_nodes // part * part)
    # Take the first nodes until they have room for all tasks, in whole segments.
    while used < most and (room < left or used < least or used % part > 0):
        room += s.chosen[1, s.chosen[0, used]]
        used += 1
    if room < left or not least <= used <= left:
        return 0
    for i in range(used):
        # Leave at least one task for every following node.
        s.chosen[3, i] = min(s.chosen[1, s.chosen[0, i]], left - (used - i - 1))
        left -= s.chosen[3, i]
    return used


@helper()
def _gather_segments(s: Shared, shape: int, n: int) -> int:
    """Move those of ``n`` candidates that form whole segments to the front, segment by segment; return their number.

    Segments are in the order of their first candidates.
    """
    # For each group: number of candidates that remain to be moved, and the position of the next one.
    coming, place = s.sums[0], s.sums[1]
    for level in range(s.groups.shape[0]):
        size = s.segments[shape, level]
        if size == 0:
            continue
        for group in range(coming.size):
            coming[group] = 0
        for i in range(n):
            coming[s.groups[level, s.chosen[0, i]]] += 1
        begin, rest = 0, 0
        for group in range(coming.size):
            coming[group] -= coming[group] % size
            rest += coming[group]
        whole = rest
        for i in range(n):
            node = s.chosen[0, i]
            group = s.groups[level, node]
            if coming[group] == 0:
                s.chosen[3, rest] = node
                rest += 1
                continue
            if coming[group] % size == 0:
                place[group] = begin
                begin += size
            s.chosen[3, place[group]] = node
            place[group] += 1
            coming[group] -= 1
        for i in range(n):
            s.chosen[0, i] = s.chosen[3, i]
        n = whole
    return n


@inlined
def _take_whole(s: Shared, shape: int, n: int) -> int:
    """Give a job's tasks to the first of ``n`` candidates, in whole segments; return how many nodes; 0 if too few."""
    return _take(s, shape, _gather_segments(s, shape, n) if s.shapes[shape].part > 1 else n)


@helper()
def _choose_inside(s: Shared, shape: int) -> int:
    """Choose nodes for a job among those marked ``inside``; return how many, 0 if it does not fit.

    The nodes are written to row 0 of ``chosen``, their tasks to row 3.
    """
    about, rule = s.shapes[shape], s.rules[0].allocation
    n, total, table = 0, 0, s.clock[0].table
    for place in range(s.order.size):
        node = s.order[place]
        tasks = useful_tasks(s, node, shape) if s.inside[node] else 0
        if tasks == 0:
            continue
        s.chosen[0, n] = node
        s.chosen[1, node] = tasks
        free = s.room[table, node, 0]
        s.chosen[2, node] = (free if rule == LEAST_LOADED else -free) * MANY - node
        n += 1
        total += tasks
        is_enough = total >= about.tasks and n >= about.least_nodes and n <= about.most_nodes
        if rule == FIRST_FIT and is_enough and about.part == 1:
            break
    if n < about.least_nodes or total < about.tasks:
        return 0
    if rule != FIRST_FIT:
        _sort(s, n)
    used = _take_whole(s, shape, n)
    if used == 0:
        # Try again, beginning with the nodes that have room for most tasks.
        for i in range(n):
            s.chosen[2, s.chosen[0, i]] = s.chosen[1, s.chosen[0, i]] * MANY - s.chosen[0, i]
        _sort(s, n)
        used = _take_whole(s, shape, n)
    return used


@helper()
def _count_room(s: Shared, shape: int, level: int) -> None:
    """Sum the room of the nodes ``inside`` by group of a level: tasks in row 0 of ``sums``, nodes in row 1."""
    for group in range(s.sums.shape[1]):
        s.sums[0, group] = 0
        s.sums[1, group] = 0
    for node in range(s.order.size):
        if s.inside[node]:
            tasks = _tasks_on(s, node, shape)
            s.sums[0, s.groups[level, node]] += tasks
            s.sums[1, s.groups[level, node]] += tasks > 0


@helper()
def _limit_groups(s: Shared, shape: int, level: int) -> None:
    """Leave only nodes of the groups with most room ``inside``: as many groups of each lower level as a job may span.

    Lower levels are those below ``level``.
    """
    for below in range(level - 1, -1, -1):
        most = s.most_groups[shape, below]
        if most == 0:
            continue
        _count_room(s, shape, below)
        s.clock[0].work -= most * s.sums.shape[1]
        for _ in range(most):
            best = 0
            for group in range(s.sums.shape[1]):
                if s.sums[0, group] > s.sums[0, best]:
                    best = group
            s.sums[0, best] = -1
        for node in range(s.order.size):
            s.inside[node] &= s.sums[0, s.groups[below, node]] < 0


@inlined
def _look_inside(s: Shared, mask: int, level: int, group: int) -> None:
    """Mark the nodes of a set as ``inside``; only those in the group of a level, unless the level is -1."""
    s.clock[0].work -= s.order.size
    for node in range(s.order.size):
        s.inside[node] = s.masks[mask, node] and (level < 0 or s.groups[level, node] == group)


@helper()
def _choose_within(s: Shared, shape: int, mask: int, level: int) -> int:
    """Choose nodes within one group of a level; groups with room for the job are tried in order of increasing room."""
    about, fullest = s.shapes[shape], 0
    while True:
        _look_inside(s, mask, -1, 0)
        _count_room(s, shape, level)
        best = -1
        for group in range(s.sums.shape[1]):
            tasks = s.sums[0, group]
            if tasks < about.tasks or s.sums[1, group] < about.least_nodes or tasks * MANY + group <= fullest:
                continue
            if best < 0 or tasks < s.sums[0, best]:
                best = group
        if best < 0:
            return 0
        fullest = s.sums[0, best] * MANY + best
        _look_inside(s, mask, level, best)
        if about.is_limited:
            _limit_groups(s, shape, level)
        used = _choose_inside(s, shape)
        if used > 0:
            return used


@helper()
def choose(s: Shared, shape: int) -> int:
    """Choose nodes for a job, leaving respected reservations their room; return how many, 0 if it does not fit."""
    about, levels = s.shapes[shape], s.groups.shape[0]
    for mask in range(about.first_mask, about.first_mask + about.n_masks):
        used = 0
        if s.rules[0].allocation == LOWEST_SWITCH and not about.is_limited:
            for level in range(levels if about.level < 0 else about.level):
                if used == 0:
                    used = _choose_within(s, shape, mask, level)
        if used == 0 and about.level >= 0:
            used = _choose_within(s, shape, mask, about.level)
        elif used == 0:
            _look_inside(s, mask, -1, 0)
            if about.is_limited:
                _limit_groups(s, shape, levels)
            used = _choose_inside(s, shape)
        if used > 0:
            return used
    return 0


@inlined
def amount_on(s: Shared, shape: int, node: int, tasks: int, resource: int) -> int:
    """Return the amount of a resource that a job of a shape holds on a node with ``tasks`` of its tasks."""
    amount: int = s.per_node[shape, resource] + tasks * s.per_task[shape, resource]
    return int(s.capacity[node, resource]) if s.shapes[shape].is_exclusive else amount


@inlined
def amounts_held(s: Shared, table: int, shape: int, node: int, tasks: int, sign: int) -> None:
    """Subtract the amounts that a job holds on a node from a table (sign 1), or add them again (sign -1)."""
    s.users[table, node] += sign * (ALONE if s.shapes[shape].is_exclusive else 1)
    for resource in range(s.capacity.shape[1]):
        s.room[table, node, resource] -= sign * amount_on(s, shape, node, tasks, resource)
