"""Relaxation and packings are what their slow twins say, and large windows are bounded, packed and proved."""

import itertools
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.results import assert_proved, solved_by
from support.windows import paper_window, window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import FatTree
from allocopt.formulations.topology.integer import Pack
from allocopt.formulations.topology.lagrangian import packing as packing_module
from allocopt.formulations.topology.lagrangian import relaxation as relaxation_module
from allocopt.formulations.topology.lagrangian import solver as solver_module
from allocopt.formulations.topology.lagrangian.packing import Packing, Stretches, _excess, improve_packing
from allocopt.formulations.topology.lagrangian.relaxation import Bundle, Path, Relaxation, _balance_weights
from allocopt.formulations.topology.lagrangian.solver import Lagrangian
from allocopt.problems.base import Strategy
from allocopt.problems.instances import read_problems
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from allocopt.solving.result import Result, StopReason


def circle_of(sizes: list[int], costs: FloatArray) -> Blocks:
    """Return blocks of which there is one of each size."""
    return Blocks(np.array(sizes), np.ones(len(sizes), dtype=np.int64), costs)


@st.composite
def circles(draw: st.DrawFn, most_positions: int = 12) -> Blocks:
    """Draw a circle with up to four sizes; integer costs, so that there are ties."""
    m = draw(st.integers(1, most_positions))
    sizes = sorted(draw(st.sets(st.integers(1, m), min_size=1, max_size=4)))
    costs = draw(st.lists(st.integers(0, 40), min_size=len(sizes) * m, max_size=len(sizes) * m))
    return circle_of(sizes, np.array(costs, dtype=np.float64).reshape(len(sizes), m))


def prices_for(circle: Blocks) -> st.SearchStrategy[FloatArray]:
    """Draw integer prices of the sizes, some of them negative."""
    n = len(circle.sizes)
    return st.lists(st.integers(-10, 60), min_size=n, max_size=n).map(lambda prices: np.array(prices, dtype=np.float64))


def distances(circle: Blocks, prices: FloatArray) -> FloatArray:
    """All shortest distances between positions 0 .. m of the line, by Floyd and Warshall."""
    m = circle.costs.shape[1]
    between = np.full((m + 1, m + 1), np.inf)
    np.fill_diagonal(between, 0.0)
    for i in range(m):
        between[i, i + 1] = 0.0
        for r, n in enumerate(circle.sizes.tolist()):
            if i + n <= m:
                between[i, i + n] = min(between[i, i + n], circle.costs[r, i] - prices[r])
    for k in range(m + 1):
        between = np.minimum(between, between[:, [k]] + between[[k], :])
    return between


