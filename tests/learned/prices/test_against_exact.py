"""`lns-prices` beside proven optima, on shipped windows of seeds that its training refuses to use."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.problems.instances import read_problems
from allocopt.solving.solution_files import read_best_known
from allocopt.solving.solve import solve
from learned.prices.solver import LnsPrices
from learned.rl.training import RESERVED

ROOT = Path(__file__).resolve().parents[3]

LARGEST_GAP = 0.02


@pytest.mark.parametrize("name", sorted(name for name in RESERVED.values() if name.endswith(".jsonl")))
@pytest.mark.parametrize(("steps", "mean_gap"), [(1, LARGEST_GAP), (300, LARGEST_GAP / 10)])
def test_it_is_valid_never_below_the_optimum_and_near_it(name: str, steps: int, mean_gap: float) -> None:
    known = read_best_known(ROOT / "instances" / "best_known.json")
    gaps = []
    for problem in read_problems(ROOT / name):
        best = known[problem.name]["free"]
        assert best.proved
        result = solve(problem, "free", LnsPrices(), None, 1, iterations=steps)
        assert result.objective is not None
        assert result.bound is not None
        assert result.objective >= best.objective * (1 - 1e-9)
        assert result.bound <= best.objective * (1 + 1e-9)
        gaps.append(result.objective / best.objective - 1)
    assert np.mean(gaps) <= mean_gap
