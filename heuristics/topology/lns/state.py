"""The arrays of the large neighbourhood search, and how jobs hold nodes and give them back.

Of the tree of groups, only the way from a leaf to the top is corrected.
"""

from typing import NamedTuple

from numba import float64, int64, types
from numba.experimental import structref

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.kernels.compiled import helper, inlined
from allocopt.kernels.insertion import JOB_CLASSES, JobClasses
from allocopt.kernels.random import WORDS
from allocopt.kernels.tree import GROUP_TREE, GroupTree


class Holdings(NamedTuple):
    """Which leaves every job has nodes of; a job of n nodes has n entries at its disposal."""

    first: IntArray  # the entries of job j begin at first[j], shape (J + 1,)
    length: IntArray  # number of leaves of which each job has nodes, shape (J,)
    leaf: IntArray  # leaf of each entry, shape (sum of the sizes,)
    nodes: IntArray  # nodes that the job has of it
    saving: FloatArray  # what each job saves of the hop cost, in hops, shape (J,)


class Groups(NamedTuple):
    """The tree of groups with what is idle in them, and who holds nodes of each leaf.

    Vertices are numbered as in `GroupTree`: leaves first, the top last.
    """

    parent: IntArray  # parent of each vertex, -1 for the top, shape (V,)
    weight: FloatArray  # what the squared count of a job in a vertex saves, shape (V,); 0 at the top
    idle: IntArray  # idle nodes of each vertex, shape (V,)
    first_child: IntArray
    children: IntArray  # those of vertex v from first_child[v] to first_child[v + 1], those with idle nodes first
    awake: IntArray  # number of children with idle nodes, shape (V,)
    place: IntArray  # where each vertex is in `children`, shape (V,)
    seen: IntArray  # last step in which each vertex was open, shape (V,)
    # The children of v in which this step has removed jobs are freed[v], next_freed[freed[v]], ..., until -1; valid
    # where v was seen in this step.
    freed: IntArray
    next_freed: IntArray
    leaf_first: IntArray  # the holders of leaf v are kept from leaf_first[v] on, shape (leaves + 1,)
    holders: IntArray  # entries of `Holdings` by leaf, shape (m,)
    n_holders: IntArray  # number of jobs that have nodes of each leaf, shape (leaves,)
    seat: IntArray  # where each entry is in `holders`
    owner: IntArray  # job of each entry
    worth: FloatArray  # what a node of each leaf is worth to other jobs, in hops; 0 where nobody knows
    # What jobs are charged for a node of each leaf when it is asked how badly they are placed, in hops; 0 or as
    # `Search.alone` was computed.
    price: FloatArray


class Open(NamedTuple):
    """The part of the tree that is open in one step: its vertices from the top down, siblings side by side."""

    vertex: IntArray  # which vertices they are, shape (most open,), as all that follow
    first: IntArray  # the open children of vertex number i are the numbers first[i] .. last[i] - 1
    last: IntArray
    idle: IntArray  # idle nodes in open leaves
    take: IntArray  # nodes that the job inserted last takes
    weight: FloatArray  # copied from `Groups`
    price: FloatArray  # what the job that is inserted pays for a node, in units of savings
    charge: FloatArray  # the same in hops, before it fades
    tables: FloatArray  # row i: the largest saving inside open vertex i by number of nodes, up to the largest job's
    products: FloatArray  # row i: the same inside i and its siblings before it, together
    reach: IntArray  # most nodes in row i of `products`


class Search(NamedTuple):
    """Where the search is."""

    sizes: IntArray  # nodes of each job, shape (J,)
    alone: FloatArray  # what each job would save, less its charges, if it had all idle nodes for itself, shape (J,)
    present: Holdings
    best: Holdings
    # By how many hops each job counts as placed worse than it is, where of two jobs the worse is removed, shape (J,).
    eagerness: FloatArray
    savings: FloatArray  # what the present and the best state save of the hop cost, in hops, shape (2,)
    changed: IntArray  # jobs that hold other nodes than in the best state, in the first places, shape (J,)
    is_changed: IntArray  # 1 for them, shape (J,)
    counters: IntArray  # number of changed jobs, of steps taken, of open vertices, shape (3,)
    removed: IntArray  # the jobs removed in this step, shape (most removed,)
    length: IntArray  # number of leaves that each of them gets, shape (most removed,)
    leaf: IntArray  # these leaves, shape (most removed, most leaves of a job)
    nodes: IntArray  # nodes of them
    saving: FloatArray  # what each of the removed jobs saves then, shape (most removed,)


