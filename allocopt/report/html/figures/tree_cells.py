"""The cells of a picture of a tree, in the order in which they stand: nodes, or groups of them on a large machine."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.topology import Topology, Tree

MOST_CELLS = 3_000


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells within inner frames within outer ones.

    Parameters
    ----------
    level
        0 where a cell is a node, else the level of the group that it is.
    order
        Nodes in the order of the cells, shape ``(size,)``.
    first
        Where the nodes of every cell begin in ``order``, and the number of nodes, shape ``(cells + 1,)``.
    names
        Name of every cell.
    inner, outer
        Numbers of the frames of every cell, rising, shape ``(cells,)``.
    outer_names
        Name of every outer frame.
    has_outer
        Whether outer frames mean something: else there is one.
    """

    level: int
    order: IntArray
    first: IntArray
    names: list[str]
    inner: IntArray
    outer: IntArray
    outer_names: list[str]
    has_outer: bool

    def members(self, cell: int) -> IntArray:
        """Return the nodes of a cell."""
        return self.order[self.first[cell] : self.first[cell + 1]]


def cells_of(topology: Topology, node_names: tuple[str, ...] = ()) -> Cells:
    """Return the cells of a cluster: the smallest groups, nodes if may be, of which there are not too many."""
    size = topology.size
    groups = topology.groups_of(np.arange(size))
    levels = [np.arange(size), *groups, np.zeros(size, dtype=np.int64)]
    # Groups stand in the order of their first nodes, within the groups above.
    order = np.lexsort(levels[:-1])
    counts = [len(np.unique(level)) for level in levels]
    level = next(number for number, count in enumerate(counts) if count <= MOST_CELLS)
    rows = [_ranks(each[order]) for each in levels]
    top = len(levels) - 1
    inner, outer = rows[min(level + 1, top)], rows[min(level + 2, top)]
    first = np.flatnonzero(np.diff(rows[level], prepend=-1))
    outer_level = min(level + 2, top)
    heads = order[np.flatnonzero(np.diff(outer, prepend=-1))]
    return Cells(
        level,
        order,
        np.append(first, size),
        [_name(topology, level, int(node), node_names) for node in order[first]],
        inner[first],
        outer[first],
        [_name(topology, outer_level, int(node), node_names) for node in heads],
        counts[outer_level] > 1,
    )


def _ranks(groups: IntArray) -> IntArray:
    """Return numbers of groups that stand together in the order in which they come."""
    ranks: IntArray = np.cumsum(np.diff(groups, prepend=groups[:1]) != 0)
    return ranks


def _name(topology: Topology, level: int, node: int, node_names: tuple[str, ...]) -> str:
    """Name the group of a node at a level."""
    if level == 0:
        return node_names[node] if node_names else f"node {node}"
    groups = topology.groups_of(np.array([node]))
    if level > len(groups):
        return "all nodes"
    number = int(groups[level - 1][0])
    if isinstance(topology, Tree):
        return topology.names[level - 1][number]
    kind = {1: "leaf", 2: "pod"}.get(level, f"level {level} group")
    return f"{kind} {number}"
