"""The bound: valid at any prices, and convex with the subgradient that training follows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray
from allocopt.kernels.insertion import idle_state
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from formulations.topology.free.pricing import Demand, Pricing
from learned.prices.insertion import bound_alone, dual_bound
from learned.prices.network import SHAPES, Weights, features_of, predict
from learned.prices.solver import glance

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
    encoding = encode(problem)
    tree = group_tree(encoding)
    pricing = Pricing(tree, Demand.of(problem, encoding, tree))
    assert bound_at(problem, prices)[0] == pytest.approx(pricing.at(prices).bound)
