"""Certificates: any prices bound the optimum, what is no certificate is refused, and kernels do as their slow twins."""

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.brute_force import hop_matrix, optimum, pairwise_cost
from support.coallocations import best_value as best_coallocation
from support.coallocations import coallocations
from support.knapsacks import best_value as best_selection
from support.knapsacks import knapsacks
from support.placements import best_cost, small_placements
from support.windows import trees, window, windows

from allocopt.cluster.topology import FatTree
from allocopt.errors import InvalidSolutionError
from allocopt.problems.base import Strategy
from allocopt.problems.certificate import Certificate, InvalidCertificateError
from allocopt.problems.coallocation.certificates import HostPrices
from allocopt.problems.coallocation.problem import CoallocationProblem
from allocopt.problems.knapsack import Reward
from allocopt.problems.knapsack.certificates import CountBounds, UnitPrice
from allocopt.problems.knapsack.certificates import Searched as SearchedSelection
from allocopt.problems.knapsack.problem import KnapsackJob, KnapsackProblem
from allocopt.problems.placement import certificates as placement
from allocopt.problems.placement.certificates import LeafPrices
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.topology import Job, TopologyProblem, certificates, second_search
from allocopt.problems.topology.certificates import PartClass, PartPrices, SizePrices
from allocopt.problems.topology.second_search import Searched
from allocopt.problems.topology.side_constraints import Preference, SideConstraints
from allocopt.problems.tree_check import IMPOSSIBLE, CheckTree
from allocopt.solving.certify import check_bound
from allocopt.solving.solve import solve
from allocopt.solving.verify import verify

ROUNDING = 1e-9
prices = st.floats(0.0, 20.0)


def rises_to(bound: Fraction, best: float) -> bool:
    """Whether a bound of a minimum is not above it."""
    return float(bound) <= best + ROUNDING * max(1.0, abs(best))


# -- Topology


@st.composite
def part_prices(draw: st.DrawFn, problem: TopologyProblem) -> PartPrices:
    classes = []
    for level, row in enumerate(problem.topology.groups_of(problem.idle_nodes), 1):
        groups = draw(st.lists(st.sampled_from(sorted(set(row.tolist()))), unique=True, max_size=3))
        for group in groups:
            classes.append(PartClass(level, (group,), (0.0, *draw(st.lists(prices, max_size=4)))))
    return PartPrices(tuple(classes))


@given(st.data(), windows())
def test_any_prices_of_parts_bound_the_cost_of_every_strategy(data: st.DataObject, problem: TopologyProblem) -> None:
    assert rises_to(data.draw(part_prices(problem)).bound(problem), optimum(problem))


@given(st.data(), windows(strategy=Strategy.SCAS))
def test_any_prices_of_sizes_bound_the_cost_of_scas(data: st.DataObject, problem: TopologyProblem) -> None:
    sizes = sorted(set(problem.sizes.tolist()))
    signed = data.draw(st.lists(st.floats(-20.0, 20.0), min_size=len(sizes), max_size=len(sizes)))
    assert rises_to(SizePrices(tuple(zip(sizes, signed, strict=True))).bound(problem), optimum(problem))


