"""Prices of parts: classes, answers and bounds against slow twins, insertion at prices, and the solver."""

import itertools
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counts import counts_of_vertices, largest_saving, leaf_groups, patterns, saving
from support.results import solved_by
from support.windows import paper_window, window, windows

from allocopt.arrays import FloatArray
from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.formulations.topology.free import solver as module
from allocopt.formulations.topology.prices.pricing import Pricing, Rounding, _insert_at_prices, _MergedTree
from allocopt.formulations.topology.prices.solver import LeafPrices, _Ascent
from allocopt.kernels.insertion import insertion_state
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver, get_solver

NEVER = Fraction(-(10**12))


class SlowPricing:
    """What jobs and groups can get at prices of every part, by row, straight from the definitions."""

    def __init__(self, tree: _MergedTree, prices: FloatArray) -> None:
        self._tree = tree
        self._prices = [Fraction(price) for price in prices.tolist()]
        self.value = cache(self._value)
        self.worth = cache(self._worth)
        self._several = cache(self._of_several)
        self._one = cache(self._of_one)

    def _value(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes below one group of class v for a job of a size."""
        children = self._tree.children[self._tree.first_child[v] : self._tree.first_child[v + 1]].tolist()
        if not children:
            return Fraction(0)
        values = {0: Fraction(0)}
        for child in children:
            combined: dict[int, Fraction] = {}
            for before, value in values.items():
                for a in range(k - before + 1):
                    candidate = value + self._several(size, child, a)
                    combined[before + a] = max(candidate, combined.get(before + a, NEVER))
            values = combined
        return values[k]

    def _of_several(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes of any groups of class v, as many as one likes if there are several."""
        if k == 0:
            return Fraction(0)
        if self._tree.members[v] == 1:
            return self._one(size, v, k)
        return max(self._several(size, v, k - a) + self._one(size, v, a) for a in range(1, k + 1))

    def _of_one(self, size: int, v: int, k: int) -> Fraction:
        """Largest value of k nodes of one group of class v."""
        if k > self._tree.widest[v]:
            return NEVER
        weight = Fraction(float(self._tree.weight[v]))
        return self.value(size, v, k) + weight * k * k / size - self._prices[int(self._tree.first[v]) + k]

    def _worth(self, v: int, idle: int) -> Fraction:
        """Largest price of parts that fit into a group of class v with so many idle nodes."""
        row, widest = int(self._tree.first[v]), int(self._tree.widest[v])
        offers = [self._prices[row + a] + self.worth(v, idle - a) for a in range(1, min(idle, widest) + 1)]
        return max([Fraction(0), *offers])

    def bound(self, sizes: list[int]) -> Fraction:
        """Largest saving that the prices allow."""
        tree, top = self._tree, len(self._tree.widest) - 1
        stocks = zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), tree.stock_count.tolist(), strict=True)
        return sum((self.value(n, top, n) for n in sizes), Fraction(0)) + sum(
            (count * self.worth(v, idle) for v, idle, count in stocks), Fraction(0)
        )


@given(windows(most_idle=12, most_jobs=4), st.data())
def test_every_group_is_in_one_stock_of_its_class(problem: TopologyProblem, data: st.DataObject) -> None:
    encoding = encode(problem)
    tree, class_of_group = _MergedTree.of(encoding, data.draw(st.integers(0, len(problem.topology.hops) - 1)))
    idle = [np.bincount(groups).tolist() for groups in encoding.groups]
    groups = [
        pair for nodes, classes in zip(idle, class_of_group, strict=True) for pair in zip(classes, nodes, strict=True)
    ]
    stocks = zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), tree.stock_count.tolist(), strict=True)
    assert sorted(groups) == sorted(pair for *pair_, count in stocks for pair in [tuple(pair_)] * count)
    assert tree.members[:-1].sum() == len(groups)
    for v in range(len(tree.widest) - 1):
        most = max(nodes for owner, nodes in groups if owner == v)
        assert tree.widest[v] == min(most, problem.sizes.max())
        assert tree.worth_first[v + 1] - tree.worth_first[v] == most + 1
        assert tree.first[v + 1] - tree.first[v] == tree.widest[v] + 1
    assert tree.n_rows == (tree.widest[:-1] + 1).sum()


