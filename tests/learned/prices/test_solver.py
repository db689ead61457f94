"""The solver: valid, bounded, fixed by its seed, without torch."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.windows import paper_window, windows

from allocopt.errors import UsageError
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Budget
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from learned.prices.solver import LnsPrices
from learned.weights import FOLDER, read_weights, write_weights

SHIPPED = FOLDER / "lns-prices.safetensors"


@given(problem=windows(most_idle=12, most_jobs=5), steps=st.integers(1, 40), seed=st.integers(0, 9))
def test_answers_are_valid_and_fixed_by_the_seed(problem: TopologyProblem, steps: int, seed: int) -> None:
    first, again = (LnsPrices().solve(problem, Budget(None, steps), seed) for _ in range(2))
    verify_result(problem, first)
    assert first.bound is not None
    assert first.objective == again.objective
    assert first.solution.as_dict(problem) == again.solution.as_dict(problem)


def test_a_search_finds_better_allocations_than_the_first_one() -> None:
    few, many = (
        sum(solve(paper_window(seed), "free", LnsPrices(), None, iterations=steps).objective or 0 for seed in range(20))
        for steps in (1, 300)
    )
    assert many < few


def test_the_priced_bound_is_tighter_than_that_of_jobs_alone() -> None:
    prices, alone = (
        sum(solve(paper_window(seed), "free", solver, None, iterations=1).bound or 0 for seed in range(20))
        for solver in (LnsPrices(), "greedy")
    )
    assert prices > alone


def test_a_window_too_large_for_the_time_is_searched_without_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learned.prices.solver.INSERTION_S", 1.0)
    monkeypatch.setattr(LnsPrices, "begin_guided", None)
    problem = paper_window(0)
    verify_result(problem, LnsPrices().solve(problem, Budget(1.0, 50), 0))


@pytest.mark.parametrize(
    "options",
    [
        {"guidance": 0.0},
        {"fading": -1.0},
        {"steps": 0},
        *({"hunt": hunt} for hunt in (math.nan, math.inf, -1.0, 1e308)),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be"):
        LnsPrices(**options)  # type: ignore[arg-type]


def test_weights_from_a_file_are_used(tmp_path: Path) -> None:
    arrays, card = read_weights(SHIPPED)
    write_weights(tmp_path / "none", {name: 0 * array for name, array in arrays.items()}, card)
    own = solve(paper_window(1), "free", LnsPrices(), None, iterations=1)
    none = solve(paper_window(1), "free", LnsPrices(weights=str(tmp_path / "none")), None, iterations=1)
    assert own.bound != none.bound
