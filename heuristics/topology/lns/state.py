"""The arrays of the large neighbourhood search, how jobs occupy and free nodes, and how a search begins and ends.

If a job occupies or frees nodes, only the path from the leaf to the top of the tree changes. Making the first state,
and converting a state to nodes, takes one call of a kernel each.
"""

import itertools
import time
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numba import float64, int64, types
from numba.experimental import structref

from allocopt.arrays import Encoding, FloatArray, IntArray, WordArray
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, field_types, put, record_type, stable_order
from allocopt.kernels.compiled import IS_PLAIN, helper, inlined, kernel
from allocopt.kernels.insertion import JobClasses, hold_taken, insertion_state, place_job, single_job_savings
from allocopt.kernels.random import folded, random_words
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import EVERYWHERE, TREE_KERNELS, constant_hops, encode, group_tree, job_classes

AHEAD = 4  # numbers of nodes that are handled at once
PAD = 4  # index of the entry for 0 nodes in a row of `Open.products`; entries before it are minus infinity


class Holdings(NamedTuple):
    """The leaves in which every job has nodes; there is room for n entries of a job of n nodes."""

    first: IntArray  # the entries of job j begin at first[j], shape (J + 1,)
    length: IntArray  # number of leaves in which each job has nodes, shape (J,)
    leaf: IntArray  # leaf of each entry, shape (sum of the sizes,)
    nodes: IntArray  # nodes of the job in this leaf
    saving: FloatArray  # saving of each job, in hops, shape (J,)


class Groups(NamedTuple):
    """The groups, numbered as in `GroupTree`, with their idle nodes, and the jobs with nodes in each leaf."""

    parent: IntArray  # parent of each vertex, -1 for the top, shape (V,)
    weight: FloatArray  # saving per squared count of a job in a vertex, shape (V,); 0 at the top
    idle: IntArray  # idle nodes of each vertex, shape (V,)
    first_child: IntArray
    children: IntArray  # children of v are first_child[v] .. first_child[v + 1] - 1; those with idle nodes come first
    awake: IntArray  # number of children with idle nodes, shape (V,)
    place: IntArray  # index of each vertex in `children`, shape (V,)
    seen: IntArray  # last step in which each vertex was open, shape (V,)
    # The children of v in which this step has removed jobs are freed[v], next_freed[freed[v]], ..., until -1; valid
    # only if v was seen in this step.
    freed: IntArray
    next_freed: IntArray
    leaf_first: IntArray  # the holders of leaf v begin at leaf_first[v], shape (leaves + 1,)
    holders: IntArray  # entries of `Holdings` by leaf, shape (m,)
    n_holders: IntArray  # number of jobs with nodes in each leaf, shape (leaves,)
    seat: IntArray  # index of each entry in `holders`
    owner: IntArray  # job of each entry
    worth: FloatArray  # worth of a node of each leaf to other jobs, in hops; 0 if unknown
    # Charge for a node of each leaf, in hops, when jobs are compared by how badly they are placed; 0, or the prices by
    # which `Search.alone` was computed.
    price: FloatArray


class Open(NamedTuple):
    """The part of the tree that is open in one step: its vertices from the top down, siblings side by side."""

    vertex: IntArray  # numbers of the open vertices, shape (most open,), like all fields below
    first: IntArray  # the open children of vertex number i are the numbers first[i] .. last[i] - 1
    last: IntArray
    idle: IntArray  # idle nodes in open leaves
    take: IntArray  # nodes that the job inserted last takes
    weight: FloatArray  # copied from `Groups`
    price: FloatArray  # price of a node for the job that is inserted, in the unit of `tables`
    charge: FloatArray  # charge for a node in hops, from which the prices of all jobs are computed
    tables: FloatMatrix  # row i: largest saving inside open vertex i by number of nodes, up to those of the largest job
    products: FloatMatrix  # row i: largest saving inside i and its earlier siblings together, from `PAD` on
    reach: IntArray  # most nodes in row i of `products`