@given(windows(most_idle=12, most_jobs=4))
def test_classes_are_the_groups_where_none_is_merged_and_the_levels_under_the_top(problem: TopologyProblem) -> None:
    encoding = encode(problem)
    tree, groups, top = _MergedTree.of(encoding, 0)[0], group_tree(encoding), len(encoding.groups)
    assert (tree.members == 1).all()
    for name in ("first_child", "children", "weight"):
        assert getattr(tree, name).tolist() == getattr(groups, name).tolist()
    assert tree.stock_idle.tolist() == groups.idle[:-1].tolist()
    tree = _MergedTree.of(encoding, top)[0]
    assert tree.weight.tolist() == [*encoding.weights.tolist(), 0.0]
    assert tree.members.tolist() == [*encoding.n_groups.tolist(), 1]
    assert np.diff(tree.first_child).tolist() == [0, *[1] * top][: top + 1]


seeds = st.integers(0, 2**32 - 1)


def random_prices(tree: _MergedTree, seed: int) -> FloatArray:
    """Prices of any kind: none, many equal, or anything."""
    rng = np.random.default_rng(seed)
    kinds = (np.zeros(tree.n_rows), rng.choice([0.0, 0.5, 1.0, 3.7], tree.n_rows), rng.exponential(3.0, tree.n_rows))
    prices: FloatArray = kinds[int(rng.integers(3))]
    prices[tree.first[:-1][np.diff(tree.first) > 0]] = 0.0
    return prices


@st.composite
def priced_windows(draw: st.DrawFn) -> tuple[TopologyProblem, Pricing, FloatArray]:
    problem = draw(windows(most_idle=9, most_jobs=4))
    pricing = Pricing(encode(problem), draw(st.integers(0, len(problem.topology.hops) - 1)))
    return problem, pricing, random_prices(pricing.tree, draw(seeds))


@given(priced_windows())
def test_answers_and_bound_are_those_of_the_slow_twin(case: tuple[TopologyProblem, Pricing, FloatArray]) -> None:
    problem, pricing, prices = case
    tree, found = pricing.tree, pricing.at(prices)
    slow = SlowPricing(tree, prices)
    top = len(tree.widest) - 1
    for r, size in enumerate(pricing.sizes.tolist()):
        value = found.savings[r] - found.job_parts[r] @ prices
        assert value == pytest.approx(float(slow.value(size, top, size)), abs=1e-9)
    for v in range(top):
        for c in range(int(tree.worth_first[v + 1] - tree.worth_first[v])):
            assert found.worth[tree.worth_first[v] + c] == pytest.approx(float(slow.worth(v, c)), abs=1e-9)
    exact = slow.bound(problem.sizes.tolist())
    assert found.bound >= max(exact, largest_saving(problem))
    assert found.bound == pytest.approx(float(exact), rel=1e-9, abs=1e-9)


@given(priced_windows())
def test_answers_are_made_of_parts_that_are_there(case: tuple[TopologyProblem, Pricing, FloatArray]) -> None:
    _, pricing, prices = case
    tree, found = pricing.tree, pricing.at(prices)
    lengths = np.diff(tree.first)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    nodes = np.arange(tree.n_rows) - tree.first[owner]
    for r, size in enumerate(pricing.sizes.tolist()):
        taken = np.bincount(owner, found.job_parts[r] * nodes, len(tree.widest))
        taken[-1] = size
        for v in range(len(tree.widest)):
            children = tree.children[tree.first_child[v] : tree.first_child[v + 1]]
            assert len(children) == 0 or taken[children].sum() == taken[v]
            assert tree.members[v] > 1 or found.job_parts[r, owner == v].sum() <= 1
        squares = found.job_parts[r] @ (tree.weight[owner] * nodes**2)
        assert found.savings[r] == pytest.approx(squares / size, abs=1e-12)
    for stock, (v, idle) in enumerate(zip(tree.stock_class.tolist(), tree.stock_idle.tolist(), strict=True)):
        assert found.sales[stock, owner != v].sum() == 0
        assert found.sales[stock] @ nodes <= idle
        assert found.sales[stock] @ prices == pytest.approx(found.worth[tree.worth_first[v] + idle], abs=1e-9)


