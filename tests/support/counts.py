"""Obvious, slow twins on counts: jobs take numbers of nodes of every leaf."""

import itertools
from collections.abc import Iterator

import numpy as np

from allocopt.arrays import Encoding, IntArray
from allocopt.kernels.tree import GroupTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode

Pattern = tuple[int, ...]
"""Nodes of each leaf that a job takes."""


def leaf_groups(encoding: Encoding) -> tuple[IntArray, list[IntArray]]:
    """Idle nodes of each leaf, and the group of each leaf at each level below the top; one leaf if there is none."""
    groups = encoding.groups
    if len(groups) == 0:
        return np.array([encoding.n_idle]), []
    _, first = np.unique(groups[0], return_index=True)
    return np.bincount(groups[0]), [level[first] for level in groups]


def patterns(idle: IntArray, size: int) -> Iterator[Pattern]:
    """All patterns of a job of a size."""
    ranges = [range(min(int(nodes), size) + 1) for nodes in idle]
    return (pattern for pattern in itertools.product(*ranges) if sum(pattern) == size)


def saving(encoding: Encoding, pattern: Pattern) -> float:
    """Return what a pattern saves of the hops of its job: the weighted squares over the size."""
    _, groups = leaf_groups(encoding)
    squares = sum(
        weight * (np.bincount(level, pattern) ** 2).sum()
        for weight, level in zip(encoding.weights, groups, strict=True)
    )
    return float(squares) / sum(pattern)


def counts_of_vertices(tree: GroupTree, pattern: Pattern) -> IntArray:
    """Nodes of each vertex of a tree that a pattern takes, shape ``(V,)``."""
    counts = list(pattern)
    for vertex in range(len(pattern), len(tree.idle)):
        children = tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]
        counts.append(sum(counts[child] for child in children))
    return np.array(counts)


def largest_saving(problem: TopologyProblem) -> float:
    """Most hops that any disjoint node sets save, by looking at all patterns of all jobs."""
    encoding = encode(problem)
    idle, _ = leaf_groups(encoding)
    sizes = problem.sizes.tolist()
    every = {size: [(pattern, saving(encoding, pattern)) for pattern in patterns(idle, size)] for size in set(sizes)}
    known: dict[tuple[int, Pattern], float] = {}

    def most(job: int, left: Pattern) -> float:
        if job == len(sizes):
            return 0.0
        if (job, left) not in known:
            known[job, left] = max(
                saved + most(job + 1, tuple(nodes - taken for nodes, taken in zip(left, pattern, strict=True)))
                for pattern, saved in every[sizes[job]]
                if all(taken <= nodes for taken, nodes in zip(pattern, left, strict=True))
            )
        return known[job, left]

    return most(0, tuple(idle.tolist()))


def optimum_by_counts(problem: TopologyProblem) -> float:
    """Least total hop cost of any disjoint node sets."""
    encoding = encode(problem)
    hops = float((encoding.top * problem.sizes - encoding.bottom).sum())
    return encoding.scale * (hops - largest_saving(problem))
