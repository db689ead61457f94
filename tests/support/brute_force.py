"""Obvious, slow twins: hop costs pair by pair from the definition of a tree, and optima by enumeration."""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem

Owners = tuple[int, ...]
"""Job index, or -1, of every idle position."""


def switches_above(topology: Topology) -> list[list[object]]:
    """Switches above every node, from the leaf switch up, the top left out."""
    if isinstance(topology, FatTree):
        per_pod = topology.leaves_per_pod * topology.nodes_per_leaf
        return [[node // topology.nodes_per_leaf, node // per_pod] for node in range(topology.size)]
    assert isinstance(topology, Tree)
    levels = topology.to_levels()[: len(topology.hops) - 1]
    above: list[list[object]] = []
    for node in range(topology.size):
        path: list[object] = [node]
        for level in levels:
            path.append(next(name for name, members in level.items() if path[-1] in members))
        above.append(path[1:])
    return above


def hop_matrix(problem: TopologyProblem) -> IntArray:
    """Hops between every two idle nodes, 0 on the diagonal: those of their lowest common switch, shape ``(m, m)``."""
    topology = problem.topology
    above = switches_above(topology)
    m = len(problem.idle_nodes)
    hops = np.zeros((m, m), dtype=np.int64)
    for a, b in itertools.permutations(range(m), 2):
        shared = [x == y for x, y in zip(above[problem.idle_nodes[a]], above[problem.idle_nodes[b]], strict=True)]
        hops[a, b] = topology.hops[shared.index(True) if True in shared else -1]
    return hops


def pairwise_cost(problem: TopologyProblem, hops: IntArray, positions: Sequence[int]) -> float:
    """Hop cost of a job on some idle positions: the mean over its nodes of the hops to the job's other nodes."""
    total = int(hops[np.ix_(positions, positions)].sum())
    if problem.topology.pairs == "unordered":
        total //= 2
    return problem.hop_cost * total / len(positions)


def cost_of(problem: TopologyProblem, owners: Owners, hops: IntArray) -> float:
    """Total hop cost of an allocation, pair by pair."""
    return sum(
        pairwise_cost(problem, hops, [position for position, owner in enumerate(owners) if owner == job])
        for job in range(len(problem.jobs))
    )


def scas_allocations(problem: TopologyProblem) -> set[Owners]:
    """All allocations in which every job has a block of the static circular sequence."""
    m = len(problem.idle_nodes)
    partial = {(-1,) * m}
    for job, size in enumerate(problem.sizes.tolist()):
        blocks = [[(start + k) % m for k in range(size)] for start in range(m)]
        partial = set(_extended(partial, job, blocks))
    return partial


def dcas_allocations(problem: TopologyProblem) -> set[Owners]:
    """All allocations that placing the jobs in some order can reach, each contiguous in the sequence that is left."""
    partial = {(-1,) * len(problem.idle_nodes)}
    for _ in problem.jobs:
        placed: set[Owners] = set()
        for owners in partial:
            left = [position for position, owner in enumerate(owners) if owner < 0]
            for job in set(range(len(problem.jobs))) - set(owners):
                size = problem.jobs[job].nodes
                blocks = [[left[(start + k) % len(left)] for k in range(size)] for start in range(len(left))]
                placed.update(_extended({owners}, job, blocks))
        partial = placed
    return partial


def free_allocations(problem: TopologyProblem) -> set[Owners]:
    """All allocations of disjoint node sets of the right sizes."""
    m = len(problem.idle_nodes)
    partial = {(-1,) * m}
    for job, size in enumerate(problem.sizes.tolist()):
        partial = set(_extended(partial, job, list(itertools.combinations(range(m), size))))
    return partial


def allocations(problem: TopologyProblem) -> set[Owners]:
    """All allocations that the problem's strategy allows."""
    enumerate_all = {
        Strategy.SCAS: scas_allocations,
        Strategy.DCAS: dcas_allocations,
        Strategy.FREE: free_allocations,
    }
    return enumerate_all[problem.strategy](problem)


def optimum(problem: TopologyProblem) -> float:
    """Least total hop cost under the problem's strategy, by looking at every allocation."""
    hops = hop_matrix(problem)
    known: dict[tuple[int, ...], float] = {}

    def cost(owners: Owners, job: int) -> float:
        positions = tuple(position for position, owner in enumerate(owners) if owner == job)
        if positions not in known:
            known[positions] = pairwise_cost(problem, hops, positions)
        return known[positions]

    return min(sum(cost(owners, job) for job in range(len(problem.jobs))) for owners in allocations(problem))


def single_job_costs(problem: TopologyProblem, size: int) -> tuple[list[tuple[int, ...]], FloatArray]:
    """All sets of ``size`` idle positions, and the cost of a job that gets each."""
    hops = hop_matrix(problem)
    sets = list(itertools.combinations(range(len(problem.idle_nodes)), size))
    return sets, np.array([pairwise_cost(problem, hops, positions) for positions in sets])


def _extended(partial: set[Owners], job: int, sets: Sequence[Sequence[int]]) -> Iterator[Owners]:
    """Give the job each of the sets of positions that is still idle."""
    for owners in partial:
        for positions in sets:
            if all(owners[position] < 0 for position in positions):
                extended = list(owners)
                for position in positions:
                    extended[position] = job
                yield tuple(extended)