@pytest.mark.parametrize("strategy", list(Strategy))
@given(data=st.data())
def test_a_second_search_finds_the_optimum(strategy: Strategy, data: st.DataObject) -> None:
    fat = st.builds(FatTree, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
    problem = data.draw(windows(strategy=strategy, topologies=fat))
    best = optimum(problem)
    assert float(Searched(best).bound(problem)) == pytest.approx(best, rel=1e-6)
    if strategy is Strategy.FREE:
        # It lowers a claim that is too high.
        assert rises_to(Searched(best + 1.0).bound(problem), best * (1 + 1e-6))


def test_classes_of_groups_of_one_level_bound_as_the_groups_apart_do_or_less() -> None:
    problem = window(FatTree(2, 2, 3), range(10), [4, 3])
    of_leaf, of_pod = (0.0, 1.0, 1.5, 3.0), (0.0, 0.0, 0.5)
    apart = PartPrices(
        (*(PartClass(1, (one,), of_leaf) for one in range(4)), *(PartClass(2, (one,), of_pod) for one in range(2)))
    )
    merged = PartPrices((PartClass(1, (0, 1, 2, 3), of_leaf), PartClass(2, (0, 1), of_pod)))
    assert merged.bound(problem) <= apart.bound(problem) <= optimum(problem)
    with pytest.raises(InvalidCertificateError, match="below two classes"):
        PartPrices(merged.classes[:1]).bound(problem)


WRONG = {
    "a level that is not there": (PartClass(9, (0,), (0.0,)),),
    "a group without idle nodes": (PartClass(1, (3,), (0.0,)),),
    "a group twice": (PartClass(1, (0,), (0.0,)), PartClass(1, (0,), (0.0,))),
    "a negative price": (PartClass(1, (0,), (0.0, -1.0)),),
    "a price of nothing": (PartClass(1, (0,), (1.0,)),),
    "no prices": (PartClass(1, (0,), ()),),
    "no number": (PartClass(1, (0,), (0.0, float("nan"))),),
    "infinity": (PartClass(1, (0,), (0.0, float("inf"))),),
}


@pytest.mark.parametrize("what", WRONG)
def test_prices_of_parts_that_are_none_are_refused(what: str) -> None:
    with pytest.raises(InvalidCertificateError):
        PartPrices(WRONG[what]).bound(window(FatTree(2, 2, 3), range(6), [4]))


# -- The other kinds


@given(st.data(), small_placements())
def test_any_prices_of_leaves_bound_the_cost_of_placements(data: st.DataObject, problem: PlacementProblem) -> None:
    leaves, columns = sorted(set(problem.groups[0].tolist())), len(problem.resources) + 2
    triple = st.tuples(st.sampled_from(leaves), st.integers(0, columns - 1), prices)
    drawn = [tuple(data.draw(st.lists(triple, max_size=5))) for _ in range(2)]
    certificate = LeafPrices(drawn[0], drawn[1], ((1,) * len(problem.resources),))
    assert rises_to(certificate.bound(problem), best_cost(problem))


@given(knapsacks(rewards=("capacity", "linear"), resources=2), prices)
def test_any_price_of_a_unit_bounds_the_worth_of_selections(problem: KnapsackProblem, price: float) -> None:
    for resource in problem.capacity:
        assert rises_to(-UnitPrice(resource, price).bound(problem), -best_selection(problem))


@given(knapsacks(rewards=("capability",), slots=True))
def test_bounds_by_the_number_of_jobs_hold(problem: KnapsackProblem) -> None:
    assert rises_to(-CountBounds().bound(problem), -best_selection(problem))


@given(knapsacks())
def test_a_second_program_finds_the_best_selection(problem: KnapsackProblem) -> None:
    assert float(SearchedSelection().bound(problem)) == pytest.approx(best_selection(problem), rel=1e-9, abs=1e-12)


@given(st.data(), coallocations())
def test_any_prices_of_hosts_bound_the_worth_of_coallocations(
    data: st.DataObject, problem: CoallocationProblem
) -> None:
    n = len(problem.hosts)
    of_hosts = data.draw(st.lists(prices, min_size=n, max_size=n))
    assert rises_to(-HostPrices(tuple(of_hosts)).bound(problem), -best_coallocation(problem))


# -- What solvers hand over


@pytest.mark.parametrize("factor", [1.001, 2.0])
def test_a_bound_that_is_claimed_too_high_is_refused(factor: float) -> None:
    for name, strategy in (
        ("dp", Strategy.SCAS),
        ("lagrangian", Strategy.SCAS),
        ("prices", Strategy.FREE),
        ("lns", Strategy.FREE),
    ):
        problem = window(FatTree(2, 2, 3), range(10), [4, 3], strategy=strategy)
        result: Any = solve(problem, solver=name, certify=True)
        assert result.is_certified
        check_bound(problem, result.certificate, result.bound)
        with pytest.raises(InvalidCertificateError, match="proves"):
            check_bound(problem, result.certificate, factor * result.bound)


@given(windows())
def test_certificates_come_back_from_their_files(problem: TopologyProblem) -> None:
    result: Any = solve(problem, solver="prices", certify=True)
    certificate: Certificate[Any] = result.certificate
    held = certificate.as_object()
    assert held.pop("method") == certificate.method
    assert type(certificate).from_object(held) == certificate


@pytest.mark.parametrize(
    "held",
    [
        {"classes": 3},
        {"classes": [{"level": 1}]},
        {"unknown": 1},
        {"classes": [{"level": "a", "groups": [], "prices": []}]},
        {"classes": [{"level": 1, "groups": [], "prices": [], "unknown": 1}]},
    ],
)
def test_what_a_file_holds_in_place_of_a_certificate_is_refused(held: dict[str, object]) -> None:
    with pytest.raises(InvalidSolutionError, match="certificate"):
        PartPrices.from_object(held)


# -- Kernels and their slow twins


@st.composite
def check_trees(draw: st.DrawFn) -> tuple[CheckTree, list[int], list[list[int]]]:
    """Trees of few groups, their widths, and gains of every count."""
    n = draw(st.integers(2, 6))
    parent = np.array([draw(st.integers(v + 1, n - 1)) for v in range(n - 1)] + [-1])
    widths = [draw(st.integers(0, 3)) for _ in range(n)]
    gain = st.integers(-9, 9) | st.just(IMPOSSIBLE)
    gains = [[0, *(draw(gain) for _ in range(width))] for width in widths]
    several = np.array([draw(st.booleans()) for _ in range(n - 1)] + [False])
    return CheckTree.of(parent, np.array(widths), several), widths, gains


def best_counts(tree: CheckTree, widths: list[int], gains: list[list[int]], v: int) -> dict[int, int]:
    """Return the largest gain of each number of nodes of a group with all that is below it, by trying all."""
    children = np.flatnonzero(tree.parent == v).tolist()
    offered = {0: 0}
    if not children:
        offered = dict.fromkeys(range(widths[v] + 1), 0)
    for child in children:
        one = best_counts(tree, widths, gains, child)
        many = {0: 0}
        for _ in range(widths[v] if tree.several[child] else 1):
            for (a, x), (b, y) in itertools.product(list(many.items()), one.items()):
                if a + b <= widths[v]:
                    many[a + b] = max(many.get(a + b, IMPOSSIBLE), x + y)
        if not tree.several[child]:
            many = {count: gain for count, gain in one.items() if count <= widths[v]}
        joined: dict[int, int] = {}
        for (a, x), (b, y) in itertools.product(offered.items(), many.items()):
            if a + b <= widths[v]:
                joined[a + b] = max(joined.get(a + b, IMPOSSIBLE), x + y)
        offered = joined
    return {
        count: gain + gains[v][count]
        for count, gain in offered.items()
        if count <= widths[v] and gains[v][count] > IMPOSSIBLE
    }


@given(check_trees())
def test_the_best_counts_of_a_tree_are_those_of_trying_all_in_64_bits_and_beyond(
    drawn: tuple[CheckTree, list[int], list[list[int]]],
) -> None:
    tree, widths, gains = drawn
    expected = best_counts(tree, widths, gains, len(widths) - 1)
    flat = np.array([gain for row in gains for gain in row])
    forbidden = flat == IMPOSSIBLE
    flat[forbidden] = 0
    # Beyond 64 bits, where gains may be less than the mark of what is not allowed.
    for factor, kind in ((1, np.int64), (2**70, np.object_)):
        found = tree.best(flat.astype(kind) * factor, 200 * factor, forbidden)
        assert {count: gain for count, gain in enumerate(found) if gain is not None} == {
            count: factor * gain for count, gain in expected.items()
        }


@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 8))
def test_the_worth_of_nodes_is_that_of_the_best_parts(of_parts: list[int], idle: int) -> None:
    table = [0, *of_parts]

    @cache
    def worth(left: int) -> int:
        return max([0, *(table[k] + worth(left - k) for k in range(1, min(left, len(table) - 1) + 1))])

    worths = np.zeros(idle + 1, dtype=np.int64)
    certificates._fill_worths(np.array(table), worths)
    assert worths.tolist() == [worth(left) for left in range(idle + 1)]


