"""Solver ``lns-prices``: the bound of prices, the first allocation under them, what both teach, and its search."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import optimum
from support.side import demand_of
from support.windows import paper_window, windows

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.formulations.topology.free.pricing import Pricing
from allocopt.heuristics.topology.lns.state import EncodedProblem, parts_of
from allocopt.kernels.insertion import idle_state, insertion_state, single_job_savings
from allocopt.kernels.tree import GroupTree
from allocopt.learned.prices.insertion import bound_alone, dual_bound, imitate, insert_priced
from allocopt.learned.prices.learner import _improved
from allocopt.learned.prices.network import SHAPES, Weights, features_of, predict
from allocopt.learned.prices.solver import LnsPrices, glance
from allocopt.learned.weights import FOLDER, read_weights, write_weights
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree
from allocopt.solving.budget import Budget
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify, verify_result

seeds = st.integers(0, 2**16)


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(*(rng.standard_normal(shape).astype(np.float32) for shape in SHAPES.values()))


def tree_of(problem: TopologyProblem) -> tuple[GroupTree, IntArray, int]:
    """Return the groups, the sizes of the jobs, and the number of leaves."""
    encoding = encode(problem)
    tree = group_tree(encoding)
    return tree, encoding.sizes, len(tree.leaf_first) - 1


def prices_of(problem: TopologyProblem, seed: int, n: int = 1) -> FloatArray:
    return np.random.default_rng(seed).exponential(2.0, (n, tree_of(problem)[2]))


def bound_at(problem: TopologyProblem, prices: FloatArray) -> tuple[float, FloatArray]:
    """Return the bound and its subgradient, and hold it to what it is made of, and to the one without subgradient."""
    tree, every, n_leaves = tree_of(problem)
    sizes, multiplicity = np.unique(every, return_counts=True)
    spare, alone, of_size = np.empty(n_leaves), np.empty(len(sizes)), np.zeros(int(sizes[-1]) + 1)
    state = idle_state(tree, int(sizes[-1]), 0.0)
    bound = dual_bound(tree, state, sizes, multiplicity, prices, spare, alone)
    assert bound == pytest.approx(float(multiplicity @ alone) + float(prices @ tree.idle[:n_leaves]))
    assert bound_alone(tree, state, sizes, np.bincount(every), prices, of_size) == pytest.approx(bound)
    assert of_size[sizes] == pytest.approx(alone)
    return bound, spare


def largest_saving(problem: TopologyProblem) -> float:
    encoding = encode(problem)
    most = (encoding.top * encoding.sizes - encoding.bottom).sum()
    return float(most - optimum(problem) / encoding.scale)


@given(problem=windows(), seed=seeds)
def test_no_prices_exclude_the_optimum(problem: TopologyProblem, seed: int) -> None:
    assert bound_at(problem, prices_of(problem, seed)[0])[0] >= largest_saving(problem) - 1e-6


@given(problem=windows(), seed=seeds)
def test_the_bound_lies_above_its_tangents(problem: TopologyProblem, seed: int) -> None:
    at, other = prices_of(problem, seed, 2)
    bound, spare = bound_at(problem, at)
    assert bound_at(problem, other)[0] >= bound + spare @ (other - at) - 1e-6


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_bound_of_the_column_generation_at_the_same_prices(seed: int) -> None:
    problem = paper_window(seed)
    tree, prices = tree_of(problem)[0], prices_of(problem, seed)[0] / 2
    pricing = Pricing(tree, demand_of(problem))
    assert bound_at(problem, prices)[0] == pytest.approx(pricing.at(prices).bound)


def value_of(tree: GroupTree, counts: IntArray, worth: FloatArray) -> float:
    """Say what a job saves with its nodes of each leaf, less their worth, slowly."""
    nodes = np.zeros(len(tree.idle))
    nodes[: len(counts)] = counts
    for vertex in range(len(counts), len(nodes)):
        nodes[vertex] = nodes[tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]].sum()
    return float(tree.weight @ nodes**2 / counts.sum() - worth @ counts)


def inserted(
    problem: TopologyProblem, order: IntArray, worth: FloatArray, tolerance: float = 0.0
) -> tuple[float, IntArray]:
    """Return what priced insertion saves, and how many nodes of each leaf the jobs get, which is what asks for."""
    tree, sizes, n_leaves = tree_of(problem)
    counts = np.empty((len(sizes), n_leaves), dtype=np.int64)
    state = idle_state(tree, int(sizes.max()), 0.0)
    saved = insert_priced(tree, state, sizes, order, worth, 0.5, tolerance, counts)
    assert (counts.sum(axis=1) == sizes).all()
    assert (counts.sum(axis=0) <= tree.idle[:n_leaves]).all()
    assert saved == pytest.approx(sum(value_of(tree, row, 0 * worth) for row in counts))
    return saved, counts


@given(problem=windows(), seed=seeds)
def test_every_job_is_inserted_where_it_saves_most_less_what_the_nodes_are_worth_to_those_to_come(
    problem: TopologyProblem, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    tree, sizes, n_leaves = tree_of(problem)
    worth, order = rng.normal(0.0, 2.0, n_leaves), rng.permutation(len(sizes))
    _, counts = inserted(problem, order, worth)
    idle, left = tree.idle[:n_leaves].copy(), sizes.sum()
    for job in order:
        left -= sizes[job]
        charged = worth * (left / sizes.sum()) ** 0.5
        ways = itertools.product(*(range(min(n, sizes[job]) + 1) for n in idle))
        best = max(value_of(tree, np.array(way), charged) for way in ways if sum(way) == sizes[job])
        assert value_of(tree, counts[job], charged) == pytest.approx(best, abs=1e-6)
        idle -= counts[job]


@given(problem=windows(most_idle=12, most_jobs=5), seed=seeds, tolerance=st.sampled_from([0.1, 1.0]))
def test_with_any_tolerance_jobs_get_what_they_ask_for_and_save_what_is_said(
    problem: TopologyProblem, seed: int, tolerance: float
) -> None:
    rng, (_, sizes, n_leaves) = np.random.default_rng(seed), tree_of(problem)
    inserted(problem, rng.permutation(len(sizes)), rng.normal(0.0, 2.0, n_leaves), tolerance)


@given(problem=windows(most_idle=12, most_jobs=5), seed=seeds)
def test_a_glance_holds_bounds_and_a_valid_allocation_that_saves_what_it_says(
    problem: TopologyProblem, seed: int
) -> None:
    window, weights, solver = EncodedProblem.of(problem), random_weights(seed), LnsPrices(most_removed=5)
    state, most = solver.begin_guided(window, weights, solver.moves(3), seed)
    told = predict(weights, features_of(window.tree, window.encoding.sizes))
    seen = glance(window.tree, window.encoding.sizes, told, 0.5)
    largest = int(window.encoding.sizes.max())
    savings = single_job_savings(window.tree, insertion_state(window.tree, largest), largest)
    assert seen.alone == pytest.approx(savings[window.encoding.sizes] / window.encoding.sizes)
    assert (seen.priced <= seen.alone + 1e-9).all()
    assert (told.prices >= 0.0).all()
    allocation = window.allocation(state)
    assert verify(problem, allocation) == pytest.approx(window.cost(seen.saving))
    assert parts_of(state)[2].savings == pytest.approx([seen.saving, seen.saving])
    assert most == pytest.approx(min(seen.alone.sum(), seen.most))
    assert window.cost(most) <= problem.objective(allocation) * (1 + 1e-9) + 1e-9
    groups, _, search = parts_of(state)
    assert groups.worth == pytest.approx(told.worth)
    assert search.alone == pytest.approx(seen.priced)


@pytest.mark.parametrize("seed", range(5))
def test_imitation_leads_to_the_known_allocation_and_teaches_nothing_there(seed: int) -> None:
    problem, rng = paper_window(seed), np.random.default_rng(seed)
    tree, sizes, n_leaves = tree_of(problem)
    worth, order = rng.normal(0.0, 0.3, n_leaves), rng.permutation(len(sizes))
    saving, known = inserted(problem, order, worth)

    def gradient_at(at: FloatArray) -> FloatArray:
        gradient = np.zeros(len(at))
        imitate(tree, idle_state(tree, int(sizes.max()), 0.0), sizes, order, at, 0.5, known, gradient)
        return gradient

    learned = np.zeros(n_leaves)
    assert not gradient_at(worth).any()
    for step in range(1, 2000):
        learned -= 2.0 / np.sqrt(step) * gradient_at(learned)
    assert inserted(problem, order, learned)[0] == pytest.approx(saving, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_valid_and_never_worse_than_what_was_known(seed: int) -> None:
    problem = paper_window(seed)
    known = solve(problem, strategy="free", solver="best-fit").solution
    found = _improved(problem, known, LnsPrices().loaded(), 100, np.random.default_rng(seed))
    assert verify(problem, found) < problem.objective(known)
    again = _improved(problem, found, LnsPrices().loaded(), 1, np.random.default_rng(seed))
    assert problem.objective(again) <= problem.objective(found)


SHIPPED = FOLDER / "lns-prices.safetensors"


def test_a_search_finds_better_allocations_than_the_first_one_and_prices_a_tighter_bound_than_jobs_alone() -> None:
    first, searched, alone = (
        [
            solve(paper_window(seed), strategy="free", solver=solver, time_limit=None, iterations=steps)
            for seed in range(20)
        ]
        for solver, steps in ((LnsPrices(), 1), (LnsPrices(), 300), ("greedy", 1))
    )
    assert sum(result.objective or 0 for result in searched) < sum(result.objective or 0 for result in first)
    assert sum(result.bound or 0 for result in first) > sum(result.bound or 0 for result in alone)


def test_a_window_too_large_for_the_time_is_searched_without_a_glance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allocopt.learned.prices.solver.INSERTION_S", 1.0)
    monkeypatch.setattr(LnsPrices, "begin_guided", None)
    problem = paper_window(0)
    verify_result(problem, LnsPrices().solve(problem, Budget(1.0, 50), 0))


@pytest.mark.parametrize(
    "options",
    [{"guidance": 0.0}, {"fading": -1.0}, {"steps": 0}, *({"hunt": hunt} for hunt in (math.nan, -1.0, 1e308))],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be"):
        LnsPrices(**options)  # type: ignore[arg-type]


def test_weights_from_a_file_are_used(tmp_path: Path) -> None:
    arrays, card = read_weights(SHIPPED)
    write_weights(tmp_path / "none", {name: 0 * array for name, array in arrays.items()}, card)
    own = solve(paper_window(1), strategy="free", solver=LnsPrices(), time_limit=None, iterations=1)
    none = solve(
        paper_window(1),
        strategy="free",
        solver=LnsPrices(weights=str(tmp_path / "none")),
        time_limit=None,
        iterations=1,
    )
    assert own.bound != none.bound