@given(windows(most_idle=12, most_jobs=4), seeds)
def test_finer_classes_at_the_same_prices_prove_as_much_or_more(problem: TopologyProblem, seed: int) -> None:
    encoding = encode(problem)
    coarse = Pricing(encoding, len(encoding.groups))
    prices = random_prices(coarse.tree, seed)
    bound = coarse.at(prices).bound
    for level in range(len(encoding.groups) - 1, -1, -1):
        finer = Pricing(encoding, level)
        prices = finer.inherited(coarse, prices)
        assert finer.at(prices).bound <= bound * (1 + 1e-9) + 1e-9
        coarse, bound = finer, finer.at(prices).bound


def ascent_of(problem: TopologyProblem, level: int, rounds: int) -> tuple[Pricing, _Ascent, bool]:
    encoding = encode(problem)
    pricing = Pricing(encoding, level)
    owners = np.full(len(problem.idle_nodes), -1)
    owners[: problem.sizes.sum()] = np.repeat(np.arange(len(problem.jobs)), problem.sizes)
    ascent = _Ascent(encoding, pricing, np.zeros(pricing.tree.n_rows), owners)
    left = itertools.chain([True] * rounds, itertools.repeat(False))
    return pricing, ascent, ascent.converge(lambda: 60.0, lambda: next(left))


def bound_of(problem: TopologyProblem, level: int) -> float:
    """Bound at the end: what columns that are there save is no more than the master problem's value, and no less."""
    _, ascent, done = ascent_of(problem, level, 10_000)
    assert done
    value, _ = ascent._restricted.solve(lambda: 60.0)
    assert ascent.best.bound == pytest.approx(value, rel=1e-6, abs=1e-6)
    return ascent.best.bound


@given(windows(most_idle=9, most_jobs=4), st.data())
def test_at_the_end_the_bound_is_the_value_of_the_master_problem(problem: TopologyProblem, data: st.DataObject) -> None:
    # No prices prove less, for no bound is below the value with every column, nor this below that of some.
    bound_of(problem, data.draw(st.integers(0, len(problem.topology.hops) - 1)))


@given(windows(most_idle=9, most_jobs=4), st.data(), st.integers(0, 6))
def test_it_can_stop_anywhere(problem: TopologyProblem, data: st.DataObject, rounds: int) -> None:
    level = data.draw(st.integers(0, len(problem.topology.hops) - 1))
    pricing, ascent, _ = ascent_of(problem, level, rounds)
    best = ascent.best
    assert best.prices.min(initial=0.0) >= 0
    assert best.bound == pricing.at(best.prices).bound
    assert best.bound >= largest_saving(problem)


@pytest.mark.slow
def test_finer_classes_prove_as_much_and_sometimes_more() -> None:
    bounds = np.array([[bound_of(paper_window(seed), level) for level in (0, 1, 2)] for seed in (1, 2, 4)])
    assert (bounds[:, :-1] <= bounds[:, 1:] * (1 + 1e-7)).all()
    assert (bounds[:, 0] < bounds[:, 2] * (1 - 1e-6)).any()


@pytest.mark.parametrize("sizes", [[3, 3, 5, 2, 2], [5, 5, 5], [4, 4, 4, 4, 1], [1] * 6, [8, 7, 6, 3]])
def test_pods_with_the_same_idle_nodes_can_share_their_prices(sizes: list[int]) -> None:
    idle = [
        node for pod in range(4) for node in (12 * pod, 12 * pod + 4, 12 * pod + 5, *range(12 * pod + 8, 12 * pod + 12))
    ]
    problem = window(FatTree(4, 3, 4), idle, sizes)
    assert bound_of(problem, 1) == pytest.approx(bound_of(problem, 2), rel=1e-7)


