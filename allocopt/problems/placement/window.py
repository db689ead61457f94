"""Arrays of a placement problem for kernels: room on its nodes, and the cheapest nodes of one job by counts.

The cost of a job depends only on how many of its nodes lie in each group. So the cheapest counts follow exactly from
the number of nodes with room in each leaf (`allocopt.kernels.insertion`). If nodes have room for different numbers of
tasks, they follow from the total room of the roomiest nodes of each leaf (`cheapest_room`).
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.cluster.request import mask_table
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.arrays import BoolMatrix, FloatMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import (
    InsertionState,
    combine_children,
    fill_table,
    insertion_state,
    place_job,
)
from allocopt.kernels.tree import GroupTree
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology.tables import TREE_KERNELS, group_tree

EXACT = 1e-9  # tolerance for rounding in a sum of whole numbers
SIZES_AT_ONCE = 5  # how many numbers of nodes of a job `cheapest_room` tries
SLICE = 1_000_000  # jobs times nodes between two checks of the clock
MOST_WORK = 10_000_000  # most steps of `cheapest_room` for all jobs, each about a nanosecond


class _AskedRecord(Protocol):
    """The request of a job without its amounts."""

    tasks: int
    least: int  # least number of nodes
    most: int  # most nodes
    most_tasks: int  # most tasks on a node
    is_exclusive: int  # 0 or 1
    first_mask: int  # first of its node sets, which are rows of `PlacementArrays.masks`
    n_masks: int  # number of its node sets
    first: int  # first of its `most` entries in tables of the nodes of all jobs
    part: int  # size of its largest segments, which divides its number of nodes; 1 for none
    level: int  # it stays within one group of this level, -1 for none
    n_groups: int  # number of groups of that level, 1 for none


class PlacementArrays(NamedTuple):
    """Arrays of a problem; nodes are numbered as in the problem, leaves as in the tree."""

    tree: GroupTree
    insertion: InsertionState
    groups: IntMatrix  # group of every node by level, shape ``(L, m)``
    leaf: IntArray  # leaf of every node
    names: IntArray  # number of each leaf in the topology
    free: IntMatrix  # shape ``(m, R)``
    in_use: IntArray  # 0 or 1
    jobs: Records[_AskedRecord]
    per_task: IntMatrix  # shape ``(J, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # shape ``(M, m)``
    most_groups: IntMatrix  # groups that a job may span, 0 for any number, shape ``(J, L)``
    step: IntMatrix  # a job's nodes in a group are a multiple of this; by level and the top, shape ``(J, L + 1)``
    vertex_level: IntArray  # level of each vertex of the tree
    bottom: float  # coefficients of `HopFormula`
    top: float
    scale: float
    left_out_cost: float  # `PlacementProblem.effective_left_out_cost`

    @classmethod
    def of(cls, problem: PlacementProblem) -> "PlacementArrays":
        """Return the arrays of a problem."""
        formula = HopFormula.of(problem.topology, problem.hop_cost)
        found = [np.unique(row, return_inverse=True) for row in problem.groups]
        groups = np.array([row for _, row in found], dtype=np.int64).reshape(len(found), problem.size)
        requests = [job.request for job in problem.jobs]
        jobs = np.zeros(len(requests), dtype=record_dtype(_AskedRecord))
        most = np.minimum([one.most_nodes for one in requests], problem.size)
        masks, first_mask = mask_table(requests)
        levels = [one.level for one in requests]
        fields = {
            "tasks": [one.tasks for one in requests],
            "least": [one.least_nodes for one in requests],
            "most": most,
            "most_tasks": [one.most_tasks for one in requests],
            "is_exclusive": [one.is_exclusive for one in requests],
            "first_mask": first_mask,
            "n_masks": [len(one.masks) for one in requests],
            "first": np.cumsum(most) - most,
            "part": [one.part for one in requests],
            "level": levels,
            "n_groups": [int(groups[level].max()) + 1 if level >= 0 else 1 for level in levels],
        }
        for name, values in fields.items():
            jobs[name] = values
        weights = np.array(formula.weights, dtype=np.float64)
        coefficients = float(formula.bottom), float(formula.top), float(formula.scale)
        step = np.ones((len(requests), len(groups) + 1), dtype=np.int64)
        for job, one in enumerate(requests):
            if one.segments:
                step[job, :-1] = np.maximum(one.segments, 1)
        n_groups = groups.max(axis=1) + 1
        tree = group_tree(Encoding(groups, n_groups, weights, *coefficients, most))
        return cls(
            tree,
            insertion_state(tree, int(most.max())),
            groups,
            groups[0].copy() if len(groups) else np.zeros(problem.size, dtype=np.int64),
            found[0][0] if found else np.zeros(1, dtype=np.int64),
            np.array(problem.free, order="C"),
            problem.in_use.astype(np.int64),
            jobs,
            np.stack([one.per_task for one in requests]),
            np.stack([one.per_node for one in requests]),
            masks,
            np.array([one.most_groups for one in requests], dtype=np.int64).reshape(len(requests), len(groups)),
            step,
            np.repeat(np.arange(len(groups) + 1), np.append(n_groups, 1)),
            *coefficients,
            problem.effective_left_out_cost,
        )

    def by_kind(self) -> "Kinds":
        """Return the jobs by kind; jobs of a kind have equal requests."""
        names = [name for name in record_dtype(_AskedRecord).names or () if name != "first"]
        asked = np.column_stack([self.jobs[name] for name in names])
        columns = np.column_stack((asked, self.per_task, self.per_node, self.most_groups, self.step))
        _, example, kind = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        jobs = np.zeros(len(example), dtype=record_dtype(_AskedRecord))
        for name in names:
            jobs[name] = self.jobs[name][example]
        jobs["first"] = np.cumsum(jobs["most"]) - jobs["most"]
        window = self._replace(
            jobs=jobs,
            per_task=np.ascontiguousarray(self.per_task[example]),
            per_node=np.ascontiguousarray(self.per_node[example]),
            most_groups=np.ascontiguousarray(self.most_groups[example]),
            step=np.ascontiguousarray(self.step[example]),
        )
        return Kinds(window, kind.reshape(-1), np.bincount(kind.reshape(-1)))


WINDOW = record_type(PlacementArrays)


@inlined
def tasks_in_room(room: IntMatrix, node: int, per_node: IntMatrix, per_task: IntMatrix, asked: int, most: int) -> int:
    """Return how many tasks of request ``asked``, at most ``most``, fit the room that is left on a node."""
    tasks = most
    for resource in range(room.shape[1]):
        left = room[node, resource] - per_node[asked, resource]
        if left < 0:
            return 0
        needed = per_task[asked, resource]
        if needed > 0 and left < needed * tasks:
            tasks = left // needed
    return tasks


@inlined
def tasks_in(w: PlacementArrays, room: IntMatrix, users: IntArray, job: int, node: int) -> int:
    """Return how many tasks of a job fit a node, given the room and the number of jobs on every node."""
    if w.jobs[job].is_exclusive and users[node] > 0:
        return 0
    return tasks_in_room(room, node, w.per_node, w.per_task, job, w.jobs[job].most_tasks)


@inlined
def find_room(
    w: PlacementArrays,
    room: IntMatrix,
    users: IntArray,
    job: int,
    mask: int,
    level: int,
    group: int,
    tasks_at: IntArray,
) -> int:
    """Fill ``tasks_at`` with the tasks of a job that each node has room for; return the largest number.

    Only nodes of the set ``mask`` count and, if ``level`` is not negative, only those in ``group`` of that level.
    """
    most = 0
    for node in range(room.shape[0]):
        tasks_at[node] = 0
        if w.masks[mask, node] and (level < 0 or w.groups[level, node] == group):
            tasks_at[node] = tasks_in(w, room, users, job, node)
            most = max(most, tasks_at[node])
    return most


@helper()
def count_nodes(w: PlacementArrays, tasks_at: IntArray, least: int) -> int:
    """Count the nodes with room for ``least`` tasks in each vertex of the tree; return their total."""
    idle, tree = w.insertion.idle, w.tree
    n_leaves = tree.leaf_first.size - 1
    for vertex in range(tree.idle.size):
        idle[vertex] = 0
    for node in range(tasks_at.size):
        idle[w.leaf[node]] += tasks_at[node] >= least
    for vertex in range(n_leaves, tree.idle.size):
        for place in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            idle[vertex] += idle[tree.children[place]]
    return int(idle[tree.idle.size - 1])


@helper()
def fill_segment_tables(w: PlacementArrays, job: int, most: int) -> None:
    """Fill the tables of all vertices except the top for up to ``most`` nodes of a job, in whole segments."""
    tree, state = w.tree, w.insertion
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)
        step, start = w.step[job, w.vertex_level[vertex]], state.offset[vertex]
        if step > 1:
            for nodes in range(1, min(state.idle[vertex], most) + 1):
                if nodes % step > 0:
                    state.tables[start + nodes] = -np.inf


@helper()
def cheapest_counts(w: PlacementArrays, job: int, size: int) -> float:
    """Find the cheapest number of nodes of each leaf for a job of ``size`` nodes; return the saving, or -inf.

    Call `count_nodes` before, which counts the nodes of each leaf. Prices of leaves are subtracted from the saving.
    """
    tree, state = w.tree, w.insertion
    if state.idle[tree.idle.size - 1] < size:
        return -np.inf
    fill_segment_tables(w, job, size)
    if not place_job(tree, state, size):
        return -np.inf
    saved = 0.0
    for vertex in range(tree.idle.size):
        taken = state.take[vertex]
        saved += tree.weight[vertex] * taken * taken
        if vertex < tree.leaf_first.size - 1:
            saved -= state.price[vertex] * taken
    return saved


@inlined
def hops_of(w: PlacementArrays, size: int, saved: float) -> float:
    """Return the hop cost of ``size`` nodes that save ``saved``, in units of the scale."""
    return (w.top * size - w.bottom) - saved / size


@inlined
def whole(nodes: int, part: int) -> int:
    """Return a number of nodes, rounded up to a multiple of ``part``."""
    return -(-nodes // part) * part


@inlined
def least_tasks(w: PlacementArrays, job: int, size: int) -> int:
    """Return the least number of tasks on each node of a job with ``size`` nodes."""
    return max(1, w.jobs[job].tasks - (size - 1) * w.jobs[job].most_tasks)


@inlined
def _add_points(before: FloatMatrix, after: FloatMatrix, came: IntMatrix, nodes: int, tasks: int, saved: float) -> None:
    """Extend every entry of the children before by some nodes of the next child, with their tasks and saving."""
    width = after.shape[1]
    for k in range(after.shape[0] - nodes):
        for t in range(width):
            value, at = before[k, t] + saved, min(width - 1, t + tasks)
            if value > after[k + nodes, at]:
                after[k + nodes, at] = value
                came[k + nodes, at] = (nodes * width + tasks) * width + t


@helper(allocates=True)
def cheapest_room(
    w: PlacementArrays, job: int, tasks_at: IntArray, least: int, most_work: int
) -> tuple[float, int, int]:
    """Find the cheapest nodes that together have room for the tasks of a job, exactly.

    Tries up to `SIZES_AT_ONCE` numbers of nodes, in whole segments. The first is the smallest number of ``least`` or
    more that has enough room. The program keeps, for each vertex, the largest saving by number of nodes and of tasks.
    Returns the hop cost, the number of nodes (0 if there are none) and the largest number tried (0 if the program would
    take more than ``most_work`` steps). ``w.insertion.take`` gets the number of nodes of each leaf: its roomiest ones.
    """
    tree, take, asked = w.tree, w.insertion.take, w.jobs[job]
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    rooms, unit = np.sort(tasks_at)[::-1], 0
    for room in rooms:
        unit = math.gcd(unit, room)
    first = total = 0
    while first < rooms.size and rooms[first] > 0 and (total < asked.tasks or first < least):
        total += rooms[first]
        first += 1
    last = min(asked.most, asked.tasks, first + SIZES_AT_ONCE * asked.part - 1)
    if total < asked.tasks or max(first, least) > last:
        return np.inf, 0, asked.most
    if n_leaves == n_vertices:
        return np.inf, 0, 0
    width = -(-asked.tasks // unit) + 1
    size = (last + 1) * width
    # Steps for the leaves: every number of nodes of a leaf is joined to every entry of the children before it.
    work = 0
    for leaf in range(n_leaves):
        work += min(last, tree.leaf_first[leaf + 1] - tree.leaf_first[leaf]) * size
    if work > most_work:
        return np.inf, 0, 0
    # The savings after each child, and the counts of the child from which each entry came.
    tables, came = np.full((n_vertices, last + 1, width), -np.inf), np.zeros((n_vertices, last + 1, width), np.int64)
    start = np.full((last + 1, width), -np.inf)
    start[0, 0] = 0.0
    for vertex in range(n_leaves, n_vertices):
        before = start
        for place in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            child = tree.children[place]
            weight, after, step = tree.weight[child], tables[child], w.step[job, w.vertex_level[child]]
            _add_points(before, after, came[child], 0, 0, 0.0)
            if child < n_leaves:
                positions = tree.leaf_positions[tree.leaf_first[child] : tree.leaf_first[child + 1]]
                inside, tasks = np.sort(tasks_at[positions])[::-1], 0
                price = w.insertion.price[child]
                for nodes in range(1, min(last, inside.size) + 1):
                    if inside[nodes - 1] == 0:
                        break
                    tasks += inside[nodes - 1]
                    if nodes % step > 0:
                        continue
                    saved = weight * nodes * nodes - price * nodes
                    _add_points(before, after, came[child], nodes, min(tasks // unit, width - 1), saved)
            else:
                own = tables[tree.children[tree.first_child[child + 1] - 1]]
                for nodes in range(step, last + 1, step):
                    best = -np.inf
                    for tasks in range(width - 1, 0, -1):
                        # Skip an entry if another with more tasks saves at least as much.
                        if own[nodes, tasks] > best:
                            best = own[nodes, tasks]
                            work += size
                            if work > most_work:
                                return np.inf, 0, 0
                            _add_points(before, after, came[child], nodes, tasks, best + weight * nodes * nodes)
            before = after
    at, found = 0, np.inf
    for nodes in range(max(first, least), last + 1):
        if before[nodes, width - 1] > -np.inf:
            hops = hops_of(w, nodes, before[nodes, width - 1])
            if hops < found:
                at, found = nodes, hops
    needed = np.zeros(n_vertices, np.int64)
    take[:] = 0
    take[n_vertices - 1], needed[n_vertices - 1] = at, width - 1
    for vertex in range(n_vertices - 1, n_leaves - 1, -1):
        nodes, tasks = take[vertex], needed[vertex]
        if nodes > 0:
            for place in range(tree.first_child[vertex + 1] - 1, tree.first_child[vertex] - 1, -1):
                child = tree.children[place]
                counts, left = divmod(came[child, nodes, tasks], width)
                take[child], needed[child] = divmod(counts, width)
                nodes, tasks = nodes - take[child], left
    return found, at, last


@helper(allocates=True)
def _alone(w: PlacementArrays, job: int, mask: int, group: int, tasks_at: IntArray, fewest: int) -> float:
    asked, level = w.jobs[job], w.jobs[job].level
    room = find_room(w, w.free, w.in_use, job, mask, level, group, tasks_at)
    if room == 0:
        return np.inf
    # Fewer nodes cannot hold the tasks.
    least, best = whole(max(fewest, -(-asked.tasks // room)), asked.part), np.inf
    if least == 1:
        return 0.0
    total = 0
    for node in range(tasks_at.size):
        total += tasks_at[node]
    if total < asked.tasks:
        return np.inf
    if is_uneven(tasks_at, -(-asked.tasks // least)):
        best, _, last = cheapest_room(w, job, tasks_at, least, MOST_WORK // w.jobs.size)
        least = max(least, last + 1)
    most = min(asked.most, count_nodes(w, tasks_at, least_tasks(w, job, asked.most)))
    if least > most:
        return best * w.scale
    tree, state = w.tree, w.insertion
    top = tree.idle.size - 1
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    fill_segment_tables(w, job, most)
    if n_children > 0:
        combine_children(tree, state, top, most)
    for size in range(least, most + 1):
        saved = 0.0 if n_children == 0 else np.ceil(state.prefix[n_children, size] - EXACT)
        best = min(best, hops_of(w, size, saved))
    return best * w.scale


@inlined
def is_uneven(tasks_at: IntArray, share: int) -> bool:
    """Return whether a node has room, but for fewer tasks than ``share``."""
    for tasks in tasks_at:
        if 0 < tasks < share:
            return True
    return False


@kernel(void(WINDOW, int64[::1], int64[::1], int64, int64, float64[::1]), allocates=True)
def fill_alone_costs(
    w: PlacementArrays, tasks_at: IntArray, fewest: IntArray, first: int, last: int, costs: FloatArray
) -> None:
    """Write the least cost of jobs ``first .. last - 1``, each on its ``fewest`` nodes or more, without other jobs.

    ``tasks_at`` is scratch, one number per node. Prices of leaves must be zero.
    """
    for job in range(first, last):
        asked = w.jobs[job]
        costs[job] = w.left_out_cost
        for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
            for group in range(asked.n_groups):
                if costs[job] > 0:
                    costs[job] = min(costs[job], _alone(w, job, mask, group, tasks_at, fewest[job]))


def alone_costs(window: PlacementArrays, fewest: IntArray, is_over: Callable[[], bool]) -> FloatArray:
    """Return the least cost of each job on ``fewest`` nodes or more, without other jobs; 0 once the time is over."""
    n_jobs, size = window.jobs.size, len(window.free)
    costs, tasks_at = np.zeros(n_jobs), np.zeros(size, dtype=np.int64)
    step = max(1, SLICE // size)
    for first in range(0, n_jobs, step):
        if is_over():
            break
        fill_alone_costs(window, tasks_at, fewest, first, min(n_jobs, first + step), costs)
    return costs


class Kinds(NamedTuple):
    """Jobs of a window, grouped by equal requests."""

    window: PlacementArrays  # of one job of each kind
    of_job: IntArray  # kind of each job
    counts: IntArray  # jobs of each kind

    def alone(self, is_over: Callable[[], bool]) -> FloatArray:
        """Return the least cost of a job of each kind without other jobs; see `alone_costs`."""
        return alone_costs(self.window, self.window.jobs["least"].copy(), is_over)


BOUND_KERNELS = (*TREE_KERNELS, insertion_state, fill_alone_costs)  # compiled functions that bounds without prices call