class Search(NamedTuple):
    """State of the search."""

    sizes: IntArray  # nodes of each job, shape (J,)
    alone: FloatArray  # saving less charges of each job on all idle nodes without other jobs, shape (J,)
    present: Holdings
    best: Holdings
    # Hops that are added to how badly each job is placed, when the worse one of two jobs is removed, shape (J,).
    eagerness: FloatArray
    savings: FloatArray  # savings of the present and the best state, in hops, shape (2,)
    changed: IntArray  # first entries: jobs with other nodes than in the best state, shape (J,)
    is_changed: IntArray  # 1 for these jobs, shape (J,)
    counters: IntArray  # number of changed jobs, of steps taken, of open vertices, shape (3,)
    removed: IntArray  # the jobs removed in this step, shape (most removed,)
    length: IntArray  # number of leaves that each of them gets, shape (most removed,)
    leaf: IntMatrix  # these leaves, shape (most removed, most leaves of a job)
    nodes: IntMatrix  # nodes in these leaves
    saving: FloatArray  # new saving of each of the removed jobs, shape (most removed,)


CHANGED, STEPS, N_OPEN = 0, 1, 2  # indices in `Search.counters`


class Moves(NamedTuple):
    """Parameters of the moves."""

    price: float  # standard deviation of the prices of leaves, in hops per node and per node of the largest removed job
    inner_price: float  # the same for prices of groups above leaves
    related: float  # share of the removed jobs that are drawn near another one
    climb: float  # probability to go up one more level when a job near another one is drawn
    worse: float  # share of the steps that begin with the worst placed of `rivals` jobs
    few: int  # most children with idle nodes for which all of them are open
    others: int  # if there are more, number of open children besides those where jobs were removed
    rivals: int = 2
    guidance: float = 0.0  # factor of the worths of leaves; 0 for a search without them
    # With guidance, the charges of a job are multiplied by ``share ** fading``, where ``share`` is the share of the
    # removed nodes that are inserted after the job. The last job pays nothing, because no other job needs the leaves.
    fading: float = 0.0


class Rules(NamedTuple):
    """Side constraints of the jobs."""

    classes: JobClasses  # jobs of equal size and equal rules
    of_job: IntArray  # class of every job, shape (J,)
    left: IntArray  # working space: idle nodes of each open vertex, also in closed leaves, shape (most open,)


HOLDINGS, GROUPS, OPEN, SEARCH, MOVES, RULES = map(record_type, (Holdings, Groups, Open, Search, Moves, Rules))


@structref.register
class _StateType(types.StructRef):
    """Numba type of `State`."""


class State(structref.StructRefProxy):
    """All arrays of a search, passed by a pointer; passing sixty arrays would take 50 microseconds."""

    tree: GroupTree  # the groups of the window, all idle
    groups: Groups
    part: Open
    search: Search
    words: WordArray  # state of the generator of random numbers

    if IS_PLAIN:
        # numba's own constructor would call a kernel.
        def __new__(cls, *fields: Any) -> "State":
            """Keep the fields as attributes."""
            made = object.__new__(cls)
            made.__dict__ |= dict(zip(get_type_hints(cls), fields, strict=True))
            return made


FIELDS = field_types(State)
structref.define_proxy(State, _StateType, list(FIELDS))
STATE = _StateType(FIELDS.items())  # type: ignore[no-untyped-call]


@inlined
def _move_child(groups: Groups, vertex: int, place: int) -> None:
    other, own = groups.children[place], groups.place[vertex]
    groups.children[own], groups.children[place] = other, vertex
    groups.place[other], groups.place[vertex] = own, place


