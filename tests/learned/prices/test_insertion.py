"""The first allocation, and what a glance at a window returns."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import idle_state, insertion_state, single_job_savings
from allocopt.kernels.tree import GroupTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.verify import verify
from heuristics.topology.lns.state import Window, parts_of
from learned.prices.insertion import insert_priced
from learned.prices.network import SHAPES, Weights, features_of, network_of, predict
from learned.prices.solver import LnsPrices, glance

seeds = st.integers(0, 2**16)


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(*(0.5 * rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()))


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
