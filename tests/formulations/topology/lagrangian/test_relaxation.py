"""The relaxation bounds every packing, for all prices, and fixing never loses a packing as good as the one known."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.brute_force import optimum
from support.circles import Circle, circles, distances, packings, prices_for
from support.clocks import LooksBudget
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from formulations.topology.integer import Pack
from formulations.topology.lagrangian import relaxation as module
from formulations.topology.lagrangian.relaxation import Bundle, OutOfTime, Relaxation, balance_weights

NO_LIMIT = 10**9


@st.composite
def small_blocks(draw: st.DrawFn) -> tuple[Circle, Blocks]:
    """Draw a circle with jobs that fit on it: some have no gap left."""
    circle = draw(circles(most_positions=7))
    counts = np.zeros(len(circle.sizes), dtype=np.int64)
    room = circle.m
    for _ in range(draw(st.integers(1, 4))):
        fitting = np.flatnonzero(circle.sizes <= room)
        if len(fitting):
            r = int(draw(st.sampled_from(fitting.tolist())))
            counts[r] += 1
            room -= int(circle.sizes[r])
    used = counts > 0
    circle = Circle(circle.costs[used], circle.sizes[used])
    return circle, Blocks(circle.sizes, counts[used], circle.costs)


def priced_packings(circle: Circle, counts: Iterator[tuple[int, ...]]) -> Iterator[tuple[FloatArray, float]]:
    """How many blocks of each size, and the cost, of all packings with these counts."""
    for used in counts:
        for sizes, starts in packings(circle, np.array(used)):
            yield np.array(used), float(circle.costs[sizes, starts].sum())


@settings(max_examples=30)
@given(circles(most_positions=6), st.data())
def test_the_value_is_the_least_priced_cost_of_all_packings_of_any_counts(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    counts = np.ones(len(circle.sizes), dtype=np.int64)
    ranges = (range(circle.m // n + 1) for n in circle.sizes.tolist())
    fitting = (used for used in itertools.product(*ranges) if np.dot(used, circle.sizes) <= circle.m)
    least = min(cost + prices @ (counts - used) for used, cost in priced_packings(circle, fitting))
    path = Relaxation(Blocks(circle.sizes, counts, circle.costs), Budget().start()).path(prices)
    # The value is lowered by 1e-11 of its terms, here some hundreds.
    assert least - 1e-8 <= path.value <= least
    # It is that of the path's own blocks, which lie apart.
    own = (circle.costs[path.sizes, path.starts] - prices[path.sizes]).sum() + prices @ counts
    assert own == pytest.approx(least, abs=1e-8)
    covered = [(i + x) % circle.m for r, i in zip(path.sizes, path.starts, strict=True) for x in range(circle.sizes[r])]
    assert len(set(covered)) == len(covered)


def case_values(circle: Circle, prices: FloatArray) -> FloatArray:
    """Length of the shortest path of every case, from all distances."""
    shortest = distances(circle, prices)
    values = [shortest[0, circle.m]]
    for k in range(1, int(circle.sizes[-1])):
        ends = [(r, circle.m - n + k) for r, n in enumerate(circle.sizes.tolist()) if n > k]
        values.append(min(shortest[k, end] + circle.costs[r, end] - prices[r] for r, end in ends))
    return np.array(values)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slice_", [0, 10**9])
def test_on_a_long_circle_paths_that_have_met_have_the_same_value(
    seed: int, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE", slice_)
    costs = np.random.default_rng(seed).uniform(10, 20, size=(3, 400)) * np.array([[2], [3], [5]])
    circle, prices = Circle(costs, np.array([2, 3, 5])), np.array([31.0, 46.0, 74.0])
    relaxation = Relaxation(Blocks(circle.sizes, np.zeros(3, dtype=np.int64), costs), Budget().start())
    assert relaxation.path(prices).value == pytest.approx(case_values(circle, prices).min(), rel=1e-10)
    assert relaxation.labels(prices) == pytest.approx(distances(circle, prices)[0], rel=1e-12)


@given(circles(most_positions=9), st.data())
def test_a_block_survives_where_a_path_through_it_is_short_enough(circle: Circle, data: st.DataObject) -> None:
    prices = data.draw(prices_for(circle))
    shortest, exact = distances(circle, prices), case_values(circle, prices)
    longest = exact.min() + data.draw(st.integers(0, 60)) + 0.5
    blocks = Blocks(circle.sizes, np.zeros(len(circle.sizes), dtype=np.int64), circle.costs)
    kept = Relaxation(blocks, Budget().start()).survivors(prices, longest, NO_LIMIT)
    expected = np.zeros(circle.costs.shape, dtype=bool)
    for k in range(len(exact)):
        ending = np.full(circle.m + 1, np.inf)
        ending[circle.m] = 0.0 if k == 0 else np.inf
        for r, n in enumerate(circle.sizes.tolist()):
            if n > k > 0:
                ending[circle.m - n + k] = circle.costs[r, circle.m - n + k] - prices[r]
        for (r, i), cost in np.ndenumerate(circle.costs):
            n, own = int(circle.sizes[r]), cost - prices[r]
            if k <= i <= circle.m - n:
                after = min(shortest[i + n, end] + ending[end] for end in range(i + n, circle.m + 1))
                expected[r, i] |= shortest[k, i] + own + after <= longest
            elif k > 0 and i + n == circle.m + k:
                expected[r, i] |= shortest[k, i] + own <= longest
    assert kept is not None
    assert kept.tolist() == np.flatnonzero(expected).tolist()


@given(small_blocks(), st.data())
def test_the_value_never_passes_the_optimum(case: tuple[Circle, Blocks], data: st.DataObject) -> None:
    circle, blocks = case
    best = min(circle.costs[sizes, starts].sum() for sizes, starts in packings(circle, blocks.counts))
    assert Relaxation(blocks, Budget().start()).path(data.draw(prices_for(circle))).value <= best


@given(windows(most_idle=8, most_jobs=3, strategy=Strategy.SCAS))
def test_the_bound_of_a_window_never_passes_its_optimum_and_never_falls(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    bundle = bundle_of(blocks)
    best = optimum(problem)
    for _ in range(30):
        before = bundle.value
        bundle.step()
        assert before <= bundle.value <= best + 1e-9 * abs(best)


@given(small_blocks(), st.data())
def test_fixing_keeps_every_block_of_every_packing_that_is_good_enough(
    case: tuple[Circle, Blocks], data: st.DataObject
) -> None:
    circle, blocks = case
    prices = data.draw(prices_for(circle))
    every = list(packings(circle, blocks.counts))
    most = sorted(circle.costs[sizes, starts].sum() for sizes, starts in every)[
        data.draw(st.integers(0, 2)) % len(every)
    ]
    kept = Relaxation(blocks, Budget().start()).survivors(prices, float(most), NO_LIMIT)
    assert kept is not None
    for sizes, starts in every:
        if circle.costs[sizes, starts].sum() <= most:
            assert np.isin(sizes * circle.m + starts, kept).all()


def test_fixing_removes_most_blocks_of_a_window_like_the_papers() -> None:
    problem = paper_window(3, Strategy.SCAS)
    blocks = Blocks.of(problem)
    bundle = settled(bundle_of(blocks))
    kept = bundle_survivors(bundle, blocks, bundle.value * 1.002)
    assert kept is not None
    assert len(kept) < blocks.costs.size / 4


def test_fixing_gives_up_beyond_the_limit_and_when_the_time_is_over() -> None:
    problem = paper_window(3, Strategy.SCAS)
    blocks = Blocks.of(problem)
    most = problem.objective(Allocation.sequential(problem))
    relaxation = Relaxation(blocks, Budget().start())
    prices = np.median(blocks.costs, axis=1)
    assert relaxation.survivors(prices, most, 10) is None
    with pytest.raises(OutOfTime):
        Relaxation(blocks, LooksBudget(looks=0).start()).survivors(prices, most, NO_LIMIT)


def test_the_clock_is_looked_at_between_the_cases_of_one_path(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = Blocks.of(paper_window(3, Strategy.SCAS))
    prices = np.median(blocks.costs, axis=1)
    path = Relaxation(blocks, LooksBudget(looks=1).start()).path(prices)
    monkeypatch.setattr(module, "SLICE", 0)
    sliced = Relaxation(blocks, LooksBudget(looks=len(blocks.costs[0])).start()).path(prices)
    assert sliced.value == path.value
    with pytest.raises(OutOfTime):
        Relaxation(blocks, LooksBudget(looks=2).start()).path(prices)


def bundle_of(blocks: Blocks, most_cuts: int = 30) -> Bundle:
    prices = np.quantile(blocks.costs, 0.3, axis=1)
    return Bundle(Relaxation(blocks, Budget().start()), prices, blocks.sizes.astype(np.float64) ** 1.5, most_cuts)


def settled(bundle: Bundle) -> Bundle:
    for _ in range(1000):
        bundle.step()
        if bundle.promise <= 1e-9 * bundle.value:
            return bundle
    raise AssertionError("the bundle did not settle")


def bundle_survivors(bundle: Bundle, blocks: Blocks, most: float) -> object:
    kept = Relaxation(blocks, Budget().start()).survivors(bundle.prices, most, NO_LIMIT)
    return kept


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most_cuts", [6, 100])
def test_the_bundle_ends_at_the_linear_relaxation_of_the_pack_model(seed: int, most_cuts: int) -> None:
    problem = paper_window(seed, Strategy.SCAS)
    blocks = Blocks.of(problem)
    program = Pack(problem, blocks).program()
    n_sizes = len(blocks.sizes)
    rows = program.matrix.tocsr()
    answer = linprog(
        program.costs, rows[n_sizes:], np.ones(len(problem.idle_nodes)), rows[:n_sizes], blocks.counts, (0, None)
    )
    assert settled(bundle_of(blocks, most_cuts)).value == pytest.approx(answer.fun, rel=1e-6)


@given(st.integers(0, 10**6))
def test_balanced_weights_are_optimal_on_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, radius = int(rng.integers(1, 8)), float(rng.uniform(0.1, 3))
    gradients = rng.integers(-5, 6, size=(n, 3)).astype(np.float64)
    gram, errors = gradients @ gradients.T, rng.uniform(0, 10, size=n)
    weights, slopes = np.zeros(n), np.zeros(n)
    weights[0] = 1.0
    steps = balance_weights(gram, errors, radius, weights, slopes, n, 1e-9, 100_000)
    assert steps < 100_000
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    slope = radius * gram @ weights + errors
    # Karush, Kuhn and Tucker: no cut has a smaller slope than those that weigh something.
    assert slope[weights > 0].max() <= slope.min() + 1e-6
