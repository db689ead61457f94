"""Solver ``lns-prices`` beyond what the contract of all solvers asks."""

import math
from pathlib import Path

import pytest
from support.windows import paper_window

from allocopt.errors import UsageError
from allocopt.solving.budget import Budget
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify_result
from learned.prices.solver import LnsPrices
from learned.weights import FOLDER, read_weights, write_weights

SHIPPED = FOLDER / "lns-prices.safetensors"


def test_a_search_finds_better_allocations_than_the_first_one_and_prices_a_tighter_bound_than_jobs_alone() -> None:
    first, searched, alone = (
        [solve(paper_window(seed), "free", solver, None, iterations=steps) for seed in range(20)]
        for solver, steps in ((LnsPrices(), 1), (LnsPrices(), 300), ("greedy", 1))
    )
    assert sum(result.objective or 0 for result in searched) < sum(result.objective or 0 for result in first)
    assert sum(result.bound or 0 for result in first) > sum(result.bound or 0 for result in alone)


def test_a_window_too_large_for_the_time_is_searched_without_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("learned.prices.solver.INSERTION_S", 1.0)
    monkeypatch.setattr(LnsPrices, "begin_guided", None)
    problem = paper_window(0)
    verify_result(problem, LnsPrices().solve(problem, Budget(1.0, 50), 0))


@pytest.mark.parametrize(
    "options",
    [{"guidance": 0.0}, {"fading": -1.0}, {"steps": 0}, *({"hunt": hunt} for hunt in (math.nan, -1.0, 1e308))],
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
