"""The large neighbourhood search for DCAS: what every step keeps true, against obvious twins, and how good it is."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import hop_matrix, optimum, pairwise_cost
from support.clocks import LooksBudget
from support.results import solved_by
from support.windows import fat_trees, paper_window, trees, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.heuristics.topology.lns.solver import Lns
from allocopt.heuristics.topology.nested import _Moves, _place_in_order, _search_partitions, _Start
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.result import Status
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify

MOVES = _Moves(3.0, 5, 2, 6, 0.5)
"""So few nodes near a place that both ways to look at windows are taken."""

dcas_windows = windows(most_idle=16, most_jobs=6, strategy=Strategy.DCAS, topologies=fat_trees | trees())


def searched(problem: TopologyProblem, steps: int, seed: int, temperature: float = 1.0) -> tuple[_Start, Any, Any]:
    """Search for some steps from the sequential allocation."""
    start = _Start.of(problem)
    ring = start.ring(Allocation.sequential(problem))
    search, slide = start.search(ring, seed), start.slide()
    if len(start.circle.weights):
        _search_partitions(
            start.circle, ring, search, slide, MOVES, start.n_groups, steps, temperature, temperature / 10
        )
    assert not slide.counts.any()
    return start, ring, search


def cost(start: _Start, saving: float) -> float:
    """Hop cost of an allocation that saves so many hops at the levels that tell nodes apart."""
    problem = start.problem
    base = problem.objective(Allocation.sequential(problem))
    first = start.savings(start.ring(Allocation.sequential(problem)).chains).sum()
    scale = problem.hop_cost if problem.topology.pairs == "ordered" else problem.hop_cost / 2
    return float(base + scale * (first - saving))


@given(problem=dcas_windows, steps=st.integers(1, 60), seed=st.integers(0, 2**40))
def test_every_state_is_non_crossing_and_costs_what_is_kept(problem: TopologyProblem, steps: int, seed: int) -> None:
    start, ring, search = searched(problem, steps, seed)
    for chains, saving in ((ring.chains, search.totals[0]), (search.best, search.totals[1])):
        assert verify(problem, start.allocation(chains)) == pytest.approx(cost(start, saving), rel=1e-9, abs=1e-6)
    assert search.totals[1] >= search.totals[0] - 1e-9
    assert search.savings == pytest.approx(start.savings(ring.chains))


@pytest.mark.parametrize("temperature", [1e-9, 1.0, 1e6])
@given(problem=dcas_windows, steps=st.integers(1, 60), seed=st.integers(0, 2**40))
def test_the_ring_kept_step_by_step_is_that_of_the_state_whether_moves_are_taken_or_undone(
    temperature: float, problem: TopologyProblem, steps: int, seed: int
) -> None:
    start, ring, _ = searched(problem, steps, seed, temperature)
    again = start.ring(start.allocation(ring.chains))
    assert ring.owners.tolist() == again.owners.tolist()
    left = np.flatnonzero(ring.owners < 0)
    assert ring.after[left].tolist() == again.after[left].tolist()
    assert ring.before[left].tolist() == again.before[left].tolist()
    assert ring.chains.tolist() == again.chains.tolist()
    assert ring.idle[0] == len(left)


def least_cost(problem: TopologyProblem, left: Sequence[int], size: int, barrier: int) -> float:
    """Cost of the cheapest window of the circular sequence of those left over, without the barrier."""
    hops = hop_matrix(problem)
    every = [[left[(start + k) % len(left)] for k in range(size)] for start in range(len(left))]
    return min(pairwise_cost(problem, hops, one) for one in every if barrier not in one)


@given(problem=dcas_windows, data=st.data())
def test_jobs_placed_in_order_get_their_cheapest_windows(problem: TopologyProblem, data: st.DataObject) -> None:
    start = _Start.of(problem)
    if not len(start.circle.weights):
        return
    ring, slide = start.empty_ring(), start.slide()
    order = np.array(data.draw(st.permutations(range(len(problem.jobs)))))
    for index, job in enumerate(order.tolist()):
        left = np.flatnonzero(ring.owners < 0).tolist()
        least = least_cost(problem, left, problem.jobs[job].nodes, start.circle.barrier)
        _place_in_order(start.circle, ring, slide, order, index, index + 1, len(ring.owners))
        nodes = problem.idle_nodes[np.flatnonzero(ring.owners[: len(problem.idle_nodes)] == job)]
        alone = TopologyProblem(problem.topology, problem.idle_nodes, (problem.jobs[job],), problem.hop_cost)
        assert alone.objective(Allocation((nodes,))) == pytest.approx(least, rel=1e-9, abs=1e-9)
    verify(problem, start.allocation(ring.chains))


@given(windows(most_idle=7, most_jobs=3, strategy=Strategy.DCAS))
def test_it_finds_the_optimum_of_tiny_windows(problem: TopologyProblem) -> None:
    best = min(
        solve(problem, strategy="dcas", solver=Lns(), time_limit=None, seed=seed, iterations=1000).objective or 0.0
        for seed in range(2)
    )
    assert best == pytest.approx(optimum(problem), rel=1e-9, abs=1e-9)


def test_a_nested_job_is_given_room_by_the_one_around_it() -> None:
    # The job of 4 costs least in the two leaves of 2, which is contiguous only when the leaf between them is taken.
    problem = window(FatTree(1, 3, 3), [0, 1, 3, 4, 5, 6, 7], [4, 3], strategy=Strategy.DCAS)
    allocation = solve(problem, strategy="dcas", solver=Lns(), time_limit=None).solution
    assert allocation.nodes[1].tolist() == [3, 4, 5]


@pytest.mark.parametrize("full", [False, True])
def test_a_warm_start_may_nest_deeply(full: bool) -> None:
    m, depth = 40, 20 if full else 19
    owners = np.full(m, -1)
    for job in range(depth):
        owners[[job, 39 - job]] = job
    problem = window(FatTree(4, 2, 5), range(m), [2] * depth, strategy=Strategy.DCAS)
    warm_start = Allocation.of_owners(problem, owners)
    result = solve(problem, strategy="dcas", solver=Lns(), time_limit=None, iterations=500, warm_start=warm_start)
    assert result.objective is not None
    assert result.objective < problem.objective(warm_start)


solved = partial(solved_by, Lns())


@pytest.mark.parametrize("looks", [0, 1, 2, 3, 5, 9])
def test_cut_off_anywhere_it_returns_the_best_so_far(looks: int) -> None:
    result = solved(paper_window(2, Strategy.DCAS), LooksBudget(looks=looks))
    assert result.status is Status.FEASIBLE
    assert result.bound is not None
    assert result.incumbents[-1].objective == result.objective


def test_where_no_level_tells_nodes_apart_nothing_is_searched() -> None:
    problem = window(FatTree(1, 1, 8), range(8), [3, 2], strategy=Strategy.DCAS)
    assert solved(problem).status is Status.OPTIMAL
