"""Annealing: moves and costs of both walks, temperatures, and the same move through the simanneal package."""

import math
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.brute_force import optimum
from support.clocks import LooksBudget
from support.oracle import ROUNDING, OracleWindow
from support.results import solved_by
from support.windows import fat_trees, paper_window, trees, window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, hop_costs
from allocopt.errors import InvalidSolutionError, UsageError
from allocopt.heuristics.topology import annealing
from allocopt.heuristics.topology import simanneal_reference as reference
from allocopt.heuristics.topology.annealing import (
    Annealing,
    AnnealingAsPublished,
    Rules,
    Schedule,
    Walk,
    WindowAnnealing,
    _anneal_by_swaps,
    _is_non_crossing,
    _Swapping,
    anneal_anywhere,
)
from allocopt.heuristics.topology.simanneal_reference import SimannealReference
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.problem import check_non_crossing
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import get_solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify


def walked(problem: TopologyProblem, schedule: Schedule, *, restores: bool = True, seed: int = 0) -> Walk:
    """Return where the walk stands after all steps from the sequential allocation."""
    walk = Walk.at(problem, Allocation.sequential(problem))
    rules = Rules.of(problem, schedule, restores=restores)
    anneal_anywhere(encode(problem), walk, rules, 0, 0, schedule.steps, np.random.default_rng(seed))
    return walk


def costs_along(problem: TopologyProblem, temperature: float, steps: int, seed: int = 3) -> Iterator[float]:
    """Yield the cost that the walk by the paper's move accepted last, before the first step and after each."""
    walk, kernel_window = Walk.at(problem, Allocation.sequential(problem)), encode(problem)
    rules = Rules.of(problem, Schedule(temperature, temperature, steps, 3), restores=True)
    rng = np.random.default_rng(seed)
    yield float(walk.totals[0])
    for step in range(steps):
        anneal_anywhere(kernel_window, walk, rules, 0, step, step + 1, rng)
        yield float(walk.totals[0])


def costs_along_swaps(problem: TopologyProblem, temperature: float, steps: int, seed: int = 3) -> Iterator[float]:
    """Yield the same of the walk by swaps, as its savings say, which are those of its allocations."""
    swapping = _Swapping.at(problem, Allocation.sequential(problem), seed)
    before, hop = problem.objective(Allocation.sequential(problem)), encode(problem).scale
    yield before
    for _ in range(steps):
        _anneal_by_swaps(swapping, 1, temperature, temperature)
        cost = before - float(swapping.saving[0]) * hop
        assert verify(problem, swapping.allocation(problem)) == pytest.approx(cost, rel=1e-9, abs=1e-6)
        yield cost


