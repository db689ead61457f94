"""Where a job fits on what is free: one answer, the tightest group first, without a search."""

from collections.abc import Iterator

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import InvalidSolutionError
from allocopt.problems.placement.problem import NodeTasks, check_places
from allocopt.problems.relocation.problem import Occupancy, Places


def fitted(request: ClusterRequest, room: Occupancy, nodes: IntArray, groups: IntArray) -> Places | None:
    """Return nodes for a job, or None if this rule finds none.

    Of the groups that the job must stay in, and of its sets of nodes, the one with the fewest nodes that have room is
    taken. Within it, segments are taken from the groups with the fewest nodes that hold one.

    Parameters
    ----------
    nodes
        Nodes that the job may have, rising.
    groups
        Group of every node by level below the top, shape ``(L, nodes)``.
    """
    tasks = request.room(room.free[nodes])
    tasks[room.alone[nodes]] = 0
    if request.is_exclusive:
        tasks[room.users[nodes] > 0] = 0
    has_room = tasks > 0
    nodes, tasks = nodes[has_room], tasks[has_room]
    for part in _domains(request, nodes, groups):
        places = _within(request, tasks[part], nodes[part], groups)
        if places is not None:
            return places
    return None


def _domains(request: ClusterRequest, nodes: IntArray, groups: IntArray) -> Iterator[IntArray]:
    """Yield the places in a list of nodes of each set and group in which a job may stay, the smallest first."""
    for mask in request.masks:
        there = np.flatnonzero(mask[nodes])
        if request.level < 0:
            yield there
            continue
        group = groups[request.level, nodes[there]]
        order = np.argsort(group, kind="stable")
        parts = np.split(there[order], np.flatnonzero(np.diff(group[order])) + 1)
        yield from sorted((part for part in parts if len(part) >= request.least_nodes), key=len)


def _within(request: ClusterRequest, tasks: IntArray, nodes: IntArray, groups: IntArray) -> Places | None:
    """Return nodes for a job among some that have room for so many of its tasks each, or None."""
    levels = [level for level, segment in enumerate(request.segments) if segment]
    if levels:
        order = _by_segments(groups[levels[0], nodes], request.segments[levels[0]])
    else:
        # The roomiest nodes first, so that as few as possible hold all tasks.
        order = np.argsort(-tasks, kind="stable")
    needed = int(np.searchsorted(np.cumsum(np.sort(tasks[order])[::-1]), request.tasks)) + 1
    part = request.part
    count = -(-max(needed, request.least_nodes) // part) * part
    if count > min(request.most_nodes, len(order)):
        return None
    chosen = np.sort(order[:count])
    left, places = request.tasks, []
    for at, (node, room) in enumerate(zip(nodes[chosen].tolist(), tasks[chosen].tolist(), strict=True)):
        given = min(room, left - (count - 1 - at))
        places.append(NodeTasks(node, given))
        left -= given
    try:
        check_places("", request, places, groups)
    except InvalidSolutionError:
        return None
    return tuple(places)


def _by_segments(group: IntArray, segment: int) -> IntArray:
    """Return the places of nodes in whole segments of a level, those of the groups with the fewest nodes first."""
    names, row_of = np.unique(group, return_inverse=True)
    sizes = np.bincount(row_of, minlength=len(names))
    smallest = np.argsort(sizes, kind="stable")
    found = [np.flatnonzero(row_of == one)[: sizes[one] // segment * segment] for one in smallest]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
