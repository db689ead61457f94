"""Costs of circular blocks that slide equal the costs of the blocks, each on its own."""

import numpy as np
import pytest
from hypothesis import given
from support.windows import paper_window, windows

from allocopt.cluster.topology import hop_costs
from allocopt.kernels.tree import circular_block_costs
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode


def sliding_costs(problem: TopologyProblem, sizes: np.ndarray) -> np.ndarray:
    e = encode(problem)
    return circular_block_costs(e, sizes)


def costs_on_their_own(problem: TopologyProblem, sizes: np.ndarray) -> np.ndarray:
    m = len(problem.idle_nodes)
    blocks = [problem.idle_nodes[(start + np.arange(size)) % m] for size in sizes.tolist() for start in range(m)]
    return hop_costs(problem.topology, problem.hop_cost, blocks).reshape(len(sizes), m)


@given(windows(most_idle=12))
def test_a_sliding_block_costs_what_its_nodes_cost(problem: TopologyProblem) -> None:
    sizes = np.arange(1, len(problem.idle_nodes) + 1)
    assert sliding_costs(problem, sizes) == pytest.approx(costs_on_their_own(problem, sizes), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_blocks_of_a_window_of_the_papers_size(seed: int) -> None:
    problem = paper_window(seed)
    sizes = np.unique(problem.sizes)
    assert sliding_costs(problem, sizes) == pytest.approx(costs_on_their_own(problem, sizes), rel=1e-9)


def test_a_block_of_all_positions_costs_the_same_from_every_start() -> None:
    problem = paper_window(0)
    costs = sliding_costs(problem, np.array([len(problem.idle_nodes)]))
    assert costs == pytest.approx(costs[0, 0])
