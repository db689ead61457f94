"""Annealing on counts: what its kernel keeps true, and how near it comes to proven optima."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracle import ROUNDING, OracleWindow
from support.windows import paper_window, trees, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving.budget import Budget
from allocopt.solving.result import StopReason
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from heuristics.topology import annealing
from heuristics.topology.annealing import Annealing, Swapping, anneal_by_swaps

several_levels = windows(most_idle=14, most_jobs=5, topologies=st.just(FatTree(2, 2, 4)) | trees(levels=3))


def walked(problem: TopologyProblem, steps: int, seed: int, temperature: float = 1.0) -> Swapping:
    """Return where the walk stands after some steps from the sequential allocation."""
    swapping = Swapping.at(problem, Allocation.sequential(problem), seed)
    anneal_by_swaps(swapping, steps, temperature, temperature)
    return swapping


def cost_of_a_hop(problem: TopologyProblem) -> float:
    return encode(problem).scale


@given(problem=several_levels, steps=st.integers(1, 60), seed=st.integers(0, 2**40))
def test_the_saving_kept_by_the_walk_is_that_of_a_full_count(problem: TopologyProblem, steps: int, seed: int) -> None:
    swapping = walked(problem, steps, seed, 5.0)
    before = problem.objective(Allocation.sequential(problem))
    after = verify(problem, swapping.allocation(problem))
    assert before - after == pytest.approx(swapping.saving[0] * cost_of_a_hop(problem), rel=1e-9, abs=1e-6)


@given(problem=several_levels, seed=st.integers(0, 2**40))
def test_every_single_move_saves_what_its_allocation_saves(problem: TopologyProblem, seed: int) -> None:
    swapping = Swapping.at(problem, Allocation.sequential(problem), seed)
    before = problem.objective(Allocation.sequential(problem))
    for _ in range(10):
        saving = float(swapping.saving[0])
        anneal_by_swaps(swapping, 1, 1e12, 1e12)
        after = problem.objective(swapping.allocation(problem))
        change = (swapping.saving[0] - saving) * cost_of_a_hop(problem)
        assert before - after == pytest.approx(change, rel=1e-9, abs=1e-6)
        before = after


def test_at_no_temperature_nothing_is_accepted_that_is_worse() -> None:
    problem = paper_window(5)
    swapping = Swapping.at(problem, Allocation.sequential(problem), 3)
    savings = [0.0]
    for _ in range(300):
        anneal_by_swaps(swapping, 1, 1e-12, 1e-12)
        savings.append(float(swapping.saving[0]))
    assert savings == sorted(savings)
    assert savings[-1] > 0


def test_costs_do_not_drift_in_a_long_walk() -> None:
    problem = paper_window(1)
    swapping = walked(problem, 200_000, 1)
    saved = problem.objective(Allocation.sequential(problem)) - problem.objective(swapping.allocation(problem))
    assert swapping.saving[0] * cost_of_a_hop(problem) == pytest.approx(saved, rel=1e-9)


@given(problem=windows(most_idle=12, most_jobs=4), iterations=st.integers(1, 200), seed=st.integers(0, 2**40))
def test_the_answer_is_never_worse_than_greedy_or_the_warm_start(
    problem: TopologyProblem, iterations: int, seed: int
) -> None:
    greedy = solve(problem, "free", "greedy").objective
    warm = Allocation.sequential(problem)
    cold_started = solve(problem, "free", Annealing(), None, seed, iterations=iterations).objective
    warm_started = solve(problem, "free", Annealing(), None, seed, iterations=iterations, warm_start=warm).objective
    assert cold_started is not None
    assert warm_started is not None
    assert greedy is not None
    assert cold_started <= greedy
    assert warm_started <= problem.objective(warm)


def test_by_default_it_comes_within_a_percent_of_proven_optima_and_never_below(
    oracle_windows: list[OracleWindow],
) -> None:
    gaps = []
    for case in oracle_windows:
        objective = solve(case.problem, "free", Annealing(), None).objective
        assert objective is not None
        assert objective >= case.optimum[Strategy.FREE] - ROUNDING
        gaps.append(objective / case.optimum[Strategy.FREE] - 1)
    assert np.mean(gaps) < 0.01


def test_without_a_table_of_counts_the_papers_move_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(3)
    monkeypatch.setattr(annealing, "LARGEST_TABLE", 10)
    result = Annealing(steps=50).solve(problem, Budget(), 0)
    assert (result.stopped_by, result.bound) == (StopReason.ITERATIONS, None)
    verify(problem, result.solution)