@inlined
def _change_idle(groups: Groups, leaf: int, nodes: int) -> None:
    vertex = leaf
    while True:
        before = groups.idle[vertex]
        groups.idle[vertex] = before + nodes
        parent = groups.parent[vertex]
        if parent < 0:
            break
        if before == 0:
            _move_child(groups, vertex, groups.first_child[parent] + groups.awake[parent])
            groups.awake[parent] += 1
        elif before + nodes == 0:
            groups.awake[parent] -= 1
            _move_child(groups, vertex, groups.first_child[parent] + groups.awake[parent])
        vertex = parent


@inlined
def hold_nodes(groups: Groups, holdings: Holdings, job: int) -> None:
    """Occupy the nodes in the entries of a job."""
    for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
        leaf = holdings.leaf[entry]
        _change_idle(groups, leaf, -holdings.nodes[entry])
        groups.seat[entry] = groups.leaf_first[leaf] + groups.n_holders[leaf]
        groups.holders[groups.seat[entry]] = entry
        groups.n_holders[leaf] += 1


@inlined
def give_back_entry(groups: Groups, holdings: Holdings, entry: int) -> None:
    """Free the nodes of an entry."""
    leaf = holdings.leaf[entry]
    _change_idle(groups, leaf, holdings.nodes[entry])
    groups.n_holders[leaf] -= 1
    moved = groups.holders[groups.leaf_first[leaf] + groups.n_holders[leaf]]
    groups.holders[groups.seat[entry]] = moved
    groups.seat[moved] = groups.seat[entry]


@helper()
def _hold_all(groups: Groups, holdings: Holdings, counts: IntArray) -> float:
    # `counts` is working space, shape (V,), all 0 before and after.
    total = 0.0
    for job in range(holdings.length.size):
        hold_nodes(groups, holdings, job)
        nodes, squares = 0, 0.0
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            nodes += holdings.nodes[entry]
            vertex = holdings.leaf[entry]
            while vertex >= 0:
                # (A + a)^2 = A^2 + a (2 A + a)
                squares += groups.weight[vertex] * holdings.nodes[entry] * (2 * counts[vertex] + holdings.nodes[entry])
                counts[vertex] += holdings.nodes[entry]
                vertex = groups.parent[vertex]
        for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
            vertex = holdings.leaf[entry]
            while vertex >= 0:
                counts[vertex] = 0
                vertex = groups.parent[vertex]
        holdings.saving[job] = squares / nodes
        total += holdings.saving[job]
    return total


@helper(allocates=True)
def no_holdings(sizes: IntArray) -> Holdings:
    """Return empty holdings for jobs of these sizes."""
    first = np.zeros(sizes.size + 1, dtype=np.int64)
    put(np.cumsum(sizes), first[1:])
    length = np.zeros(sizes.size, dtype=np.int64)
    leaf, nodes = np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64)
    return Holdings(first, length, leaf, nodes, np.zeros(sizes.size))


@inlined
def note_nodes(holdings: Holdings, taken: IntArray, job: int) -> None:
    """Write the entries of a job, given its nodes in every leaf."""
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
    n_vertices, n_leaves = tree.idle.size, tree.leaf_first.size - 1
    parent, place, awake = np.full(n_vertices, -1), _zeros(n_vertices), _zeros(n_vertices)
    for vertex in range(n_vertices):
        awake[vertex] = tree.first_child[vertex + 1] - tree.first_child[vertex]
        for at in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            parent[tree.children[at]], place[tree.children[at]] = vertex, at
    owner = _zeros(first[-1])
    for job in range(first.size - 1):
        owner[first[job] : first[job + 1]] = job
    seen, freed, next_freed = _zeros(n_vertices), _zeros(n_vertices), _zeros(n_vertices)
    holders, n_holders, seat = _zeros(tree.leaf_positions.size), _zeros(n_leaves), _zeros(first[-1])
    idle, children, worth, price = tree.idle.copy(), tree.children.copy(), np.zeros(n_leaves), np.zeros(n_leaves)
    vertices = (parent, tree.weight, idle, tree.first_child, children, awake, place, seen, freed, next_freed)
    return Groups(*vertices, tree.leaf_first, holders, n_holders, seat, owner, worth, price)