CHANGED, STEPS, N_OPEN = 0, 1, 2
"""Places in ``Search.counters``."""


class Moves(NamedTuple):
    """How the search moves."""

    price: float  # standard deviation of the prices of leaves, in hops per node and per node of the largest job removed
    inner_price: float  # the same of the groups above them
    related: float  # share of the removed jobs that are drawn near another one
    climb: float  # chance to go up one level more to look for a job near another one
    worse: float  # share of the steps that begin with the worst placed of `rivals` jobs
    few: int  # children with idle nodes up to which all of them are open
    others: int  # children that are open besides those where jobs were removed, where there are many
    rivals: int = 2
    guidance: float = 0.0  # by what the worths of leaves are multiplied; 0 for a search without them
    # Where there is guidance, what a job pays falls with the share of the removed nodes that are to be inserted after
    # it, to this power: at the end, nothing is worth anything to others.
    fading: float = 0.0


class Rules(NamedTuple):
    """What is asked for besides few hops."""

    classes: JobClasses  # jobs of equal size and equal rules
    of_job: IntArray  # class of every job, shape (J,)
    left: IntArray  # working space: idle nodes of each open vertex, in open leaves or not, shape (most open,)


INTS, INTS_2D, FLOATS, FLOATS_2D = int64[::1], int64[:, ::1], float64[::1], float64[:, ::1]
HOLDINGS = types.NamedTuple((INTS, INTS, INTS, INTS, FLOATS), Holdings)
GROUPS = types.NamedTuple((INTS, FLOATS, *[INTS] * 13, FLOATS, FLOATS), Groups)
OPEN = types.NamedTuple((*[INTS] * 5, FLOATS, FLOATS, FLOATS, FLOATS_2D, FLOATS_2D, INTS), Open)
SEARCH = types.NamedTuple(
    (INTS, FLOATS, HOLDINGS, HOLDINGS, FLOATS, FLOATS, *[INTS] * 5, INTS_2D, INTS_2D, FLOATS), Search
)
MOVES = types.NamedTuple((*[float64] * 5, int64, int64, int64, float64, float64), Moves)
RULES = types.NamedTuple((JOB_CLASSES, INTS, INTS), Rules)


@structref.register
class _StateType(types.StructRef):
    """Numba type of `State`."""


class State(structref.StructRefProxy):
    """All of it in one place, handed on by a pointer; handing on sixty arrays takes 50 microseconds."""

    tree: GroupTree  # the groups of the window, all idle
    groups: Groups
    part: Open
    search: Search
    words: WordArray  # state of the generator of random numbers


FIELDS = (("tree", GROUP_TREE), ("groups", GROUPS), ("part", OPEN), ("search", SEARCH), ("words", WORDS))
structref.define_proxy(State, _StateType, [name for name, _ in FIELDS])
STATE = _StateType(FIELDS)  # type: ignore[no-untyped-call]


@inlined
def _move_child(groups: Groups, vertex: int, place: int) -> None:
    """Let a vertex change places with the sibling at a place of ``children``."""
    other, own = groups.children[place], groups.place[vertex]
    groups.children[own], groups.children[place] = other, vertex
    groups.place[other], groups.place[vertex] = own, place


@inlined
def _change_idle(groups: Groups, leaf: int, nodes: int) -> None:
    """Let so many nodes more (or less, if negative) be idle in a leaf and in all groups above it."""
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
    """Let a job hold what its entries say."""
    for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
        leaf = holdings.leaf[entry]
        _change_idle(groups, leaf, -holdings.nodes[entry])
        groups.seat[entry] = groups.leaf_first[leaf] + groups.n_holders[leaf]
        groups.holders[groups.seat[entry]] = entry
        groups.n_holders[leaf] += 1


@inlined
def give_back_entry(groups: Groups, holdings: Holdings, entry: int) -> None:
    """Let the nodes of an entry be idle."""
    leaf = holdings.leaf[entry]
    _change_idle(groups, leaf, holdings.nodes[entry])
    groups.n_holders[leaf] -= 1
    moved = groups.holders[groups.leaf_first[leaf] + groups.n_holders[leaf]]
    groups.holders[groups.seat[entry]] = moved
    groups.seat[moved] = groups.seat[entry]


@helper()
def hold_all(groups: Groups, holdings: Holdings, counts: IntArray) -> float:
    """Let all jobs hold what their entries say, from a tree in which all is idle; return what they save, in hops.

    ``counts`` is working space, shape ``(V,)``, all 0 before and after.
    """
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
