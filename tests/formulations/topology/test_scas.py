"""The dynamic program proves the SCAS optimum, refuses what is too large, and is valid wherever it is cut off."""

import numpy as np
import pytest
from support.clocks import LooksBudget
from support.windows import paper_window, resequenced, window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from formulations.topology.dynamic_program import LARGEST_TABLE, DynamicProgram

SCAS = Strategy.SCAS


def solved(problem: TopologyProblem, budget: Budget = Budget()) -> Result:  # noqa: B008 (immutable)
    result = DynamicProgram().solve(problem, budget, 0)
    verify_result(problem, result)
    return result


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
