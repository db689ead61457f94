import pytest
from hypothesis import given
from support.brute_force import optimum
from support.oracle import ROUNDING, OracleWindow
from support.windows import paper_window, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from allocopt.solving.registry import get_solver
from allocopt.solving.result import Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from formulations.topology.shortest_path import ConstrainedShortestPath, number_of_arcs, product_graph

CSP = ConstrainedShortestPath()


@given(problem=windows(strategy=Strategy.SCAS))
def test_brute_force_agrees(problem: TopologyProblem) -> None:
    result = CSP.solve(problem, Budget(), seed=0)
    verify_result(problem, result)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(optimum(problem), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_the_oracle_s_optima_are_reached_and_proved(oracle_windows: list[OracleWindow]) -> None:
    small = [oracle for oracle in oracle_windows if len(oracle.problem.jobs) <= 4]
    assert len(small) >= 10
    for oracle in small:
        problem = oracle.problem.with_strategy("scas")
        result = CSP.solve(problem, Budget(), seed=0)
        verify_result(problem, result)
        assert result.status is Status.OPTIMAL
        assert abs(result.objective - oracle.optimum[Strategy.SCAS]) <= ROUNDING


def test_a_block_across_the_cut_is_found_although_the_paper_leaves_it_out() -> None:
    # Leaves of 4 nodes; the two idle nodes of leaf 0 are at both ends of the sequence only around the circle.
    problem = window(FatTree(1, 1, 12), [0, 11, 5], [2], strategy=Strategy.SCAS)
    assert CSP.solve(problem, Budget(), 0).status is Status.OPTIMAL
    split = window(FatTree(3, 1, 4), [1, 4, 5, 8, 9, 2], [2, 2, 2], strategy=Strategy.SCAS)
    assert CSP.solve(split, Budget(), 0).objective == optimum(split)


def test_the_graph_has_the_arcs_that_it_is_said_to_have() -> None:
    problem = window(FatTree(1, 2, 4), range(6), [2, 2, 1], strategy=Strategy.SCAS)
    graph = product_graph(Blocks.of(problem))
    # Six multisets with 6 transitions each; operations of size 1 from 3 multisets at 6 gaps, of size 2 from 4 at 5.
    assert graph.number_of_edges() == 6 * 6 + 3 * 6 + 4 * 5
    assert graph.number_of_edges() <= number_of_arcs([1, 2], 6)


def test_a_stop_before_all_cases_keeps_a_bound_and_claims_no_proof() -> None:
    problem = paper_window(5, Strategy.SCAS)
    by_iterations = CSP.solve(problem, Budget(iterations=1), 0)
    by_time = CSP.solve(problem, Budget(1e-6), 0)
    exact = CSP.solve(problem, Budget(), 0)
    assert by_iterations.stopped_by in (StopReason.ITERATIONS, StopReason.PROVED)
    assert by_time.stopped_by is StopReason.TIME_LIMIT
    for result in (by_iterations, by_time):
        verify_result(problem, result)
        assert result.bound is not None
        assert result.bound <= exact.objective <= result.objective


def test_a_window_beyond_the_largest_size_is_refused_at_once() -> None:
    problem = window(FatTree(10, 10, 10), range(1000), list(range(2, 40)), strategy=Strategy.SCAS)
    with pytest.raises(UsageError, match="arcs, the largest taken has 100,000"):
        solve(problem, solver=CSP)


def test_the_solver_is_found_by_name() -> None:
    solver = get_solver("csp")
    assert solver.name == "csp"
    assert "networkx" in solver.version
