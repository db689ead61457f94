"""Between problems and the state that the search works on: to the first state and back to nodes by one call each."""

import time
from dataclasses import dataclass

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.kernels.arrays import put, stable_order
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.insertion import hold_taken, insertion_state, place_job, single_job_savings
from allocopt.kernels.random import folded, random_words
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import owners_of
from allocopt.problems.topology.placement import penalty
from allocopt.problems.topology.tables import EVERYWHERE, TREE_KERNELS, constant_hops, encode_with_tree, job_classes
from heuristics.topology.lns.kernels import AHEAD, PAD
from heuristics.topology.lns.state import (
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
    Rules,
    Search,
    State,
    hold_all,
)


@helper(allocates=True)
def no_holdings(sizes: IntArray) -> Holdings:
    """Return room for what jobs of these sizes hold; they hold nothing."""
    first = np.zeros(sizes.size + 1, dtype=np.int64)
    put(np.cumsum(sizes), first[1:])
    length = np.zeros(sizes.size, dtype=np.int64)
    leaf, nodes = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    return Holdings(first, length, leaf, nodes, np.zeros(sizes.size))


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


@helper(allocates=True)
def _zeros(n: int) -> IntArray:
    return np.zeros(n, dtype=np.int64)


@helper(allocates=True)
def _idle_groups(tree: GroupTree, first: IntArray) -> Groups:
    """Make the tree, all idle, for jobs whose entries begin at ``first``."""
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    parent, place, awake = np.full(n_vertices, -1), _zeros(n_vertices), _zeros(n_vertices)
    for vertex in range(n_vertices):
        awake[vertex] = tree.first_child[vertex + 1] - tree.first_child[vertex]
        for at in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            parent[tree.children[at]], place[tree.children[at]] = vertex, at
    owner = _zeros(first[-1])
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
        _zeros(n_vertices),
        _zeros(n_vertices),
        _zeros(n_vertices),
        tree.leaf_first,
        _zeros(tree.leaf_positions.size),
        _zeros(n_leaves),
        _zeros(first[-1]),
        owner,
        np.zeros(n_leaves),
        np.zeros(n_leaves),
    )


