"""`lns` keeps to the rules of jobs, never gets worse, and counts what it saves right."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.side import ruled_optimum, ruled_windows
from support.windows import paper_window

from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.placement import Placement, Preference, Segments
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status
from allocopt.solving.verify import verify_result
from heuristics.topology.greedy import Greedy
from heuristics.topology.lns.kernels import search_ruled_neighbourhoods
from heuristics.topology.lns.solver import Lns
from heuristics.topology.lns.state import Window, parts_of


def solved(problem: TopologyProblem, steps: int = 300, seed: int = 0) -> Result:
    result = Lns().solve(problem, Budget(iterations=steps), seed)
    verify_result(problem, result)
    return result


@given(ruled_windows(most_idle=9, most_jobs=4), st.integers(0, 3))
def test_the_optimum_lies_between_its_bound_and_its_cost(problem: TopologyProblem, seed: int) -> None:
    result = solved(problem, seed=seed)
    best = ruled_optimum(problem)
    if best is None:
        assert result.status in (Status.INFEASIBLE, Status.UNKNOWN)
        return
    assert result.status is not Status.INFEASIBLE
    assert result.bound is None or result.bound <= best * (1 + 1e-9) + 1e-9
    if result.objective is not None:
        assert result.objective >= best * (1 - 1e-9) - 1e-9


@given(ruled_windows(most_idle=10, most_jobs=4), st.integers(1, 200), st.integers(0, 99))
def test_the_saving_it_counts_is_that_of_its_allocation(problem: TopologyProblem, steps: int, seed: int) -> None:
    begin = Greedy().solve(problem, Budget(), 0).solution
    if begin is None:
        return
    start, solver = Window.of(problem), Lns()
    moves = solver.moves(len(problem.jobs))
    state = start.begin(begin, start.alone(), solver.most_removed, moves, seed)
    rules = start.rules(begin, state)
    search_ruled_neighbourhoods(state, moves, rules, 1.0, 0.99, steps)
    _, _, search = parts_of(state)
    for holdings, saving in zip((search.present, search.best), search.savings.tolist(), strict=True):
        allocation = start.allocation_of(holdings)
        assert problem.objective(allocation) == pytest.approx(start.cost(saving), rel=1e-9, abs=1e-6)
    assert search.savings[1] >= search.savings[0] - 1e-9


def paper_with_rules(seed: int) -> TopologyProblem:
    problem = paper_window(seed)
    rules = [Placement(prefer=Preference("pod", 4000.0)), None, Placement()]
    jobs = [Job(job.id, job.nodes, rules[index % 3]) for index, job in enumerate(problem.jobs)]
    if jobs[1].nodes % 2 == 0:
        jobs[1] = replace(jobs[1], placement=Placement(segments=Segments(2, "leaf")))
    return replace(problem, jobs=tuple(jobs), fragmentation_weight=0.3)


@pytest.mark.parametrize("seed", range(6))
def test_on_windows_of_the_paper_it_improves_on_greedy(seed: int) -> None:
    problem = paper_with_rules(seed)
    begin, result = Greedy().solve(problem, Budget(), 0), solved(problem, steps=2000)
    assert begin.objective is not None
    assert result.objective is not None
    assert result.objective <= begin.objective
    assert solved(problem, steps=2000).solution.as_dict(problem) == result.solution.as_dict(problem)


def test_some_windows_of_the_paper_get_better_than_greedy() -> None:
    better = 0
    for seed in range(6):
        problem = paper_with_rules(seed)
        begin, result = Greedy().solve(problem, Budget(), 0).objective, solved(problem, steps=2000).objective
        assert begin is not None
        assert result is not None
        better += result < 0.999 * begin
    assert better >= 3


def test_a_warm_start_is_never_made_worse() -> None:
    problem = paper_with_rules(1)
    first = solved(problem, steps=3000)
    again = Lns().solve(problem, Budget(iterations=10), 5, first.solution)
    assert again.objective is not None
    assert first.objective is not None
    assert again.objective <= first.objective
