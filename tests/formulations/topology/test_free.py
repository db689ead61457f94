"""Exact FREE: an optimum is a forest, pricing and cuts are exact, and layers find the best allocation."""

import itertools
from collections.abc import Iterator
from functools import cache

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.clocks import ScriptedBudget
from support.counts import Pattern, counts_of_vertices, largest_saving, leaf_groups, patterns, saving
from support.side import demand_of
from support.windows import fat_trees, paper_window, tiny_window, trees, window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import FatTree
from allocopt.formulations.topology.free import layers as module
from allocopt.formulations.topology.free.layers import LayeredSearch, Layers, Order, _Jobs
from allocopt.formulations.topology.free.pricing import Pricing, _Row
from allocopt.formulations.topology.free.solver import _ColumnGeneration
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.budget import Budget

ROUNDING = 1e-9


def allocations(left: Pattern, sizes: tuple[int, ...]) -> Iterator[tuple[Pattern, ...]]:
    """All ways to give the jobs nodes of the leaves; the last pattern is the leftover's."""
    if not sizes:
        yield (left,)
        return
    for pattern in patterns(np.array(left), sizes[0]):
        rest = tuple(nodes - taken for nodes, taken in zip(left, pattern, strict=True))
        yield from ((pattern, *others) for others in allocations(rest, sizes[1:]))


def optima(problem: TopologyProblem) -> Iterator[tuple[Pattern, ...]]:
    """All optimal ways."""
    encoding = encode(problem)
    idle = tuple(leaf_groups(encoding)[0].tolist())
    most = largest_saving(problem)
    for allocation in allocations(idle, tuple(problem.sizes.tolist())):
        if sum(saving(encoding, pattern) for pattern in allocation[:-1]) > most - ROUNDING * max(1.0, most):
            yield allocation


def is_forest(allocation: tuple[Pattern, ...]) -> bool:
    """Whether joining blocks to the leaves of which they have nodes leaves no cycle."""
    graph = nx.Graph()
    for block, pattern in enumerate(allocation):
        graph.add_edges_from((("block", block), ("leaf", leaf)) for leaf, nodes in enumerate(pattern) if nodes)
    return len(graph) == 0 or nx.is_forest(graph)


@given(windows())
def test_every_optimal_allocation_is_a_forest(problem: TopologyProblem) -> None:
    assert not is_forest(((2, 2), (2, 2), (0, 0)))
    found = list(optima(problem))
    assert found
    assert all(is_forest(allocation) for allocation in found)


seeds = st.integers(0, 2**32 - 1)


def pricing_of(problem: TopologyProblem) -> Pricing:
    return Pricing(group_tree(encode(problem)), demand_of(problem))


def with_random_cuts(problem: TopologyProblem, seed: int) -> tuple[Pricing, FloatArray]:
    """Pricing with some cuts, and multipliers of all rows."""
    rng = np.random.default_rng(seed)
    pricing = pricing_of(problem)
    for vertex in range(len(pricing.tree.idle) - 1):
        for _ in range(int(rng.integers(3))):
            pricing.add_row(vertex, int(rng.integers(1, 4)), int(rng.integers(1, 6)))
    return pricing, rng.choice([0.0, 0.5, 1.0, 3.7], size=len(pricing.rows))


def sequential_counts(problem: TopologyProblem, pricing: Pricing) -> IntArray:
    """Nodes of each vertex by job where the jobs take the nodes of the leaves one after the other."""
    owners = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    leaves = np.repeat(np.arange(pricing.n_leaves), pricing.idle)[: len(owners)]
    counts = np.zeros((len(problem.jobs), pricing.n_leaves), dtype=np.int64)
    np.add.at(counts, (owners, leaves), 1)
    return pricing.counts_of_vertices(counts)


def generation_of(problem: TopologyProblem, pricing: Pricing, rounds: int) -> _ColumnGeneration:
    left = itertools.chain([True] * rounds, itertools.repeat(False))
    generation = _ColumnGeneration(pricing, Budget().start(), lambda: next(left))
    generation.add_allocation(sequential_counts(problem, pricing))
    return generation


