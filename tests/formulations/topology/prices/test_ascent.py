"""Prices end where the master problem with all parts and sales ends, and every bound on the way is valid."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from support.counts import largest_saving
from support.windows import paper_window, window, windows

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode
from formulations.topology.prices.pricing import MergedTree, Pricing
from formulations.topology.prices.solver import Ascent


def ascent_of(problem: TopologyProblem, level: int, rounds: int) -> tuple[Pricing, Ascent, bool]:
    encoding = encode(problem)
    pricing = Pricing(encoding, level)
    owners = np.full(len(problem.idle_nodes), -1)
    owners[: problem.sizes.sum()] = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    ascent = Ascent(encoding, pricing, np.zeros(pricing.tree.n_rows), owners)
    left = itertools.chain([True] * rounds, itertools.repeat(False))
    return pricing, ascent, ascent.climb(lambda: 60.0, lambda: next(left))


def bound_of(problem: TopologyProblem, level: int) -> float:
    _, ascent, done = ascent_of(problem, level, 10_000)
    assert done
    return ascent.best.bound


def below(tree: MergedTree, v: int, k: int) -> Iterator[tuple[float, IntArray]]:
    """All ways in which k nodes of one group of a class are split below it: weighted squares and parts."""
    children = tree.children[tree.first_child[v] : tree.first_child[v + 1]].tolist()
    if not children:
        yield 0.0, np.zeros(tree.n_rows, dtype=np.int64)
        return
    for split in itertools.product(*[range(k + 1)] * len(children)):
        if sum(split) == k:
            ways = [list(of_class(tree, child, a, a)) for child, a in zip(children, split, strict=True)]
            for chosen in itertools.product(*ways):
                yield sum(way[0] for way in chosen), np.sum([way[1] for way in chosen], axis=0)


def of_class(tree: MergedTree, v: int, k: int, largest: int) -> Iterator[tuple[float, IntArray]]:
    """All ways to take k nodes of groups of a class in parts of falling size."""
    if k == 0:
        yield 0.0, np.zeros(tree.n_rows, dtype=np.int64)
        return
    for a in range(1, min(k, largest, int(tree.widest[v])) + 1):
        if a < k and tree.members[v] == 1:
            continue
        for squares, parts in below(tree, v, a):
            for more, others in of_class(tree, v, k - a, a):
                taken = parts + others
                taken[tree.first[v] + a] += 1
                yield squares + more + tree.weight[v] * a * a, taken


def sales_of(tree: MergedTree, v: int, idle: int, largest: int) -> Iterator[IntArray]:
    """All parts that fit into one group of a class together."""
    yield np.zeros(tree.n_rows, dtype=np.int64)
    for a in range(1, min(idle, largest) + 1):
        for others in sales_of(tree, v, idle - a, a):
            sold = others.copy()
            sold[tree.first[v] + a] += 1
            yield sold


def master_value(problem: TopologyProblem, level: int) -> float:
    """Value of the master problem with every column, by another solver."""
    pricing = Pricing(encode(problem), level)
    tree, top = pricing.tree, len(pricing.tree.widest) - 1
    columns, savings, rows = [], [], []
    for r, size in enumerate(pricing.sizes.tolist()):
        for squares, parts in below(tree, top, size):
            columns.append(parts)
            savings.append(squares / size)
            rows.append(r)
    for stock, (v, idle) in enumerate(zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), strict=True)):
        for sold in sales_of(tree, v, idle, int(tree.widest[v])):
            columns.append(-sold)
            savings.append(0.0)
            rows.append(len(pricing.sizes) + stock)
    picks = np.zeros((len(pricing.sizes) + len(tree.stock_idle), len(columns)))
    picks[rows, np.arange(len(columns))] = 1.0
    result = linprog(
        -np.array(savings),
        A_ub=np.array(columns).T if tree.n_rows else None,
        b_ub=np.zeros(tree.n_rows) if tree.n_rows else None,
        A_eq=picks,
        b_eq=np.concatenate((pricing.multiplicity, tree.stock_count)),
    )
    assert result.success
    return -float(result.fun)


@given(windows(most_idle=7, most_jobs=3), st.data())
def test_at_the_end_the_bound_is_the_value_of_the_master_problem_with_every_column(
    problem: TopologyProblem, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, len(problem.topology.hops) - 1))
    assert bound_of(problem, level) == pytest.approx(master_value(problem, level), rel=1e-6, abs=1e-6)


@given(windows(most_idle=9, most_jobs=4), st.data(), st.integers(0, 6))
def test_it_can_stop_anywhere(problem: TopologyProblem, data: st.DataObject, rounds: int) -> None:
    level = data.draw(st.integers(0, len(problem.topology.hops) - 1))
    pricing, ascent, _ = ascent_of(problem, level, rounds)
    best = ascent.best
    assert best.prices.min(initial=0.0) >= 0
    assert best.bound == pricing.at(best.prices).bound
    assert best.bound >= largest_saving(problem)


@pytest.mark.slow
def test_rounds_never_worsen_the_bound_and_mostly_improve_it() -> None:
    improved = 0
    for seed, level in itertools.product(range(2), range(3)):
        bounds = [ascent_of(paper_window(seed), level, rounds)[1].best.bound for rounds in (0, 1, 3, 9, 27)]
        assert bounds == sorted(bounds, reverse=True)
        improved += bounds[-1] < bounds[0] - 1e-6
    assert improved >= 3


@pytest.mark.slow
def test_finer_classes_prove_as_much_and_sometimes_more() -> None:
    improved = 0
    for seed in (1, 2, 4):
        bounds = [bound_of(paper_window(seed), level) for level in (2, 1, 0)]
        assert bounds[2] <= bounds[1] * (1 + 1e-7)
        assert bounds[1] <= bounds[0] * (1 + 1e-7)
        improved += bounds[2] < bounds[0] * (1 - 1e-6)
    assert improved >= 1


@pytest.mark.parametrize("sizes", [[3, 3, 5, 2, 2], [5, 5, 5], [4, 4, 4, 4, 1], [1] * 6, [8, 7, 6, 3]])
def test_pods_with_the_same_idle_nodes_can_share_their_prices(sizes: list[int]) -> None:
    idle = [
        node for pod in range(4) for node in (12 * pod, 12 * pod + 4, 12 * pod + 5, *range(12 * pod + 8, 12 * pod + 12))
    ]
    problem = window(FatTree(4, 3, 4), idle, sizes)
    assert bound_of(problem, 1) == pytest.approx(bound_of(problem, 2), rel=1e-7)
