"""Dynamic programs and integer programs of the knapsack find what looking at every selection finds."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clocks import LooksBudget
from support.knapsacks import best_value, knapsack, knapsacks, selection, selections, value_of
from support.results import assert_points, assert_proved, solved_by

from allocopt import knapsack as base
from allocopt.errors import UsageError
from allocopt.formulations import knapsack as module
from allocopt.formulations.knapsack import LARGEST_TABLE, IntegerKnapsack, KnapsackDynamicProgram, _KnapsackModel
from allocopt.problems.knapsack import KnapsackJob, KnapsackProblem, Reward, Selection
from allocopt.problems.knapsack.packing import Gains
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, Status, StopReason

SOLVERS = {
    "dp": KnapsackDynamicProgram(),
    "scip": IntegerKnapsack.scip(),
    "highs": IntegerKnapsack.highs(),
    "cp-sat": IntegerKnapsack.cp_sat(),
}
REWARDS = ["capability", "capacity", "linear"]


def solved(
    problem: KnapsackProblem,
    name: str = "dp",
    budget: Budget = Budget(60.0),  # noqa: B008 (immutable)
    warm: Selection | None = None,
) -> Result:
    return solved_by(SOLVERS[name], problem, budget, 0, warm)


@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=60)
@given(data=st.data())
def test_the_best_of_all_selections_is_found_and_proved(name: str, data: st.DataObject) -> None:
    several = knapsacks(most_jobs=6, resources=2) | knapsacks(most_jobs=6, slots=True)
    problem = data.draw(knapsacks() if name == "dp" else several)
    assert_proved(solved(problem, name), best_value(problem))


@given(problem=knapsacks(most_jobs=9, rewards=("capability",)))
def test_the_optimum_of_means_is_found_whatever_greedy_found(problem: KnapsackProblem) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base.Gains, "greedy", lambda _: ())
        assert solved(problem).objective == pytest.approx(best_value(problem), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("reward", REWARDS)
def test_more_jobs_than_a_word_has_bits_are_traced_back(reward: str) -> None:
    rng = np.random.default_rng(3)
    sizes, numbers = rng.integers(1, 40, 150).tolist(), (1 + rng.random(150)).tolist()
    problem = knapsack(sizes, 97, reward, numbers, numbers, numbers)
    assert_proved(solved(problem), solved(problem, "highs").objective)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("looks", range(5))
def test_cut_off_between_two_jobs_its_bound_still_holds(
    reward: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", 1)
    problem = knapsack([5, 4, 3, 6, 2, 7], 13, reward, [9, 1, 8, 2, 7, 3], [5, 9, 2, 8, 3, 9], [6, 4, 9, 7, 1, 8])
    result = solved(problem, budget=LooksBudget(looks=looks))
    best = best_value(problem)
    assert result.objective <= best + 1e-12
    assert result.bound >= best - 1e-12
    assert result.status is Status.OPTIMAL or result.stopped_by is StopReason.TIME_LIMIT


def huge(*sizes: int) -> KnapsackProblem:
    return knapsack(sizes, 2 * 10**9, "linear", values=[5.0, 6.0, 1.0][: len(sizes)])


@pytest.mark.parametrize(
    ("name", "problem", "said"),
    [
        ("dp", KnapsackProblem({"nodes": 4, "licenses": 2}, knapsack([1], 4).jobs), "several"),
        ("dp", knapsack([1, 2], 4, slots=(2, 2)), "slots"),
        ("dp", knapsack([10**6 + 1, 3 * 10**7], 4 * 10**7, "linear"), f"{LARGEST_TABLE:,}"),
        ("dp", knapsack([10**7, 2 * 10**7], 4 * 10**7), None),
        ("highs", knapsack([1] * 300, 300), "nonzeros"),
        # Units beyond the tolerances of floats are left to CP-SAT, unless they have a common divisor.
        ("scip", huge(10**9 + 1, 10**9 + 2, 5), "tolerances of the solver"),
        ("scip", huge(10**9, 2 * 10**9), None),
        ("cp-sat", huge(10**9 + 1, 10**9 + 2, 5), None),
    ],
)
def test_what_it_does_not_take_it_says(name: str, problem: KnapsackProblem, said: str | None) -> None:
    refusal = SOLVERS[name].refusal(problem)
    assert refusal is None if said is None else said in str(refusal)
    if refusal is None and len(problem.jobs) and problem.free == 2 * 10**9:
        assert solved(problem, name).objective == (7.0 if name == "cp-sat" else 6.0)


@settings(max_examples=25)
@given(problem=knapsacks(most_jobs=6, resources=2, slots=True))
def test_the_program_holds_every_selection_at_its_worth(problem: KnapsackProblem) -> None:
    gains = Gains.of(problem)
    model = _KnapsackModel(gains)
    if not model.is_empty():
        every = [(Selection(one, slots_of(problem, one)), value_of(problem, one)) for one in selections(problem)]
        assert_points(model, every, lambda cost: gains.constant - cost, _KnapsackModel.most_nonzeros(gains))


def slots_of(problem: KnapsackProblem, chosen: tuple[int, ...]) -> tuple[int, ...]:
    """Give slots to jobs in the first way in which they have room, by trying every one."""
    slots = problem.slots or ()
    for given_ in itertools.product(range(len(slots)), repeat=len(chosen) if slots else 0):
        held = np.bincount(given_, problem.sizes[list(chosen)], len(slots)) if given_ else np.zeros(len(slots))
        if (held <= slots).all():
            return given_
    raise AssertionError("the selection does not fit")


@pytest.mark.parametrize("name", ["scip", "highs", "cp-sat"])
def test_a_warm_start_is_never_made_worse_and_one_with_a_worthless_job_is_taken(name: str) -> None:
    jobs = tuple(
        KnapsackJob(f"{k}", {"nodes": k, "licenses": 1}, value=value) for k, value in ((2, 5.0), (3, 0.0), (4, 6.0))
    )
    problem = KnapsackProblem({"nodes": 7, "licenses": 2}, jobs, Reward.LINEAR)
    assert_proved(solved(problem, name, warm=selection(0, 1)), 11.0)


def test_where_nobody_fits_there_is_no_model() -> None:
    problem = knapsack([5, 6], 4)
    with pytest.raises(UsageError, match="selecting a job never improves"):
        SOLVERS["scip"].program(problem)
    result = solved(problem, "scip")
    assert (result.status, result.solution) == (Status.OPTIMAL, selection())
