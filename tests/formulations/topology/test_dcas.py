"""DCAS to proof: windows, bounds, rounds, and the solver where nesting pays and wherever room runs out."""

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.oracle import OracleWindow
from support.results import assert_proved, solved_by
from support.windows import fat_trees, paper_window, resequenced, trees, window, windows

from allocopt.cluster.topology import FatTree, Tree
from allocopt.errors import UsageError
from allocopt.formulations.topology.dcas import search
from allocopt.formulations.topology.dcas.bounds import Prices
from allocopt.formulations.topology.dcas.search import GROWTH, LEAST_GROWTH, _decode, _Decoder, _growth
from allocopt.formulations.topology.dcas.window import MOST_LEVELS, DcasWindow, Levels
from allocopt.formulations.topology.dynamic_program import DynamicProgram
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status, StopReason
from allocopt.solving.run import Run
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify


def test_a_level_with_a_single_group_is_left_out_and_equal_levels_are_added() -> None:
    of_clusters = [Levels.of(encode(window(FatTree(*shape, 4), range(4), [2]))) for shape in ((1, 1), (3, 1), (1, 3))]
    assert [weights.tolist() for _, weights in of_clusters] == [[], [], []]
    groups, weights = Levels.of(encode(window(FatTree(3, 1, 4), range(12), [2])))
    assert groups.tolist() == [[0] * 4 + [1] * 4 + [2] * 4]
    assert weights.tolist() == [4.0]


@given(windows(most_idle=9, topologies=fat_trees))
def test_a_fat_tree_can_always_be_cut_however_it_is_turned(problem: TopologyProblem) -> None:
    m = len(problem.idle_nodes)
    for shift in range(m):
        assert len(Levels.of(encode(resequenced(problem, np.roll(np.arange(m), shift)))).cuts) > 0


def prices_of(problem: TopologyProblem, upper: float, cut: int = 0) -> Prices | None:
    encoding = encode(problem)
    levels = Levels.of(encoding)
    if len(levels.groups) > MOST_LEVELS or len(levels.cuts) == 0:
        return None
    window = DcasWindow.of(encoding, levels, int(levels.cuts[cut % len(levels.cuts)]))
    return Prices.none(window).raised(window, upper, Budget().start())


@given(windows(most_idle=8, most_jobs=3, topologies=fat_trees | trees()), st.floats(0.5, 2.0), st.integers(0, 3))
def test_the_bound_never_passes_the_optimum_of_free(problem: TopologyProblem, factor: float, cut: int) -> None:
    best = optimum(problem)
    prices = prices_of(problem, best * factor + 1.0, cut)
    assume(prices is not None)
    assert prices.bound <= best * (1 + 1e-9) + 1e-9


@given(windows(most_idle=8, most_jobs=1, topologies=fat_trees))
def test_the_bound_of_a_single_job_is_its_optimum(problem: TopologyProblem) -> None:
    best = optimum(problem)
    prices = prices_of(problem, best)
    assert prices.bound == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_the_bound_is_near_the_proven_optima(oracle_windows: list[OracleWindow]) -> None:
    gaps = []
    for case in oracle_windows:
        best = case.optimum[Strategy.FREE]
        prices = prices_of(case.problem, case.optimum[Strategy.SCAS])
        assert prices.bound <= best * (1 + 1e-9)
        gaps.append(1 - prices.bound / best)
    assert np.mean(gaps) < 0.01


@pytest.mark.parametrize("seed", range(6))
def test_what_the_decoder_finds_is_valid_and_its_excess_is_its_cost_above_the_bound(seed: int) -> None:
    problem = paper_window(seed, Strategy.DCAS)
    encoding = encode(problem)
    levels = Levels.of(encoding)
    cut = int(levels.cuts[seed % len(levels.cuts)])
    window = DcasWindow.of(encoding, levels, cut)
    run = Run(DynamicProgram(), problem, Budget(), 0)
    run.offer(Allocation.sequential(problem))
    first = run.objective
    prices = Prices.none(window).raised(window, first, run.clock)
    decoder = _Decoder(problem, window, cut)
    decoder.improve(prices, 0, run)
    excess = _decode(window, decoder.space, 1000.0, np.inf, 30)
    decoder.offer(decoder.space.best_owners, run)
    assert run.objective < first
    assert run.objective == verify(problem, run.solution) == pytest.approx(prices.bound + excess, rel=1e-9)


def test_limits_grow_less_where_the_work_grows_more() -> None:
    assert _growth([(1.0, 50)]) == GROWTH
    assert _growth([(1.0, 100), (2.0, 200)]) == GROWTH
    assert _growth([(1.0, 100), (2.0, 1600)]) == pytest.approx(np.exp(1 / 4), rel=0.01)
    assert _growth([(1.0, 1), (1.1, 10**9)]) == LEAST_GROWTH
    assert _growth([(1.0, 0), (1.6, 0)]) == GROWTH


DCAS = Strategy.DCAS


solved = partial(solved_by, DynamicProgram())


