"""Greedy inserts exactly, largest first; its bound holds, with rules or without, wherever it is cut off."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import single_job_costs
from support.clocks import LooksBudget
from support.results import solved_by
from support.side import ruled_optimum, ruled_windows
from support.windows import paper_window, windows

from allocopt.heuristics.topology import greedy
from allocopt.heuristics.topology.greedy import Greedy
from allocopt.heuristics.topology.lns.solver import Lns
from allocopt.heuristics.topology.production_rules import BestFit
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status, StopReason
from allocopt.solving.verify import verify_result

solved = partial(solved_by, Greedy())


@given(windows(most_idle=10, most_jobs=1))
def test_a_job_that_is_alone_is_placed_and_proved_optimal(problem: TopologyProblem) -> None:
    result = solved(problem)
    best = single_job_costs(problem, problem.jobs[0].nodes)[1].min()
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("looks", range(7))
@pytest.mark.parametrize("solver", [Greedy(), BestFit()])
def test_cut_off_between_two_jobs_the_rest_gets_the_first_idle_nodes(
    solver: Greedy | BestFit, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "SLICE", 1)
    problem, is_greedy = paper_window(3), isinstance(solver, Greedy)
    whole, cut = (solver.solve(problem, budget, 0) for budget in (Budget(), LooksBudget(looks=looks)))
    verify_result(problem, cut)
    n_jobs = len(problem.jobs)
    assert n_jobs == 5
    assert cut.bound == whole.bound
    assert cut.stopped_by is (StopReason.TIME_LIMIT if looks < n_jobs else StopReason.COMPLETED)
    # Greedy takes the largest job first, best fit the jobs as they come.
    order = sorted(range(n_jobs), key=lambda job: -problem.sizes[job]) if is_greedy else range(n_jobs)
    left = set(problem.idle_nodes.tolist())
    for index, job in enumerate(order):
        size = int(problem.sizes[job])
        expected = whole.solution.nodes[job].tolist() if index < looks else sorted(left)[:size]
        assert cut.solution.nodes[job].tolist() == expected
        left -= set(expected)


@pytest.mark.parametrize(("solver", "budget"), [(Greedy(), Budget()), (Lns(), Budget(iterations=300))])
@given(problem=ruled_windows(most_idle=9, most_jobs=4), seed=st.integers(0, 3))
def test_under_rules_the_optimum_lies_between_the_bound_and_the_cost(
    solver: Greedy | Lns, budget: Budget, problem: TopologyProblem, seed: int
) -> None:
    result = solved_by(solver, problem, budget, seed)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.status is not Status.INFEASIBLE
    assert isinstance(solver, Lns) or result.bound is not None
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9
    assert result.status is not Status.UNKNOWN or result.objective is None
    if result.objective is not None:
        assert result.objective >= best * (1 - 1e-9) - 1e-9


@given(ruled_windows(most_jobs=1))
def test_under_rules_a_job_that_is_alone_gets_the_best_nodes_that_its_rules_allow(problem: TopologyProblem) -> None:
    result = Greedy().solve(problem, Budget(), 0)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status is Status.INFEASIBLE
    else:
        assert result.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
