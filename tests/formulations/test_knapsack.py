"""Dynamic programs and integer programs of the knapsack find what looking at every selection finds."""

import numpy as np
import pytest
from hypothesis import given, settings
from support.clocks import LooksBudget
from support.knapsacks import best_value, knapsack, knapsacks, selection, selections, value_of

from allocopt import knapsack as base
from allocopt.errors import UsageError
from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.problems.knapsack.packing import Gains
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.verify import verify_result
from formulations.knapsack import dynamic
from formulations.knapsack.dynamic import LARGEST_TABLE, KnapsackDynamicProgram
from formulations.knapsack.integer import IntegerKnapsack, KnapsackModel


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


SOLVERS = {"scip": IntegerKnapsack.scip(), "highs": IntegerKnapsack.highs(), "cp-sat": IntegerKnapsack.cp_sat()}
EVERY = pytest.mark.parametrize("name", sorted(SOLVERS))


def solved_program(
    name: str,
    problem: KnapsackProblem,
    budget: Budget = Budget(60.0),  # noqa: B008
    warm: Selection | None = None,
) -> Result:
    result = SOLVERS[name].solve(problem, budget, 0, warm)
    verify_result(problem, result)
    return result


@EVERY
@settings(max_examples=60)
@given(problem=knapsacks(most_jobs=6, resources=2) | knapsacks(most_jobs=6, slots=True))
def test_several_resources_and_slots_are_solved_to_proof(name: str, problem: KnapsackProblem) -> None:
    result = solved_program(name, problem)
    assert result.status is Status.OPTIMAL
    assert result.objective == pytest.approx(best_value(problem), rel=1e-9, abs=1e-12)


@settings(max_examples=25)
@given(problem=knapsacks(most_jobs=6, resources=2, slots=True))
def test_the_program_holds_every_selection_at_its_worth(problem: KnapsackProblem) -> None:
    model = KnapsackModel(Gains.of(problem))
    if model.is_empty():
        return
    program = model.program()
    assert program.matrix.nnz <= KnapsackModel.most_nonzeros(Gains.of(problem))
    for chosen in selections(problem):
        slots = next(slots_of(problem, chosen)) if problem.slots is not None else ()
        point = model.encode(Selection(chosen, slots))
        if point is None:
            continue
        x = np.isin(np.arange(len(program.costs)), point).astype(float)
        activity = program.matrix @ x
        assert (program.row_lower <= activity).all()
        assert (activity <= program.row_upper).all()
        constant = Gains.of(problem).constant
        assert constant - program.cost_of(point) == pytest.approx(value_of(problem, chosen), rel=1e-9, abs=1e-9)
        assert model.decode(point) == Selection(chosen, slots)


def slots_of(problem: KnapsackProblem, chosen: tuple[int, ...]):  # type: ignore[no-untyped-def]
    """All ways to give slots to jobs, by trying every one."""
    sizes, slots = problem.sizes.tolist(), problem.slots or ()
    for code in range(len(slots) ** len(chosen)):
        given = [code // len(slots) ** place % len(slots) for place in range(len(chosen))]
        held = [
            sum(sizes[job] for job, at in zip(chosen, given, strict=True) if at == slot) for slot in range(len(slots))
        ]
        if all(units <= room for units, room in zip(held, slots, strict=True)):
            yield tuple(given)


@EVERY
def test_a_warm_start_is_never_made_worse_and_one_with_a_worthless_job_is_taken(name: str) -> None:
    jobs = tuple(
        KnapsackJob(f"{k}", {"nodes": k, "licenses": 1}, value=value) for k, value in ((2, 5.0), (3, 0.0), (4, 6.0))
    )
    problem = KnapsackProblem({"nodes": 7, "licenses": 2}, jobs, Reward.LINEAR)
    result = solved_program(name, problem, warm=selection(0, 1))
    assert (result.status, result.objective) == (Status.OPTIMAL, 11.0)


def test_units_beyond_the_tolerances_of_floats_are_left_to_cp_sat() -> None:
    problem = knapsack([10**9 + 1, 10**9 + 2, 5], 2 * 10**9, "linear", values=[5.0, 6.0, 1.0])
    assert "told apart" in str(SOLVERS["scip"].refusal(problem))
    assert SOLVERS["cp-sat"].refusal(problem) is None
    assert solved_program("cp-sat", problem).objective == 7.0
    common = knapsack([10**9, 2 * 10**9], 2 * 10**9, "linear", values=[5.0, 6.0])
    assert SOLVERS["scip"].refusal(common) is None
    assert solved_program("scip", common).objective == 6.0


def test_a_program_that_is_too_large_is_refused_with_its_size() -> None:
    problem = knapsack([1] * 300, 300)
    assert "nonzeros" in str(SOLVERS["highs"].refusal(problem))


def test_where_nobody_fits_there_is_no_model() -> None:
    problem = knapsack([5, 6], 4)
    with pytest.raises(UsageError, match="no job can be selected"):
        SOLVERS["scip"].program(problem)
    assert (solved_program("scip", problem).status, solved_program("scip", problem).solution) == (
        Status.OPTIMAL,
        selection(),
    )
