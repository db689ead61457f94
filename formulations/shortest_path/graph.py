"""The graph G of the NSA paper (section IV-B), times the multiset of job sizes that a path has used.

The paper's vertices are the idle nodes, its operation arcs lead from node i to node i + r - 1, so that one operation
could begin at the very node where another ends, and that of a one-node job is a loop. Here the vertices are the gaps
before, between and behind the nodes: transition arcs i -> i + 1 pass over a node, operation arcs i -> i + r give the
r nodes between to a job. Passing through e_r operation arcs of E_r becomes a plain shortest path in the product of G
with the numbers of jobs placed so far.
"""

import itertools
from collections.abc import Iterator

import networkx as nx

from allocopt.problems.blocks import Blocks

Used = tuple[int, ...]
"""How many jobs of each distinct size a path has placed."""

State = tuple[int, Used]
"""A vertex of the product: a gap, and what was used on the way to it."""

Arc = tuple[State, State, float]


def product_graph(blocks: Blocks) -> "nx.DiGraph[State]":
    """Build the product of G, without its backward arcs, and the multisets of sizes.

    Parameters
    ----------
    blocks
        Sizes, numbers of jobs and costs.
    """
    graph: nx.DiGraph[State] = nx.DiGraph()
    graph.add_weighted_edges_from(_arcs(blocks))
    return graph


def number_of_arcs(counts: list[int], n_idle: int) -> int:
    """Arcs of the product, at most: one transition and one operation per size from every vertex."""
    vertices = n_idle + 1
    for count in counts:
        vertices *= count + 1
    return vertices * (len(counts) + 1)


def _arcs(blocks: Blocks) -> Iterator[Arc]:
    """Yield transition arcs of weight 0, and operation arcs that weigh what their block costs."""
    n_idle = blocks.costs.shape[1]
    counts, costs = blocks.counts.tolist(), blocks.costs.tolist()
    for used in itertools.product(*(range(count + 1) for count in counts)):
        yield from (((gap, used), (gap + 1, used), 0.0) for gap in range(n_idle))
        for r, size in enumerate(blocks.sizes.tolist()):
            if used[r] < counts[r]:
                more = one_more(used, r)
                yield from (((gap, used), (gap + size, more), costs[r][gap]) for gap in range(n_idle - size + 1))


def one_more(used: Used, r: int) -> Used:
    """Multiset with one more job of size index r."""
    return (*used[:r], used[r] + 1, *used[r + 1 :])


def one_less(used: Used, r: int) -> Used:
    """Multiset with one job of size index r less."""
    return (*used[:r], used[r] - 1, *used[r + 1 :])


def starts_on(path: list[State]) -> list[list[int]]:
    """Gaps at which the operations of a path begin, per size index."""
    starts: list[list[int]] = [[] for _ in path[0][1]]
    for (gap, before), (_, after) in itertools.pairwise(path):
        if before != after:
            r = next(index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
            starts[r].append(gap)
    return starts
