"""Insertion of one job into the idle nodes at the least cost while the other jobs stay; jobs may have rules."""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import BoolMatrix, FloatMatrix, IntMatrix, record_type
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.tree import GROUP_TREE, GroupTree


class InsertionState(NamedTuple):
    """Arrays that change while jobs are inserted."""

    idle: IntArray  # idle nodes of each vertex, shape (V,)
    offset: IntArray  # the table of vertex v begins at tables[offset[v]]
    tables: FloatArray  # largest saving by vertex and number of nodes
    prefix: FloatMatrix  # working space: products over the first children, shape (widest vertex + 1, largest job + 1)
    take: IntArray  # nodes that the job inserted last took from each vertex, shape (V,)
    reach: IntArray  # working space: lengths of the products, shape (widest vertex + 1,)
    cap: IntArray  # most nodes that a job may take from each vertex, shape (V,)
    price: FloatArray  # price of a node of each leaf, in units of savings, shape (leaves,); may be negative
    # Price of one node per idle node of its leaf. It breaks ties in favour of leaves with few idle nodes, and is too
    # small to change which saving is the largest, because savings are integers.
    tie_break: float


INSERTION_STATE = record_type(InsertionState)


@helper(allocates=True)
def idle_state(tree: GroupTree, largest: int, tie_break: float) -> InsertionState:
    """Return a state in which all nodes are idle, for jobs of at most ``largest`` nodes; its tables are not filled."""
    n_vertices, widest = tree.idle.size, 1
    offset = np.zeros(n_vertices + 1, dtype=np.int64)
    for vertex in range(n_vertices):
        offset[vertex + 1] = offset[vertex] + min(tree.idle[vertex], largest) + 1
        widest = max(widest, tree.first_child[vertex + 1] - tree.first_child[vertex])
    return InsertionState(
        tree.idle.copy(),
        offset,
        np.empty(offset[n_vertices]),
        np.empty((widest + 1, largest + 1)),
        np.zeros(n_vertices, dtype=np.int64),
        np.zeros(widest + 1, dtype=np.int64),
        tree.idle.copy(),
        np.zeros(tree.leaf_first.size - 1),
        tie_break,
    )


@inlined
def _combine_child(
    prefix: FloatArray, reach: int, table: FloatArray, limit: int, most: int, combined: FloatArray
) -> int:
    """Write the max-plus product of two tables into ``combined``, up to index ``most``; return its last index.

    The tables are ``prefix[:reach + 1]`` and ``table[:limit + 1]``.
    """
    new_reach = min(reach + limit, most)
    for k in range(new_reach + 1):
        combined[k] = -np.inf
    for a in range(min(limit, most) + 1):
        gain, target = table[a], combined[a:]
        # The inner loop over k is vectorized by the compiler; `max` would prevent that.
        for k in range(min(reach, most - a) + 1):
            value, best = prefix[k] + gain, target[k]
            target[k] = value if value > best else best
    return new_reach


@inlined
def combine_children(tree: GroupTree, state: InsertionState, vertex: int, most: int) -> None:
    """Fill ``state.prefix[i]`` with the product of the first i children, and ``state.reach[i]`` with its length."""
    first = tree.first_child[vertex]
    state.reach[0] = 0
    state.prefix[0, 0] = 0.0
    for i in range(tree.first_child[vertex + 1] - first):
        child = tree.children[first + i]
        limit = min(state.idle[child], state.cap[child], most)
        table = state.tables[state.offset[child] :]
        state.reach[i + 1] = _combine_child(state.prefix[i], state.reach[i], table, limit, most, state.prefix[i + 1])


@inlined
def fill_table(tree: GroupTree, state: InsertionState, vertex: int, most: int) -> None:
    """Fill the table of one vertex, for at most ``most`` nodes, from the tables of its children."""
    start = state.offset[vertex]
    n_children = tree.first_child[vertex + 1] - tree.first_child[vertex]
    weight = tree.weight[vertex]
    if n_children == 0:
        price = state.price[vertex] + state.tie_break * state.idle[vertex]
        for k in range(min(state.idle[vertex], most) + 1):
            state.tables[start + k] = weight * k * k - price * k
        return
    combine_children(tree, state, vertex, most)
    for k in range(state.reach[n_children] + 1):
        state.tables[start + k] = state.prefix[n_children, k] + weight * k * k


@helper()
def fill_tables(tree: GroupTree, state: InsertionState, most: int) -> None:
    """Fill the tables of all vertices but the top, whose product every insertion computes."""
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)


@kernel(INSERTION_STATE(GROUP_TREE, int64), allocates=True)
def insertion_state(tree: GroupTree, largest: int) -> InsertionState:
    """Return the state for inserting jobs of at most ``largest`` nodes into an empty tree, with filled tables."""
    most_idle = tree.idle[: tree.leaf_first.size - 1].max()
    state = idle_state(tree, largest, 0.5 / (1.0 + largest * most_idle))
    fill_tables(tree, state, largest)
    return state


@kernel(float64[::1](GROUP_TREE, INSERTION_STATE, int64), allocates=True)
def single_job_savings(tree: GroupTree, state: InsertionState, largest: int) -> FloatArray:
    """Return the largest saving of a single job of 0 .. ``largest`` nodes, shape ``(largest + 1,)``."""
    top = tree.idle.size - 1
    savings = np.zeros(largest + 1)
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    if n_children > 0:
        combine_children(tree, state, top, largest)
        # Savings are integers, and the tie break has reduced them by less than a half.
        for nodes in range(largest + 1):
            savings[nodes] = np.ceil(state.prefix[n_children, nodes] - 1e-9)
    return savings