@helper(allocates=True)
def _room(tree: GroupTree, sizes: IntArray, most_removed: int, moves: Moves) -> Open:
    removed = sizes[stable_order(-sizes)[:most_removed]].sum()
    most, n, last = 1, 1, tree.idle.size - 1
    # The vertices of a level are numbered consecutively.
    first = last
    while first >= tree.leaf_first.size - 1:
        n_groups = tree.first_child[last + 1] - tree.first_child[first]
        most = min(n_groups, removed + most * max(moves.few, moves.others))
        n += most
        first, last = first - n_groups, first - 1
    largest = sizes.max()
    tables, products = np.empty((n, largest + AHEAD)), np.empty((n, PAD + largest + AHEAD))
    products[:, :PAD] = -np.inf
    numbers = (_zeros(n), _zeros(n), _zeros(n), _zeros(n), _zeros(n))
    return Open(*numbers, np.zeros(n), np.zeros(n), np.zeros(n), tables, products, _zeros(n))


@kernel(STATE(GROUP_TREE, int64[::1], HOLDINGS, float64[::1], int64, MOVES, int64), allocates=True)
def begin_at(
    tree: GroupTree, sizes: IntArray, holdings: Holdings, alone: FloatArray, most_removed: int, moves: Moves, seed: int
) -> State:
    """Return the state of a search that begins with these holdings; they become the present ones and get savings."""
    n_jobs, n_leaves = sizes.size, tree.leaf_first.size - 1
    most_removed = min(most_removed, n_jobs)
    groups = _idle_groups(tree, holdings.first)
    saving = _hold_all(groups, holdings, _zeros(tree.idle.size))
    length, leaf, nodes = holdings.length.copy(), holdings.leaf.copy(), holdings.nodes.copy()
    best = Holdings(holdings.first, length, leaf, nodes, holdings.saving.copy())
    shape = most_removed, min(sizes.max(), n_leaves)
    kept = (np.zeros(n_jobs), np.full(2, saving), _zeros(n_jobs), _zeros(n_jobs), _zeros(3))
    removed, lengths, savings = _zeros(most_removed), _zeros(most_removed), np.zeros(most_removed)
    leaves, taken = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    search = Search(sizes, alone, holdings, best, *kept, removed, lengths, leaves, taken, savings)
    part = _room(tree, sizes, most_removed, moves)
    state: State = State(tree, groups, part, search, random_words(seed))
    return state


@kernel(float64[::1](GROUP_TREE, int64[::1]), allocates=True)
def _savings_alone(tree: GroupTree, sizes: IntArray) -> FloatArray:
    """Return the largest saving of each job on all idle nodes without other jobs, in hops, shape ``(J,)``."""
    largest = sizes.max()
    return single_job_savings(tree, insertion_state(tree, largest), largest)[sizes] / sizes


@kernel(STATE(GROUP_TREE, int64[::1], int64, MOVES, int64), allocates=True)
def _begin_greedily(tree: GroupTree, sizes: IntArray, most_removed: int, moves: Moves, seed: int) -> State:
    """Return the state that begins with all jobs inserted exactly, the largest first; see `begin_at`."""
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
def _begin_elsewhere(state: State, holdings: Holdings, moves: Moves) -> State:
    """Return the state of the same search with other holdings; no step may have been taken yet."""
    search, groups = state.search, state.groups
    other = begin_at(state.tree, search.sizes, holdings, search.alone, search.removed.size, moves, 0)
    put(state.words, other.words)
    put(groups.worth, other.groups.worth)
    put(groups.price, other.groups.price)
    put(search.eagerness, other.search.eagerness)
    return other


@kernel(int64[::1](GROUP_TREE, HOLDINGS), allocates=True)
def _positions_of(tree: GroupTree, holdings: Holdings) -> IntArray:
    """Return the idle positions of the jobs, job by job and sorted; jobs take those of a leaf from the first one on."""
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


