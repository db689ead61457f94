"""Completion tables are right, and the search finds the best allocation within its slack, or that there is none."""

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.counts import largest_saving, leaf_groups, saving
from support.side import demand_of
from support.windows import fat_trees, paper_window, trees, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from formulations.topology.free import layers as module
from formulations.topology.free.layers import Jobs, LayeredSearch, Layers, Order
from formulations.topology.free.pricing import Pricing, Row

ROOMY = 100_000
SHALLOW = windows(most_idle=9, most_jobs=4, topologies=fat_trees | trees(levels=1) | trees(levels=2) | trees(levels=3))
orders = st.sampled_from(list(Order))


def prepared(problem: TopologyProblem, seed: int, order: Order) -> tuple[Layers, float]:
    """Layers under random charges, cuts among them, and the bound of these charges."""
    rng = np.random.default_rng(seed)
    pricing = Pricing(group_tree(encode(problem)), demand_of(problem))
    for vertex in range(len(pricing.tree.idle) - 1):
        for _ in range(int(rng.integers(3))):
            pricing.charges.add(Row(vertex, int(rng.integers(1, 4)), int(rng.integers(1, 6))))
    priced = pricing.at(rng.choice([0.0, 0.3, 1.0, 2.5], size=len(pricing.charges.rows)))
    return Layers.of(pricing.tree, demand_of(problem), priced.charge, order), priced.bound


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


@given(SHALLOW, st.integers(0, 99), orders)
def test_completions_from_the_first_leaf_are_the_best_patterns(
    problem: TopologyProblem, seed: int, order: Order
) -> None:
    layers, bound = prepared(problem, seed, order)
    _, multiplicity = np.unique(problem.sizes, return_counts=True)
    alone = multiplicity @ layers.completion[:, 0, 0, 0]
    leaves = layers.leaves
    income = leaves.charge[np.arange(len(leaves.idle)), leaves.idle].sum() + leaves.pod_income.sum()
    assert alone + income == pytest.approx(bound, abs=1e-9)


@given(SHALLOW, st.integers(0, 99), orders, st.floats(0.01, 3.0))
def test_the_best_allocation_is_found_if_its_regret_is_within_the_slack(
    problem: TopologyProblem, seed: int, order: Order, more: float
) -> None:
    layers, bound = prepared(problem, seed, order)
    best = largest_saving(problem)
    outcome = run(problem, layers, bound - best + more)
    assert outcome.complete
    assert outcome.counts is not None
    assert outcome.counts.sum(axis=1).tolist() == problem.sizes.tolist()
    assert (outcome.counts.sum(axis=0) <= leaf_groups(encode(problem))[0]).all()
    assert saving_of(problem, outcome.counts) == pytest.approx(best, abs=1e-8)
    assert outcome.most_left == pytest.approx(more, abs=1e-8)


@pytest.mark.parametrize("seed", range(60))
def test_the_best_allocation_is_found_in_pods_of_several_leaves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    idle = rng.choice(18, size=12, replace=False)
    sizes = [[5, 3, 2], [4, 4, 4], [2, 3, 5, 1], [3, 3, 3], [7, 4], [1, 2, 2, 6]][int(rng.integers(6))]
    problem = window(FatTree(2, 3, 3), idle, sizes)
    layers, bound = prepared(problem, seed, list(Order)[seed % 3])
    best = largest_saving(problem)
    outcome = run(problem, layers, bound - best + 1e-6)
    assert outcome.counts is not None
    assert saving_of(problem, outcome.counts) == pytest.approx(best, abs=1e-8)
    assert run(problem, layers, bound - best - 1e-6).counts is None


@pytest.mark.slow
@given(SHALLOW, st.integers(0, 99), orders, st.floats(0.01, 1.0))
def test_nothing_is_found_if_every_regret_is_above_the_slack(
    problem: TopologyProblem, seed: int, order: Order, share: float
) -> None:
    layers, bound = prepared(problem, seed, order)
    regret = bound - largest_saving(problem)
    assume(regret > 1e-3)
    outcome = run(problem, layers, share * regret - 1e-6)
    assert outcome.complete
    assert outcome.counts is None


@given(SHALLOW, st.integers(0, 99), orders, st.integers(1, 40))
def test_where_states_run_out_what_is_left_bounds_every_allocation(
    problem: TopologyProblem, seed: int, order: Order, most_states: int
) -> None:
    layers, bound = prepared(problem, seed, order)
    best = largest_saving(problem)
    slack = bound - best + 1.0
    outcome = run(problem, layers, slack, most_states)
    assert best <= bound - slack + outcome.most_left + 1e-9
    if not outcome.complete:
        assert outcome.counts is None


def test_hash_tables_that_grow_lose_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = paper_window(5)
    pricing = Pricing(group_tree(encode(problem)), demand_of(problem))
    priced = pricing.at(np.full(pricing.n_leaves, 1.5))
    layers = Layers.of(pricing.tree, demand_of(problem), priced.charge, Order.LARGEST_FIRST)
    slack = priced.bound * 0.2
    found = []
    for first_table in (2, 16, 1024, 65536):
        monkeypatch.setattr(module, "FIRST_TABLE", first_table)
        found.append(run(problem, layers, slack).n_states)
    assert found[0] > 5000
    assert len(set(found)) == 1


@pytest.mark.parametrize("tried", [200, 5000])
def test_looking_at_the_clock_often_changes_nothing(tried: int) -> None:
    problem = paper_window(5)
    pricing = Pricing(group_tree(encode(problem)), demand_of(problem))
    priced = pricing.at(np.full(pricing.n_leaves, 1.5))
    layers = Layers.of(pricing.tree, demand_of(problem), priced.charge, Order.LARGEST_FIRST)
    expected = run(problem, layers, priced.bound * 0.2)
    outcome = run(problem, layers, priced.bound * 0.2, tried=tried)
    assert expected.complete
    assert outcome.complete
    assert outcome.n_states == expected.n_states
    assert outcome.most_left == expected.most_left


def test_a_state_with_far_too_many_choices_ends_the_search() -> None:
    problem = paper_window(5)
    layers, bound = prepared(problem, 1, Order.LARGEST_FIRST)
    outcome = run(problem, layers, bound, tried=0)
    assert not outcome.complete
    assert outcome.counts is None


def test_fields_of_a_key_do_not_overlap_and_none_straddles_two_words() -> None:
    sizes = np.array([40, 40, 31, 16, 3, 2, 1, 1, 1])
    jobs = Jobs.of(sizes, np.arange(9))
    assert jobs is not None
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
    assert Jobs.of(np.full(10, 40), np.zeros(10)) is not None
    assert Jobs.of(np.full(11, 40), np.zeros(11)) is None
    problem = window(FatTree(5, 10, 10), range(500), [40] * 11)
    assert not Layers.takes(group_tree(encode(problem)), demand_of(problem))
    fewer = window(FatTree(5, 10, 10), range(500), [40] * 10)
    assert Layers.takes(group_tree(encode(fewer)), demand_of(fewer))
