import pytest
from support.brute_force import optimum
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status
from allocopt.solving.solve import solve
from formulations.topology.shortest_path import ConstrainedShortestPath

CSP = ConstrainedShortestPath()


def test_a_block_across_the_cut_is_found_although_the_paper_leaves_it_out() -> None:
    # Leaves of 4 nodes; the two idle nodes of leaf 0 are at both ends of the sequence only around the circle.
    problem = window(FatTree(1, 1, 12), [0, 11, 5], [2], strategy=Strategy.SCAS)
    assert CSP.solve(problem, Budget(), 0).status is Status.OPTIMAL
    split = window(FatTree(3, 1, 4), [1, 4, 5, 8, 9, 2], [2, 2, 2], strategy=Strategy.SCAS)
    assert CSP.solve(split, Budget(), 0).objective == optimum(split)


def test_a_window_beyond_the_largest_size_is_refused_at_once() -> None:
    problem = window(FatTree(10, 10, 10), range(1000), list(range(2, 40)), strategy=Strategy.SCAS)
    with pytest.raises(UsageError, match="arcs, the largest taken has 100,000"):
        solve(problem, solver=CSP)
