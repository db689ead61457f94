"""Kernel that inserts jobs where they save most, what the groups lose of their worth taken off."""

from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree


@inlined
def fill_charged_table(
    tree: GroupTree, state: InsertionState, v: int, size: int, worth: FloatArray, worth_of: IntArray
) -> None:
    """Fill the table of one group from those of its children, and take off what the group loses of its worth."""
    start, idle = state.offset[v], state.idle[v]
    most = min(idle, size)
    if v < tree.leaf_first.size - 1:
        for k in range(most + 1):
            state.tables[start + k] = tree.weight[v] * k * k
    else:
        fill_table(tree, state, v, size)
    row = worth_of[v]
    for k in range(most + 1):
        state.tables[start + k] -= size * (worth[row + idle] - worth[row + idle - k])


@kernel(void(GROUP_TREE, INSERTION_STATE, int64[::1], float64[::1], int64[::1], int64, int64, int64[::1]))
def insert_at_prices(
    tree: GroupTree,
    state: InsertionState,
    sizes: IntArray,
    worth: FloatArray,
    worth_of: IntArray,
    first: int,
    last: int,
    owners: IntArray,
) -> None:
    """Insert the jobs ``first .. last - 1`` one after the other.

    Parameters
    ----------
    tree, state
        The groups, and the idle nodes after the jobs before ``first``; its tables are made anew.
    sizes
        Nodes of each job, equal ones best side by side, shape ``(J,)``.
    worth, worth_of
        Worth of c idle nodes of group v is ``worth[worth_of[v] + c]``, in hops; the top has none.
    first, last
        Which jobs to insert.
    owners
        Index of the job in ``sizes`` that gets each idle position, written in place, shape ``(m,)``.
    """
    top, n_leaves = tree.idle.size - 1, tree.leaf_first.size - 1
    for job in range(first, last):
        size = sizes[job]
        for v in range(top):
            if job == 0 or size != sizes[job - 1] or state.take[v] > 0:
                fill_charged_table(tree, state, v, size, worth, worth_of)
        place_job(tree, state, size)
        for leaf in range(n_leaves):
            start = tree.leaf_first[leaf + 1] - state.idle[leaf]
            for index in range(start, start + state.take[leaf]):
                owners[tree.leaf_positions[index]] = job
        for v in range(top + 1):
            state.idle[v] -= state.take[v]
