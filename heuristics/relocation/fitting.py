"""Where a job fits on what is free: one answer, the tightest group first, without a search."""

from collections.abc import Iterator

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import InvalidSolutionError
from allocopt.problems.placement.problem import NodeTasks, check_places
from allocopt.problems.relocation.problem import Occupancy, Places


def fitted(request: ClusterRequest, room: Occupancy, is_open: BoolArray, groups: IntArray) -> Places | None:
    """Return nodes for a job, or None if this rule finds none.

    Of the groups that the job must stay in, and of its sets of nodes, the one with the fewest nodes that have room is
    taken. Within it, segments are taken from the groups with the fewest nodes that hold one.

    Parameters
    ----------
    is_open
        Whether the job may have each node, shape ``(nodes,)``.
    groups
        Group of every node by level below the top, shape ``(L, nodes)``.
    """
    tasks = request.room(room.free)
    tasks[~is_open | room.alone] = 0
    if request.is_exclusive:
        tasks[room.users > 0] = 0
    for nodes in _domains(request, tasks, groups):
        places = _within(request, tasks, nodes, groups)
        if places is not None:
            return places
    return None


def _domains(request: ClusterRequest, tasks: IntArray, groups: IntArray) -> Iterator[IntArray]:
    """Yield the nodes with room of each set and group in which a job may stay, those with the fewest first."""
    for mask in request.masks:
        there = np.flatnonzero(mask & (tasks > 0))
        if request.level < 0:
            yield there
            continue
        group = groups[request.level, there]
        order = np.argsort(group, kind="stable")
        parts = np.split(there[order], np.flatnonzero(np.diff(group[order])) + 1)
        yield from sorted((part for part in parts if len(part) >= request.least_nodes), key=len)


def _within(request: ClusterRequest, tasks: IntArray, nodes: IntArray, groups: IntArray) -> Places | None:
    """Return nodes for a job among some that have room, or None."""
    levels = [level for level, segment in enumerate(request.segments) if segment]
    if levels:
        nodes = _segments(request, nodes, groups[levels[0]], request.segments[levels[0]])
    # The roomiest nodes first, so that as few as possible hold all tasks.
    roomiest = nodes[np.argsort(-tasks[nodes], kind="stable")]
    needed = int(np.searchsorted(np.cumsum(tasks[roomiest]), request.tasks)) + 1
    part = request.part
    count = -(-max(needed, request.least_nodes) // part) * part
    if count > min(request.most_nodes, len(nodes)):
        return None
    chosen = np.sort(nodes[:count] if levels else roomiest[:count])
    left, places = request.tasks, []
    for at, node in enumerate(chosen.tolist()):
        given = min(int(tasks[node]), left - (count - 1 - at))
        places.append(NodeTasks(node, given))
        left -= given
    try:
        check_places("", request, places, groups)
    except InvalidSolutionError:
        return None
    return tuple(places)


def _segments(request: ClusterRequest, nodes: IntArray, group: IntArray, segment: int) -> IntArray:
    """Return nodes in whole segments of a level, those of the groups with the fewest nodes first."""
    of_node = group[nodes]
    sizes = np.bincount(of_node)
    found = [nodes[of_node == one][: sizes[one] // segment * segment] for one in np.argsort(sizes, kind="stable")]
    return np.concatenate(found) if found else nodes[:0]
