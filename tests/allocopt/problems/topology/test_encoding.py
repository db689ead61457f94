"""The plain arrays of a problem, and the ways from positions back to nodes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import switches_above
from support.windows import window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import encode


@given(windows(most_idle=12))
def test_groups_are_those_of_the_idle_nodes_renumbered_without_holes(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    above = switches_above(problem.topology)
    assert encoding.n_idle == len(problem.idle_nodes)
    for level, groups in enumerate(encoding.groups):
        assert sorted(set(groups.tolist())) == list(range(int(encoding.n_groups[level])))
        named = [above[node][level] for node in problem.idle_nodes]
        pairs = set(zip(groups.tolist(), named, strict=True))
        assert len(pairs) == len(set(groups.tolist())) == len(set(named))


def test_numbers_of_kernels_are_floats_whatever_the_caller_gave() -> None:
    problem = replace(window(FatTree(2, 2, 2), range(8), [3]), hop_cost=7)
    encoding = encode(problem)
    assert all(type(value) is float for value in (encoding.bottom, encoding.top, encoding.scale))


@given(windows(most_idle=12))
def test_weights_are_the_hops_to_the_next_level(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    hops = problem.topology.hops
    assert encoding.bottom == hops[0]
    assert encoding.top == hops[-1]
    assert encoding.bottom + np.cumsum(encoding.weights) == pytest.approx(hops[1:])


def test_a_block_wraps_around_the_end_of_the_sequence() -> None:
    problem = window(FatTree(1, 2, 5), [1, 3, 4, 8], [2, 2])
    allocation = Allocation.of_blocks(problem, np.array([3, 1]))
    assert [nodes.tolist() for nodes in allocation.nodes] == [[1, 8], [3, 4]]


def test_positions_become_sorted_nodes() -> None:
    problem = window(FatTree(1, 2, 5), [1, 3, 4, 8], [2, 2])
    allocation = Allocation.at(problem, [np.array([2, 0]), np.array([7, 5])])
    assert [nodes.tolist() for nodes in allocation.nodes] == [[1, 4], [3, 8]]


@given(windows(most_idle=12, most_jobs=5))
def test_owners_become_an_allocation_and_owners_again(problem: TopologyProblem) -> None:
    rng = np.random.default_rng(len(problem.idle_nodes))
    owners = np.full(len(problem.idle_nodes), -1, dtype=np.int64)
    jobs = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    owners[: len(jobs)] = jobs
    owners = rng.permutation(owners)
    allocation = Allocation.of_owners(problem, owners)
    assert [len(nodes) for nodes in allocation.nodes] == problem.sizes.tolist()
    assert all((np.diff(nodes) > 0).all() for nodes in allocation.nodes)
    assert allocation.owners(problem).tolist() == owners.tolist()
