"""The Lagrangian bound: valid for any disjoint node sets, tight for one job, near the proven optima of FREE."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.oracle import OracleWindow
from support.windows import fat_trees, trees, windows

from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from formulations.topology.dcas.bounds import Prices
from formulations.topology.dcas.window import MOST_LEVELS, Window, cuts, distinct_levels


def prices_of(problem: TopologyProblem, upper: float, cut: int = 0) -> Prices | None:
    encoding = encode(problem)
    groups, weights = distinct_levels(encoding)
    if len(groups) > MOST_LEVELS or len(cuts(groups)) == 0:
        return None
    places = cuts(groups)
    window = Window.of(encoding, groups, weights, int(places[cut % len(places)]))
    return Prices.none(window).raised(window, upper, Budget().start())


@given(windows(most_idle=8, most_jobs=3, topologies=fat_trees | trees()), st.floats(0.5, 2.0), st.integers(0, 3))
def test_the_bound_never_passes_the_optimum_of_free(problem: TopologyProblem, factor: float, cut: int) -> None:
    best = optimum(problem)
    prices = prices_of(problem, best * factor + 1.0, cut)
    assume(prices is not None)
    assert prices is not None
    assert prices.bound <= best * (1 + 1e-9) + 1e-9


@given(windows(most_idle=8, most_jobs=1, topologies=fat_trees))
def test_the_bound_of_a_single_job_is_its_optimum(problem: TopologyProblem) -> None:
    best = optimum(problem)
    prices = prices_of(problem, best)
    assert prices is not None
    assert prices.bound == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_the_bound_is_near_the_proven_optima(oracle_windows: list[OracleWindow]) -> None:
    gaps = []
    for case in oracle_windows:
        best = case.optimum[Strategy.FREE]
        prices = prices_of(case.problem, case.optimum[Strategy.SCAS])
        assert prices is not None
        assert prices.bound <= best * (1 + 1e-9)
        gaps.append(1 - prices.bound / best)
    assert np.mean(gaps) < 0.01