def packings(circle: Blocks, counts: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """All packings with so many blocks of each size: indices of sizes and starts, sizes in order."""
    sizes, m = np.repeat(np.arange(len(counts)), counts), circle.costs.shape[1]
    for starts in itertools.product(range(m), repeat=len(sizes)):
        same_order = all(
            a < b for (r, a), (q, b) in itertools.pairwise(zip(sizes.tolist(), starts, strict=True)) if r == q
        )
        covered = [(i + x) % m for r, i in zip(sizes, starts, strict=True) for x in range(int(circle.sizes[r]))]
        if same_order and len(set(covered)) == len(covered):
            yield sizes, np.array(starts, dtype=np.int64)


NO_LIMIT = 10**9


@settings(max_examples=30)
@given(circles(most_positions=6), st.data())
def test_the_value_is_the_least_priced_cost_of_all_packings_of_any_counts(circle: Blocks, data: st.DataObject) -> None:
    prices, m = data.draw(prices_for(circle)), circle.costs.shape[1]
    ranges = (range(m // n + 1) for n in circle.sizes.tolist())
    fitting = [np.array(used) for used in itertools.product(*ranges) if np.dot(used, circle.sizes) <= m]
    least = min(
        circle.costs[sizes, starts].sum() + prices @ (circle.counts - used)
        for used in fitting
        for sizes, starts in packings(circle, used)
    )
    path = Relaxation(circle, Budget().start()).path(prices)
    # The value is lowered by 1e-11 of its terms, here some hundreds.
    assert least - 1e-8 <= path.value <= least
    # It is that of the path's own blocks, which lie apart.
    own = (circle.costs[path.sizes, path.starts] - prices[path.sizes]).sum() + prices @ circle.counts
    assert own == pytest.approx(least, abs=1e-8)
    covered = [(i + x) % m for r, i in zip(path.sizes, path.starts, strict=True) for x in range(circle.sizes[r])]
    assert len(set(covered)) == len(covered)


def case_values(circle: Blocks, prices: FloatArray) -> FloatArray:
    """Length of the shortest path of every case, from all distances."""
    shortest, m = distances(circle, prices), circle.costs.shape[1]
    values = [shortest[0, m]]
    for k in range(1, int(circle.sizes[-1])):
        ends = [(r, m - n + k) for r, n in enumerate(circle.sizes.tolist()) if n > k]
        values.append(min(shortest[k, end] + circle.costs[r, end] - prices[r] for r, end in ends))
    return np.array(values)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("slice_", [0, 10**9])
def test_on_a_long_circle_paths_that_have_met_have_the_same_value(
    seed: int, slice_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaxation_module, "SLICE", slice_)
    costs = np.random.default_rng(seed).uniform(10, 20, size=(3, 400)) * np.array([[2], [3], [5]])
    circle, prices = circle_of([2, 3, 5], costs), np.array([31.0, 46.0, 74.0])
    relaxation = Relaxation(circle, Budget().start())
    shortest = case_values(circle, prices).min() + prices.sum()
    assert relaxation.path(prices).value == pytest.approx(shortest, rel=1e-10)
    assert relaxation.labels(prices) == pytest.approx(distances(circle, prices)[0], rel=1e-12)


@given(circles(most_positions=9), st.data())
def test_a_block_survives_where_a_path_through_it_is_short_enough(circle: Blocks, data: st.DataObject) -> None:
    prices, m = data.draw(prices_for(circle)), circle.costs.shape[1]
    shortest, exact = distances(circle, prices), case_values(circle, prices)
    longest = exact.min() + data.draw(st.integers(0, 60)) + 0.5
    kept = Relaxation(circle, Budget().start()).survivors(prices, longest + prices.sum(), NO_LIMIT)
    expected = np.zeros(circle.costs.shape, dtype=bool)
    for k in range(len(exact)):
        ending = np.full(m + 1, np.inf)
        ending[m] = 0.0 if k == 0 else np.inf
        for r, n in enumerate(circle.sizes.tolist()):
            if n > k > 0:
                ending[m - n + k] = circle.costs[r, m - n + k] - prices[r]
        for (r, i), cost in np.ndenumerate(circle.costs):
            n, own = int(circle.sizes[r]), cost - prices[r]
            if k <= i <= m - n:
                expected[r, i] |= shortest[k, i] + own + (shortest[i + n] + ending).min() <= longest
            elif k > 0 and i + n == m + k:
                expected[r, i] |= shortest[k, i] + own <= longest
    assert kept.tolist() == np.flatnonzero(expected).tolist()


@given(windows(most_idle=8, most_jobs=3, strategy=Strategy.SCAS))
def test_the_bound_of_a_window_never_passes_its_optimum_and_never_falls(problem: TopologyProblem) -> None:
    blocks = Blocks.of(problem)
    bundle = bundle_of(blocks)
    best = optimum(problem)
    for _ in range(30):
        before = bundle.value
        bundle.step()
        assert before <= bundle.value <= best + 1e-9 * abs(best)


def test_fixing_gives_up_beyond_its_limit_and_everything_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(3, Strategy.SCAS)
    blocks, most = Blocks.of(problem), problem.objective(Allocation.sequential(problem))
    prices = np.median(blocks.costs, axis=1)
    assert Relaxation(blocks, Budget().start()).survivors(prices, most, 10) is None
    with pytest.raises(TimeoutError):
        Relaxation(blocks, LooksBudget(looks=0).start()).survivors(prices, most, NO_LIMIT)
    path = Relaxation(blocks, LooksBudget(looks=1).start()).path(prices)
    # The clock is looked at between the cases of one path.
    monkeypatch.setattr(relaxation_module, "SLICE", 0)
    assert Relaxation(blocks, LooksBudget(looks=len(blocks.costs[0])).start()).path(prices).value == path.value
    with pytest.raises(TimeoutError):
        Relaxation(blocks, LooksBudget(looks=2).start()).path(prices)


def bundle_of(blocks: Blocks, most_cuts: int = 30) -> Bundle:
    prices = np.quantile(blocks.costs, 0.3, axis=1)
    return Bundle(Relaxation(blocks, Budget().start()), prices, blocks.sizes.astype(np.float64) ** 1.5, most_cuts)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("most_cuts", [6, 100])
def test_the_bundle_ends_at_the_linear_relaxation_of_the_pack_model(seed: int, most_cuts: int) -> None:
    problem = paper_window(seed, Strategy.SCAS)
    blocks = Blocks.of(problem)
    program, n_sizes = Pack(problem, blocks).program(), len(blocks.sizes)
    rows, ones = program.matrix.tocsr(), np.ones(len(problem.idle_nodes))
    answer = linprog(program.costs, rows[n_sizes:], ones, rows[:n_sizes], blocks.counts, (0, None))
    bundle, steps = bundle_of(blocks, most_cuts), 0
    while bundle.promise > 1e-9 * bundle.value:
        bundle.step()
        steps += 1
        assert steps < 1000
    assert bundle.value == pytest.approx(answer.fun, rel=1e-6)


@given(st.integers(0, 10**6))
def test_balanced_weights_are_optimal_on_the_simplex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, radius = int(rng.integers(1, 8)), float(rng.uniform(0.1, 3))
    gradients = rng.integers(-5, 6, size=(n, 3)).astype(np.float64)
    gram, errors = gradients @ gradients.T, rng.uniform(0, 10, size=n)
    weights, slopes = np.eye(1, n)[0], np.zeros(n)
    assert _balance_weights(gram, errors, radius, weights, slopes, n, 1e-9, 100_000) < 100_000
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    slope = radius * gram @ weights + errors
    # Karush, Kuhn and Tucker: no cut has a smaller slope than those that weigh something.
    assert slope[weights > 0].max() <= slope.min() + 1e-6


def is_packing(blocks: Blocks, sizes: IntArray, starts: IntArray) -> bool:
    ends = starts + blocks.sizes[sizes]
    following = np.append(starts[1:], starts[0] + blocks.costs.shape[1])
    counts: IntArray = np.bincount(sizes, minlength=len(blocks.sizes))
    return bool((ends <= following).all() and (counts == blocks.counts).all())


def completed(blocks: Blocks, sizes: IntArray, starts: IntArray) -> Packing:
    return Packing.completed(blocks, sizes, starts, Budget().start())


def random_blocks(seed: int, m: int, most_jobs: int, largest: int, *, full: bool = False) -> Blocks:
    """Random costs, and random jobs that fit; with ``full`` no gap is left."""
    rng = np.random.default_rng(seed)
    jobs: list[int] = []
    while len(jobs) < most_jobs and sum(jobs) < m:
        jobs.append(min(int(rng.integers(1, largest + 1)), m - sum(jobs)))
    if full:
        jobs[-1] += m - sum(jobs)
    sizes, counts = np.unique(jobs, return_counts=True)
    return Blocks(sizes, counts, rng.integers(1, 100, size=(len(sizes), m)).astype(np.float64) * sizes[:, None])


def random_part(blocks: Blocks, seed: int) -> tuple[IntArray, IntArray]:
    """Draw some blocks of a packing, apart."""
    rng = np.random.default_rng(seed)
    m = blocks.costs.shape[1]
    free, left = np.ones(m, dtype=bool), blocks.counts.copy()
    sizes, starts = [], []
    for _ in range(50):
        r, i = int(rng.integers(len(left))), int(rng.integers(m))
        covered = (i + np.arange(blocks.sizes[r])) % m
        if left[r] and free[covered].all():
            free[covered] = False
            left[r] -= 1
            sizes.append(r)
            starts.append(i)
    keep = rng.random(len(sizes)) < 0.7
    return np.array(sizes, dtype=np.int64)[keep], np.array(starts, dtype=np.int64)[keep]


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_what_is_missing_is_always_inserted(seed: int, m: int, most_jobs: int, largest: int, full: bool) -> None:
    blocks = random_blocks(seed, m, most_jobs, largest, full=full)
    packing = completed(blocks, *random_part(blocks, seed))
    assert is_packing(blocks, packing.sizes, packing.starts)
    assert packing.cost == pytest.approx(blocks.costs[packing.sizes, packing.starts % m].sum())


@given(st.integers(0, 10**6))
def test_a_block_goes_to_its_cheapest_free_place_and_moves_no_other(seed: int) -> None:
    blocks = random_blocks(seed, 30, 4, 4)
    # One job of the least size is missing.
    m, present = 30, np.repeat(np.arange(len(blocks.sizes)), blocks.counts)[1:]
    assume(len(present) > 0)
    starts = np.cumsum(blocks.sizes[present] + 1) - blocks.sizes[present]
    packing = completed(blocks, present, starts)
    taken = {(i + x) % m for q, i in zip(present, starts, strict=True) for x in range(int(blocks.sizes[q]))}
    free = [i for i in range(m) if not taken & {(i + x) % m for x in range(int(blocks.sizes[0]))}]
    assert packing.cost == pytest.approx(blocks.costs[present, starts % m].sum() + blocks.costs[0, free].min())
    assert set(starts % m) <= set(packing.starts % m)


def test_a_block_that_fits_no_gap_is_pushed_in_where_the_fewest_move() -> None:
    sizes = np.array([2, 3])
    blocks = Blocks(sizes, np.array([4, 1]), np.ones((2, 14)))
    # Gaps of 2, 2, 1 and 1: one block must move by one, for no gap holds three.
    packing = completed(blocks, np.zeros(4, dtype=np.int64), np.array([0, 4, 8, 11]))
    assert is_packing(blocks, packing.sizes, packing.starts)
    moved = {0, 4, 8, 11} - set((packing.starts[packing.sizes == 0] % 14).tolist())
    assert len(moved) == 1


def test_a_path_keeps_its_cheapest_blocks_of_every_size() -> None:
    costs = np.array([[5.0, 9, 1, 9, 3, 9, 7, 9]])
    blocks = Blocks(np.array([2]), np.array([2]), costs)
    path = Path(0, np.array([0, 0, 0, 0]), np.array([6, 4, 2, 0]), np.array([4]), 0.0)
    packing = Packing.of_path(blocks, path, Budget().start())
    assert packing.starts.tolist() == [2, 4]
    assert packing.cost == 4


def improved(
    blocks: Blocks, packing: Packing, most_taken: int, moves: int, entries: int = 4096
) -> tuple[Packing, float]:
    work = Stretches.of(blocks, most_taken + 4, entries)
    work.block_sizes[:], work.block_starts[:] = packing.sizes, packing.starts
    saved = improve_packing(work, most_taken, moves, np.random.default_rng(0))
    return Packing.of(blocks, work.block_sizes, work.block_starts), saved


@given(st.integers(0, 10**6), st.integers(2, 60), st.integers(2, 6), st.booleans(), st.sampled_from([8, 64, 4096]))
def test_moves_keep_a_packing_and_save_what_they_say(
    seed: int, m: int, most_taken: int, full: bool, entries: int
) -> None:
    blocks = random_blocks(seed, m, 14, 6, full=full)
    start = completed(blocks, *random_part(blocks, seed))
    if len(start.sizes) < 2:
        return
    packing, saved = improved(blocks, start, most_taken, 40, entries)
    assert is_packing(blocks, packing.sizes, packing.starts)
    assert saved >= 0
    assert start.cost - packing.cost == pytest.approx(saved, abs=1e-6)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.booleans())
def test_after_enough_moves_no_block_can_be_held_and_the_others_placed_better(seed: int, full: bool) -> None:
    blocks = random_blocks(seed, 9, 4, 4, full=full)
    start = completed(blocks, *random_part(blocks, seed))
    if len(start.sizes) < 2:
        return
    packing, _ = improved(blocks, start, 6, 600)
    m = blocks.costs.shape[1]
    held = set(zip(packing.sizes.tolist(), (packing.starts % m).tolist(), strict=True))
    for sizes, starts in packings(blocks, blocks.counts):
        if held & set(zip(sizes.tolist(), starts.tolist(), strict=True)):
            assert packing.cost <= blocks.costs[sizes, starts].sum() + 1e-9


def test_inserting_stops_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing_module, "SLICE", 1)
    blocks, nothing = random_blocks(1, 60, 8, 5), np.zeros(0, dtype=np.int64)
    n_jobs = int(blocks.counts.sum())
    assert Packing.completed(blocks, nothing, nothing, LooksBudget(looks=n_jobs - 1).start()) is None
    packing = Packing.completed(blocks, nothing, nothing, LooksBudget(looks=n_jobs).start())
    assert packing.cost == completed(blocks, nothing, nothing).cost


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_the_excesses_of_a_packing_add_up_to_what_it_is_longer_than_the_shortest_path(seed: int, full: bool) -> None:
    m, blocks = 40, random_blocks(seed, 40, 8, 6, full=full)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(blocks.sizes)), blocks.counts))
    starts, work = np.cumsum(blocks.sizes[order]) - blocks.sizes[order], Stretches.of(blocks, 8, 64)
    work.prices[:] = blocks.costs.mean(axis=1)
    work.labels[:] = Relaxation(blocks, Budget().start()).labels(work.prices)
    work.block_sizes[:], work.block_starts[:] = order, starts
    excesses = [_excess(work, i) for i in range(len(order))]
    length = Packing.of(blocks, order, starts).cost - float(work.prices @ blocks.counts)
    assert min(excesses) >= -1e-9
    assert sum(excesses) == pytest.approx(length - work.labels[m])
    work.block_starts[-1] = m - blocks.sizes[order[-1]] + 1
    assert blocks.sizes[order[-1]] == 1 or _excess(work, len(order) - 1) == 0.0