@given(windows(strategy=Strategy.SCAS))
def test_costs_of_blocks_are_those_of_their_pairs_rounded_down(problem: TopologyProblem) -> None:
    sizes, m = np.unique(problem.sizes), len(problem.idle_nodes)
    costs, hops = certificates.block_costs(problem, sizes), hop_matrix(problem)
    for r, start in itertools.product(range(len(sizes)), range(m)):
        block = [(start + k) % m for k in range(sizes[r])]
        exact = Fraction(pairwise_cost(problem, hops, block)) / Fraction(problem.hop_cost)
        if problem.topology.pairs == "unordered":
            exact *= 2
        assert costs[r, start] == pytest.approx(float(exact) * certificates.GRID, abs=1.5)


@st.composite
def circles(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Costs of blocks by size and first place of a circle, and the sizes."""
    m = draw(st.integers(1, 7))
    sizes = sorted(draw(st.sets(st.integers(1, m), min_size=1, max_size=3)))
    costs = [[draw(st.integers(-9, 9)) for _ in range(m)] for _ in sizes]
    return np.array(costs), np.array(sizes)


def packings(costs: np.ndarray, sizes: np.ndarray, taken: frozenset[int] = frozenset(), first: int = 0) -> Any:
    """Yield the cost and sizes of all sets of disjoint blocks of the circle."""
    yield 0, ()
    m = costs.shape[1]
    for start, r in itertools.product(range(first, m), range(len(sizes))):
        block = {(start + k) % m for k in range(sizes[r])}
        if not block & taken:
            for cost, others in packings(costs, sizes, taken | block, start + 1):
                yield cost + int(costs[r, start]), (int(sizes[r]), *others)


@given(circles())
def test_the_least_path_is_that_of_all_sets_of_blocks(drawn: tuple[np.ndarray, np.ndarray]) -> None:
    costs, sizes = drawn
    least = min(cost for cost, _ in packings(costs, sizes))
    for run, kind in ((certificates._least_path, np.int64), (certificates._least_path.py_func, np.object_)):
        labels = np.zeros((2, costs.shape[1] + 1), dtype=kind)
        assert run(costs.astype(kind), sizes, labels) == least


@given(st.data(), circles())
def test_the_least_packing_is_that_of_all_with_these_blocks(
    data: st.DataObject, drawn: tuple[np.ndarray, np.ndarray]
) -> None:
    costs, sizes = drawn
    costs = costs - min(0, int(costs.min()))
    counts = np.array([data.draw(st.integers(0, 2)) for _ in sizes])
    wanted = sorted(np.repeat(sizes, counts).tolist())
    possible = [cost for cost, blocks in packings(costs, sizes) if sorted(blocks) == wanted]
    if not possible:
        return
    strides = np.concatenate(([1], np.cumprod(counts + 1)))
    table = np.zeros((costs.shape[1] + 1, int(strides[-1])), dtype=np.int64)
    least = np.full(1, np.iinfo(np.int64).max)
    second_search._fill_packings(costs, sizes, counts, strides, table, least)
    assert least[0] == min(possible)


@given(trees(6, 2), st.data())
def test_what_nodes_save_by_their_tasks_is_that_of_all_sets(tree: Any, data: st.DataObject) -> None:
    leaf = np.unique(tree.groups[0], return_inverse=True)[1]
    room = np.array([data.draw(st.integers(0, 3)) for _ in leaf])
    n_leaves = int(leaf.max()) + 1
    parent, weight = np.array([n_leaves] * n_leaves + [-1]), np.array([2] * n_leaves + [0])
    order = np.lexsort((-room, leaf))
    first = np.searchsorted(leaf[order], np.arange(n_leaves + 1))
    most_nodes, most_tasks, step = 3, 5, data.draw(st.integers(1, 3))
    saved = np.full((most_nodes + 1, most_tasks + 1), IMPOSSIBLE, dtype=np.int64)
    steps = np.array([step] * n_leaves + [1])
    assert placement._fill_uneven(parent, weight, steps, first, room[order], saved, 10**6)
    for n in range(1, most_nodes + 1):
        sets = [chosen for chosen in itertools.combinations(np.flatnonzero(room).tolist(), n)]
        whole = [chosen for chosen in sets if not (np.bincount(leaf[list(chosen)]) % step).any()]
        enough = [chosen for chosen in whole if sum(room[list(chosen)]) >= most_tasks]
        gains = [2 * int((np.bincount(leaf[list(chosen)]) ** 2).sum()) for chosen in enough]
        assert saved[n, most_tasks] == max(gains, default=IMPOSSIBLE)


def test_a_certificate_of_another_problem_does_not_certify() -> None:
    small, large = (window(FatTree(2, 2, 3), range(12), sizes, strategy=Strategy.FREE) for sizes in ([2], [6, 5]))
    result: Any = solve(large, solver="exact", certify=True)
    assert verify(large, result.found()) == pytest.approx(result.bound)
    with pytest.raises(InvalidCertificateError):
        check_bound(small, result.certificate, result.bound)


def test_prices_far_above_all_savings_prove_no_more_than_the_cost() -> None:
    job = Job("a", 20, SideConstraints(prefer=Preference("pod", 1e15)))
    idle = np.array([*range(20), *range(80, 90), *range(160, 170)])
    problem = TopologyProblem(FatTree(3, 4, 20), idle, (job,), hop_cost=1.0)
    best = solve(problem, solver="auto", certify=True).objective
    assert best is not None
    for price in (1e3, 1e13, 1e100, 1e308):
        certificate = PartPrices((PartClass(1, (0,), (*[0.0] * 20, price)),))
        assert rises_to(certificate.bound(problem), best)


def test_a_price_that_no_job_pays_loosens_no_check() -> None:
    problem = window(FatTree(20, 40, 50), range(40_000), [2])
    certificate = PartPrices((PartClass(1, (0,), (0.0, 0.0, 0.0, 1e12)),))
    check_bound(problem, certificate, 2000.0)
    with pytest.raises(InvalidCertificateError, match="proves 2000, below"):
        check_bound(problem, certificate, 2000.1)


@pytest.mark.parametrize("stated", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_is_refused(stated: float) -> None:
    with pytest.raises(InvalidCertificateError, match="must be finite"):
        check_bound(window(FatTree(2, 2, 3), range(6), [4]), PartPrices(), stated)


def test_prices_that_no_float_holds_together_are_compared_exactly() -> None:
    problem = KnapsackProblem({"nodes": 10}, (KnapsackJob("a", {"nodes": 2}, 1.0, 1.0, 1.0),), Reward.LINEAR)
    with pytest.raises(InvalidCertificateError, match="proves infinity, above"):
        check_bound(problem, UnitPrice("nodes", 1.7e308), 1.0)
