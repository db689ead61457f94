"""Classes of jobs, and the exact insertion of one that has rules.

A rule of a job speaks of the number A of its nodes in a group, so that it changes nothing but the tables of the
dynamic program of `allocopt.kernels.insertion`: minus infinity where A is not allowed, a bonus where a group has all
of the job's nodes. The fragmentation of what is left over is separable over the groups as well: taking A of a group of
c idle nodes changes the leftover's square from c^2 to (c - A)^2.
"""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, types, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import (
    INSERTION_STATE,
    InsertionState,
    fill_table,
    split_among_children,
)
from allocopt.kernels.tree import GROUP_TREE, GroupTree


class JobClasses(NamedTuple):
    """Jobs of equal size and equal rules are one class.

    Parameters
    ----------
    sizes
        Nodes of a job of each class, shape ``(R,)``.
    factor
        What its squared counts save besides the weights of the groups, shape ``(R,)``; 1 for jobs.
    step
        Its number of nodes in a group of each level is a multiple of this, shape ``(R, L)``, the top included.
    bonus
        What it saves where one group of a level has all of its nodes, in hops, shape ``(R, L)``.
    area
        Index of the leaves in which it may have nodes, shape ``(R,)``.
    is_open
        Whether a leaf belongs to an area, shape ``(areas, leaves)``.
    level
        Level of each vertex, shape ``(V,)``.
    leftover
        What the squared numbers of idle nodes save besides the weights of the groups, in hops.
    ruled
        1 if anything of this differs from plain jobs, else 0.
    """

    sizes: IntArray
    factor: FloatArray
    step: IntArray
    bonus: FloatArray
    area: IntArray
    is_open: NDArray[np.bool_]
    level: IntArray
    leftover: float
    ruled: int


JOB_CLASSES = types.NamedTuple(
    (
        *(int64[::1], float64[::1], int64[:, ::1], float64[:, ::1], int64[::1], boolean[:, ::1], int64[::1]),
        *(float64, int64),
    ),
    JobClasses,
)
"""Numba type of `JobClasses`."""


@inlined
def apply_rules(tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, vertex: int, most: int) -> None:
    """Bring the table of a vertex, filled for at most ``most`` nodes of plain jobs, to the rules of a class."""
    size, level = classes.sizes[r], classes.level[vertex]
    step, start, idle = classes.step[r, level], state.offset[vertex], state.idle[vertex]
    is_leaf = vertex < tree.leaf_first.size - 1
    is_closed = is_leaf and not classes.is_open[classes.area[r], vertex]
    left = size * classes.leftover
    square = ((classes.factor[r] - 1.0) + left) * tree.weight[vertex]
    linear = -2.0 * left * tree.weight[vertex] * idle
    last = min(idle, most)
    for k in range(1, last + 1):
        if is_closed or k % step != 0:
            state.tables[start + k] = -np.inf
        else:
            state.tables[start + k] += (square * k + linear) * k
    if size <= last:
        state.tables[start + size] += size * classes.bonus[r, level]


@inlined
def fill_ruled_table(
    tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, vertex: int, most: int
) -> None:
    """Fill the table of one vertex for a job of a class from the tables of its children."""
    fill_table(tree, state, vertex, most)
    apply_rules(tree, state, classes, r, vertex, most)


@kernel(boolean(GROUP_TREE, INSERTION_STATE, int64))
def place_if_possible(tree: GroupTree, state: InsertionState, size: int) -> bool:
    """Find the best nodes for one job by the tables as they are, as `place_job` does; return whether there are any."""
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    for vertex in range(n_vertices):
        state.take[vertex] = 0
    top = n_vertices - 1
    state.take[top] = size
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    if n_children > 0:
        split_among_children(tree, state, top)
        if state.reach[n_children] < size or state.prefix[n_children, size] == -np.inf:
            return False
    for vertex in range(top - 1, n_leaves - 1, -1):
        if state.take[vertex] > 0:
            split_among_children(tree, state, vertex)
    return True


@kernel(void(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, int64, int64))
def fill_ruled_tables(tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, most: int) -> None:
    """Fill the tables of all vertices but the top for a job of a class."""
    for vertex in range(tree.idle.size - 1):
        fill_ruled_table(tree, state, classes, r, vertex, most)


@kernel(boolean(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, int64, int64[::1], int64))
def insert_ruled_job(
    tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, owners: IntArray, job: int
) -> bool:
    """Insert one job exactly, the tables being those of its class before; return False if there is no place for it.

    Parameters
    ----------
    tree, state
        The groups, and the state, tables filled for the class, before and after.
    classes, r
        The classes, and that of the job.
    owners
        The owner of each idle position, written in place, shape ``(m,)``.
    job
        What is written for the positions of the job.
    """
    size = classes.sizes[r]
    if not place_if_possible(tree, state, size):
        return False
    for leaf in range(tree.leaf_first.size - 1):
        start = tree.leaf_first[leaf + 1] - state.idle[leaf]
        for index in range(start, start + state.take[leaf]):
            owners[tree.leaf_positions[index]] = job
    for vertex in range(tree.idle.size):
        state.idle[vertex] -= state.take[vertex]
        if vertex < tree.idle.size - 1 and state.take[vertex] > 0:
            fill_ruled_table(tree, state, classes, r, vertex, size)
    return True
