"""Kernels of the column generation: the best patterns, and the cuts that patterns violate."""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.classes import JOB_CLASSES, JobClasses, apply_rules, place_if_possible
from allocopt.kernels.compiled import kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree


@kernel(
    void(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, float64[::1], int64[::1], int64[:, ::1], float64[::1], float64[::1])
)
def best_patterns(
    tree: GroupTree,
    state: InsertionState,
    classes: JobClasses,
    charge: FloatArray,
    first: IntArray,
    counts: IntArray,
    savings: FloatArray,
    values: FloatArray,
) -> None:
    """Find for every class the pattern with the largest saving less charges, the job having the tree for itself.

    Parameters
    ----------
    tree, state
        The groups, all nodes idle.
    classes
        The classes of the jobs.
    charge, first
        What k nodes of vertex v cost is ``charge[first[v] + k]``, in hops; the top is free.
    counts
        Nodes of each vertex in the best pattern of each class, written in place, shape ``(R, V)``.
    savings, values
        What these patterns save in hops, and the same less charges, written in place, shape ``(R,)``; minus infinity
        where there is no pattern.
    """
    top, n_leaves = tree.idle.size - 1, tree.leaf_first.size - 1
    for r in range(classes.sizes.size):
        size = classes.sizes[r]
        for vertex in range(top):
            start = state.offset[vertex]
            if vertex >= n_leaves:
                fill_table(tree, state, vertex, size)
            for k in range(min(tree.idle[vertex], size) + 1):
                saving = tree.weight[vertex] * k * k if vertex < n_leaves else state.tables[start + k]
                state.tables[start + k] = saving - size * charge[first[vertex] + k]
            if classes.ruled:
                apply_rules(tree, state, classes, r, vertex, size)
        if not classes.ruled:
            place_job(tree, state, size)
        elif not place_if_possible(tree, state, size):
            counts[r, :] = 0
            savings[r] = values[r] = -np.inf
            continue
        squares, charged, bonus = 0.0, 0.0, 0.0
        for vertex in range(top + 1):
            count = state.take[vertex]
            counts[r, vertex] = count
            squares += tree.weight[vertex] * count * count
            charged += charge[first[vertex] + count]
            if count == size:
                bonus += classes.bonus[r, classes.level[vertex]]
        savings[r] = classes.factor[r] * squares / size + bonus
        values[r] = savings[r] - charged


@kernel(void(GROUP_TREE, int64[:, ::1], float64[::1], int64, int64, float64[::1], int64[:, ::1]))
def most_violated(
    tree: GroupTree,
    counts: IntArray,
    picked: FloatArray,
    largest: int,
    largest_multiplier: int,
    violation: FloatArray,
    cuts: IntArray,
) -> None:
    """Find the cut ``sum_j floor(q a_j / d) <= floor(q c / d)`` of every group that patterns violate most.

    Parameters
    ----------
    tree
        The groups.
    counts, picked
        Nodes of each vertex by pattern, shape ``(P, V)``, and how often each is picked, shape ``(P,)``.
    largest
        Nodes of the largest job.
    largest_multiplier
        Largest q.
    violation
        Largest violation by group, written in place, shape ``(V,)``; 0 at the top.
    cuts
        Its q and d, written in place, shape ``(V, 2)``.
    """
    for vertex in range(tree.idle.size):
        violation[vertex] = 0.0
        idle = tree.idle[vertex]
        if vertex == tree.idle.size - 1:
            continue
        for q in range(1, largest_multiplier + 1):
            for d in range(q + 1, q * min(idle, largest) + 1):
                if q > 1 and d % q == 0:
                    continue
                excess = -float(q * idle // d)
                for pattern in range(picked.size):
                    if counts[pattern, vertex] > 0:
                        excess += picked[pattern] * (q * counts[pattern, vertex] // d)
                if excess > violation[vertex]:
                    violation[vertex] = excess
                    cuts[vertex, 0], cuts[vertex, 1] = q, d
