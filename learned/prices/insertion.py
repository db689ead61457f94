"""Kernels for jobs that pay prices: the first allocation, the bound that prices prove, and gradients for the training.

Leaf l charges p_l hops for a node. For any prices, no allocation saves more than

    D(p) = sum_j max_S (saving_j(S) - p(S)) + sum_l p_l idle_l,      p >= 0,

where S are the nodes that job j takes, chosen as if it were the only job, and p(S) is the sum of their prices. The
first allocation inserts jobs one after the other; prices stand for the jobs to come. Three lessons turn predictions
into gradients:

- The bound: the smaller, the better. A subgradient of D is idle_l minus the nodes that the jobs would take of leaf l.
- Imitation: if the previous jobs are placed as in the best known allocation, the next job should be, too.
- Exploration (`allocopt.learned.prices.learner`): of the allocations made in disturbed orders of the jobs, the
  better ones show which jobs should come first.

All kernels take the groups and a state in which all nodes are idle, and change the state. ``sizes`` are the nodes of
each job, shape ``(J,)``, or the distinct sizes, shape ``(R,)``; ``multiplicity`` is the number of jobs of each size.
Prices and worths are hops per node of each leaf, shape ``(leaves,)``.
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
    # Set the price of a node of each leaf, in hops times the nodes of the job, and fill the tables for jobs of at most
    # ``most`` nodes.
    for leaf in range(prices.size):
        state.price[leaf] = factor * prices[leaf]
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)


@inlined
def _share_left(left: float, asked: float, fading: float) -> float:
    # Factor of worths while jobs of ``left`` nodes in total are still to come.
    return (left / asked) ** fading if left > 0.0 else 0.0


@inlined
def _pairs_saved(tree: GroupTree, state: InsertionState) -> float:
    # Saving of the job that was placed last, in hops times its nodes.
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
    """Insert jobs in an order, and write their nodes of each leaf into ``counts``; return their savings in hops.

    Worths are multiplied by the share of the nodes that later jobs take, to the power ``fading``. Filling the tables is
    most of the work. So a job uses the tables of the previous job if the factor of their prices differs from its own by
    at most the share ``tolerance``.
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
    """Return the bound D(p) in hops; write the largest saving minus prices of a single job of each size to ``alone``.

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
    """Return the bound of `bound_alone`; also write the subgradient ``spare``, shape ``(leaves,)``.

    Here ``multiplicity`` and ``alone`` are indexed by the place among the distinct ``sizes``.
    """
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
    """Add the gradient of the regret of a known allocation with respect to the worth of each leaf.

    Each job is inserted after the previous ones were placed as in the known allocation, shape ``(J, leaves)``. The
    gradient is divided by the nodes of all jobs.
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
        # Count the idle nodes of groups above the leaves again, since the known allocation is given by leaves.
        for vertex in range(worth.size, tree.idle.size):
            state.idle[vertex] = 0
            for i in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
                state.idle[vertex] += state.idle[tree.children[i]]
