"""Obvious, slow twins of the search over non-crossing partitions: gaps and windows looked at one by one."""

from collections.abc import Sequence

from support.brute_force import hop_matrix, pairwise_cost

from allocopt.problems.topology import TopologyProblem


def windows_of(left: Sequence[int], size: int, barrier: int) -> list[list[int]]:
    """All windows of ``size`` positions of the circular sequence of those left over, without the barrier."""
    starts = range(len(left))
    windows = [[left[(start + k) % len(left)] for k in range(size)] for start in starts]
    return [window for window in windows if barrier not in window]


def least_cost(problem: TopologyProblem, left: Sequence[int], size: int, barrier: int) -> float:
    """Cost of the cheapest window."""
    hops = hop_matrix(problem)
    return min(pairwise_cost(problem, hops, window) for window in windows_of(left, size, barrier))


def _separates(owners: Sequence[int], wall: int, job: int, outside: int = -1) -> bool:
    """Whether all nodes of a job lie in gaps of another one that hold nothing of a third, or of the leftover."""
    if wall == outside:
        return False
    m = len(owners)
    start = owners.index(wall)
    gap, gap_of = 0, {}
    for k in range(m):
        position = (start + k) % m
        gap += owners[position] == wall
        gap_of.setdefault(owners[position], set()).add(gap)
    return not gap_of[job] & gap_of[outside]
