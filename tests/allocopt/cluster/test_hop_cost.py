"""Hop costs by counts equal hop costs pair by pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import cost_of, hop_matrix, pairwise_cost
from support.windows import fat_trees, trees, window, windows

from allocopt.cluster.topology import FatTree, HopFormula, hop_costs
from allocopt.problems.topology import Allocation, TopologyProblem


@given(windows(most_idle=12), st.data())
def test_a_cost_by_counts_is_the_cost_pair_by_pair(problem: TopologyProblem, data: st.DataObject) -> None:
    positions = data.draw(
        st.lists(st.lists(st.integers(0, len(problem.idle_nodes) - 1), min_size=1, unique=True), min_size=1, max_size=4)
    )
    hops = hop_matrix(problem)
    costs = hop_costs(problem.topology, problem.hop_cost, [problem.idle_nodes[sorted(chosen)] for chosen in positions])
    assert costs.tolist() == pytest.approx([pairwise_cost(problem, hops, chosen) for chosen in positions], rel=1e-12)


@given(windows(most_idle=10), st.randoms(use_true_random=False))
def test_the_objective_is_the_sum_of_the_jobs_pairwise_costs(problem: TopologyProblem, random: object) -> None:
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    jobs = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    owners[: len(jobs)] = jobs
    random.shuffle(owners)  # type: ignore[attr-defined]
    expected = cost_of(problem, tuple(owners.tolist()), hop_matrix(problem))
    assert problem.objective(Allocation.of_owners(problem, owners)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("nodes", "cost"),
    [([0], 0.0), ([0, 1], 2.0), ([0, 10], 4.0), ([0, 100], 6.0), ([0, 1, 10, 100], (2 * 2 + 4 * 4 + 6 * 6) / 4)],
)
def test_hops_of_two_four_six_give_the_papers_costs(nodes: list[int], cost: float) -> None:
    assert hop_costs(FatTree(10, 10, 10), 1000.0, [np.array(nodes)])[0] == pytest.approx(1000 * cost)


def test_the_order_of_the_nodes_of_a_job_is_of_no_account() -> None:
    tree = FatTree(2, 2, 3)
    rising, shuffled = np.array([0, 1, 4, 7, 11]), np.array([7, 0, 11, 4, 1])
    assert hop_costs(tree, 3.0, [rising]) == hop_costs(tree, 3.0, [shuffled])


@given(fat_trees | trees(), st.data())
def test_a_pair_that_counts_once_costs_half(topology: FatTree, data: st.DataObject) -> None:
    nodes = np.array(data.draw(st.lists(st.integers(0, topology.size - 1), min_size=1, unique=True)))
    formula = HopFormula.of(topology, 8.0)
    assert formula.scale == (8.0 if topology.pairs == "ordered" else 4.0)
    twice = hop_costs(topology, 16.0, [nodes])
    assert twice == pytest.approx(2 * hop_costs(topology, 8.0, [nodes]))


def test_a_job_of_one_node_costs_nothing() -> None:
    problem = window(FatTree(2, 2, 2, (5, 7, 9)), [0, 3, 7], [1, 1, 1])
    assert hop_costs(problem.topology, 1000.0, [np.array([node]) for node in (0, 3, 7)]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.slow
def test_the_largest_job_with_the_largest_hops_has_a_positive_cost() -> None:
    tree = FatTree(4_000_000, 1, 1, (0, 1, 1_000_000))
    cost = hop_costs(tree, 1.0, [np.arange(4_000_000)])[0]
    assert cost == pytest.approx(1e6 * (4_000_000 - 1))
