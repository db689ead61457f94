"""From the tree of a window to the first state of the search, and from its best state to nodes, by one call each."""

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put, stable_order
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import (
    hold_taken,
    insertion_state,
    place_job,
    single_job_savings,
)
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from heuristics.lns.holding import hold_all
from heuristics.lns.insertion import AHEAD, PAD
from heuristics.lns.random import random_words
from heuristics.lns.state import (
    GROUPS,
    HOLDINGS,
    MOVES,
    OPEN,
    SEARCH,
    STATE,
    Groups,
    Holdings,
    Moves,
    Open,
    Search,
    State,
)


@helper(allocates=True)
def no_holdings(sizes: IntArray) -> Holdings:
    """Return room for what jobs of these sizes hold; they hold nothing."""
    first = np.zeros(sizes.size + 1, dtype=np.int64)
    put(np.cumsum(sizes), first[1:])
    length = np.zeros(sizes.size, dtype=np.int64)
    leaf, nodes = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    return Holdings(first, length, leaf, nodes, np.zeros(sizes.size))


@helper(allocates=True)
def _idle_groups(tree: GroupTree, first: IntArray) -> Groups:
    """Make the tree, all idle, for jobs whose entries begin at ``first``."""
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    parent, place = np.full(n_vertices, -1), np.zeros(n_vertices, dtype=np.int64)
    awake = np.zeros(n_vertices, dtype=np.int64)
    for vertex in range(n_vertices):
        awake[vertex] = tree.first_child[vertex + 1] - tree.first_child[vertex]
        for at in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            parent[tree.children[at]], place[tree.children[at]] = vertex, at
    owner = np.zeros(first[-1], dtype=np.int64)
    for job in range(first.size - 1):
        owner[first[job] : first[job + 1]] = job
    return Groups(
        parent,
        tree.weight,
        tree.idle.copy(),
        tree.first_child,
        tree.children.copy(),
        awake,
        place,
        np.zeros(n_vertices, dtype=np.int64),
        np.zeros(n_vertices, dtype=np.int64),
        np.zeros(n_vertices, dtype=np.int64),
        tree.leaf_first,
        np.zeros(tree.leaf_positions.size, dtype=np.int64),
        np.zeros(n_leaves, dtype=np.int64),
        np.zeros(first[-1], dtype=np.int64),
        owner,
        np.zeros(n_leaves),
        np.zeros(n_leaves),
    )


@helper(allocates=True)
def _most_open(tree: GroupTree, sizes: IntArray, most_removed: int, moves: Moves) -> int:
    """Return how many vertices may be open in a step."""
    removed = sizes[stable_order(-sizes)[:most_removed]].sum()
    most, total, last = 1, 1, tree.idle.size - 1
    # A level is what the children of the level above are numbered as, one after the other.
    first = last
    while first >= tree.leaf_first.size - 1:
        n_groups = tree.first_child[last + 1] - tree.first_child[first]
        most = min(n_groups, removed + most * max(moves.few, moves.others))
        total += most
        first, last = first - n_groups, first - 1
    return total


@helper(allocates=True)
def _room(n_open: int, largest: int) -> Open:
    """Make room for so many open vertices, and jobs of at most ``largest`` nodes."""
    products = np.empty((n_open, PAD + largest + AHEAD))
    products[:, :PAD] = -np.inf
    return Open(
        np.zeros(n_open, dtype=np.int64),
        np.zeros(n_open, dtype=np.int64),
        np.zeros(n_open, dtype=np.int64),
        np.zeros(n_open, dtype=np.int64),
        np.zeros(n_open, dtype=np.int64),
        np.zeros(n_open),
        np.zeros(n_open),
        np.zeros(n_open),
        np.empty((n_open, largest + AHEAD)),
        products,
        np.zeros(n_open, dtype=np.int64),
    )


@helper(allocates=True)
def _search_from(
    sizes: IntArray, alone: FloatArray, present: Holdings, saving: float, most_removed: int, n_leaves: int
) -> Search:
    """Make what the search keeps besides the tree."""
    n_jobs, n_entries = sizes.size, min(sizes.max(), n_leaves)
    best = Holdings(
        present.first, present.length.copy(), present.leaf.copy(), present.nodes.copy(), present.saving.copy()
    )
    return Search(
        sizes,
        alone,
        present,
        best,
        np.zeros(n_jobs),
        np.full(2, saving),
        np.zeros(n_jobs, dtype=np.int64),
        np.zeros(n_jobs, dtype=np.int64),
        np.zeros(3, dtype=np.int64),
        np.zeros(most_removed, dtype=np.int64),
        np.zeros(most_removed, dtype=np.int64),
        np.zeros((most_removed, n_entries), dtype=np.int64),
        np.zeros((most_removed, n_entries), dtype=np.int64),
        np.zeros(most_removed),
    )