def master_value(problem: TopologyProblem) -> float:
    """Value of the master problem with all patterns of all jobs, one row per job, by another solver."""
    encoding = encode(problem)
    idle, _ = leaf_groups(encoding)
    columns = [(job, p) for job, size in enumerate(problem.sizes.tolist()) for p in patterns(idle, size)]
    result = linprog(
        [-saving(encoding, pattern) for _, pattern in columns],
        A_ub=np.array([pattern for _, pattern in columns]).T,
        b_ub=idle,
        A_eq=np.array([[float(job == owner) for owner, _ in columns] for job in range(len(problem.jobs))]),
        b_eq=np.ones(len(problem.jobs)),
    )
    assert result.success
    return -float(result.fun)


@given(windows(most_idle=9, most_jobs=3), seeds)
def test_pricing_finds_the_best_pattern_of_every_size_and_a_bound_that_holds(
    problem: TopologyProblem, seed: int
) -> None:
    encoding = encode(problem)
    pricing, multipliers = with_random_cuts(problem, seed)
    found = pricing.at(multipliers)
    idle, _ = leaf_groups(encoding)
    assert idle.tolist() == pricing.idle.tolist()

    def charge(pattern: tuple[int, ...]) -> float:
        counts = counts_of_vertices(pricing.tree, pattern)
        rows = zip(multipliers, pricing.rows, strict=True)
        return sum(u * (row.multiplier * counts[row.vertex] // row.divisor) for u, row in rows)

    for r, size in enumerate(pricing.sizes.tolist()):
        best = max(saving(encoding, pattern) - charge(pattern) for pattern in patterns(idle, size))
        pattern = tuple(found.counts[r, : pricing.n_leaves].tolist())
        assert found.counts[r].tolist() == counts_of_vertices(pricing.tree, pattern).tolist()
        assert found.counts[r, -1] == size
        assert found.savings[r] == pytest.approx(saving(encoding, pattern), abs=1e-9)
        assert found.savings[r] - charge(pattern) == pytest.approx(best, abs=1e-9)
    assert found.bound >= largest_saving(problem) - 1e-9


@pytest.mark.parametrize("multiplier", [1, 2, 3])
@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7])
def test_a_row_is_superadditive(multiplier: int, divisor: int) -> None:
    values = _Row(0, multiplier, divisor).values(np.arange(40))
    for a, b in itertools.product(range(20), repeat=2):
        assert values[a] + values[b] <= values[a + b]


