"""A rule that finds nodes for a job among free ones, in the tightest group first, without a search."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import IntArray, places_by_value
from allocopt.cluster.request import ClusterRequest
from allocopt.errors import InvalidSolutionError
from allocopt.problems.placement.problem import NodeTasks, check_places
from allocopt.problems.relocation.problem import Occupancy, PlacedJob, Places, RelocationProblem


def fitted(request: ClusterRequest, room: Occupancy, nodes: IntArray, groups: IntArray) -> Places | None:
    """Return nodes for a job, or None if this rule finds none.

    The rule tries the groups within which the job may stay, in each of its node sets, and begins with the one that has
    the fewest nodes with room. It takes segments from the groups with the fewest such nodes first.

    Parameters
    ----------
    request
        Request of the job.
    room
        The free resources of the nodes, and the jobs on them.
    nodes
        Nodes that the job may have, sorted.
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


def new_places(problem: RelocationProblem, room: Occupancy, moving: Sequence[PlacedJob]) -> dict[str, Places] | None:
    """Return new nodes, by job id, for jobs that have left theirs; the largest jobs choose first.

    A job that finds no nodes is left out of the answer if it may be stopped. If it must not be stopped, return None.
    """
    room = room.copy()
    open_nodes, groups = np.flatnonzero(~problem.emptied), problem.groups
    found: dict[str, Places] = {}
    for job in sorted(moving, key=lambda job: -len(job.places)):
        places = fitted(job.request, room, open_nodes, groups)
        if places is not None:
            room.enter(job.id, job.request, places)
            found[job.id] = places
        elif job.stop_cost is None:
            return None
    return found


def _domains(request: ClusterRequest, nodes: IntArray, groups: IntArray) -> list[IntArray]:
    """Return the indices into ``nodes`` of each set, or group in a set, that can hold a job; the smallest first."""
    found: list[IntArray] = []
    for mask in request.masks:
        there = np.flatnonzero(mask[nodes])
        if request.level < 0:
            found.append(there)
            continue
        found += [there[part] for part in places_by_value(groups[request.level, nodes[there]])]
    return sorted((part for part in found if len(part) >= request.least_nodes), key=len)


def _within(request: ClusterRequest, tasks: IntArray, nodes: IntArray, groups: IntArray) -> Places | None:
    """Return nodes for a job among candidates, given the room of each in tasks; None if they do not suffice."""
    for level, limit in enumerate(request.most_groups):
        if limit > 1:
            kept = _roomiest(groups[level, nodes], tasks, limit)
            tasks, nodes = tasks[kept], nodes[kept]
    levels = [level for level, segment in enumerate(request.segments) if segment]
    if levels:
        order = _by_segments(groups[levels[0], nodes], request.segments[levels[0]])
    else:
        # Nodes with most room come first, so that as few as possible hold all tasks.
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
    return tuple(places) if serve(request, places, groups) else None


def serve(request: ClusterRequest, places: Sequence[NodeTasks], groups: IntArray) -> bool:
    """Return whether nodes and tasks obey a request, regardless of what is free."""
    try:
        check_places("", request, places, groups)
    except InvalidSolutionError:
        return False
    return True


def _roomiest(group: IntArray, tasks: IntArray, limit: int) -> IntArray:
    """Return the indices of the nodes in the ``limit`` groups that have room for most tasks."""
    names, row_of = np.unique(group, return_inverse=True)
    room = np.bincount(row_of, tasks, len(names))
    return np.flatnonzero(np.isin(row_of, np.argsort(-room, kind="stable")[:limit]))


def _by_segments(group: IntArray, segment: int) -> IntArray:
    """Return the indices of the nodes that form whole segments; groups with the fewest nodes come first."""
    names, row_of = np.unique(group, return_inverse=True)
    sizes = np.bincount(row_of, minlength=len(names))
    smallest = np.argsort(sizes, kind="stable")
    found = [np.flatnonzero(row_of == one)[: sizes[one] // segment * segment] for one in smallest]
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
