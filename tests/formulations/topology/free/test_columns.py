"""Pricing is exact under any charges, cuts hold for every allocation, and every bound on the way is valid."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.clocks import ScriptedBudget
from support.counts import counts_of_vertices, largest_saving, leaf_groups, patterns, saving
from support.side import demand_of
from support.windows import paper_window, tiny_window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.budget import Budget
from formulations.topology.free.pricing import Charges, Pricing, Row
from formulations.topology.free.solver import ColumnGeneration, Master

seeds = st.integers(0, 2**32 - 1)


def pricing_of(problem: TopologyProblem) -> Pricing:
    return Pricing(group_tree(encode(problem)), demand_of(problem))


def with_random_cuts(problem: TopologyProblem, seed: int) -> tuple[Pricing, FloatArray]:
    """Pricing with some cuts, and multipliers of all rows."""
    rng = np.random.default_rng(seed)
    pricing = pricing_of(problem)
    for vertex in range(len(pricing.tree.idle) - 1):
        for _ in range(int(rng.integers(3))):
            pricing.charges.add(Row(vertex, int(rng.integers(1, 4)), int(rng.integers(1, 6))))
    return pricing, rng.choice([0.0, 0.5, 1.0, 3.7], size=len(pricing.charges.rows))


def sequential_counts(problem: TopologyProblem, pricing: Pricing) -> IntArray:
    """Nodes of each vertex by job where the jobs take the nodes of the leaves one after the other."""
    owners = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    leaves = np.repeat(np.arange(pricing.n_leaves), pricing.idle)[: len(owners)]
    counts = np.zeros((len(problem.jobs), pricing.n_leaves), dtype=np.int64)
    np.add.at(counts, (owners, leaves), 1)
    return pricing.counts_of_vertices(counts)


def generation_of(problem: TopologyProblem, pricing: Pricing, rounds: int) -> ColumnGeneration:
    left = itertools.chain([True] * rounds, itertools.repeat(False))
    generation = ColumnGeneration(pricing, Budget().start(), lambda: next(left))
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
def test_pricing_finds_the_best_pattern_of_every_size(problem: TopologyProblem, seed: int) -> None:
    encoding = encode(problem)
    pricing, multipliers = with_random_cuts(problem, seed)
    found = pricing.at(multipliers)
    idle, _ = leaf_groups(encoding)
    assert idle.tolist() == pricing.idle.tolist()

    def charge(pattern: tuple[int, ...]) -> float:
        counts = counts_of_vertices(pricing.tree, pattern)
        rows = zip(multipliers, pricing.charges.rows, strict=True)
        return sum(u * (row.multiplier * counts[row.vertex] // row.divisor) for u, row in rows)

    for r, size in enumerate(pricing.sizes.tolist()):
        best = max(saving(encoding, pattern) - charge(pattern) for pattern in patterns(idle, size))
        pattern = tuple(found.counts[r, : pricing.n_leaves].tolist())
        assert found.counts[r].tolist() == counts_of_vertices(pricing.tree, pattern).tolist()
        assert found.counts[r, -1] == size
        assert found.savings[r] == pytest.approx(saving(encoding, pattern), abs=1e-9)
        assert found.savings[r] - charge(pattern) == pytest.approx(best, abs=1e-9)


@given(windows(most_idle=9, most_jobs=4), seeds)
def test_no_allocation_saves_more_than_the_bound_at_any_charges(problem: TopologyProblem, seed: int) -> None:
    pricing, multipliers = with_random_cuts(problem, seed)
    assert pricing.at(multipliers).bound >= largest_saving(problem) - 1e-9


@pytest.mark.parametrize("multiplier", [1, 2, 3])
@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7])
def test_a_row_is_superadditive(multiplier: int, divisor: int) -> None:
    values = Row(0, multiplier, divisor).values(np.arange(40))
    for a, b in itertools.product(range(20), repeat=2):
        assert values[a] + values[b] <= values[a + b]


def test_the_table_of_charges_adds_up_the_rows() -> None:
    tree = group_tree(encode(tiny_window(2)))
    charges = Charges(tree)
    charges.add(Row(1, 2, 3))
    charges.add(Row(1, 1, 2))
    multipliers = np.arange(1.0, 1 + len(charges.rows))
    table = charges.table(multipliers)
    k = np.arange(tree.idle[1] + 1)
    expected = 2.0 * k + multipliers[-2] * (2 * k // 3) + multipliers[-1] * (k // 2)
    assert table[charges.first[1] : charges.first[2]].tolist() == pytest.approx(expected.tolist())
    rights = [multiplier * charges.right_side(i) for i, multiplier in enumerate(multipliers)]
    assert charges.income(table) == pytest.approx(sum(rights))
    assert charges.table(multipliers[:2])[charges.first[2] :].max() == 0


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
            row = Row(vertex, int(cuts[vertex, 0]), int(cuts[vertex, 1]))
            excess = picked @ row.values(counts[:, vertex]) - row.values(np.array(idle))
            assert excess == pytest.approx(expected)


@given(windows(most_idle=9, most_jobs=4), st.integers(0, 6))
def test_the_generation_can_stop_anywhere(problem: TopologyProblem, rounds: int) -> None:
    pricing = pricing_of(problem)
    generation = generation_of(problem, pricing, rounds)
    generation.converge()
    best = generation.best
    assert best.bound == pytest.approx(pricing.at(best.prices).bound, rel=1e-12)
    assert best.prices.min() >= 0
    assert best.bound >= largest_saving(problem) - 1e-9


@given(windows(most_idle=9, most_jobs=4))
def test_at_the_end_the_bound_is_the_value_of_the_master_problem_with_all_patterns(problem: TopologyProblem) -> None:
    generation = generation_of(problem, pricing_of(problem), 1000)
    assert generation.converge()
    assert generation.best.bound == pytest.approx(master_value(problem), rel=1e-8, abs=1e-8)


@given(windows(most_idle=9, most_jobs=4))
def test_cuts_keep_the_bound_valid_and_never_worsen_it(problem: TopologyProblem) -> None:
    generation = generation_of(problem, pricing_of(problem), 1000)
    generation.converge()
    before, most = generation.best.bound, largest_saving(problem)
    while generation.cut() and generation.converge():
        assert most - 1e-9 <= generation.best.bound <= before + 1e-9
        before = generation.best.bound


def test_rounds_and_cuts_never_worsen_the_bound_and_mostly_improve_it() -> None:
    by_rounds = by_cuts = 0
    for seed in range(6):
        problem = paper_window(seed)
        bounds = []
        for rounds in (0, 1, 2, 4, 8, 1000):
            generation = generation_of(problem, pricing_of(problem), rounds)
            generation.converge()
            bounds.append(generation.best.bound)
        generation.cut()
        generation.converge()
        assert bounds == sorted(bounds, reverse=True)
        by_rounds += bounds[-1] < bounds[0] - 1e-6
        by_cuts += generation.best.bound < bounds[-1] - 1e-6
    assert by_rounds >= 3
    assert by_cuts >= 2


def test_the_savings_of_an_allocation_are_those_of_its_patterns() -> None:
    for seed in range(8):
        problem = tiny_window(seed)
        pricing = pricing_of(problem)
        counts = sequential_counts(problem, pricing)
        for job, value in zip(counts, pricing.savings_of(counts), strict=True):
            assert value == pytest.approx(saving(encode(problem), tuple(job[: pricing.n_leaves].tolist())), abs=1e-12)


@pytest.mark.parametrize(("limit_s", "rounds"), [(2.9, 0), (3.1, 1)])
def test_a_round_that_does_not_fit_is_not_begun(limit_s: float, rounds: int) -> None:
    # Making the master problem takes from 1 to 2 s, and the round from 2 to 20 s.
    problem, begun = tiny_window(2), itertools.count()
    clock = ScriptedBudget(limit_s, readings=(1.0, 2.0, 2.0, 2.0, 2.0, 20.0)).start()
    pricing = pricing_of(problem)
    generation = ColumnGeneration(pricing, clock, lambda: next(begun) >= 0)
    generation.add_allocation(sequential_counts(problem, pricing))
    generation.converge()
    assert next(begun) == rounds


def test_a_pattern_is_added_once_a_size() -> None:
    pricing = pricing_of(tiny_window(2))
    master = Master(np.array([1, 2]), pricing.charges)
    pattern = np.ones(len(pricing.tree.idle), dtype=np.int64)
    assert master.add(0, pattern, 2.0)
    assert not master.add(0, pattern, 2.0)
    assert master.add(1, pattern, 0.5)
