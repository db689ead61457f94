"""Kernels of jobs under prices: the first allocation, the bound that prices prove, and the lessons of both.

Leaf l charges p_l hops for a node. Whatever the prices, no allocation saves more than

    D(p) = sum_j max_S (saving_j(S) - p(S)) + sum_l p_l idle_l,      p >= 0,

each job choosing as if it were alone. The first allocation inserts jobs one after the other, under prices for the jobs
to come. Three lessons turn predictions into gradients:

- The bound: prices that exclude more are better; idle_l less the nodes that the jobs would take of leaf l is a
  subgradient of D.
- Imitation: with the jobs before it where the best known allocation has them, a job should go there, too.
- Exploration (`learned.prices.learner`): of allocations in disturbed orders, the better ones show which jobs should
  come first.

All kernels take the groups, and a state in which all nodes are idle, which changes. Sizes are nodes of each job, shape
``(J,)``, or the distinct ones, of which ``multiplicity`` jobs have each, shape ``(R,)``. Prices and worths are hops per
node of each leaf, shape ``(leaves,)``.
"""

from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put
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
def _charge(tree: GroupTree, state: InsertionState, prices: FloatArray, factor: float, most: int) -> None:
    # Jobs of at most so many nodes pay so much for a node of each leaf, in hops times the nodes of the job.
    for leaf in range(prices.size):
        state.price[leaf] = factor * prices[leaf]
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)


@inlined
def _share_left(left: float, asked: float, fading: float) -> float:
    # By what worths are multiplied when jobs of ``left`` nodes are still to come.
    return (left / asked) ** fading if left > 0.0 else 0.0


@inlined
def _pairs_saved(tree: GroupTree, state: InsertionState) -> float:
    # What the job that was placed last saves, in hops times its nodes.
    value = 0.0
    for vertex in range(tree.idle.size - 1):
        value += tree.weight[vertex] * state.take[vertex] * state.take[vertex]
    return value


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
    """Insert jobs in an order, and write their nodes of each leaf into ``counts``; return what they save, in hops.

    Worths fall with the share of nodes still to be inserted, to the power ``fading``. Up to a relative error of what a
    job pays the tables of the job before serve it, too, for filling them all is most of the work.
    """
    asked, largest = float(sizes.sum()), sizes.max()
    left, saved, charged = asked, 0.0, -1.0
    for job in order:
        size = sizes[job]
        left -= size
        scale = size * _share_left(left, asked, fading)
        if tolerance == 0.0 or charged < 0.0 or abs(scale - charged) > tolerance * charged:
            charged = scale
            _charge(tree, state, worth, scale, size if tolerance == 0.0 else largest)
        place_job(tree, state, size)
        saved += _pairs_saved(tree, state) / size
        put(state.take[: worth.size], counts[job])
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
    """Return the bound D(p) in hops; write what a job of each size would save alone, less what it pays.

    ``multiplicity`` and ``alone`` are indexed by size, not by the place among the distinct ``sizes``.
    """
    top = tree.idle.size - 1
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    bound = 0.0
    for leaf in range(prices.size):
        bound += prices[leaf] * tree.idle[leaf]
    for size in sizes:
        _charge(tree, state, prices, size, size)
        if n_children > 0:
            combine_children(tree, state, top, size)
            alone[size] = state.prefix[n_children, size] / size
        else:
            alone[size] = -state.price[0]
        bound += multiplicity[size] * alone[size]
    return bound


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
    """Return what `bound_alone` does; write the subgradient ``spare``, shape ``(leaves,)``. No ties are broken."""
    bound = 0.0
    for leaf in range(prices.size):
        spare[leaf] = tree.idle[leaf]
        bound += prices[leaf] * tree.idle[leaf]
    for r in range(sizes.size):
        _charge(tree, state, prices, sizes[r], sizes[r])
        place_job(tree, state, sizes[r])
        value = _pairs_saved(tree, state)
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

    It is by the worth of each leaf, over the nodes that all jobs ask for. Known nodes have shape ``(J, leaves)``.
    """
    asked = float(sizes.sum())
    left = asked
    for job in order:
        left -= sizes[job]
        factor = _share_left(left, asked, fading)
        _charge(tree, state, worth, sizes[job] * factor, sizes[job])
        place_job(tree, state, sizes[job])
        for leaf in range(worth.size):
            gradient[leaf] += factor * (known[job, leaf] - state.take[leaf]) / asked
            state.idle[leaf] -= known[job, leaf]
        # The groups above the leaves are counted anew: the known allocation is given by leaves.
        for vertex in range(worth.size, tree.idle.size):
            state.idle[vertex] = 0
            for i in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
                state.idle[vertex] += state.idle[tree.children[i]]
