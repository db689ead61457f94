"""The Lagrangian bound at given prices, and the nodes that every job would then take: what prices are trained by.

Leaf l charges p_l hops for a node. Whatever the prices, no allocation saves more than

    D(p) = sum_j max_S (saving_j(S) - p(S)) + sum_l p_l idle_l,      p >= 0,

each job choosing as if it were alone; and idle_l less the nodes chosen of leaf l is a subgradient of D.
"""

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, combine_children, fill_table, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree


@inlined
def charge(tree: GroupTree, state: InsertionState, prices: FloatArray, most: int) -> None:
    """Let jobs of at most ``most`` nodes pay so much for a node of each leaf, in hops times the nodes of the job."""
    for leaf in range(prices.size):
        state.price[leaf] = prices[leaf]
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)


@kernel(
    float64(GROUP_TREE, INSERTION_STATE, int64[::1], int64[::1], float64[::1], float64[::1], float64[::1]),
    allocates=True,
)
def dual_bound(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    multiplicity: IntArray,
    prices: FloatArray,
    spare: FloatArray,
    alone: FloatArray,
) -> float:
    """Return the largest saving that the prices do not exclude, in hops.

    Parameters
    ----------
    tree, state
        The groups, and a state without tie break in which all nodes are idle; its tables and prices change.
    sizes, multiplicity
        Distinct job sizes, and how many jobs have each, shape ``(R,)``.
    prices
        Hops per node of each leaf, none negative, shape ``(leaves,)``.
    spare
        Subgradient: idle nodes less those that the jobs would take, by leaf, written in place, shape ``(leaves,)``.
    alone
        What a job of each size would save less what it would pay, in hops, written in place, shape ``(R,)``.
    """
    bound, charged = 0.0, np.empty(prices.size)
    for leaf in range(prices.size):
        spare[leaf] = tree.idle[leaf]
        bound += prices[leaf] * tree.idle[leaf]
    for r in range(sizes.size):
        for leaf in range(prices.size):
            charged[leaf] = sizes[r] * prices[leaf]
        charge(tree, state, charged, sizes[r])
        place_job(tree, state, sizes[r])
        value = 0.0
        for vertex in range(tree.idle.size - 1):
            value += tree.weight[vertex] * state.take[vertex] * state.take[vertex]
        for leaf in range(prices.size):
            value -= sizes[r] * prices[leaf] * state.take[leaf]
            spare[leaf] -= multiplicity[r] * state.take[leaf]
        alone[r] = value / sizes[r]
        bound += multiplicity[r] * alone[r]
    return bound


@helper(allocates=True)
def bound_alone(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    multiplicity: IntArray,
    prices: FloatArray,
    alone: FloatArray,
) -> float:
    """Return `dual_bound` without its subgradient, in half of the time: nobody asks which nodes the jobs would take."""
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