@given(windows(most_idle=9, most_jobs=4), seeds)
def test_the_most_violated_cut_is_that_of_the_slow_twin(problem: TopologyProblem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    pricing = pricing_of(problem)
    counts = sequential_counts(problem, pricing)[rng.integers(len(problem.jobs), size=4)]
    picked = rng.choice([0.3, 0.5, 1.0, 2.5], size=4)
    violation, cuts = pricing.most_violated(counts, picked, 3)
    assert violation[-1] == 0
    for vertex, idle in enumerate(pricing.tree.idle[:-1].tolist()):
        expected = 0.0
        for q in (1, 2, 3):
            for d in range(q + 1, q * min(idle, int(problem.sizes.max())) + 1):
                expected = max(expected, float(picked @ (q * counts[:, vertex] // d)) - q * idle // d)
        assert violation[vertex] == pytest.approx(expected, abs=1e-12)
        if expected > 1e-9:
            row = _Row(vertex, int(cuts[vertex, 0]), int(cuts[vertex, 1]))
            excess = picked @ row.values(counts[:, vertex]) - row.values(np.array(idle))
            assert excess == pytest.approx(expected)


@given(windows(most_idle=9, most_jobs=4), st.integers(0, 6))
def test_the_generation_can_stop_anywhere(problem: TopologyProblem, rounds: int) -> None:
    pricing = pricing_of(problem)
    generation = generation_of(problem, pricing, rounds)
    generation.proceed()
    best = generation.best
    assert best.bound == pytest.approx(pricing.at(best.prices).bound, rel=1e-12)
    assert best.prices.min() >= 0
    assert best.bound >= largest_saving(problem) - 1e-9


@given(windows(most_idle=9, most_jobs=4))
def test_the_bound_ends_at_the_value_of_the_master_problem_and_cuts_never_worsen_it(problem: TopologyProblem) -> None:
    generation = generation_of(problem, pricing_of(problem), 1000)
    assert generation.proceed()
    before, most = generation.best.bound, largest_saving(problem)
    assert before == pytest.approx(master_value(problem), rel=1e-8, abs=1e-8)
    while generation.cut() and generation.proceed():
        assert most - 1e-9 <= generation.best.bound <= before + 1e-9
        before = generation.best.bound


def test_rounds_and_cuts_never_worsen_the_bound_and_mostly_improve_it() -> None:
    by_rounds = by_cuts = 0
    for seed in range(6):
        problem = paper_window(seed)
        bounds = []
        for rounds in (0, 1, 2, 4, 8, 1000):
            generation = generation_of(problem, pricing_of(problem), rounds)
            generation.proceed()
            bounds.append(generation.best.bound)
        generation.cut()
        generation.proceed()
        assert bounds == sorted(bounds, reverse=True)
        by_rounds += bounds[-1] < bounds[0] - 1e-6
        by_cuts += generation.best.bound < bounds[-1] - 1e-6
    assert by_rounds >= 3
    assert by_cuts >= 2


@pytest.mark.parametrize(("limit_s", "rounds"), [(2.9, 0), (3.1, 1)])
def test_a_round_that_does_not_fit_is_not_begun(limit_s: float, rounds: int) -> None:
    # Making the master problem takes from 1 to 2 s, and the round from 2 to 20 s.
    problem, begun = tiny_window(2), itertools.count()
    clock = ScriptedBudget(limit_s, readings=(1.0, 2.0, 2.0, 2.0, 2.0, 20.0)).start()
    pricing = pricing_of(problem)
    generation = _ColumnGeneration(pricing, clock, lambda: next(begun) >= 0)
    generation.add_allocation(sequential_counts(problem, pricing))
    generation.proceed()
    assert next(begun) == rounds


ROOMY = 100_000
SHALLOW = windows(most_idle=9, most_jobs=4, topologies=fat_trees | trees(levels=1) | trees(levels=2) | trees(levels=3))
orders = st.sampled_from(list(Order))


def prepared(problem: TopologyProblem, seed: int, order: Order) -> tuple[Layers, float]:
    """Layers under random charges, cuts among them, and the bound of these charges."""
    pricing, multipliers = with_random_cuts(problem, seed)
    priced = pricing.at(multipliers)
    return Layers.of(pricing.tree, pricing.demand, priced.charge, order), priced.bound


def run(
    problem: TopologyProblem, layers: Layers, slack: float, most_states: int = ROOMY, tried: int = ROOMY
) -> module.Outcome:
    search = LayeredSearch(len(problem.jobs), int(layers.leaves.idle.max()), most_states)
    return search.run(layers, slack, lambda: True, most_states, tried)


def saving_of(problem: TopologyProblem, counts: np.ndarray) -> float:
    return sum(saving(encode(problem), tuple(row)) for row in counts.tolist())


def slow_completion(layers: Layers, size: int, leaf: int, before: int, placed: int) -> float:
    """Largest value of completing one job, by the definition: squares of leaves and pods less charges."""
    leaves = layers.leaves

    def of_pod(leaf: int, nodes: int) -> float:
        return float(leaves.pod_weight * nodes**2 / size - leaves.pod_charge[leaves.pod[leaf], nodes])

    @cache
    def best(leaf: int, before: int, placed: int) -> float:
        if leaf == len(leaves.idle):
            return 0.0 if placed == size else -np.inf
        values = []
        for taken in range(min(int(leaves.idle[leaf]), size - placed) + 1):
            after = placed + taken
            value = leaves.leaf_weight * taken**2 / size - leaves.charge[leaf, taken]
            if leaves.ends_pod[leaf]:
                value += of_pod(leaf, after - before) + best(leaf + 1, after, after)
            else:
                value += best(leaf + 1, before, after)
            values.append(value)
        return max(values)

    # What was gained by the pod before this leaf is not part of the table.
    begun = of_pod(leaf, placed - before) if leaf < len(leaves.idle) else 0.0
    return best(leaf, before, placed) - begun


@given(SHALLOW, st.integers(0, 99), orders)
def test_completion_tables_are_those_of_the_slow_twin(problem: TopologyProblem, seed: int, order: Order) -> None:
    layers, _ = prepared(problem, seed, order)
    starts = np.append(0, np.flatnonzero(layers.leaves.ends_pod) + 1)
    for r, size in enumerate(np.unique(problem.sizes).tolist()):
        for leaf in range(len(layers.leaves.idle) + 1):
            for before in range(size + 1):
                for placed in range(before, size + 1 if leaf not in starts else before + 1):
                    expected = slow_completion(layers, size, leaf, before, placed)
                    assert layers.completion[r, leaf, before, placed] == pytest.approx(expected, abs=1e-9)


PODS = st.tuples(
    st.lists(st.integers(0, 17), min_size=12, max_size=12, unique=True),
    st.sampled_from([[5, 3, 2], [4, 4, 4], [2, 3, 5, 1], [3, 3, 3], [7, 4], [1, 2, 2, 6]]),
).map(lambda drawn: window(FatTree(2, 3, 3), np.sort(drawn[0]), drawn[1]))


@given(SHALLOW | PODS, st.integers(0, 99), orders, st.floats(0.01, 3.0))
def test_the_best_allocation_is_found_if_its_regret_is_within_the_slack(
    problem: TopologyProblem, seed: int, order: Order, more: float
) -> None:
    layers, bound = prepared(problem, seed, order)
    best = largest_saving(problem)
    outcome = run(problem, layers, bound - best + more)
    assert outcome.complete
    assert outcome.counts.sum(axis=1).tolist() == problem.sizes.tolist()
    assert (outcome.counts.sum(axis=0) <= leaf_groups(encode(problem))[0]).all()
    assert saving_of(problem, outcome.counts) == pytest.approx(best, abs=1e-8)
    assert outcome.most_left == pytest.approx(more, abs=1e-8)
    assert run(problem, layers, bound - best - 1e-6).counts is None


@given(SHALLOW, st.integers(0, 99), orders, st.integers(1, 40))
def test_where_states_run_out_what_is_left_bounds_every_allocation(
    problem: TopologyProblem, seed: int, order: Order, most_states: int
) -> None:
    layers, bound = prepared(problem, seed, order)
    best = largest_saving(problem)
    slack = bound - best + 1.0
    outcome = run(problem, layers, slack, most_states)
    assert best <= bound - slack + outcome.most_left + 1e-9
    assert outcome.complete or outcome.counts is None


def test_neither_hash_tables_that_grow_nor_looks_at_the_clock_lose_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(5)
    pricing = pricing_of(problem)
    priced = pricing.at(np.full(pricing.n_leaves, 1.5))
    layers = Layers.of(pricing.tree, pricing.demand, priced.charge, Order.LARGEST_FIRST)
    # A slack that leaves thousands of states.
    found = [run(problem, layers, priced.bound * 0.2, tried=tried) for tried in (200, 5000, ROOMY)]
    for first_table in (2, 16, 65536):
        monkeypatch.setattr(module, "FIRST_TABLE", first_table)
        found.append(run(problem, layers, priced.bound * 0.2))
    assert found[0].n_states > 5000
    assert all(outcome.complete for outcome in found)
    assert len({(outcome.n_states, outcome.most_left) for outcome in found}) == 1


def test_a_state_with_far_too_many_choices_ends_the_search() -> None:
    problem = paper_window(5)
    layers, bound = prepared(problem, 1, Order.LARGEST_FIRST)
    outcome = run(problem, layers, bound, tried=0)
    assert not outcome.complete
    assert outcome.counts is None


def test_fields_of_a_key_do_not_overlap_and_none_straddles_two_words() -> None:
    sizes = np.array([40, 40, 31, 16, 3, 2, 1, 1, 1])
    jobs = _Jobs.of(sizes, np.arange(9))
    fields = jobs.word, jobs.shift, jobs.bits
    used: set[int] = set()
    for size, word, shift, bits in zip(sizes.tolist(), *(field.tolist() for field in fields), strict=True):
        mine = {64 * word + bit for bit in range(shift, shift + 2 * bits)}
        assert size < 2**bits
        assert shift + 2 * bits <= 64
        assert not mine & used
        used |= mine
    assert max(used) < module.KEY_BITS


def test_jobs_that_do_not_fit_a_key_are_not_taken() -> None:
    assert _Jobs.of(np.full(10, 40), np.zeros(10)) is not None
    assert _Jobs.of(np.full(11, 40), np.zeros(11)) is None
    problem = window(FatTree(5, 10, 10), range(500), [40] * 11)
    assert Layers.seconds_to_fill(group_tree(encode(problem)), demand_of(problem)) == np.inf
    fewer = window(FatTree(5, 10, 10), range(500), [40] * 10)
    assert Layers.seconds_to_fill(group_tree(encode(fewer)), demand_of(fewer)) < 0.1