def move(problem: TopologyProblem, owners: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Return the owners after one move of the kernel."""
    walk = Walk.at(problem, Allocation.of_owners(problem, owners))
    # So hot that every move is accepted.
    anneal_anywhere(encode(problem), walk, Rules(1e12, 1e12, 1, most, False, True), 0, 0, 1, rng)
    return walk.working


def costs_at(problem: TopologyProblem, owners: IntArray) -> np.ndarray:
    return hop_costs(problem.topology, problem.hop_cost, Allocation.of_owners(problem, owners).nodes)


def crosses(problem: TopologyProblem, owners: IntArray) -> bool:
    try:
        check_non_crossing(problem, owners)
    except InvalidSolutionError:
        return True
    return False


owner_arrays = windows(most_idle=12, most_jobs=4).flatmap(
    lambda problem: st.tuples(
        st.just(problem),
        st.permutations(
            [job for job, size in enumerate(problem.sizes.tolist()) for _ in range(size)]
            + [-1] * (len(problem.idle_nodes) - int(problem.sizes.sum()))
        ),
    )
)


@given(owner_arrays)
def test_the_kernel_and_the_verifier_agree_on_what_crosses(case: tuple[TopologyProblem, list[int]]) -> None:
    problem, owners = case[0], np.array(case[1], dtype=np.int64)
    assert _is_non_crossing(owners, problem.sizes) is not crosses(problem, owners)


@given(owner_arrays, st.integers(1, 4), st.integers(0, 2**32))
def test_a_move_always_yields_a_partition_of_the_right_sizes(
    case: tuple[TopologyProblem, list[int]], most: int, seed: int
) -> None:
    problem, before = case[0], np.array(case[1], dtype=np.int64)
    after = move(problem, before, most, np.random.default_rng(seed))
    counts = np.bincount(after + 1, minlength=len(problem.jobs) + 1)
    assert counts[1:].tolist() == problem.sizes.tolist()
    moved = set(before[before != after].tolist()) | set(after[before != after].tolist())
    assert len(moved - {-1}) <= most


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "most"), [([2, 1], 1), ([2, 1], 2), ([2, 2], 2), ([3, 2], 2), ([2, 1, 1], 3)])
def test_the_kernel_moves_as_often_to_each_state_as_its_obvious_twin(sizes: list[int], most: int) -> None:
    problem = window(FatTree(1, 3, 2), range(5), sizes)
    start = Allocation.sequential(problem).owners(problem)
    draws, rng = 3_000, np.random.default_rng(1)
    kernel = Counter(tuple(move(problem, start, most, rng).tolist()) for _ in range(draws))
    twin = Counter(tuple(reference._destroy_and_repair(start, problem.sizes, most, rng).tolist()) for _ in range(draws))
    assert set(kernel) == set(twin)
    for state, count in kernel.items():
        # Five standard deviations of the difference of two counts.
        assert abs(count - twin[state]) <= 5 * np.sqrt(count + twin[state])


def assert_costs_are_kept(problem: TopologyProblem, walk: Walk, relative: float) -> None:
    kept = [walk.working_costs, walk.accepted_costs, walk.totals]
    counted = [costs_at(problem, owners) for owners in (walk.working, walk.accepted, walk.best)]
    expected = [*counted[:2], [counted[1].sum(), counted[2].sum()]]
    for one, other in zip(kept, expected, strict=True):
        assert one == pytest.approx(other, rel=relative, abs=1e-9)
    assert walk.totals[1] <= walk.totals[0]


@pytest.mark.parametrize(
    ("strategy", "restores"), [(Strategy.DCAS, True), (Strategy.FREE, True), (Strategy.FREE, False)]
)
@given(problem=windows(most_idle=14, most_jobs=5, topologies=fat_trees | trees()), steps=st.integers(1, 60))
def test_costs_kept_by_the_walk_are_those_of_a_full_count(
    strategy: Strategy, restores: bool, problem: TopologyProblem, steps: int
) -> None:
    walk = walked(problem.with_strategy(strategy), Schedule(5.0, 0.25, steps, 3), restores=restores)
    assert_costs_are_kept(problem, walk, 1e-9)


def test_costs_do_not_drift_in_long_walks() -> None:
    problem = paper_window(1)
    assert_costs_are_kept(problem, walked(problem, Schedule(5.0, 0.25, 20_000, 3)), 1e-12)
    swapping = _Swapping.at(problem, Allocation.sequential(problem), 1)
    _anneal_by_swaps(swapping, 200_000, 1.0, 1.0)
    saved = problem.objective(Allocation.sequential(problem)) - problem.objective(swapping.allocation(problem))
    assert swapping.saving[0] * encode(problem).scale == pytest.approx(saved, rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_under_dcas_no_state_of_the_walk_crosses(seed: int) -> None:
    problem = paper_window(seed, Strategy.DCAS)
    walk = walked(problem, Schedule(5.0, 0.25, 300, 3), seed=seed)
    for owners in (walk.working, walk.accepted, walk.best):
        assert not crosses(problem, owners)


def test_under_free_the_walk_leaves_dcas() -> None:
    crossing = [
        crosses(problem, walked(problem, Schedule(5.0, 0.25, 300, 3)).accepted)
        for problem in (paper_window(seed) for seed in range(10))
    ]
    assert any(crossing)


def test_a_proper_walk_starts_every_move_from_the_accepted_state_and_the_published_one_does_not() -> None:
    problem = paper_window(4)
    frozen = Schedule(1e-6, 1e-6, 50, 2)
    proper, published = walked(problem, frozen), walked(problem, frozen, restores=False)
    assert proper.working.tolist() == proper.accepted.tolist()
    assert published.working.tolist() != published.accepted.tolist()
    assert proper.totals[1] != published.totals[1]


@pytest.mark.parametrize("along", [costs_along, costs_along_swaps])
def test_at_no_temperature_only_what_is_not_worse_is_accepted(along: Callable[..., Iterator[float]]) -> None:
    costs = list(along(paper_window(5), 1e-12, 300))
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]


LONELY = window(FatTree(2, 2, 3), [0, 1, 2, 3, 6, 7, 9], [3], hop_cost=1.0)
BLOCK_COSTS = hop_costs(LONELY.topology, 1.0, [LONELY.idle_nodes[(start + np.arange(3)) % 7] for start in range(7)])
"""A single job: a move puts it on any of the circular blocks, each as likely."""


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_at_a_constant_temperature_states_are_visited_as_boltzmann_says(temperature: float) -> None:
    # Metropolis' rule makes the share of each block proportional to exp(-cost / temperature).
    steps, costs = 15_000, BLOCK_COSTS.round(9)
    visits = Counter(round(cost, 9) for cost in islice(costs_along(LONELY, temperature, steps, 7), 1, None))
    weights = np.exp(-costs / temperature)
    assert len(set(costs)) >= 3
    for cost in set(costs):
        expected = weights[costs == cost].sum() / weights.sum()
        assert visits[float(cost)] / steps == pytest.approx(expected, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "temperature"), [(0, 4.0), (50, 1.0), (75, 0.5), (25, 2.0)])
def test_the_temperature_falls_geometrically_and_a_worse_state_is_accepted_by_metropolis_rule(
    step: int, temperature: float
) -> None:
    rules = Rules.of(LONELY, Schedule(4.0, 0.25, 100, 1), restores=True)
    rng, kernel_window, draws, worse = np.random.default_rng(11), encode(LONELY), 4000, 0
    for _ in range(draws):
        walk = Walk.at(LONELY, Allocation.sequential(LONELY))
        before = float(walk.totals[0])
        anneal_anywhere(kernel_window, walk, rules, 0, step, step + 1, rng)
        worse += float(walk.totals[0]) > before
    rises = BLOCK_COSTS - before
    expected = np.exp(-rises[rises > 0] / temperature).sum() / len(rises)
    assert worse / draws == pytest.approx(expected, abs=0.025)


several_levels = windows(most_idle=14, most_jobs=5, topologies=st.just(FatTree(2, 2, 4)) | trees(levels=3))


@pytest.mark.parametrize("temperature", [5.0, 1e12])
@given(problem=several_levels, seed=st.integers(0, 2**40))
def test_every_single_swap_saves_what_its_allocation_saves(
    temperature: float, problem: TopologyProblem, seed: int
) -> None:
    assert len(list(costs_along_swaps(problem, temperature, 15, seed))) == 16


@given(problem=windows(most_idle=12, most_jobs=4), iterations=st.integers(1, 200), seed=st.integers(0, 2**40))
def test_the_answer_is_never_worse_than_greedy(problem: TopologyProblem, iterations: int, seed: int) -> None:
    greedy = solve(problem, strategy="free", solver="greedy").objective
    assert (
        solve(problem, strategy="free", solver=Annealing(), time_limit=None, seed=seed, iterations=iterations).objective
        <= greedy
    )


def test_without_a_table_of_counts_the_papers_move_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(3)
    monkeypatch.setattr(annealing, "LARGEST_TABLE", 10)
    result = Annealing(steps=50).solve(problem, Budget(), 0)
    assert (result.stopped_by, result.bound) == (StopReason.ITERATIONS, None)
    verify(problem, result.solution)


Searching = Annealing | AnnealingAsPublished | SimannealReference
TAKEN = [(Annealing(), Strategy.DCAS), (Annealing(), Strategy.FREE), (AnnealingAsPublished(), Strategy.FREE)]


@settings(max_examples=30)
@given(windows(most_idle=7, most_jobs=3))
def test_long_walks_find_the_optimum_of_tiny_windows_and_never_pass_it(problem: TopologyProblem) -> None:
    problem = problem.with_strategy(Strategy.DCAS)
    hot = Annealing(hottest=50.0, coldest=0.25)
    solutions = [solved_by(hot, problem, Budget(iterations=3000), seed).solution for seed in range(3)]
    best = min(problem.objective(solution) for solution in solutions)
    assert best == pytest.approx(optimum(problem), rel=1e-9, abs=1e-9)


@pytest.mark.slow
def test_a_thousand_steps_come_close_to_the_proven_optima_and_never_below(oracle_windows: list[OracleWindow]) -> None:
    gaps = []
    for case in oracle_windows:
        for strategy in (Strategy.DCAS, Strategy.FREE):
            result = solved_by(Annealing(), case.problem.with_strategy(strategy))
            assert result.objective is not None
            assert result.objective >= case.optimum[strategy] - ROUNDING
            gaps.append(result.objective / case.optimum[Strategy.SCAS] - 1)
    assert np.mean(gaps) <= 0.015


def test_the_published_walk_is_farther_from_the_optima(oracle_windows: list[OracleWindow]) -> None:
    def mean_cost(solver: Searching) -> float:
        return float(np.mean([solved_by(solver, case.problem).objective for case in oracle_windows]))

    assert mean_cost(AnnealingAsPublished()) > 1.03 * mean_cost(Annealing())


@pytest.mark.parametrize(("solver", "strategy"), TAKEN)
@pytest.mark.parametrize("looks", [0, 1, 2, 5])
def test_cut_off_anywhere_it_returns_the_best_so_far(
    solver: Searching, strategy: Strategy, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = paper_window(2, strategy)
    monkeypatch.setattr(annealing, "WALK_SLICE", 10 * len(problem.idle_nodes))
    monkeypatch.setattr(annealing, "SWAPS_SLICE", 1000)
    warm_start = Allocation.sequential(problem)
    result = solved_by(solver, problem, LooksBudget(looks=looks), 0, warm_start)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.TIME_LIMIT)
    whole = solver.solve(problem, Budget(), 0, warm_start)
    assert result.incumbents[-1].objective == result.objective
    assert [i.objective for i in result.incumbents] == [i.objective for i in whole.incumbents][: len(result.incumbents)]


@pytest.mark.parametrize(
    ("solver", "strategy"), [(Annealing(steps=37), Strategy.DCAS), (Annealing(swaps=37), Strategy.FREE)]
)
def test_the_steps_of_the_options_count_where_the_budget_sets_none(solver: Annealing, strategy: Strategy) -> None:
    problem = paper_window(2, strategy)
    by_option = solved_by(solver, problem)
    by_budget = solved_by(Annealing(), problem, Budget(iterations=37))
    assert by_option.solution.as_dict(problem) == by_budget.solution.as_dict(problem)


@pytest.mark.parametrize("solver", ["annealing", "annealing-as-published", "simanneal"])
@pytest.mark.parametrize(
    "options",
    [
        {"hottest": 0.1, "coldest": 0.2},
        *({"coldest": coldest} for coldest in (0.0, -1.0, math.nan)),
        *({"hottest": hottest} for hottest in (math.inf, math.nan)),
        *({"steps": steps} for steps in (0, -5)),
        *({"most_removed": most} for most in (0, 101)),
    ],
)
def test_an_option_out_of_range_is_refused(solver: str, options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"temperatures|steps|most_removed"):
        get_solver(solver, options)


class PapersMove(WindowAnnealing):
    """The kernel's walk with the paper's move under either strategy."""

    name = Annealing.name
    capabilities = Annealing.capabilities
    restores = True


FIFTY = Budget(iterations=50)


def test_the_handler_of_ctrl_c_is_left_as_it_was() -> None:
    before = signal.getsignal(signal.SIGINT)
    solved_by(SimannealReference(), paper_window(1), FIFTY)
    assert signal.getsignal(signal.SIGINT) is before


def test_it_works_off_the_main_thread() -> None:
    results: list[Result] = []
    problem = paper_window(1)
    thread = threading.Thread(target=lambda: results.append(solved_by(SimannealReference(), problem, FIFTY)))
    thread.start()
    thread.join()
    assert results[0].objective == solved_by(SimannealReference(), problem, FIFTY).objective


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [Strategy.DCAS, Strategy.FREE])
def test_it_is_as_good_as_the_kernel_on_average(strategy: Strategy) -> None:
    problems = [paper_window(seed, strategy) for seed in range(8)]
    ours = np.mean([PapersMove(steps=500).solve(problem, Budget(), 0).objective for problem in problems])
    theirs = np.mean(
        [solved_by(SimannealReference(), problem, Budget(iterations=500)).objective for problem in problems]
    )
    assert ours == pytest.approx(theirs, rel=0.03)
