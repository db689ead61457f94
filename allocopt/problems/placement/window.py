"""A placement problem as kernels take it: room on its nodes, and the cheapest nodes of one job by counts.

What one job costs depends on how many of its nodes lie in each group, so that the cheapest counts follow from how many
nodes of each leaf have room, exactly (`allocopt.kernels.insertion`).
"""

from typing import NamedTuple, Protocol

import numpy as np
from numba import float64, int64

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.arrays import BoolMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import (
    InsertionState,
    combine_children,
    fill_tables,
    insertion_state,
    place_job,
)
from allocopt.kernels.tree import GroupTree
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology.tables import TREE_KERNELS, group_tree

EXACT = 1e-9  # what rounding may take from a sum of whole numbers


class _AskedRecord(Protocol):
    """What a job asks for beside amounts."""

    tasks: int
    least: int  # nodes
    most: int
    most_tasks: int  # on a node
    is_exclusive: int  # 0 or 1
    first_mask: int  # its sets of nodes are so many rows of `Window.masks`
    n_masks: int
    first: int  # where its nodes begin in tables of all jobs' nodes, of which it has `most`
    level: int  # that it stays within a group of, -1 for none
    n_groups: int  # of that level, 1 for none


class Window(NamedTuple):
    """Arrays of a problem; nodes are numbered as there, leaves as in the tree."""

    tree: GroupTree
    insertion: InsertionState
    groups: IntMatrix  # group of every node by level, shape ``(L, m)``
    leaf: IntArray  # of every node
    free: IntMatrix  # shape ``(m, R)``
    in_use: IntArray  # 0 or 1
    jobs: Records[_AskedRecord]
    per_task: IntMatrix  # shape ``(J, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # shape ``(M, m)``
    most_groups: IntMatrix  # groups that a job may span, 0 for any number, shape ``(J, L)``
    bottom: float  # coefficients of `HopFormula`
    top: float
    scale: float
    left_out_cost: float

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Window":
        """Return the arrays of a problem."""
        formula = HopFormula.of(problem.topology, problem.hop_cost)
        rows = [np.unique(row, return_inverse=True)[1] for row in problem.groups]
        groups = np.array(rows, dtype=np.int64).reshape(len(rows), problem.size)
        requests = [job.request for job in problem.jobs]
        jobs = np.zeros(len(requests), dtype=record_dtype(_AskedRecord))
        most = np.minimum([one.most_nodes for one in requests], problem.size)
        masks = np.array([len(one.masks) for one in requests])
        levels = [one.level for one in requests]
        fields = {
            "tasks": [one.tasks for one in requests],
            "least": [one.least_nodes for one in requests],
            "most": most,
            "most_tasks": [one.most_tasks for one in requests],
            "is_exclusive": [one.is_exclusive for one in requests],
            "first_mask": np.cumsum(masks) - masks,
            "n_masks": masks,
            "first": np.cumsum(most) - most,
            "level": levels,
            "n_groups": [int(groups[level].max()) + 1 if level >= 0 else 1 for level in levels],
        }
        for name, values in fields.items():
            jobs[name] = values
        weights = np.array(formula.weights, dtype=np.float64)
        coefficients = float(formula.bottom), float(formula.top), float(formula.scale)
        tree = group_tree(Encoding(groups, groups.max(axis=1) + 1, weights, *coefficients, most))
        return cls(
            tree,
            insertion_state(tree, int(most.max())),
            groups,
            groups[0].copy() if len(groups) else np.zeros(problem.size, dtype=np.int64),
            np.array(problem.free, order="C"),
            problem.in_use.astype(np.int64),
            jobs,
            np.stack([one.per_task for one in requests]),
            np.stack([one.per_node for one in requests]),
            np.concatenate([one.masks for one in requests]),
            np.array([one.most_groups for one in requests], dtype=np.int64).reshape(len(requests), len(groups)),
            *coefficients,
            float(problem.left_out_cost or 0.0),
        )

    def alone(self) -> FloatArray:
        """Return the least that each job costs if it has all that is free for itself, shape ``(J,)``."""
        costs: FloatArray = alone_costs(self, np.zeros(len(self.free), dtype=np.int64), 0)
        return costs


WINDOW = record_type(Window)


