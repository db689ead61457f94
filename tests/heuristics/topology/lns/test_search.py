"""What the large neighbourhood search keeps true in every step, and how near it comes to proven optima."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counts import counts_of_vertices, patterns
from support.oracle import read_oracle
from support.windows import paper_window, trees, window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Topology
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from heuristics.topology.lns.kernels import search_neighbourhoods
from heuristics.topology.lns.solver import Lns
from heuristics.topology.lns.state import N_OPEN, Groups, Holdings, Moves, Open, Search, State, Window, parts_of

MOVES = Lns().moves(5)
NARROW = MOVES._replace(few=2, others=1)
"""Most of the tree stays closed."""

any_windows = windows(most_idle=14, most_jobs=6) | windows(
    most_idle=30, most_jobs=8, topologies=st.just(FatTree(20, 2, 2))
)
any_moves = st.sampled_from(
    [
        MOVES,
        Lns().moves(1000),
        NARROW,
        MOVES._replace(price=0.0, inner_price=0.0),
        NARROW._replace(related=1.0, climb=0.8),
    ]
)


def counts(start: Window, holdings: Holdings) -> IntArray:
    """Nodes that each job has of each vertex, shape ``(J, V)``, made from the entries alone."""
    n_leaves = len(start.tree.leaf_first) - 1
    rows = []
    for job, first in enumerate(holdings.first[:-1]):
        pattern = np.zeros(n_leaves, dtype=np.int64)
        for entry in range(first, first + holdings.length[job]):
            assert holdings.nodes[entry] > 0
            assert pattern[holdings.leaf[entry]] == 0
            pattern[holdings.leaf[entry]] = holdings.nodes[entry]
        rows.append(counts_of_vertices(start.tree, tuple(pattern.tolist())))
    return np.array(rows)


def savings(start: Window, holdings: Holdings) -> np.ndarray:
    """Return what each job saves, in hops, made from its counts."""
    return counts(start, holdings).astype(float) ** 2 @ start.tree.weight / start.problem.sizes


def assert_consistent(start: Window, groups: Groups, holdings: Holdings) -> None:
    """Everything that is kept step by step is what it would be if it were made anew."""
    of_jobs = counts(start, holdings)
    idle = start.tree.idle - of_jobs.sum(axis=0)
    assert (groups.idle == idle).all()
    assert (of_jobs[:, -1] == start.problem.sizes).all()
    assert holdings.saving == pytest.approx(savings(start, holdings))
    for vertex in range(len(idle)):
        first, last = start.tree.first_child[vertex : vertex + 2]
        children = groups.children[first:last]
        assert sorted(children) == sorted(start.tree.children[first:last])
        assert (groups.place[children] == np.arange(first, last)).all()
        assert (groups.parent[children] == vertex).all()
        assert groups.awake[vertex] == (idle[children] > 0).sum()
        assert (idle[children[: groups.awake[vertex]]] > 0).all()
    for leaf, n_holders in enumerate(groups.n_holders):
        entries = groups.holders[groups.leaf_first[leaf] :][:n_holders]
        assert sorted(groups.owner[entries]) == np.flatnonzero(of_jobs[:, leaf]).tolist()
        assert (holdings.leaf[entries] == leaf).all()


def stepped(
    problem: TopologyProblem, moves: Moves, steps: int, seed: int, most_removed: int = 5
) -> Iterator[tuple[Window, State, Groups, Open, Search]]:
    """Yield the state after each step."""
    start = Window.of(problem)
    state = start.begin(Allocation.sequential(problem), start.alone(), most_removed, moves, seed)
    for _ in range(steps):
        search_neighbourhoods(state, moves, 1.0, 1.0, 1)
        yield start, state, *parts_of(state)


@given(problem=any_windows, moves=any_moves, seed=st.integers(0, 9))
def test_after_every_step_all_that_is_kept_is_what_it_would_be_made_anew(
    problem: TopologyProblem, moves: Moves, seed: int
) -> None:
    before = -np.inf
    for start, state, groups, _, search in stepped(problem, moves, 12, seed):
        assert_consistent(start, groups, search.present)
        for holdings, saving in zip((search.present, search.best), search.savings, strict=True):
            allocation = start.allocation_of(holdings)
            verify(problem, allocation)
            assert start.cost(saving) == pytest.approx(problem.objective(allocation))
            assert saving == pytest.approx(savings(start, holdings).sum())
        assert start.allocation(state).as_dict(problem) == start.allocation_of(search.best).as_dict(problem)
        assert search.savings[1] >= max(before, search.savings[0] - 1e-6)
        before = search.savings[1]


@given(problem=windows(most_idle=9, most_jobs=4, topologies=trees(9)), moves=any_moves, seed=st.integers(0, 99))
def test_the_last_job_is_inserted_where_it_gains_most_in_the_open_part(
    problem: TopologyProblem, moves: Moves, seed: int
) -> None:
    for _, _, _, part, search in stepped(problem, moves, 3, seed):
        n_open = int(search.counters[N_OPEN])
        leaves = [i for i in range(n_open) if part.first[i] == part.last[i]]
        size, take = int(part.take[0]), part.take[:n_open]

        def gain(counts: IntArray, leaves: list[int] = leaves, part: Open = part, n_open: int = n_open) -> float:
            return float(part.weight[:n_open] @ counts**2 - part.price[1:n_open] @ counts[1:])

        def counts_of(pattern: tuple[int, ...], leaves: list[int] = leaves, part: Open = part) -> IntArray:
            counts = np.zeros(n_open, dtype=np.int64)  # noqa: B023
            counts[leaves] = pattern
            for i in range(len(counts) - 1, -1, -1):
                if i not in leaves:
                    counts[i] = counts[part.first[i] : part.last[i]].sum()
            return counts

        assert (take == counts_of(tuple(take[leaves].tolist()))).all()
        assert (take <= part.idle[:n_open]).all()
        best = max(gain(counts_of(pattern)) for pattern in patterns(part.idle[leaves], size))
        assert gain(take) == pytest.approx(best)


@given(problem=windows(most_idle=12, most_jobs=1), seed=st.integers(0, 9))
def test_a_job_that_is_alone_is_optimal_after_a_step_without_prices(problem: TopologyProblem, seed: int) -> None:
    ((start, _, _, _, search),) = stepped(problem, MOVES._replace(price=0.0, inner_price=0.0), 1, seed)
    assert search.savings[1] == pytest.approx(start.alone().sum())


@given(problem=any_windows, seed=st.integers(0, 9))
def test_an_allocation_becomes_holdings_and_holdings_an_allocation_of_the_same_cost(
    problem: TopologyProblem, seed: int
) -> None:
    allocation = solve(problem, "free", "annealing", None, seed, iterations=5).solution
    start = Window.of(problem)
    greedy = start.greedily(5, MOVES, seed)
    for state in (start.begin(allocation, start.alone(), 5, MOVES, seed), start.moved(greedy, allocation, MOVES)):
        groups, _, search = parts_of(state)
        assert_consistent(start, groups, search.present)
        assert start.cost(search.savings[0]) == pytest.approx(problem.objective(allocation))
        assert problem.objective(start.allocation(state)) == pytest.approx(problem.objective(allocation))


@given(problem=any_windows, seed=st.integers(0, 9))
def test_the_search_begins_where_the_solver_greedy_ends_and_knows_its_bound(
    problem: TopologyProblem, seed: int
) -> None:
    start, greedy = Window.of(problem), solve(problem, "free", "greedy", None)
    state = start.greedily(5, MOVES, seed)
    groups, _, search = parts_of(state)
    assert_consistent(start, groups, search.present)
    assert problem.objective(start.allocation(state)) == pytest.approx(greedy.objective)
    assert start.alone() == pytest.approx(search.alone)
    assert start.cost(float(parts_of(state)[2].alone.sum())) == pytest.approx(greedy.bound)


@given(problem=any_windows, steps=st.integers(1, 60), seed=st.integers(0, 9))
def test_the_answer_is_valid_never_worse_than_the_start_and_fixed_by_the_seed(
    problem: TopologyProblem, steps: int, seed: int
) -> None:
    warm_start = solve(problem, "free", "annealing", None, seed, iterations=5).solution
    first, again = (
        solve(problem, "free", Lns(), None, seed, iterations=steps, warm_start=warm_start) for _ in range(2)
    )
    assert first.objective is not None
    assert first.objective <= problem.objective(warm_start)
    assert first.objective == verify(problem, first.solution)
    assert again.solution.as_dict(problem) == first.solution.as_dict(problem)


@pytest.mark.parametrize("topology", [FatTree(1, 1, 60), FatTree(1, 60, 1), FatTree(3, 4, 5)], ids=str)
def test_flat_and_narrow_trees_are_taken(topology: Topology) -> None:
    problem = window(topology, range(topology.size), [7, 13, 1, 20, 3])
    result = solve(problem, "free", Lns(), None, 0, iterations=200)
    assert result.objective == verify(problem, result.solution)


def test_with_a_time_limit_alone_the_search_gives_up_where_cycles_find_nothing_more() -> None:
    problem = window(FatTree(4, 4, 4), range(0, 64, 2), [5, 9, 11])
    result = solve(problem, "free", Lns(steps=10), 3600.0, 0)
    assert result.runtime_s < 1800
    assert result.objective == verify(problem, result.solution)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_window_is_searched_sparsely(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = FatTree(20, 20, 20)
    idle = np.sort(rng.choice(topology.size, 3000, replace=False))
    problem = window(topology, idle, rng.integers(2, 40, 120).tolist())
    *_, (start, _, groups, _, search) = stepped(problem, MOVES, 400, seed)
    assert_consistent(start, groups, search.present)
    assert search.counters[N_OPEN] < 200
    assert start.cost(search.savings[1]) < problem.objective(Allocation.sequential(problem))


def test_a_window_like_the_papers_gets_better_with_steps() -> None:
    problem = paper_window(3)
    few, many = (solve(problem, "free", Lns(), None, 0, iterations=steps).objective for steps in (1, 1000))
    assert few is not None
    assert many is not None
    assert many < few


@pytest.mark.slow
def test_with_a_thousand_steps_proven_optima_are_missed_by_a_twentieth_of_a_percent(shared_data: Path) -> None:
    gaps = []
    for oracle in read_oracle(shared_data / "tjap" / "oracle_windows.json"):
        optimum = oracle.optimum[Strategy.FREE]
        for seed in range(3):
            found = solve(oracle.problem, "free", Lns(), None, seed).objective
            assert found is not None
            gaps.append(found / optimum - 1)
    assert min(gaps) > -1e-6
    assert np.mean(gaps) < 5e-4


def test_a_window_whose_steps_would_be_slow_is_refused() -> None:
    problem = window(FatTree(1, 2, 5000), range(10_000), [9000, 100])
    assert "90,000,000 is the product" in str(Lns().refusal(problem))
    assert Lns().refusal(window(FatTree(1, 2, 5000), range(10_000), [4000, 100])) is None
