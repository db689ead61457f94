"""The solver proves small and large windows, has a bound and a packing for all, and is valid wherever it is cut off."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.oracle import ROUNDING, OracleWindow
from support.results import assert_proved
from support.windows import fat_trees, paper_window, resequenced, trees, window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Tree
from allocopt.problems.base import Strategy
from allocopt.problems.instances import read_problems
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.verify import verify, verify_result
from formulations.topology.dynamic_program import DynamicProgram
from formulations.topology.lagrangian import solver as module
from formulations.topology.lagrangian.solver import LARGEST_BLOCKS, Lagrangian

SCAS = Strategy.SCAS
SOLVER = Lagrangian()
"""One for all tests, so that they share its child process."""

RELATIVE = 1e-6
"""Distance of an objective from the expected one that counts as none."""

LARGE = Path(__file__).parents[4] / "instances"


def solved(problem: TopologyProblem, budget: Budget = Budget(), seed: int = 0) -> Result:  # noqa: B008 (immutable)
    result = SOLVER.solve(problem, budget, seed)
    verify_result(problem, result)
    return result


@given(windows(most_idle=9, most_jobs=4, strategy=SCAS, topologies=fat_trees | trees()))
def test_the_optimum_of_brute_force_is_proved(problem: TopologyProblem) -> None:
    assert_proved(solved(problem), optimum(problem), RELATIVE)


@pytest.mark.parametrize(
    ("sizes", "idle"),
    [([10], 10), ([1] * 7, 7), ([5, 5], 10), ([4, 4, 2], 10), ([2] * 5, 10), ([1], 1), ([1, 1, 3, 3], 10), ([4], 10)],
)
def test_full_windows_and_equal_jobs_are_solved(sizes: list[int], idle: int) -> None:
    problem = window(FatTree(2, 2, 4), range(3, 3 + idle), sizes, strategy=SCAS)
    assert_proved(solved(problem), optimum(problem), RELATIVE)


def test_a_job_that_wraps_around_the_end_of_the_sequence_is_found() -> None:
    tree = Tree.from_levels([{"a": [0, 1, 5], "b": [2], "c": [3, 4]}])
    result = solved(window(tree, range(6), [3, 2], strategy=SCAS))
    assert [nodes.tolist() for nodes in result.solution.nodes] == [[0, 1, 5], [3, 4]]
    assert_proved(result, 1000 * (2 * (3 - 1) + 2 * (2 - 1)), RELATIVE)


@pytest.mark.parametrize("seed", range(4))
def test_wherever_the_circle_is_cut_the_optimum_is_the_same(seed: int) -> None:
    problem = paper_window(seed, SCAS)
    best = DynamicProgram().solve(problem, Budget(), 0).objective
    assert best is not None
    m = len(problem.idle_nodes)
    for shift in range(0, m, 9):
        assert_proved(solved(resequenced(problem, np.roll(np.arange(m), shift))), best, RELATIVE)


def test_all_proven_optima_are_reached_and_proved(oracle_windows: list[OracleWindow]) -> None:
    for case in oracle_windows:
        result = solved(case.problem.with_strategy(SCAS))
        assert result.status is Status.OPTIMAL
        assert result.objective == pytest.approx(case.optimum[SCAS], rel=1e-6, abs=ROUNDING)


def random_window(seed: int, idle: int, load: float, largest: int, topology: FatTree) -> TopologyProblem:
    """Idle nodes in runs, and jobs of 2 nodes or more that ask for a share of them."""
    rng = np.random.default_rng(seed)
    nodes: set[int] = set()
    while len(nodes) < idle:
        first = int(rng.integers(topology.size))
        nodes.update(range(first, min(topology.size, first + int(rng.geometric(0.1)))))
    wanted = int(load * idle)
    sizes: list[int] = []
    while sum(sizes) < wanted:
        sizes.append(min(int(rng.integers(2, largest)), wanted - sum(sizes)))
    idle_nodes: IntArray = np.array(sorted(nodes)[:idle])
    return window(topology, idle_nodes, sizes, strategy=SCAS)


@pytest.mark.slow
@pytest.mark.parametrize("load", [1.0, 0.97, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_large_window_has_a_near_packing_before_any_program(
    seed: int, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_NONZEROS", -1)
    result = solved(random_window(seed, 1000, load, 40, FatTree(10, 16, 25)))
    assert result.gap is not None
    assert result.gap < 0.015
    assert result.stopped_by in (StopReason.COMPLETED, StopReason.PROVED)


@pytest.mark.slow
def test_l1_is_proved_optimal() -> None:
    assert_proved(solved(read_problems(LARGE / "L1.json.gz")[0].with_strategy(SCAS)), 2246918.0529387025, RELATIVE)


@pytest.mark.slow
def test_l2_comes_near_its_bound_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROUNDS", 1)
    monkeypatch.setattr(module, "LARGEST_NONZEROS", -1)
    result = solved(read_problems(LARGE / "L2.json.gz")[0].with_strategy(SCAS))
    assert result.gap is not None
    assert result.gap < 0.003


@pytest.mark.parametrize("looks", [*range(0, 40, 3), 80, 160])
def test_wherever_it_is_cut_off_allocation_and_bound_are_valid(looks: int) -> None:
    problem = paper_window(3, SCAS)
    best = DynamicProgram().solve(problem, Budget(), 0).objective
    result = solved(problem, LooksBudget(looks=looks))
    assert best is not None
    assert result.objective is not None
    assert best * (1 - 1e-9) <= result.objective
    assert result.bound is None or result.bound <= best * (1 + 1e-9)
    assert result.stopped_by is (StopReason.PROVED if result.status is Status.OPTIMAL else StopReason.TIME_LIMIT)


def test_cut_off_before_anything_it_has_the_sequential_allocation() -> None:
    problem = paper_window(3, SCAS)
    result = solved(problem, Budget(1e-9))
    assert result.status is Status.FEASIBLE
    assert result.stopped_by is StopReason.TIME_LIMIT
    assert verify(problem, result.solution) == result.objective


def test_a_warm_start_at_the_optimum_is_proved() -> None:
    problem = paper_window(2, SCAS)
    first = solved(problem)
    again = SOLVER.solve(problem, Budget(), 0, first.solution)
    assert_proved(again, first.objective or 0.0, RELATIVE)


@pytest.mark.slow
def test_steps_without_time_give_the_same_answer_again() -> None:
    problem = random_window(5, 300, 0.9, 30, FatTree(5, 8, 25))
    first, again = (solved(problem, Budget(None, 10), seed=3) for _ in range(2))
    assert first.solution.as_dict(problem) == again.solution.as_dict(problem)
    assert first.bound == again.bound


def test_beyond_the_stated_number_of_blocks_it_says_so_at_once() -> None:
    topology = FatTree(100, 100, 100)
    sizes = list(range(1, 101))
    problem = window(topology, range(topology.size // 2), sizes, strategy=SCAS)
    assert len(problem.idle_nodes) * len(sizes) > LARGEST_BLOCKS
    refusal = SOLVER.refusal(problem)
    assert refusal is not None
    assert "50,000,000" in refusal
