"""Jobs under prices: the first allocation, each job inserted exactly, and the Lagrangian bound that prices prove.

Leaf l charges p_l hops for a node. Whatever the prices, no allocation saves more than

    D(p) = sum_j max_S (saving_j(S) - p(S)) + sum_l p_l idle_l,      p >= 0,

each job choosing as if it were alone. The first allocation inserts jobs one after the other, under prices for the jobs
to come.
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import (
    INSERTION_STATE,
    InsertionState,
    combine_children,
    fill_table,
    hold_taken,
    place_job,
)
from allocopt.kernels.tree import GROUP_TREE, GroupTree


@inlined
def charge(tree: GroupTree, state: InsertionState, prices: FloatArray, most: int) -> None:
    """Let jobs of at most ``most`` nodes pay so much for a node of each leaf, in hops times the nodes of the job."""
    for leaf in range(prices.size):
        state.price[leaf] = prices[leaf]
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)


@inlined
def share_left(left: float, asked: float, fading: float) -> float:
    """By what worths are multiplied when jobs of ``left`` nodes are still to come; 0 when none are."""
    return (left / asked) ** fading if left > 0.0 else 0.0


@kernel(
    float64(GROUP_TREE, INSERTION_STATE, int64[::1], int64[::1], float64[::1], float64, float64, int64[:, ::1]),
    allocates=True,
)
def insert_priced(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    order: IntArray,
    worth: FloatArray,
    fading: float,
    tolerance: float,
    counts: IntArray,
) -> float:
    """Insert all jobs; return what they save, in hops.

    Parameters
    ----------
    tree, state
        The groups, and a state in which all nodes are idle, which changes.
    sizes, order
        Nodes of each job, and the jobs in the order of insertion, shape ``(J,)``.
    worth
        Hops per node of each leaf, shape ``(leaves,)``.
    fading
        Worths fall with the share of nodes that is still to be inserted, to this power.
    tolerance
        Relative error of what a job pays up to which the tables of the job before serve it, too: filling them all is
        most of the work. With 0 every job pays exactly what it should.
    counts
        Nodes that each job gets of each leaf, written in place, shape ``(J, leaves)``.
    """
    asked, largest = float(sizes.sum()), sizes.max()
    left, saved, charged = asked, 0.0, -1.0
    scaled = np.empty(worth.size)
    for job in order:
        size = sizes[job]
        left -= size
        scale = size * share_left(left, asked, fading)
        if tolerance == 0.0 or charged < 0.0 or abs(scale - charged) > tolerance * charged:
            charged = scale
            for leaf in range(worth.size):
                scaled[leaf] = scale * worth[leaf]
            charge(tree, state, scaled, size if tolerance == 0.0 else largest)
        place_job(tree, state, size)
        value = 0.0
        for vertex in range(tree.idle.size - 1):
            value += tree.weight[vertex] * state.take[vertex] * state.take[vertex]
        saved += value / size
        for leaf in range(worth.size):
            counts[job, leaf] = state.take[leaf]
        if tolerance == 0.0:
            for vertex in range(tree.idle.size):
                state.idle[vertex] -= state.take[vertex]
        else:
            hold_taken(tree, state, largest)
    return saved


@helper(allocates=True)
def bound_alone(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    multiplicity: IntArray,
    prices: FloatArray,
    alone: FloatArray,
) -> float:
    """Return the bound D(p) in hops, and what jobs of each of the distinct sizes would save alone less what they pay.

    It takes half of the time of `learned.prices.lessons.dual_bound`: nobody asks which nodes the jobs would take.
    """
    top = tree.idle.size - 1
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    bound, charged = 0.0, np.empty(prices.size)
    for leaf in range(prices.size):
        bound += prices[leaf] * tree.idle[leaf]
    for r in range(sizes.size):
        for leaf in range(prices.size):
            charged[leaf] = sizes[r] * prices[leaf]
        charge(tree, state, charged, sizes[r])
        if n_children > 0:
            combine_children(tree, state, top, sizes[r])
            alone[r] = state.prefix[n_children, sizes[r]] / sizes[r]
        else:
            alone[r] = -charged[0]
        bound += multiplicity[r] * alone[r]
    return bound
