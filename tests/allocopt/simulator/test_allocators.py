"""Allocators give every job exactly what it asks for, from what is free."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.windows import fat_trees, window

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Topology, hop_costs
from allocopt.errors import UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.held_nodes import Allocator, BreadthFirst, DepthFirst, Share
from allocopt.simulator.window import TopologyAllocator
from allocopt.solving.protocol import get_solver
from allocopt.solving.solve import solve
from allocopt.topology import OneShot

Window = tuple[IntArray, IntArray]
"""Units of each resource that jobs ask for, and that are free on each node."""


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Jobs that fit together."""
    resources = draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 4), min_size=resources, max_size=resources)
    free = np.array(draw(st.lists(row, min_size=1, max_size=6)), dtype=np.int64)
    left, request = free.sum(axis=0), []
    for _ in range(draw(st.integers(1, 4))):
        request.append([draw(st.integers(0, int(units))) for units in left])
        left = left - request[-1]
    return np.array(request, dtype=np.int64), free


def place(allocator: Allocator, request: IntArray, free: IntArray) -> list[Share]:
    before = free.copy()
    shares = allocator.place([str(job) for job in range(len(request))], request, free)
    assert free.tolist() == before.tolist(), "what is free is not for the allocator to change"
    return shares


def assert_exact(shares: Sequence[Share], request: IntArray, free: IntArray) -> None:
    left = free.copy()
    for share, asked in zip(shares, request, strict=True):
        assert len(set(share.nodes.tolist())) == len(share.nodes)
        assert share.units.sum(axis=0).tolist() == asked.tolist()
        assert (share.units >= 0).all()
        assert share.units.any(axis=1).all(), "no node is given without any units"
        left[share.nodes] -= share.units
    assert left.min() >= 0


@pytest.mark.parametrize("allocator", [DepthFirst(), BreadthFirst()], ids=["depth", "breadth"])
@given(window=windows())
def test_jobs_get_exactly_what_they_ask_for_and_never_more_than_is_free(allocator: Allocator, window: Window) -> None:
    request, free = window
    assert_exact(place(allocator, request, free), request, free)


@given(window=windows())
def test_depth_first_fills_every_node_before_the_next(window: Window) -> None:
    request, free = window
    for resource in range(free.shape[1]):
        taken = np.zeros(len(free), dtype=np.int64)
        for share in place(DepthFirst(), request, free):
            taken[share.nodes] += share.units[:, resource]
        last = int(np.flatnonzero(taken).max(initial=0))
        assert taken[:last].tolist() == free[:last, resource].tolist()


@given(window=windows())
def test_breadth_first_takes_from_all_nodes_alike(window: Window) -> None:
    request, free = window
    left = free.copy()
    for share in place(BreadthFirst(), request, free):
        units = np.zeros_like(free)
        units[share.nodes] = share.units
        for taken, available in zip(units.T, left.T, strict=True):
            # A node gives one unit less than another only if it has no more, or stands after it.
            most = taken.max()
            assert (taken >= np.minimum(available, most - 1)).all()
            short = np.flatnonzero((taken < most) & (available > taken))
            assert (np.flatnonzero(taken == most).max() < short).all()
        left -= units


def test_the_first_nodes_give_what_is_over() -> None:
    request, free = np.array([[5]]), np.array([[1], [4], [4]])
    (depth,), (breadth,) = place(DepthFirst(), request, free), place(BreadthFirst(), request, free)
    assert (depth.nodes.tolist(), depth.units.tolist()) == ([0, 1], [[1], [4]])
    assert (breadth.nodes.tolist(), breadth.units.tolist()) == ([0, 1, 2], [[1], [2], [2]])


def whole(sizes: Sequence[int], nodes: int) -> Window:
    return np.array(sizes, dtype=np.int64)[:, None], np.ones((nodes, 1), dtype=np.int64)


def cost(topology: Topology, shares: Sequence[Share]) -> float:
    """Total hop cost of what jobs got."""
    return float(hop_costs(topology, 1.0, [share.nodes for share in shares]).sum())


@st.composite
def jobs_on_a_tree(draw: st.DrawFn) -> tuple[FatTree, list[int]]:
    """Jobs of at least two nodes that fit an empty cluster together."""
    topology = draw(fat_trees.filter(lambda tree: tree.size >= 2))
    sizes: list[int] = []
    while topology.size - sum(sizes) >= 2 and len(sizes) < 3 and (not sizes or draw(st.booleans())):
        sizes.append(draw(st.integers(2, topology.size - sum(sizes))))
    return topology, sizes


@settings(max_examples=30)
@given(case=jobs_on_a_tree(), solver=st.sampled_from(["dp", "greedy", "best-fit", "sequential"]))
def test_a_topology_solver_gives_whole_idle_nodes(case: tuple[FatTree, list[int]], solver: str) -> None:
    topology, sizes = case
    request, free = whole([1, *sizes[:-1], max(1, sizes[-1] - 1)], topology.size)
    allocator = TopologyAllocator(topology, get_solver(solver), "scas" if solver == "dp" else "free")
    assert_exact(place(allocator, request, free), request, free)


@pytest.mark.parametrize(("solver", "strategy", "jobs"), [("dp", "scas", None), ("greedy", "free", 1)])
@settings(max_examples=30)
@given(case=jobs_on_a_tree())
def test_dp_and_of_a_job_alone_greedy_never_cost_more_hops_than_node_by_node(
    solver: str, strategy: str, jobs: int | None, case: tuple[FatTree, list[int]]
) -> None:
    topology, sizes = case
    window = whole(sizes[:jobs], topology.size)
    made = place(TopologyAllocator(topology, get_solver(solver), strategy), *window)
    assert cost(topology, made) <= cost(topology, place(DepthFirst(), *window)) + 1e-9


def test_one_node_jobs_take_the_first_idle_nodes() -> None:
    request, free = whole([1, 2, 1], 6)
    free[0] = 0
    shares = place(TopologyAllocator(FatTree(1, 2, 3), get_solver("greedy")), request, free)
    assert [share.nodes.tolist() for share in shares] == [[1], [3, 4], [2]]


@pytest.mark.parametrize("free", [np.full((4, 1), 2), np.ones((4, 2), dtype=np.int64)], ids=["cores", "gpus"])
def test_a_topology_solver_does_not_share_nodes(free: IntArray) -> None:
    allocator = TopologyAllocator(FatTree(1, 2, 2), get_solver("greedy"))
    with pytest.raises(UsageError, match="allocates whole nodes; on this platform jobs share"):
        allocator.place(["1"], np.ones((1, free.shape[1]), dtype=np.int64), free)


class Cut(OneShot):
    """A solver that Ctrl-C comes into."""

    name = "cut"

    def allocate(self, problem: TopologyProblem, rng: np.random.Generator) -> Allocation:
        """Be interrupted."""
        raise KeyboardInterrupt


def test_ctrl_c_within_a_solve_ends_what_asked_for_it() -> None:
    allocator = TopologyAllocator(FatTree(2, 2, 2), Cut())
    with pytest.raises(KeyboardInterrupt):
        allocator.place(["a"], np.array([[3]]), np.ones((8, 1), dtype=np.int64))
    with pytest.raises(KeyboardInterrupt):
        solve(window(FatTree(2, 2, 2), range(8), [3]), strategy="free", solver=Cut())