@given(windows(most_idle=9, most_jobs=4), st.integers(0, 2**32 - 1))
def test_every_job_is_inserted_best(problem: TopologyProblem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    encoding = encode(problem)
    tree = group_tree(encoding)
    worth_of = np.concatenate(([0], np.cumsum(tree.idle + 1)))[:-1]
    worth = rng.exponential(1.0, int((tree.idle + 1).sum()))
    worth[worth_of[-1] :] = 0.0
    state = insertion_state(tree, int(problem.sizes.max()))
    owners = np.full(len(problem.idle_nodes), -1)
    _, groups = leaf_groups(encoding)
    leaf_of = encoding.groups[0] if groups else np.zeros(encoding.n_idle, dtype=np.int64)
    n_leaves = len(tree.leaf_first) - 1
    for job, size in enumerate(problem.sizes.tolist()):
        idle = state.idle.copy()

        def value(pattern: tuple[int, ...], idle: np.ndarray = idle) -> float:
            left = idle - counts_of_vertices(tree, pattern)
            return saving(encoding, pattern) - float((worth[worth_of + idle] - worth[worth_of + left]).sum())

        _insert_at_prices(tree, state, problem.sizes, worth, worth_of, job, job + 1, owners)
        taken = tuple(np.bincount(leaf_of[owners == job], minlength=n_leaves).tolist())
        assert sum(taken) == size
        assert (idle - state.idle).tolist() == counts_of_vertices(tree, taken).tolist()
        best = max(value(pattern) for pattern in patterns(idle[:n_leaves], size))
        # Ties of the kernel itself are broken by far less.
        assert value(taken) == pytest.approx(best, abs=1e-6)


def rounding_of(problem: TopologyProblem) -> Rounding:
    encoding = encode(problem)
    pricing = Pricing(encoding, len(encoding.groups))
    priced = pricing.at(np.zeros(pricing.tree.n_rows))
    return Rounding(problem, encoding, pricing, priced, np.random.default_rng(0))


@pytest.mark.parametrize(("ranks", "leaves"), [((0.3, 0.2, 0.1), 1), ((0.1, 0.2, 0.3), 2)])
def test_the_sizes_of_least_rank_are_inserted_first(ranks: tuple[float, ...], leaves: int) -> None:
    problem = window(FatTree(2, 2, 4), [0, 1, 2, 3, 4, 5, 8, 9, 10], [2, 4, 3])
    allocation = rounding_of(problem).allocation(np.array(ranks), Budget().start())
    # The job of 4 nodes finds the only leaf with so many if the others do not choose before it.
    assert len(set((allocation.nodes[1] // 4).tolist())) == leaves


solved = partial(solved_by, LeafPrices())


def crowded_window(seed: int) -> TopologyProblem:
    """Jobs of 2 to 40 nodes that take 95 % of the idle nodes, about a half of 2,000."""
    rng = np.random.default_rng(seed)
    idle = np.flatnonzero(rng.random(2000) < np.repeat(rng.random(100), 20))
    sizes = rng.integers(2, 41, size=200)
    return window(FatTree(10, 10, 20), idle, sizes[np.cumsum(sizes) <= 0.95 * len(idle)].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_crowded_windows_are_bounded_and_solved_well(seed: int) -> None:
    problem = crowded_window(seed)
    result = solved(problem, Budget(iterations=60))
    greedy = get_solver("greedy").solve(problem, Budget(), 0)
    assert result.gap < 0.02 < greedy.gap
    assert greedy.bound < result.bound <= result.objective < greedy.objective


@pytest.mark.slow
def test_where_no_other_solver_is_installed_it_works_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Solver:
        raise UsageError(f"there is no solver {name!r}")

    problem = crowded_window(0)
    monkeypatch.setattr(module, "get_solver", nothing)
    result = solved(problem, Budget(iterations=60))
    assert result.gap < 0.03
