"""What a window teaches: kernels that turn predictions into gradients.

- The bound: prices that exclude more are better (`learned.prices.insertion`); idle_l less the nodes that the jobs would
  take of leaf l is a subgradient of D.
- Imitation: with the jobs before it where the best known allocation has them, a job should go there, too.
- Exploration: of allocations in disturbed orders, the better ones show which jobs should come first.
"""

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put
from allocopt.kernels.compiled import kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from learned.prices.insertion import charge, insert_priced, share_left


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


@kernel(
    void(*(GROUP_TREE, INSERTION_STATE, int64[::1], int64[::1], float64[::1], float64, int64[:, ::1], float64[::1])),
    allocates=True,
)
def imitate(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    order: IntArray,
    worth: FloatArray,
    fading: float,
    known: IntArray,
    gradient: FloatArray,
) -> None:
    """Add the gradient of the regret of a known allocation, job by job, if each is inserted after the known ones.

    ``known`` are the nodes that each job has of each leaf in that allocation, shape ``(J, leaves)``. The gradient by
    the worth of each leaf is over the nodes that all jobs ask for, and changed in place. For the rest see
    `learned.prices.insertion.insert_priced`.
    """
    asked = float(sizes.sum())
    left = asked
    scaled = np.empty(worth.size)
    for job in order:
        left -= sizes[job]
        factor = share_left(left, asked, fading)
        for leaf in range(worth.size):
            scaled[leaf] = sizes[job] * factor * worth[leaf]
        charge(tree, state, scaled, sizes[job])
        place_job(tree, state, sizes[job])
        for leaf in range(worth.size):
            gradient[leaf] += factor * (known[job, leaf] - state.take[leaf]) / asked
            state.idle[leaf] -= known[job, leaf]
        # The groups above the leaves are counted anew: the known allocation is given by leaves.
        for vertex in range(worth.size, tree.idle.size):
            state.idle[vertex] = 0
            for i in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
                state.idle[vertex] += state.idle[tree.children[i]]


@kernel(
    float64[::1](*(GROUP_TREE, INSERTION_STATE, int64[::1], float64[::1], float64[:, ::1], float64, int64[:, ::1])),
    allocates=True,
)
def explore(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    worth: FloatArray,
    scores: FloatArray,
    fading: float,
    counts: IntArray,
) -> FloatArray:
    """Return what the allocations save that come of several orders, in hops, shape ``(K,)``.

    Jobs with higher scores ``(K, J)`` are inserted first; for the rest see `learned.prices.insertion.insert_priced`.
    """
    savings = np.empty(scores.shape[0])
    for k in range(savings.size):
        put(tree.idle, state.idle)
        savings[k] = insert_priced(tree, state, sizes, np.argsort(-scores[k]), worth, fading, 0.0, counts)
    return savings
