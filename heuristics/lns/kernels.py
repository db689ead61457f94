"""Large neighbourhood search on counts: remove some jobs, re-insert each exactly under random leaf prices, accept."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, njit, types, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, hold_taken, place_job
from allocopt.kernels.options import inlined
from allocopt.kernels.tree import GROUP_TREE, GroupTree


class Search(NamedTuple):
    """Where the search is.

    Parameters
    ----------
    sizes
        Nodes of each job, shape ``(J,)``.
    counts
        Nodes that each job has of each vertex, shape ``(J, V)``.
    best
        The same in the best state so far.
    changed
        1 where a job's counts are other ones than in the best state, shape ``(J,)``.
    savings
        What the present and the best state save of the hop cost, in hops, shape ``(2,)``.
    jobs
        The jobs in the order of the last shuffle, shape ``(J,)``.
    before
        Counts of the removed jobs before the move, shape ``(most removed, V)``.
    branch
        Child of the top in whose subtree a vertex lies, counted from 0, shape ``(V,)``; -1 for the top.
    open
        1 for branches in which jobs may be inserted in this step, shape ``(branches,)``.
    """

    sizes: IntArray
    counts: IntArray
    best: IntArray
    changed: IntArray
    savings: FloatArray
    jobs: IntArray
    before: IntArray
    branch: IntArray
    open: IntArray


class Moves(NamedTuple):
    """How the search moves.

    Parameters
    ----------
    hottest, coldest
        Temperatures at the first and the last step of a cycle, in hops.
    price
        Standard deviation of the leaf prices, in hops per node and per node of the largest job removed.
    cycle
        Steps from the hottest to the coldest temperature.
    """

    hottest: float
    coldest: float
    price: float
    cycle: int


FEW_BRANCHES = 16
"""Branches up to which all of them are open in every step."""
OTHER_BRANCHES = 3
"""Branches that are open besides those of the removed jobs, where there are many."""
RELATED_CHANCE = 0.7
"""Share of the moves that remove jobs which share a branch."""

SEARCH = types.NamedTuple(
    (
        *(int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], float64[::1], int64[::1], int64[:, ::1]),
        *(int64[::1], int64[::1]),
    ),
    Search,
)
MOVES = types.NamedTuple((float64, float64, float64, int64), Moves)


@inlined
def saving_of(tree: GroupTree, counts: IntArray, job: int, size: int) -> float:
    """Say what a job's counts save of its hop cost, in hops: the weighted squares, over its size."""
    saving = 0.0
    for vertex in range(counts.shape[1] - 1):
        saving += tree.weight[vertex] * counts[job, vertex] * counts[job, vertex]
    return saving / size


@inlined
def copy_row(source: IntArray, row: int, target: IntArray, target_row: int) -> None:
    """Copy the counts of one job."""
    for vertex in range(source.shape[1]):
        target[target_row, vertex] = source[row, vertex]


@inlined
def give_back(state: InsertionState, counts: IntArray, job: int, sign: int) -> None:
    """Let a job's nodes be idle (sign 1) or held (sign -1)."""
    for vertex in range(counts.shape[1]):
        state.idle[vertex] += sign * counts[job, vertex]


@inlined
def swap(jobs: IntArray, i: int, j: int) -> None:
    """Let two jobs change places."""
    jobs[i], jobs[j] = jobs[j], jobs[i]


@inlined
def draw_removed(tree: GroupTree, search: Search, rng: np.random.Generator) -> int:
    """Shuffle some jobs to the front, and return how many: any, or in half of the moves such that share a branch."""
    jobs, n_jobs = search.jobs, search.jobs.size
    wanted = 1 + int(rng.random() * search.before.shape[0])
    swap(jobs, 0, int(rng.random() * n_jobs))
    count = 1
    if rng.random() < RELATED_CHANCE:
        vertex = draw_branch(tree, search, jobs[0], rng)
        start = int(rng.random() * n_jobs)
        for i in range(n_jobs):
            if count == wanted:
                break
            at = start + i if start + i < n_jobs else start + i - n_jobs
            if at >= count and search.counts[jobs[at], vertex] > 0:
                swap(jobs, count, at)
                count += 1
    while count < wanted:
        swap(jobs, count, count + int(rng.random() * (n_jobs - count)))
        count += 1
    return count


@inlined
def draw_branch(tree: GroupTree, search: Search, job: int, rng: np.random.Generator) -> int:
    """Draw a child of the top by the job's nodes in it."""
    top = tree.idle.size - 1
    left = int(rng.random() * search.sizes[job])
    for i in range(tree.first_child[top], tree.first_child[top + 1]):
        left -= search.counts[job, tree.children[i]]
        if left < 0:
            return int(tree.children[i])
    return top