@inlined
def tasks_in_room(room: IntMatrix, node: int, per_node: IntMatrix, per_task: IntMatrix, asked: int, most: int) -> int:
    """Return how many tasks, ``most`` at most, the room that is left on a node has of what a row asks for."""
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
def tasks_in(w: Window, room: IntMatrix, users: IntArray, job: int, node: int) -> int:
    """Tasks of a job that a node has room for in a table of what is left, with so many users."""
    if w.jobs[job].is_exclusive and users[node] > 0:
        return 0
    return tasks_in_room(room, node, w.per_node, w.per_task, job, w.jobs[job].most_tasks)


@inlined
def find_room(
    w: Window, room: IntMatrix, users: IntArray, job: int, mask: int, level: int, group: int, tasks_at: IntArray
) -> int:
    """Find how many tasks of a job each node of a set, and of a group of a level from 0 on, has room for.

    Return the most that any has.
    """
    most = 0
    for node in range(room.shape[0]):
        tasks_at[node] = 0
        if w.masks[mask, node] and (level < 0 or w.groups[level, node] == group):
            tasks_at[node] = tasks_in(w, room, users, job, node)
            most = max(most, tasks_at[node])
    return most


@helper()
def count_nodes(w: Window, tasks_at: IntArray, least: int) -> int:
    """Count the nodes with room for so many tasks in each vertex of the tree; return how many there are."""
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
def cheapest_counts(w: Window, size: int) -> float:
    """Find how many of so many nodes a job takes from each leaf at the least cost; return what that saves, or -inf.

    How many nodes each leaf has is counted (`count_nodes`); prices of leaves are taken off.
    """
    tree, state = w.tree, w.insertion
    if state.idle[tree.idle.size - 1] < size:
        return -np.inf
    fill_tables(tree, state, size)
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
def hops_of(w: Window, size: int, saved: float) -> float:
    """Cost of the hops of so many nodes that save so much, in units of the scale."""
    return (w.top * size - w.bottom) - saved / size


@inlined
def least_tasks(w: Window, job: int, size: int) -> int:
    """Tasks that each of so many nodes of a job has at least."""
    return max(1, w.jobs[job].tasks - (size - 1) * w.jobs[job].most_tasks)


@helper()
def _alone(w: Window, job: int, mask: int, group: int, tasks_at: IntArray, beyond: int) -> float:
    asked, level = w.jobs[job], w.jobs[job].level
    room = find_room(w, w.free, w.in_use, job, mask, level, group, tasks_at)
    if room == 0:
        return np.inf
    n = count_nodes(w, tasks_at, least_tasks(w, job, asked.most))
    total = 0
    for node in range(tasks_at.size):
        total += tasks_at[node]
    # Fewer nodes cannot hold the tasks.
    least, most = max(asked.least, -(-asked.tasks // room)) + beyond, min(asked.most, n)
    if least > most or total < asked.tasks:
        return np.inf
    tree, state, best = w.tree, w.insertion, np.inf
    top = tree.idle.size - 1
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    if least == 1:
        return 0.0
    fill_tables(tree, state, most)
    if n_children > 0:
        combine_children(tree, state, top, most)
    for size in range(least, most + 1):
        saved = 0.0 if n_children == 0 else np.ceil(state.prefix[n_children, size] - EXACT)
        best = min(best, hops_of(w, size, saved))
    return best * w.scale


@kernel(float64[::1](WINDOW, int64[::1], int64), allocates=True)
def alone_costs(w: Window, tasks_at: IntArray, beyond: int) -> FloatArray:
    """See `Window.alone`; ``tasks_at`` is scratch of a number for each node, prices of leaves are zero.

    Jobs have at least ``beyond`` nodes more than they need.
    """
    costs = np.full(w.jobs.size, w.left_out_cost)
    for job in range(w.jobs.size):
        asked = w.jobs[job]
        for mask in range(asked.first_mask, asked.first_mask + asked.n_masks):
            for group in range(asked.n_groups):
                if costs[job] > 0:
                    costs[job] = min(costs[job], _alone(w, job, mask, group, tasks_at, beyond))
    return costs


BOUND_KERNELS = (*TREE_KERNELS, insertion_state, alone_costs)  # entries that bounding a problem calls