@kernel(STATE(GROUP_TREE, int64[::1], HOLDINGS, float64[::1], int64, MOVES, int64), allocates=True)
def begin_at(
    tree: GroupTree,
    sizes: IntArray,
    holdings: Holdings,
    alone: FloatArray,
    most_removed: int,
    moves: Moves,
    seed: int,
) -> State:
    """Begin the search where the jobs hold nodes.

    Parameters
    ----------
    tree
        The groups, all idle.
    sizes
        Nodes of each job, shape ``(J,)``.
    holdings
        What they hold; the savings are computed. It is the present state from now on.
    alone
        See `Search`, shape ``(J,)``.
    most_removed
        Jobs removed in a step, at most.
    moves
        How the search will move.
    seed
        Fixes every random choice.
    """
    most_removed = min(most_removed, sizes.size)
    groups = _idle_groups(tree, holdings.first)
    saving = hold_all(groups, holdings, np.zeros(tree.idle.size, dtype=np.int64))
    part = _room(_most_open(tree, sizes, most_removed, moves), sizes.max())
    search = _search_from(sizes, alone, holdings, saving, most_removed, tree.leaf_first.size - 1)
    state: State = State(tree, groups, part, search, random_words(seed))  # type: ignore[no-untyped-call]
    return state


@inlined
def note_nodes(holdings: Holdings, taken: IntArray, job: int) -> None:
    """Write down what a job takes of every leaf."""
    length = 0
    for leaf in range(taken.size):
        if taken[leaf] > 0:
            entry = holdings.first[job] + length
            holdings.leaf[entry], holdings.nodes[entry] = leaf, taken[leaf]
            length += 1
    holdings.length[job] = length


@kernel(float64[::1](GROUP_TREE, int64[::1]), allocates=True)
def savings_alone(tree: GroupTree, sizes: IntArray) -> FloatArray:
    """Say what each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``."""
    largest = sizes.max()
    return single_job_savings(tree, insertion_state(tree, largest), largest)[sizes] / sizes


@kernel(STATE(GROUP_TREE, int64[::1], int64, MOVES, int64), allocates=True)
def begin_greedily(tree: GroupTree, sizes: IntArray, most_removed: int, moves: Moves, seed: int) -> State:
    """Insert the jobs exactly, the largest first, and begin the search there; see `begin_at`."""
    largest, n_leaves = sizes.max(), tree.leaf_first.size - 1
    state, holdings = insertion_state(tree, largest), no_holdings(sizes)
    alone = single_job_savings(tree, state, largest)[sizes] / sizes
    order = stable_order(-sizes)
    for i in range(order.size):
        job = order[i]
        place_job(tree, state, sizes[job])
        note_nodes(holdings, state.take[:n_leaves], job)
        if i + 1 < order.size:
            hold_taken(tree, state, sizes[order[i + 1]])
    return begin_at(tree, sizes, holdings, alone, most_removed, moves, seed)


@kernel(STATE(STATE, HOLDINGS, MOVES), allocates=True)
def begin_elsewhere(state: State, holdings: Holdings, moves: Moves) -> State:
    """Begin the search of a state that no step was taken from where the jobs hold other nodes."""
    search, groups = state.search, state.groups
    other = begin_at(state.tree, search.sizes, holdings, search.alone, search.removed.size, moves, 0)
    put(state.words, other.words)
    put(groups.worth, other.groups.worth)
    put(groups.price, other.groups.price)
    put(search.eagerness, other.search.eagerness)
    return other


@kernel(int64[::1](GROUP_TREE, HOLDINGS), allocates=True)
def positions_of(tree: GroupTree, holdings: Holdings) -> IntArray:
    """Return the idle positions that the jobs get: of every leaf, from the first one on.

    Returns
    -------
    IntArray
        Those of the first job, rising, then those of the second, ..., shape ``(sum of the sizes,)``.
    """
    next_of, owners = tree.leaf_first.copy(), np.full(tree.leaf_positions.size, -1)
    for job in range(holdings.length.size):
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            leaf = holdings.leaf[entry]
            for _ in range(holdings.nodes[entry]):
                owners[tree.leaf_positions[next_of[leaf]]] = job
                next_of[leaf] += 1
    positions, filled = np.empty(holdings.first[-1], dtype=np.int64), holdings.first.copy()
    for position in range(owners.size):
        if owners[position] >= 0:
            positions[filled[owners[position]]] = position
            filled[owners[position]] += 1
    return positions


@kernel(types.Tuple((GROUPS, OPEN, SEARCH))(STATE), allocates=True)
def parts_of(state: State) -> tuple[Groups, Open, Search]:
    """Return the arrays of a state, which change with it."""
    return state.groups, state.part, state.search
