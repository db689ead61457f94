"""The decoder offers valid allocations whose excess adds up; rounds grow by what they cost."""

import numpy as np
import pytest
from support.windows import paper_window

from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from allocopt.solving.run import Run
from allocopt.solving.verify import verify
from formulations.topology.dcas.bounds import Prices
from formulations.topology.dcas.search import GROWTH, LEAST_GROWTH, Decoder, decode, growth
from formulations.topology.dcas.window import Window, cuts, distinct_levels
from formulations.topology.dynamic_program import DynamicProgram


@pytest.mark.parametrize("seed", range(6))
def test_what_the_decoder_finds_is_valid_and_its_excess_is_its_cost_above_the_bound(seed: int) -> None:
    problem = paper_window(seed, Strategy.DCAS)
    encoding = encode(problem)
    groups, weights = distinct_levels(encoding)
    places = cuts(groups)
    cut = int(places[seed % len(places)])
    window = Window.of(encoding, groups, weights, cut)
    run = Run(DynamicProgram(), problem, Budget(), 0)
    run.offer(Allocation.sequential(problem))
    first = run.objective
    assert first is not None
    prices = Prices.none(window).raised(window, first, run.clock)
    decoder = Decoder(problem, window, cut)
    decoder.improve(prices, 0, run)
    excess = decode(window, decoder.space, 1000.0, np.inf, 30)
    decoder.offer(decoder.space.best_owners, run)
    assert run.objective is not None
    assert run.objective < first
    assert run.objective == verify(problem, run.solution) == pytest.approx(prices.bound + excess, rel=1e-9)


def test_limits_grow_less_where_the_work_grows_more() -> None:
    assert growth([(1.0, 50)]) == GROWTH
    assert growth([(1.0, 100), (2.0, 200)]) == GROWTH
    assert growth([(1.0, 100), (2.0, 1600)]) == pytest.approx(np.exp(1 / 4), rel=0.01)
    assert growth([(1.0, 1), (1.1, 10**9)]) == LEAST_GROWTH
    assert growth([(1.0, 0), (1.6, 0)]) == GROWTH