LARGE = pathlib.Path(__file__).parents[3] / "instances"


def solved(problem: TopologyProblem) -> Result:
    return solved_by(Lagrangian(), problem.with_strategy(Strategy.SCAS))


def random_window(seed: int, idle: int, load: float, largest: int, topology: FatTree) -> TopologyProblem:
    """Idle nodes in runs, and jobs of 2 nodes or more that ask for a share of them."""
    rng = np.random.default_rng(seed)
    nodes: set[int] = set()
    while len(nodes) < idle:
        first = int(rng.integers(topology.size))
        nodes.update(range(first, min(topology.size, first + int(rng.geometric(0.1)))))
    wanted = int(load * idle)
    sizes: list[int] = []
    while sum(sizes) < wanted:
        sizes.append(min(int(rng.integers(2, largest)), wanted - sum(sizes)))
    return window(topology, sorted(nodes)[:idle], sizes, strategy=Strategy.SCAS)


@pytest.mark.slow
@pytest.mark.parametrize("load", [1.0, 0.97, 0.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_large_window_has_a_near_packing_before_any_program(
    seed: int, load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver_module, "LARGEST_NONZEROS", -1)
    result = solved(random_window(seed, 1000, load, 40, FatTree(10, 16, 25)))
    assert result.gap < 0.015
    assert result.stopped_by in (StopReason.COMPLETED, StopReason.PROVED)


@pytest.mark.slow
def test_l1_is_proved_optimal() -> None:
    assert_proved(solved(read_problems(LARGE / "L1.json.gz")[0]), 2246918.0529387025, 1e-6)


@pytest.mark.slow
def test_l2_comes_near_its_bound_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver_module, "ROUNDS", 1)
    monkeypatch.setattr(solver_module, "LARGEST_NONZEROS", -1)
    assert solved(read_problems(LARGE / "L2.json.gz")[0]).gap < 0.003
