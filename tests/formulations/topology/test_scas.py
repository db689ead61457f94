"""The dynamic program proves the SCAS optimum, refuses what is too large, and is valid wherever it is cut off."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.oracle import ROUNDING, OracleWindow
from support.results import assert_proved
from support.windows import fat_trees, paper_window, resequenced, trees, window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result
from formulations.topology import dynamic_program
from formulations.topology.dynamic_program import LARGEST_TABLE, DynamicProgram

SCAS = Strategy.SCAS


def solved(problem: TopologyProblem, budget: Budget = Budget()) -> Result:  # noqa: B008 (immutable)
    result = DynamicProgram().solve(problem, budget, 0)
    verify_result(problem, result)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
@given(st.data())
def test_the_optimum_of_brute_force_is_proved_on_trees_of_every_depth(levels: int, data: st.DataObject) -> None:
    problem = data.draw(windows(most_idle=9, most_jobs=4, strategy=SCAS, topologies=trees(levels=levels)))
    assert_proved(solved(problem), optimum(problem))


@given(windows(most_idle=9, most_jobs=4, strategy=SCAS, topologies=fat_trees))
def test_the_optimum_of_brute_force_is_proved_on_fat_trees(problem: TopologyProblem) -> None:
    assert_proved(solved(problem), optimum(problem))


@pytest.mark.parametrize(
    ("sizes", "idle"),
    [([10], 10), ([1] * 7, 7), ([5, 5], 10), ([4, 4, 2], 10), ([2] * 5, 10), ([1], 1), ([1, 1, 3, 3], 10)],
)
def test_full_windows_and_equal_jobs_are_solved(sizes: list[int], idle: int) -> None:
    problem = window(FatTree(2, 2, 4), range(3, 3 + idle), sizes, strategy=SCAS)
    assert_proved(solved(problem), optimum(problem))


def test_a_job_that_wraps_around_the_end_of_the_sequence_is_found() -> None:
    tree = Tree.from_levels([{"a": [0, 1, 5], "b": [2], "c": [3, 4]}])
    result = solved(window(tree, range(6), [3, 2], strategy=SCAS))
    assert [nodes.tolist() for nodes in result.solution.nodes] == [[0, 1, 5], [3, 4]]
    assert_proved(result, 1000 * (2 * (3 - 1) + 2 * (2 - 1)))


def test_all_proven_optima_are_reached_and_proved(oracle_windows: list[OracleWindow]) -> None:
    assert len(oracle_windows) == 36
    for case in oracle_windows:
        result = solved(case.problem.with_strategy(SCAS))
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(case.optimum[SCAS], rel=0, abs=ROUNDING)
        assert result.bound == result.objective


@pytest.mark.parametrize("looks", range(12))
def test_wherever_it_is_cut_off_allocation_and_bound_are_valid(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_program, "SLICE", 400)
    problem = paper_window(3, SCAS)
    best = solved(problem).objective
    result = solved(problem, LooksBudget(looks=looks))
    assert best is not None
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= best * (1 + 1e-12) <= result.objective * (1 + 2e-12)
    assert result.stopped_by is (StopReason.PROVED if result.status is Status.OPTIMAL else StopReason.TIME_LIMIT)


def test_cut_off_before_anything_it_has_the_sequential_allocation_and_a_bound() -> None:
    problem = paper_window(3, SCAS)
    result = solved(problem, Budget(1e-9))
    assert result.status is Status.FEASIBLE
    assert result.stopped_by is StopReason.TIME_LIMIT
    assert verify(problem, result.solution) == result.objective
    best = solved(problem).objective
    assert best is not None
    assert result.bound is not None
    assert result.bound <= best


@given(windows(most_idle=9, most_jobs=4, strategy=SCAS), st.integers(0, 30))
def test_cut_off_anywhere_the_bound_never_passes_the_optimum(problem: TopologyProblem, looks: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dynamic_program, "SLICE", 1)
        result = solved(problem, LooksBudget(looks=looks))
    assert result.bound is not None
    assert result.bound <= optimum(problem) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_cut_off_between_two_straddling_cases_the_bound_never_passes_the_optimum(seed: int) -> None:
    problem = paper_window(seed, SCAS)
    best = solved(problem).objective
    assert best is not None
    m = len(problem.idle_nodes)
    for shift in range(3, m, 12):
        turned = resequenced(problem, np.roll(np.arange(m), shift))
        for looks in range(1, 6):
            result = solved(turned, LooksBudget(looks=looks))
            assert result.bound is not None
            assert result.bound <= best * (1 + 1e-9)


def test_slices_of_the_tables_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(1, SCAS)
    whole = solved(problem)
    monkeypatch.setattr(dynamic_program, "SLICE", 1)
    sliced = solved(problem)
    assert whole.solution.as_dict(problem) == sliced.solution.as_dict(problem)


def test_a_warm_start_at_the_optimum_is_proved() -> None:
    problem = paper_window(2, SCAS)
    first = solved(problem)
    again = DynamicProgram().solve(problem, Budget(), 0, first.solution)
    assert_proved(again, first.objective or 0.0)


def test_beyond_the_stated_table_size_it_says_so_at_once() -> None:
    sizes = list(range(1, 17))
    problem = window(FatTree(10, 10, 10), range(200), sizes, strategy=SCAS)
    assert 201 * 2**16 > LARGEST_TABLE
    refusal = DynamicProgram().refusal(problem)
    assert refusal is not None
    assert "1.32e+07" in refusal
    assert f"{LARGEST_TABLE:,}" in refusal
    with pytest.raises(UsageError, match=r"window.*tables would have"):
        solve(problem, solver="dp")


def test_the_stated_table_size_itself_is_taken() -> None:
    sizes = list(range(1, 16))
    problem = window(FatTree(10, 10, 10), range(LARGEST_TABLE // 2**15 - 1), sizes, strategy=SCAS)
    assert DynamicProgram().refusal(problem) is None
    wider = window(FatTree(10, 10, 10), range(LARGEST_TABLE // 2**15), sizes, strategy=SCAS)
    assert DynamicProgram().refusal(wider) is not None


@pytest.mark.parametrize("jobs", [1000, 1100])
def test_a_window_of_very_many_sizes_is_refused_and_not_miscounted(jobs: int) -> None:
    sizes = np.arange(1, jobs + 1)
    problem = window(FatTree(1000, 10, 100), np.arange(sizes.sum()), sizes.tolist(), strategy=SCAS)
    assert "entries" in (DynamicProgram().refusal(problem) or "")


@given(windows(most_idle=9, most_jobs=4, strategy=SCAS))
def test_the_trajectory_only_improves(problem: TopologyProblem) -> None:
    objectives = [incumbent.objective for incumbent in solved(problem).incumbents]
    assert objectives == sorted(set(objectives), reverse=True)