@inlined
def open_branches(tree: GroupTree, state: InsertionState, search: Search, count: int, rng: np.random.Generator) -> None:
    """Let jobs be inserted in the branches where the removed ones were and a few others, or in all if there are few."""
    top, n_branches = tree.idle.size - 1, search.open.size
    for i in range(n_branches):
        search.open[i] = 1 if n_branches <= FEW_BRANCHES else 0
    for i in range(count):
        for vertex in range(top):
            if search.before[i, vertex] > 0:
                search.open[search.branch[vertex]] = 1
    for _ in range(OTHER_BRANCHES):
        search.open[int(rng.random() * n_branches)] = 1
    for i in range(tree.first_child[top], tree.first_child[top + 1]):
        child = tree.children[i]
        state.cap[child] = tree.idle[child] if search.open[search.branch[child]] else 0


@inlined
def set_prices(
    tree: GroupTree, state: InsertionState, search: Search, scale: float, most: int, rng: np.random.Generator
) -> None:
    """Draw prices in the open branches, and fill their tables."""
    n_leaves = tree.leaf_first.size - 1
    for vertex in range(tree.idle.size - 1):
        if search.open[search.branch[vertex]]:
            if vertex < n_leaves:
                state.price[vertex] = scale * rng.standard_normal()
            fill_table(tree, state, vertex, most)


@inlined
def remove_jobs(tree: GroupTree, state: InsertionState, search: Search, count: int) -> float:
    """Take the first jobs of the shuffle out, and return what they saved."""
    saved = 0.0
    for i in range(count):
        job = search.jobs[i]
        copy_row(search.counts, job, search.before, i)
        give_back(state, search.counts, job, 1)
        saved += saving_of(tree, search.counts, job, search.sizes[job])
    return saved


@inlined
def insert_jobs_again(tree: GroupTree, state: InsertionState, search: Search, count: int, most: int) -> float:
    """Insert the first jobs of the shuffle one after the other, each exactly; return what they save."""
    saved = 0.0
    for i in range(count):
        job = search.jobs[i]
        place_job(tree, state, search.sizes[job])
        for vertex in range(state.take.size):
            search.counts[job, vertex] = state.take[vertex]
        hold_taken(tree, state, most)
        saved += saving_of(tree, search.counts, job, search.sizes[job])
    return saved


@inlined
def undo(state: InsertionState, search: Search, count: int) -> None:
    """Put the first jobs of the shuffle back where they were."""
    for i in range(count):
        give_back(state, search.counts, search.jobs[i], 1)
    for i in range(count):
        copy_row(search.before, i, search.counts, search.jobs[i])
        give_back(state, search.counts, search.jobs[i], -1)


@inlined
def keep_if_best(search: Search, count: int) -> None:
    """Note what a move has changed, and let the present state be the best one if it is."""
    for i in range(count):
        search.changed[search.jobs[i]] = 1
    # Savings are sums of fractions; what is better by less than this is not better.
    if search.savings[0] <= search.savings[1] + 1e-9:
        return
    search.savings[1] = search.savings[0]
    for job in range(search.sizes.size):
        if search.changed[job]:
            copy_row(search.counts, job, search.best, job)
            search.changed[job] = 0


@njit(void(GROUP_TREE, INSERTION_STATE, SEARCH, MOVES, int64, int64, types.npy_rng), cache=True, nogil=True)
def search_neighbourhoods(
    tree: GroupTree,
    state: InsertionState,
    search: Search,
    moves: Moves,
    first: int,
    last: int,
    rng: np.random.Generator,
) -> None:
    """Take the steps ``first .. last - 1`` of the search, which changes in place."""
    cooling = np.log(moves.coldest / moves.hottest) / moves.cycle
    for step in range(first, last):
        temperature = moves.hottest * np.exp(cooling * (step % moves.cycle))
        count = draw_removed(tree, search, rng)
        largest = 0
        for i in range(count):
            largest = max(largest, search.sizes[search.jobs[i]])
        change = -remove_jobs(tree, state, search, count)
        open_branches(tree, state, search, count, rng)
        set_prices(tree, state, search, moves.price * largest, largest, rng)
        change += insert_jobs_again(tree, state, search, count, largest)
        if change >= 0 or rng.random() < np.exp(change / temperature):
            search.savings[0] += change
            keep_if_best(search, count)
        else:
            undo(state, search, count)
