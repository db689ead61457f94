"""The arrays of the large neighbourhood search: who holds what, what is idle, and the part of the tree that is open."""

from typing import NamedTuple

from numba import float64, int64, types
from numba.experimental import structref

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.kernels.classes import JOB_CLASSES, JobClasses
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from heuristics.lns.random import WORDS


class Holdings(NamedTuple):
    """Which leaves every job has nodes of; a job of n nodes has n entries at its disposal.

    Parameters
    ----------
    first
        The entries of job j begin at ``first[j]``, shape ``(J + 1,)``.
    length
        Number of leaves of which each job has nodes, shape ``(J,)``.
    leaf, nodes
        Leaf, and the nodes that the job has of it, per entry, shape ``(sum of the sizes,)``.
    saving
        What each job saves of the hop cost, in hops, shape ``(J,)``.
    """

    first: IntArray
    length: IntArray
    leaf: IntArray
    nodes: IntArray
    saving: FloatArray


class Groups(NamedTuple):
    """The tree of groups with what is idle in them, and who holds nodes of each leaf.

    Vertices are numbered as in `GroupTree`: leaves first, the top last.

    Parameters
    ----------
    parent
        Parent of each vertex, -1 for the top, shape ``(V,)``.
    weight
        What the squared count of a job in a vertex saves, shape ``(V,)``; 0 at the top.
    idle
        Idle nodes of each vertex, shape ``(V,)``.
    first_child, children
        The children of vertex v are ``children[first_child[v] : first_child[v + 1]]``, those with idle nodes first.
    awake
        Number of children with idle nodes, shape ``(V,)``.
    place
        Where each vertex is in ``children``, shape ``(V,)``.
    seen
        Last step in which each vertex was open, shape ``(V,)``.
    freed, next_freed
        The children of v in which this step has removed jobs are ``freed[v]``, ``next_freed[freed[v]]``, ..., until -1;
        valid where v was seen in this step, shape ``(V,)``.
    leaf_first
        The holders of leaf v are kept from ``leaf_first[v]`` on, shape ``(leaves + 1,)``.
    holders
        Entries of `Holdings` by leaf, shape ``(m,)``.
    n_holders
        Number of jobs that have nodes of each leaf, shape ``(leaves,)``.
    seat
        Where each entry is in ``holders``, shape as the entries of `Holdings`.
    owner
        Job of each entry.
    worth
        What a node of each leaf is worth to other jobs, in hops, shape ``(leaves,)``; 0 where nobody knows.
    price
        What jobs are charged for a node of each leaf when it is asked how badly they are placed, in hops; 0 or as
        `Search.alone` was computed.
    """

    parent: IntArray
    weight: FloatArray
    idle: IntArray
    first_child: IntArray
    children: IntArray
    awake: IntArray
    place: IntArray
    seen: IntArray
    freed: IntArray
    next_freed: IntArray
    leaf_first: IntArray
    holders: IntArray
    n_holders: IntArray
    seat: IntArray
    owner: IntArray
    worth: FloatArray
    price: FloatArray


class Open(NamedTuple):
    """The part of the tree that is open in one step: its vertices from the top down, siblings side by side.

    Parameters
    ----------
    vertex
        Which vertices they are, shape ``(most open,)``, as all that follow.
    first
        The open children of vertex number i are the numbers ``first[i] .. last[i] - 1``.
    last
        See ``first``.
    idle
        Idle nodes in open leaves, per open vertex.
    take
        Nodes that the job inserted last takes.
    weight
        Copied from `Groups`.
    price
        What the job that is inserted pays for a node, in units of savings.
    charge
        The same in hops, before it fades.
    tables
        Row i: the largest saving inside open vertex i by number of nodes, shape ``(most open, largest job + 1)``.
    products
        Row i: the same inside i and its siblings before it, together.
    reach
        Most nodes in row i of ``products``.
    """

    vertex: IntArray
    first: IntArray
    last: IntArray
    idle: IntArray
    take: IntArray
    weight: FloatArray
    price: FloatArray
    charge: FloatArray
    tables: FloatArray
    products: FloatArray
    reach: IntArray


class Search(NamedTuple):
    """Where the search is.

    Parameters
    ----------
    sizes
        Nodes of each job, shape ``(J,)``.
    alone
        What each job would save, less what it would be charged, if it had all idle nodes for itself, shape ``(J,)``.
    present, best
        What the jobs hold in the present and in the best state.
    eagerness
        By how many hops each job counts as placed worse than it is, where of two jobs the worse is removed, shape
        ``(J,)``.
    savings
        What the present and the best state save of the hop cost, in hops, shape ``(2,)``.
    changed
        Jobs that hold other nodes than in the best state, in the first places, shape ``(J,)``.
    is_changed
        1 for them, shape ``(J,)``.
    counters
        Number of changed jobs, number of steps taken, number of open vertices, shape ``(3,)``.
    removed
        The jobs removed in this step, shape ``(most removed,)``.
    length
        Number of leaves that each of them gets, shape ``(most removed,)``.
    leaf, nodes
        These leaves, and the nodes, shape ``(most removed, most leaves of a job)``.
    saving
        What each of them saves then, shape ``(most removed,)``.
    """

    sizes: IntArray
    alone: FloatArray
    present: Holdings
    best: Holdings
    eagerness: FloatArray
    savings: FloatArray
    changed: IntArray
    is_changed: IntArray
    counters: IntArray
    removed: IntArray
    length: IntArray
    leaf: IntArray
    nodes: IntArray
    saving: FloatArray


class Moves(NamedTuple):
    """How the search moves.

    Parameters
    ----------
    price, inner_price
        Standard deviations of the prices of leaves and of the groups above them, in hops per node and per node of the
        largest job removed.
    related
        Share of the removed jobs that are drawn near another one.
    climb
        Chance to go up one level more to look for a job near another one.
    worse
        Share of the steps that begin with the worst placed of ``rivals`` jobs.
    few
        Children with idle nodes up to which all of them are open.
    others
        Children that are open besides those where jobs were removed, where there are many.
    rivals
        See ``worse``.
    guidance
        By what the worths of leaves are multiplied; 0 for a search without them.
    fading
        Where there is guidance, what a job pays falls with the share of the removed nodes that are to be inserted
        after it, to this power: at the end, nothing is worth anything to others.
    """

    price: float
    inner_price: float
    related: float
    climb: float
    worse: float
    few: int
    others: int
    rivals: int = 2
    guidance: float = 0.0
    fading: float = 0.0


class Rules(NamedTuple):
    """What is asked for besides few hops.

    Parameters
    ----------
    classes
        Jobs of equal size and equal rules.
    of_job
        Class of every job, shape ``(J,)``.
    left
        Working space: idle nodes of each open vertex, in open leaves or not, shape ``(most open,)``.
    """

    classes: JobClasses
    of_job: IntArray
    left: IntArray


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
    """All of it in one place that kernels make and hand on by a pointer; handing on sixty arrays takes 50 microseconds.

    Parameters
    ----------
    tree
        The groups of the window, all idle.
    groups, part, search
        What changes.
    words
        State of the generator of random numbers.
    """

    tree: GroupTree
    groups: Groups
    part: Open
    search: Search
    words: WordArray


FIELDS = (("tree", GROUP_TREE), ("groups", GROUPS), ("part", OPEN), ("search", SEARCH), ("words", WORDS))
structref.define_proxy(State, _StateType, [name for name, _ in FIELDS])
STATE = _StateType(FIELDS)  # type: ignore[no-untyped-call]

CHANGED, STEPS, N_OPEN = 0, 1, 2
"""Places in ``Search.counters``."""