# Compiled functions that Python calls to begin and end a search: with few jobs without rules, and otherwise.
START_KERNELS = (*TREE_KERNELS, _begin_greedily, _begin_elsewhere, parts_of, _positions_of)
RULED_START_KERNELS = (*TREE_KERNELS, begin_at, _savings_alone, parts_of, _positions_of)


@dataclass(frozen=True, slots=True, eq=False)
class EncodedProblem:
    """A problem in the form that the search needs."""

    problem: TopologyProblem
    encoding: Encoding
    tree: GroupTree
    most_hops: float  # hops of an allocation without savings
    encoding_s: float  # seconds to read the problem, from which other times are estimated

    @classmethod
    def of(cls, problem: TopologyProblem) -> "EncodedProblem":
        """Return the encoding of a problem."""
        started = time.perf_counter()
        encoding = encode(problem)
        tree = group_tree(encoding)
        most_hops = constant_hops(problem, encoding)
        return cls(problem, encoding, tree, most_hops, time.perf_counter() - started)

    def cost(self, saving: float) -> float:
        """Return the hop cost of an allocation with this saving in hops."""
        return self.encoding.scale * (self.most_hops - saving)

    def alone(self) -> FloatArray:
        """Return the largest saving of each job on all idle nodes without other jobs, in hops, shape ``(J,)``."""
        return _savings_alone(self.tree, self.encoding.sizes)

    def greedily(self, most_removed: int, moves: Moves, seed: int) -> State:
        """Return the state that begins with all jobs inserted exactly, the largest first."""
        return _begin_greedily(self.tree, self.encoding.sizes, most_removed, moves, folded(seed))

    def begin(self, allocation: Allocation, alone: FloatArray, most_removed: int, moves: Moves, seed: int) -> State:
        """Return the state that begins at an allocation; ``alone`` as in `Search`."""
        holdings, sizes = self._holdings(allocation), self.encoding.sizes
        return begin_at(self.tree, sizes, holdings, alone, most_removed, moves, folded(seed))

    def moved(self, state: State, allocation: Allocation, moves: Moves) -> State:
        """Return the state that begins at another allocation than the given state."""
        return _begin_elsewhere(state, self._holdings(allocation), moves)

    def rules(self, allocation: Allocation, state: State) -> Rules:
        """Return the rules of the jobs, and add their savings to those of a state that begins at the allocation."""
        groups, part, search = parts_of(state)
        classes, of_job = job_classes(self.problem, self.encoding, self.tree)
        for job, nodes in enumerate(allocation.nodes):
            prefer = (self.problem.jobs[job].placement or EVERYWHERE).prefer
            if prefer is not None:
                paid = (self.problem.jobs[job].placement or EVERYWHERE).penalty(self.problem.topology, nodes)
                search.present.saving[job] += (prefer.penalty - paid) / self.encoding.scale
        search.best.saving[:] = search.present.saving
        left = float(groups.idle.astype(np.float64) ** 2 @ groups.weight)
        search.savings[:] = search.present.saving.sum() + classes.leftover * left
        return Rules(classes, of_job, np.zeros(len(part.vertex), dtype=np.int64))

    def allocation(self, state: State) -> Allocation:
        """Return the allocation of the best state; jobs take the idle nodes of a leaf from the first one on."""
        return self.allocation_of(parts_of(state)[2].best)

    def allocation_of(self, holdings: Holdings) -> Allocation:
        """Return the allocation of some holdings; see `allocation`."""
        nodes = self.problem.idle_nodes[_positions_of(self.tree, holdings)]
        return Allocation(tuple(nodes[low:high] for low, high in itertools.pairwise(holdings.first.tolist())))

    def _holdings(self, allocation: Allocation) -> Holdings:
        owners = allocation.owners(self.problem)[self.tree.leaf_positions]
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
