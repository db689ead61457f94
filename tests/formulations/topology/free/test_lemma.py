"""The lemma of docs/free.md: in every optimal allocation jobs, leftover and leaves make a forest."""

from collections.abc import Iterator

import networkx as nx
import numpy as np
from hypothesis import given
from support.counts import Pattern, largest_saving, leaf_groups, patterns, saving
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode

ROUNDING = 1e-9


def allocations(left: Pattern, sizes: tuple[int, ...]) -> Iterator[tuple[Pattern, ...]]:
    """All ways to give the jobs nodes of the leaves; the last pattern is the leftover's."""
    if not sizes:
        yield (left,)
        return
    for pattern in patterns(np.array(left), sizes[0]):
        rest = tuple(nodes - taken for nodes, taken in zip(left, pattern, strict=True))
        yield from ((pattern, *others) for others in allocations(rest, sizes[1:]))


def optima(problem: TopologyProblem) -> Iterator[tuple[Pattern, ...]]:
    """All optimal ways."""
    encoding = encode(problem)
    idle = tuple(leaf_groups(encoding)[0].tolist())
    most = largest_saving(problem)
    for allocation in allocations(idle, tuple(problem.sizes.tolist())):
        if sum(saving(encoding, pattern) for pattern in allocation[:-1]) > most - ROUNDING * max(1.0, most):
            yield allocation


def is_forest(allocation: tuple[Pattern, ...]) -> bool:
    """Whether joining blocks to the leaves of which they have nodes leaves no cycle."""
    graph = nx.Graph()
    for block, pattern in enumerate(allocation):
        graph.add_edges_from((("block", block), ("leaf", leaf)) for leaf, nodes in enumerate(pattern) if nodes)
    return len(graph) == 0 or nx.is_forest(graph)


@given(windows())
def test_every_optimal_allocation_is_a_forest(problem: TopologyProblem) -> None:
    found = list(optima(problem))
    assert found
    assert all(is_forest(allocation) for allocation in found)


def test_an_allocation_with_a_cycle_is_no_forest_and_not_optimal() -> None:
    problem = window(FatTree(1, 2, 4), range(8), [4, 4])
    mixed = ((2, 2), (2, 2), (0, 0))
    assert not is_forest(mixed)
    assert list(optima(problem)) == [((0, 4), (4, 0), (0, 0)), ((4, 0), (0, 4), (0, 0))]