@helper(allocates=True)
def _room(tree: GroupTree, sizes: IntArray, most_removed: int, moves: Moves) -> Open:
    removed = sizes[stable_order(-sizes)[:most_removed]].sum()
    most, n, last = 1, 1, tree.idle.size - 1
    # A level is what the children of the level above are numbered as, one after the other.
    first = last
    while first >= tree.leaf_first.size - 1:
        n_groups = tree.first_child[last + 1] - tree.first_child[first]
        most = min(n_groups, removed + most * max(moves.few, moves.others))
        n += most
        first, last = first - n_groups, first - 1
    largest = sizes.max()
    tables, products = np.empty((n, largest + AHEAD)), np.empty((n, PAD + largest + AHEAD))
    products[:, :PAD] = -np.inf
    weight, price, charge = np.zeros(n), np.zeros(n), np.zeros(n)
    return Open(
        _zeros(n), _zeros(n), _zeros(n), _zeros(n), _zeros(n), weight, price, charge, tables, products, _zeros(n)
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
    """Begin the search where the jobs hold nodes, in the tree that is all idle; ``alone``: see `Search`.

    Their holdings are the present state from now on; the savings are computed.
    """
    n_jobs, n_leaves = sizes.size, tree.leaf_first.size - 1
    most_removed = min(most_removed, n_jobs)
    groups = _idle_groups(tree, holdings.first)
    saving = hold_all(groups, holdings, _zeros(tree.idle.size))
    best = Holdings(
        holdings.first, holdings.length.copy(), holdings.leaf.copy(), holdings.nodes.copy(), holdings.saving.copy()
    )
    shape = most_removed, min(sizes.max(), n_leaves)
    search = Search(
        sizes,
        alone,
        holdings,
        best,
        np.zeros(n_jobs),
        np.full(2, saving),
        _zeros(n_jobs),
        _zeros(n_jobs),
        _zeros(3),
        _zeros(most_removed),
        _zeros(most_removed),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros(most_removed),
    )
    part = _room(tree, sizes, most_removed, moves)
    state: State = State(tree, groups, part, search, random_words(seed))  # type: ignore[no-untyped-call]
    return state


@kernel(float64[::1](GROUP_TREE, int64[::1]), allocates=True)
def savings_alone(tree: GroupTree, sizes: IntArray) -> FloatArray:
    """Return what each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``."""
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
    """Return the idle positions that the jobs get, job by job and rising: of every leaf, from the first one on."""
    next_of, owners = tree.leaf_first.copy(), np.full(tree.leaf_positions.size, -1)
    for job in range(holdings.length.size):
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            leaf = holdings.leaf[entry]
            for _ in range(holdings.nodes[entry]):
                owners[tree.leaf_positions[next_of[leaf]]] = job
                next_of[leaf] += 1
    positions, filled = _zeros(holdings.first[-1]), holdings.first.copy()
    for position in range(owners.size):
        if owners[position] >= 0:
            positions[filled[owners[position]]] = position
            filled[owners[position]] += 1
    return positions


@kernel(types.Tuple((GROUPS, OPEN, SEARCH))(STATE), allocates=True)
def parts_of(state: State) -> tuple[Groups, Open, Search]:
    """Return the arrays of a state, which change with it."""
    return state.groups, state.part, state.search


START_KERNELS = (*TREE_KERNELS, begin_greedily, begin_elsewhere, parts_of, positions_of)
RULED_START_KERNELS = (*TREE_KERNELS, begin_at, savings_alone, parts_of, positions_of)
"""Entries that beginning and ending a search calls: of few jobs without rules, and of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A problem as the search takes it."""

    problem: TopologyProblem
    encoding: Encoding
    tree: GroupTree
    most_hops: float  # hops of an allocation that saves none
    encoding_s: float  # how long it took to read the problem, in seconds: a measure of what else takes time

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Window":
        """Prepare a problem."""
        started = time.perf_counter()
        encoding, tree = encode_with_tree(problem)
        most_hops = constant_hops(problem, encoding)
        return cls(problem, encoding, tree, most_hops, time.perf_counter() - started)

    def cost(self, saving: float) -> float:
        """Hop cost of an allocation that saves so many hops."""
        return self.encoding.scale * (self.most_hops - saving)

    def alone(self) -> FloatArray:
        """Return what each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``."""
        return savings_alone(self.tree, self.encoding.sizes)

    def greedily(self, most_removed: int, moves: Moves, seed: int) -> State:
        """Begin at the allocation that inserts the jobs exactly, the largest first."""
        return begin_greedily(self.tree, self.encoding.sizes, most_removed, moves, folded(seed))

    def begin(self, allocation: Allocation, alone: FloatArray, most_removed: int, moves: Moves, seed: int) -> State:
        """Begin at an allocation; ``alone`` as in `Search`."""
        holdings, sizes = self._holdings(allocation), self.encoding.sizes
        return begin_at(self.tree, sizes, holdings, alone, most_removed, moves, folded(seed))

    def moved(self, state: State, allocation: Allocation, moves: Moves) -> State:
        """Begin at an allocation in place of the one that a state begins at."""
        return begin_elsewhere(state, self._holdings(allocation), moves)

    def rules(self, allocation: Allocation, state: State) -> Rules:
        """Return the rules of the jobs, and add what they save to the savings of a state, which begins there."""
        groups, part, search = parts_of(state)
        classes, of_job = job_classes(self.problem, self.encoding, self.tree)
        for job, nodes in enumerate(allocation.nodes):
            prefer = (self.problem.jobs[job].placement or EVERYWHERE).prefer
            if prefer is not None:
                paid = penalty(self.problem.topology, self.problem.jobs[job].placement or EVERYWHERE, nodes)
                search.present.saving[job] += (prefer.penalty - paid) / self.encoding.scale
        search.best.saving[:] = search.present.saving
        left = float(groups.idle.astype(np.float64) ** 2 @ groups.weight)
        search.savings[:] = search.present.saving.sum() + classes.leftover * left
        return Rules(classes, of_job, np.zeros(len(part.vertex), dtype=np.int64))

    def allocation(self, state: State) -> Allocation:
        """Return the allocation of the best state: of every leaf, its idle nodes from the first one on."""
        return self.allocation_of(parts_of(state)[2].best)

    def allocation_of(self, holdings: Holdings) -> Allocation:
        """Return the allocation of what the jobs hold; see `allocation`."""
        nodes, last, of_jobs = self.problem.idle_nodes[positions_of(self.tree, holdings)], 0, []
        for size in self.encoding.sizes.tolist():
            of_jobs.append(nodes[last : last + size])
            last += size
        return Allocation(tuple(of_jobs))

    def _holdings(self, allocation: Allocation) -> Holdings:
        owners = owners_of(self.problem, allocation)[self.tree.leaf_positions]
        sizes: IntArray = self.encoding.sizes
        n_jobs, n_leaves, first = len(sizes), len(self.tree.leaf_first) - 1, np.append(0, np.cumsum(sizes))
        leaf_of = np.repeat(np.arange(n_leaves), np.diff(self.tree.leaf_first))
        held = owners >= 0
        pairs, nodes = np.unique(owners[held] * n_leaves + leaf_of[held], return_counts=True)
        jobs, leaves = pairs // n_leaves, pairs % n_leaves
        length = np.bincount(jobs, minlength=n_jobs)
        entry = np.arange(len(jobs)) + (first[:-1] - np.cumsum(length) + length)[jobs]
        leaf, of_leaf = np.zeros((2, first[-1]), dtype=np.int64)
        leaf[entry], of_leaf[entry] = leaves, nodes
        return Holdings(first, length, leaf, of_leaf, np.zeros(n_jobs))
