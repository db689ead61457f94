"""Let jobs hold nodes and give them back: the tree of groups is corrected along the way to the top only."""

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined
from heuristics.lns.state import Groups, Holdings


@inlined
def move_child(groups: Groups, vertex: int, place: int) -> None:
    """Let a vertex change places with the sibling at a place of ``children``."""
    other, own = groups.children[place], groups.place[vertex]
    groups.children[own], groups.children[place] = other, vertex
    groups.place[other], groups.place[vertex] = own, place


@inlined
def change_idle(groups: Groups, leaf: int, nodes: int) -> None:
    """Let so many nodes more (or less, if negative) be idle in a leaf and in all groups above it."""
    vertex = leaf
    while True:
        before = groups.idle[vertex]
        groups.idle[vertex] = before + nodes
        parent = groups.parent[vertex]
        if parent < 0:
            break
        if before == 0:
            move_child(groups, vertex, groups.first_child[parent] + groups.awake[parent])
            groups.awake[parent] += 1
        elif before + nodes == 0:
            groups.awake[parent] -= 1
            move_child(groups, vertex, groups.first_child[parent] + groups.awake[parent])
        vertex = parent


@inlined
def hold_nodes(groups: Groups, holdings: Holdings, job: int) -> None:
    """Let a job hold what its entries say."""
    for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
        leaf = holdings.leaf[entry]
        change_idle(groups, leaf, -holdings.nodes[entry])
        groups.seat[entry] = groups.leaf_first[leaf] + groups.n_holders[leaf]
        groups.holders[groups.seat[entry]] = entry
        groups.n_holders[leaf] += 1


@inlined
def give_back_entry(groups: Groups, holdings: Holdings, entry: int) -> None:
    """Let the nodes of an entry be idle."""
    leaf = holdings.leaf[entry]
    change_idle(groups, leaf, holdings.nodes[entry])
    groups.n_holders[leaf] -= 1
    moved = groups.holders[groups.leaf_first[leaf] + groups.n_holders[leaf]]
    groups.holders[groups.seat[entry]] = moved
    groups.seat[moved] = groups.seat[entry]


@inlined
def give_back(groups: Groups, holdings: Holdings, job: int) -> None:
    """Let all nodes of a job be idle."""
    for entry in range(holdings.first[job], holdings.first[job] + holdings.length[job]):
        give_back_entry(groups, holdings, entry)


@inlined
def copy_holding(source: Holdings, target: Holdings, job: int) -> None:
    """Copy what one job holds."""
    first = source.first[job]
    target.length[job] = source.length[job]
    target.saving[job] = source.saving[job]
    for entry in range(first, first + source.length[job]):
        target.leaf[entry] = source.leaf[entry]
        target.nodes[entry] = source.nodes[entry]


@helper()
def hold_all(groups: Groups, holdings: Holdings, counts: IntArray) -> float:
    """Let all jobs hold what their entries say, from a tree in which all is idle; return what they save, in hops.

    Parameters
    ----------
    groups, holdings
        The tree, which changes, and the holdings, whose savings are set.
    counts
        Working space, shape ``(V,)``, all 0 before and after.
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
