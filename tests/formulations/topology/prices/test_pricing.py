"""Answers to prices are the best ones, and no allocation saves more than the bound at any prices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counts import counts_of_vertices, largest_saving, leaf_groups, patterns, saving
from support.oracle import ROUNDING, OracleWindow
from support.part_prices import SlowPricing
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray
from allocopt.problems.base import Strategy
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from formulations.topology.prices.pricing import MergedTree, Pricing

seeds = st.integers(0, 2**32 - 1)


def random_prices(tree: MergedTree, seed: int) -> FloatArray:
    """Prices of any kind: none, many equal, or anything."""
    rng = np.random.default_rng(seed)
    kinds = (np.zeros(tree.n_rows), rng.choice([0.0, 0.5, 1.0, 3.7], tree.n_rows), rng.exponential(3.0, tree.n_rows))
    prices: FloatArray = kinds[int(rng.integers(3))]
    prices[tree.first[:-1][np.diff(tree.first) > 0]] = 0.0
    return prices


@st.composite
def priced_windows(draw: st.DrawFn) -> tuple[TopologyProblem, Pricing, FloatArray]:
    problem = draw(windows(most_idle=9, most_jobs=4))
    pricing = Pricing(encode(problem), draw(st.integers(0, len(problem.topology.hops) - 1)))
    return problem, pricing, random_prices(pricing.tree, draw(seeds))


@given(priced_windows())
def test_answers_and_bound_are_those_of_the_slow_twin(case: tuple[TopologyProblem, Pricing, FloatArray]) -> None:
    problem, pricing, prices = case
    tree, found = pricing.tree, pricing.at(prices)
    slow = SlowPricing(tree, prices)
    top = len(tree.widest) - 1
    for r, size in enumerate(pricing.sizes.tolist()):
        value = found.savings[r] - found.job_parts[r] @ prices
        assert value == pytest.approx(float(slow.value(size, top, size)), abs=1e-9)
    for v in range(top):
        for c in range(int(tree.worth_first[v + 1] - tree.worth_first[v])):
            assert found.worth[tree.worth_first[v] + c] == pytest.approx(float(slow.worth(v, c)), abs=1e-9)
    exact = slow.bound(problem.sizes.tolist())
    assert found.bound >= exact
    assert found.bound == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@given(priced_windows())
def test_answers_are_made_of_parts_that_are_there(case: tuple[TopologyProblem, Pricing, FloatArray]) -> None:
    _, pricing, prices = case
    tree, found = pricing.tree, pricing.at(prices)
    lengths = np.diff(tree.first)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    nodes = np.arange(tree.n_rows) - tree.first[owner]
    for r, size in enumerate(pricing.sizes.tolist()):
        taken = np.bincount(owner, found.job_parts[r] * nodes, len(tree.widest))
        taken[-1] = size
        for v in range(len(tree.widest)):
            children = tree.children[tree.first_child[v] : tree.first_child[v + 1]]
            assert len(children) == 0 or taken[children].sum() == taken[v]
            assert tree.members[v] > 1 or found.job_parts[r, owner == v].sum() <= 1
        squares = found.job_parts[r] @ (tree.weight[owner] * nodes**2)
        assert found.savings[r] == pytest.approx(squares / size, abs=1e-12)
    for stock, (v, idle) in enumerate(zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), strict=True)):
        assert found.sales[stock, owner != v].sum() == 0
        assert found.sales[stock] @ nodes <= idle
        assert found.sales[stock] @ prices == pytest.approx(found.worth[tree.worth_first[v] + idle], abs=1e-9)


@given(windows(most_idle=9, most_jobs=3), seeds)
def test_without_merging_jobs_choose_among_all_patterns(problem: TopologyProblem, seed: int) -> None:
    encoding = encode(problem)
    pricing, tree = Pricing(encoding, 0), group_tree(encoding)
    prices = random_prices(pricing.tree, seed)
    found = pricing.at(prices)
    idle, _ = leaf_groups(encoding)

    def value(pattern: tuple[int, ...]) -> float:
        counts = counts_of_vertices(tree, pattern)[:-1]
        return saving(encoding, pattern) - float(prices[pricing.tree.first[:-2] + counts].sum())

    if len(encoding.groups) == 0:
        assert found.bound == pytest.approx(0.0, abs=1e-9)
        return
    for r, size in enumerate(pricing.sizes.tolist()):
        best = max(value(pattern) for pattern in patterns(idle, size))
        assert found.savings[r] - found.job_parts[r] @ prices == pytest.approx(best, abs=1e-9)


@given(priced_windows())
def test_no_allocation_saves_more_than_the_bound_at_any_prices(
    case: tuple[TopologyProblem, Pricing, FloatArray],
) -> None:
    problem, pricing, prices = case
    assert pricing.at(prices).bound >= largest_saving(problem)


@given(windows(most_idle=12, most_jobs=4), seeds)
def test_finer_classes_at_the_same_prices_prove_as_much_or_more(problem: TopologyProblem, seed: int) -> None:
    encoding = encode(problem)
    coarse = Pricing(encoding, len(encoding.groups))
    prices = random_prices(coarse.tree, seed)
    bound = coarse.at(prices).bound
    for level in range(len(encoding.groups) - 1, -1, -1):
        finer = Pricing(encoding, level)
        prices = finer.inherited(coarse, prices)
        assert finer.at(prices).bound <= bound * (1 + 1e-9) + 1e-9
        coarse, bound = finer, finer.at(prices).bound


def test_no_prices_bound_the_known_optima(oracle_windows: list[OracleWindow]) -> None:
    for case in oracle_windows:
        encoding = encode(case.problem)
        hops = float((encoding.top * encoding.sizes - encoding.bottom).sum())
        for level in range(3):
            pricing = Pricing(encoding, level)
            for seed in range(3):
                bound = pricing.at(random_prices(pricing.tree, seed)).bound
                assert encoding.scale * (hops - bound) <= case.optimum[Strategy.FREE] + ROUNDING


def test_the_same_prices_get_the_same_answer() -> None:
    pricing = Pricing(encode(paper_window(2)), 1)
    prices = random_prices(pricing.tree, 5)
    first, _, again = pricing.at(prices), pricing.at(2 * prices), pricing.at(prices)
    assert again.bound == first.bound
    assert again.job_parts.tolist() == first.job_parts.tolist()
    assert again.sales.tolist() == first.sales.tolist()