@inlined
def _split_among_children(tree: GroupTree, state: InsertionState, vertex: int) -> None:
    first, last = tree.first_child[vertex], tree.first_child[vertex + 1]
    nodes = state.take[vertex]
    combine_children(tree, state, vertex, nodes)
    for i in range(last - first - 1, -1, -1):
        child = tree.children[first + i]
        a = max(0, nodes - state.reach[i])
        while state.prefix[i, nodes - a] + state.tables[state.offset[child] + a] < state.prefix[i + 1, nodes]:
            a += 1
        state.take[child] = a
        nodes -= a


@kernel(boolean(GROUP_TREE, INSERTION_STATE, int64))
def place_job(tree: GroupTree, state: InsertionState, size: int) -> bool:
    """Find the best nodes for one job by the current tables; write into ``state.take`` how many each vertex gives.

    Return whether there are enough nodes; rules may exclude too many.
    """
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    for vertex in range(n_vertices):
        state.take[vertex] = 0
    top = n_vertices - 1
    state.take[top] = size
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    if n_children > 0:
        _split_among_children(tree, state, top)
        if state.reach[n_children] < size or state.prefix[n_children, size] == -np.inf:
            return False
    for vertex in range(top - 1, n_leaves - 1, -1):
        if state.take[vertex] > 0:
            _split_among_children(tree, state, vertex)
    return True


@helper()
def hold_taken(tree: GroupTree, state: InsertionState, most: int) -> None:
    """Let the job placed last hold its nodes, and update the tables for jobs of at most ``most`` nodes."""
    for vertex in range(tree.idle.size):
        state.idle[vertex] -= state.take[vertex]
        if vertex < tree.idle.size - 1 and state.take[vertex] > 0:
            fill_table(tree, state, vertex, most)


@kernel(void(GROUP_TREE, INSERTION_STATE, int64[::1], int64, int64, int64[::1]))
def insert_jobs(
    tree: GroupTree, state: InsertionState, sizes: IntArray, first: int, last: int, owners: IntArray
) -> None:
    """Insert the jobs ``first .. last - 1`` one by one, each optimally; earlier jobs keep their nodes.

    ``sizes`` are the nodes of each job, descending, shape ``(J,)``. Into ``owners``, shape ``(m,)``, the index of the
    job at each idle position is written.
    """
    n_leaves = tree.leaf_first.size - 1
    for job in range(first, last):
        place_job(tree, state, sizes[job])
        for leaf in range(n_leaves):
            start = tree.leaf_first[leaf + 1] - state.idle[leaf]
            for index in range(start, start + state.take[leaf]):
                owners[tree.leaf_positions[index]] = job
        hold_taken(tree, state, sizes[min(job + 1, sizes.size - 1)])


class JobClasses(NamedTuple):
    """Classes of jobs with equal sizes and equal rules."""

    sizes: IntArray  # nodes of a job of each class, shape (R,)
    factor: FloatArray  # factor of the savings by squared counts, shape (R,); other than 1 only for the leftover
    step: IntMatrix  # its number of nodes in a group of each level is a multiple of this, shape (R, L), with the top
    bonus: FloatMatrix  # saving if one group of a level has all of its nodes, in hops, shape (R, L)
    area: IntArray  # index of the area in which it may have nodes, shape (R,)
    is_open: BoolMatrix  # whether a leaf belongs to an area, shape (areas, leaves)
    level: IntArray  # level of each vertex, shape (V,)
    leftover: float  # factor of the savings by the squared numbers of idle nodes, in hops
    ruled: int  # 1 if any of these differs from plain jobs, else 0


JOB_CLASSES = record_type(JobClasses)


@inlined
def apply_rules(tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, vertex: int, most: int) -> None:
    """Apply the rules of a class to the table of a vertex, which is filled for at most ``most`` nodes of plain jobs."""
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


@kernel(void(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, int64, int64))
def fill_ruled_tables(tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, most: int) -> None:
    """Fill the tables of all vertices but the top for a job of a class."""
    for vertex in range(tree.idle.size - 1):
        fill_table(tree, state, vertex, most)
        apply_rules(tree, state, classes, r, vertex, most)


@kernel(boolean(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, int64, int64[::1], int64))
def insert_ruled_job(
    tree: GroupTree, state: InsertionState, classes: JobClasses, r: int, owners: IntArray, job: int
) -> bool:
    """Insert one job of class r optimally; the tables must be filled for its class, and are so afterwards.

    ``job`` is written to its positions in ``owners``, shape ``(m,)``. Return False if there is no room for it.
    """
    size = classes.sizes[r]
    if not place_job(tree, state, size):
        return False
    for leaf in range(tree.leaf_first.size - 1):
        start = tree.leaf_first[leaf + 1] - state.idle[leaf]
        for index in range(start, start + state.take[leaf]):
            owners[tree.leaf_positions[index]] = job
    for vertex in range(tree.idle.size):
        state.idle[vertex] -= state.take[vertex]
        if vertex < tree.idle.size - 1 and state.take[vertex] > 0:
            fill_table(tree, state, vertex, size)
            apply_rules(tree, state, classes, r, vertex, size)
    return True