def ragged_window(seed: int) -> TopologyProblem:
    """Return a window of 0 to 3 idle nodes in every leaf, where jobs larger than that gain by nesting."""
    rng = np.random.default_rng(seed)
    cluster = [FatTree(1, 8, 4), FatTree(8, 1, 4), FatTree(3, 4, 4), FatTree(2, 5, 4)][seed % 4]
    leaves = cluster.size // 4
    idle = [4 * leaf + node for leaf in range(leaves) for node in range(int(rng.integers(0, 4)))][:12]
    sizes = rng.integers(2, 6, size=int(rng.integers(2, 4)))
    return window(cluster, idle, sizes[np.cumsum(sizes) <= len(idle)].tolist() or [1], strategy=DCAS)


@pytest.mark.slow
def test_the_optimum_of_brute_force_is_proved_where_nesting_pays() -> None:
    better = 0
    for seed in range(400):
        problem = ragged_window(seed)
        result = solved(problem)
        scas = solved(problem.with_strategy(Strategy.SCAS)).objective
        if result.objective < scas - 1.0 or seed % 8 == 0:
            assert_proved(result, optimum(problem))
        better += result.objective < scas - 1.0
    assert better >= 20


@pytest.mark.slow
@pytest.mark.parametrize("slice_", [100_000, 7])
def test_growing_tables_do_not_change_the_answer(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(1, DCAS)
    whole = solved(problem)
    monkeypatch.setattr(search, "SLICE", slice_)
    monkeypatch.setattr(search, "FIRST_CAPACITY", 64)
    assert solved(problem).solution.as_dict(problem) == whole.solution.as_dict(problem)


def test_out_of_room_it_ends_with_a_valid_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FIRST_CAPACITY", 64)
    monkeypatch.setattr(search, "LARGEST_CAPACITY", 64)
    problem = paper_window(1, DCAS)
    result = solved(problem)
    assert result.status is Status.FEASIBLE
    assert result.stopped_by is StopReason.COMPLETED
    assert result.bound is not None


def test_a_rising_limit_and_a_wide_one_find_the_same_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in [*(paper_window(seed, DCAS) for seed in range(4)), *(ragged_window(seed) for seed in range(100))]:
        best = solved(problem).objective
        with monkeypatch.context() as patch:
            patch.setattr(search, "FIRST_LIMIT", 1.0)
            assert solved(problem).objective == pytest.approx(best, rel=1e-9)


def test_scattered_switches_are_refused_with_the_reason_unless_they_meet_around_the_end() -> None:
    problem = window(Tree.from_levels([{"a": [0, 1], "b": [2, 3]}]), range(4), [2], strategy=DCAS)
    scattered = resequenced(problem, [0, 2, 1, 3])
    with pytest.raises(UsageError, match="are not consecutive"):
        solve(scattered, solver="dp")
    assert DynamicProgram().refusal(scattered.with_strategy("scas")) is None
    assert DynamicProgram().refusal(resequenced(problem, [0, 2, 3, 1])) is None


def test_three_levels_of_switches_below_the_top_are_refused() -> None:
    nodes = {f"a{i}": [2 * i, 2 * i + 1] for i in range(8)}
    levels = [nodes, {f"b{i}": [f"a{2 * i}", f"a{2 * i + 1}"] for i in range(4)}]
    levels.append({f"c{i}": [f"b{2 * i}", f"b{2 * i + 1}"] for i in range(2)})
    tree = Tree.from_levels(levels)
    assert "3 levels" in (DynamicProgram().refusal(window(tree, range(16), [3, 2], strategy=DCAS)) or "")
    # Nodes below one switch of the top level: two levels tell them apart, the third saves the same for all.
    below = window(tree, range(8), [3, 2], strategy=DCAS)
    assert DynamicProgram().refusal(below) is None
    assert_proved(solved(below), optimum(below))


@pytest.mark.parametrize(
    ("levels", "sizes"),
    [
        # Job 0 takes both ends of the pod of nodes 0 .. 7; in between lie job 1, whole in a leaf, and the leftover.
        (
            [{"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7], "d": [8, 9]}, {"p": list("abc"), "q": ["d"]}],
            [4, 3, 2],
        ),
        # A switch lies around the end of the sequence.
        ([{"a": [0, 1, 6, 7], "b": [2, 3, 4, 5]}], [3, 3]),
    ],
)
def test_jobs_around_others_and_switches_around_the_end_are_solved(
    levels: list[dict[str, list[int | str]]], sizes: list[int]
) -> None:
    tree = Tree.from_levels(levels)
    problem = window(tree, range(tree.size), sizes, strategy=DCAS)
    assert_proved(solved(problem), optimum(problem))


def test_windows_of_few_sizes_and_many_jobs_are_solved() -> None:
    # A leaf of four holds one job of three; what is left of the three leaves of a pod makes room for a tenth.
    problem = window(FatTree(3, 3, 4), range(36), [3] * 10, strategy=DCAS)
    assert_proved(solved(problem), 1000 * (9 * 2 * 2 + 2 * 4))
