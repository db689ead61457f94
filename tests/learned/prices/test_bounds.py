"""The bound of prices, the first allocation under them, and what both teach."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.side import demand_of
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import idle_state, insertion_state, single_job_savings
from allocopt.kernels.tree import GroupTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify
from formulations.topology.free.pricing import Pricing
from heuristics.topology.lns.state import Window, parts_of
from learned.prices.insertion import bound_alone, dual_bound, imitate, insert_priced
from learned.prices.learner import _improved
from learned.prices.network import SHAPES, Weights, features_of, network_of, predict
from learned.prices.solver import LnsPrices, glance

seeds = st.integers(0, 2**16)


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(*(rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()))


def bound_at(problem: TopologyProblem, prices: FloatArray) -> tuple[float, FloatArray]:
    encoding = encode(problem)
    tree = group_tree(encoding)
    sizes, multiplicity = np.unique(encoding.sizes, return_counts=True)
    spare, alone = np.empty(len(prices)), np.empty(len(sizes))
    state = idle_state(tree, int(sizes[-1]), 0.0)
    bound = dual_bound(tree, state, sizes, multiplicity, prices, spare, alone)
    assert bound == pytest.approx(float(multiplicity @ alone) + float(prices @ tree.idle[: len(prices)]))
    return bound, spare


def n_leaves(problem: TopologyProblem) -> int:
    return len(group_tree(encode(problem)).leaf_first) - 1


def largest_saving(problem: TopologyProblem) -> float:
    encoding = encode(problem)
    most = (encoding.top * encoding.sizes - encoding.bottom).sum()
    return float(most - optimum(problem) / encoding.scale)


@given(problem=windows(), seed=seeds)
def test_no_prices_exclude_the_optimum(problem: TopologyProblem, seed: int) -> None:
    prices = np.random.default_rng(seed).exponential(2.0, n_leaves(problem))
    assert bound_at(problem, prices)[0] >= largest_saving(problem) - 1e-6


@given(problem=windows(), seed=seeds)
def test_prices_of_any_network_do_not_exclude_the_optimum(problem: TopologyProblem, seed: int) -> None:
    encoding = encode(problem)
    tree = group_tree(encoding)
    seen = glance(tree, encoding.sizes, predict(random_weights(seed), features_of(tree, encoding.sizes)), 0.5, True)
    assert (seen.prediction.prices >= 0.0).all()
    assert seen.most >= largest_saving(problem) - 1e-6


@given(problem=windows(), seed=seeds)
def test_the_bound_is_the_same_without_its_subgradient(problem: TopologyProblem, seed: int) -> None:
    prices = np.random.default_rng(seed).exponential(2.0, n_leaves(problem))
    encoding = encode(problem)
    tree, (sizes, multiplicity) = group_tree(encoding), np.unique(encoding.sizes, return_counts=True)
    state, alone, of_size = idle_state(tree, int(sizes[-1]), 0.0), np.empty(len(sizes)), np.zeros(int(sizes[-1]) + 1)
    known = dual_bound(tree, state, sizes, multiplicity, prices, np.empty(len(prices)), alone)
    assert bound_alone(tree, state, sizes, np.bincount(encoding.sizes), prices, of_size) == pytest.approx(known)
    assert of_size[sizes] == pytest.approx(alone)


@given(problem=windows(), seed=seeds)
def test_the_bound_lies_above_its_tangents(problem: TopologyProblem, seed: int) -> None:
    at, other = np.random.default_rng(seed).exponential(2.0, (2, n_leaves(problem)))
    bound, spare = bound_at(problem, at)
    assert bound_at(problem, other)[0] >= bound + spare @ (other - at) - 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_bound_of_the_column_generation_at_the_same_prices(seed: int) -> None:
    problem = paper_window(seed)
    prices = np.random.default_rng(seed).exponential(1.0, n_leaves(problem))
    pricing = Pricing(group_tree(encode(problem)), demand_of(problem))
    assert bound_at(problem, prices)[0] == pytest.approx(pricing.at(prices).bound)


def value_of(tree: GroupTree, counts: IntArray, worth: FloatArray) -> float:
    """Say what a job saves with its nodes of each leaf, less their worth, slowly."""
    nodes = np.zeros(len(tree.idle))
    nodes[: len(counts)] = counts
    for vertex in range(len(counts), len(nodes)):
        nodes[vertex] = nodes[tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]].sum()
    return float(tree.weight @ nodes**2 / counts.sum() - worth @ counts)


@given(problem=windows(), seed=seeds)
def test_every_job_is_inserted_where_it_saves_most_less_what_the_nodes_are_worth_to_those_to_come(
    problem: TopologyProblem, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    encoding = encode(problem)
    tree, sizes = group_tree(encoding), encoding.sizes
    worth, order = rng.normal(0.0, 2.0, len(tree.leaf_first) - 1), rng.permutation(len(sizes))
    counts = np.empty((len(sizes), len(worth)), dtype=np.int64)
    saved = insert_priced(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, worth, 0.5, 0.0, counts)
    idle, left, total = tree.idle[: len(worth)].copy(), sizes.sum(), 0.0
    for job in order:
        left -= sizes[job]
        charged = worth * (left / sizes.sum()) ** 0.5
        ways = itertools.product(*(range(min(n, sizes[job]) + 1) for n in idle))
        best = max(value_of(tree, np.array(way), charged) for way in ways if sum(way) == sizes[job])
        assert counts[job].sum() == sizes[job]
        assert value_of(tree, counts[job], charged) == pytest.approx(best, abs=1e-6)
        total += value_of(tree, counts[job], np.zeros(len(worth)))
        idle -= counts[job]
        assert (idle >= 0).all()
    assert saved == pytest.approx(total)


@given(problem=windows(most_idle=12, most_jobs=5), seed=seeds, tolerance=st.sampled_from([0.0, 0.1, 1.0]))
def test_with_any_tolerance_jobs_get_what_they_ask_for_and_save_what_is_said(
    problem: TopologyProblem, seed: int, tolerance: float
) -> None:
    rng = np.random.default_rng(seed)
    encoding = encode(problem)
    tree, sizes = group_tree(encoding), encoding.sizes
    worth = rng.normal(0.0, 2.0, len(tree.leaf_first) - 1)
    counts = np.empty((len(sizes), len(worth)), dtype=np.int64)
    order = rng.permutation(len(sizes))
    saved = insert_priced(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, worth, 0.5, tolerance, counts)
    assert (counts.sum(axis=1) == sizes).all()
    assert (counts.sum(axis=0) <= tree.idle[: len(worth)]).all()
    assert saved == pytest.approx(sum(value_of(tree, row, 0 * worth) for row in counts))


@given(problem=windows(most_idle=12, most_jobs=5), seed=seeds)
def test_a_glance_holds_bounds_and_a_valid_allocation_that_saves_what_it_says(
    problem: TopologyProblem, seed: int
) -> None:
    window, weights, solver = Window.of(problem), random_weights(seed), LnsPrices(most_removed=5)
    state, most = solver.begin_guided(window, network_of(weights), solver.moves(3), seed)
    told = predict(weights, features_of(window.tree, window.encoding.sizes))
    seen = glance(window.tree, window.encoding.sizes, told, 0.5, True)
    allocation = window.allocation(state)
    assert verify(problem, allocation) == pytest.approx(window.cost(seen.saving))
    assert parts_of(state)[2].savings == pytest.approx([seen.saving, seen.saving])
    assert most == pytest.approx(min(seen.alone.sum(), seen.most))
    assert window.cost(most) <= problem.objective(allocation) * (1 + 1e-9) + 1e-9
    groups, _, search = parts_of(state)
    assert groups.worth == pytest.approx(seen.prediction.worth)
    assert search.alone == pytest.approx(seen.priced)


@pytest.mark.parametrize("seed", range(5))
def test_jobs_alone_save_what_the_insertion_of_single_jobs_says(seed: int) -> None:
    encoding = encode(paper_window(seed))
    tree, largest = group_tree(encoding), int(encoding.sizes.max())
    savings = single_job_savings(tree, insertion_state(tree, largest), largest)[encoding.sizes] / encoding.sizes
    told = predict(random_weights(seed), features_of(tree, encoding.sizes))
    seen = glance(tree, encoding.sizes, told, 0.5, False)
    assert seen.alone == pytest.approx(savings)
    assert seen.most == np.inf
    assert (glance(tree, encoding.sizes, told, 0.5, True).priced <= seen.alone + 1e-9).all()


@pytest.mark.parametrize("seed", range(5))
def test_imitation_leads_to_the_known_allocation_and_teaches_nothing_there(seed: int) -> None:
    encoding, rng = encode(paper_window(seed)), np.random.default_rng(seed)
    tree, sizes = group_tree(encoding), encoding.sizes
    worth, order = rng.normal(0.0, 0.3, len(tree.leaf_first) - 1), rng.permutation(len(sizes))
    known, counts = np.empty((2, len(sizes), len(worth)), dtype=np.int64)

    def inserted(at: FloatArray, counts: IntArray) -> float:
        return insert_priced(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, at, 0.5, 0.0, counts)

    def gradient_at(at: FloatArray) -> FloatArray:
        gradient = np.zeros(len(at))
        imitate(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, at, 0.5, known, gradient)
        return gradient

    saving, learned = inserted(worth, known), np.zeros(len(worth))
    assert not gradient_at(worth).any()
    for step in range(1, 2000):
        learned -= 2.0 / np.sqrt(step) * gradient_at(learned)
    assert inserted(learned, counts) == pytest.approx(saving, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_valid_and_never_worse_than_what_was_known(seed: int) -> None:
    problem = paper_window(seed)
    known = solve(problem, "free", "best-fit").solution
    found = _improved(problem, known, LnsPrices().loaded()[0], 100, np.random.default_rng(seed))
    assert verify(problem, found) < problem.objective(known)
    again = _improved(problem, found, LnsPrices().loaded()[0], 1, np.random.default_rng(seed))
    assert problem.objective(again) <= problem.objective(found)
