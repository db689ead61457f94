"""The dynamic programs of the knapsack find what looking at every selection finds, wherever they are cut off."""

import numpy as np
import pytest
from hypothesis import given
from support.clocks import LooksBudget
from support.knapsacks import best_value, knapsack, knapsacks

from allocopt import knapsack as base
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.verify import verify_result
from formulations.knapsack import dynamic
from formulations.knapsack.dynamic import LARGEST_TABLE, KnapsackDynamicProgram


def solved(problem: KnapsackProblem, budget: Budget = Budget(), warm: Selection | None = None) -> Result:  # noqa: B008
    result = KnapsackDynamicProgram().solve(problem, budget, 0, warm)
    verify_result(problem, result)
    return result


@given(problem=knapsacks())
def test_it_finds_the_best_of_all_selections(problem: KnapsackProblem) -> None:
    result = solved(problem)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best_value(problem), rel=1e-12, abs=1e-12)


@given(problem=knapsacks(most_jobs=9, rewards=("capability",)))
def test_the_optimum_of_means_is_found_whatever_greedy_found(problem: KnapsackProblem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base.Gains, "greedy", lambda _: ())
        assert solved(problem).objective == pytest.approx(best_value(problem), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("reward", ["capability", "capacity", "linear"])
def test_more_jobs_than_a_word_has_bits_are_traced_back(reward: str) -> None:
    rng = np.random.default_rng(3)
    n = 150
    sizes, numbers = rng.integers(1, 40, n).tolist(), (1 + rng.random(n)).tolist()
    problem = knapsack(sizes, 97, reward, numbers, numbers, numbers)
    result = solved(problem)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(slow_best(problem), rel=1e-12)


def slow_best(problem: KnapsackProblem) -> float:
    """Optimum by a dictionary of (jobs, units) and the best sum, job by job."""
    mean = problem.reward == "capability"
    waits = problem.numbers
    worth = {"capability": waits, "capacity": 1 / problem.numbers, "linear": problem.numbers}
    best = {(0, 0): 0.0}
    for size, gain in zip(problem.sizes.tolist(), worth[problem.reward].tolist(), strict=True):
        for (k, c), total in list(best.items()):
            key = (k + 1 if mean else 0, c + size)
            if key[1] <= problem.free:
                best[key] = max(best.get(key, -np.inf), total + gain)
    if problem.reward == "linear":
        return max(best.values())
    if problem.reward == "capacity":
        return (max(best.values()) - worth["capacity"].sum()) / len(problem.jobs)
    n, longest = problem.size, float(waits.max())
    return max((total / k / longest + c / k / n + c / n) / 3 for (k, c), total in best.items() if k)


@pytest.mark.parametrize("reward", ["capability", "capacity", "linear"])
@pytest.mark.parametrize("looks", range(5))
def test_cut_off_between_two_jobs_its_bound_still_holds(
    reward: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic, "SLICE", 1)
    problem = knapsack([5, 4, 3, 6, 2, 7], 13, reward, [9, 1, 8, 2, 7, 3], [5, 9, 2, 8, 3, 9], [6, 4, 9, 7, 1, 8])
    result = solved(problem, LooksBudget(looks=looks))
    best = best_value(problem)
    assert result.objective is not None
    assert result.bound is not None
    assert result.objective <= best + 1e-12
    assert result.bound >= best - 1e-12
    assert result.status is Status.OPTIMAL or result.stopped_by is StopReason.TIME_LIMIT


def test_what_it_does_not_take_it_says() -> None:
    solver = KnapsackDynamicProgram()
    several = KnapsackProblem({"nodes": 4, "licenses": 2}, knapsack([1], 4).jobs)
    assert "several" in str(solver.refusal(several))
    assert "slots" in str(solver.refusal(knapsack([1, 2], 4, slots=(2, 2))))
    wide = knapsack([10**6 + 1, 3 * 10**7], 4 * 10**7, "linear")
    assert f"{LARGEST_TABLE:,}" in str(solver.refusal(wide))
    assert solver.refusal(knapsack([10**7, 2 * 10**7], 4 * 10**7)) is None
