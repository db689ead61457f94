"""Blocks per distinct size, and their hand-out to the jobs of that size."""

import pytest
from hypothesis import given
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks


@given(windows(most_idle=12, most_jobs=6))
def test_sizes_are_distinct_and_counts_add_up_to_the_jobs(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    assert sorted(problem.sizes.tolist()) == [
        size for size, count in zip(blocks.sizes.tolist(), blocks.counts.tolist(), strict=True) for _ in range(count)
    ]
    assert blocks.costs.shape == (len(blocks.sizes), len(problem.idle_nodes))


def test_starts_go_to_the_jobs_of_their_size_in_order() -> None:
    problem = window(FatTree(1, 2, 5), range(10), [2, 3, 2])
    blocks = Blocks.of(problem)
    starts = blocks.starts_of_jobs(problem, [[7, 0], [3]])
    assert starts.tolist() == [0, 3, 7]
    expected = blocks.costs[0, 0] + blocks.costs[0, 7] + blocks.costs[1, 3]
    assert problem.objective(Allocation.of_blocks(problem, starts)) == pytest.approx(expected)
