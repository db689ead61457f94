"""Windows to test with: hypothesis strategies for tiny ones, a seeded generator for windows like the paper's."""

import itertools
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from allocopt.arrays import IntArray
from allocopt.cluster.topology import FatTree, Pairs, Topology, Tree
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.problems.topology.tables import encode

pairs: st.SearchStrategy[Pairs] = st.sampled_from(["ordered", "unordered"])


def hops(levels: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Rising hop counts; half of them 2, 4, 6, ..."""
    drawn = st.lists(st.integers(0, 20), min_size=levels, max_size=levels, unique=True)
    return st.just(tuple(range(2, 2 * levels + 1, 2))) | drawn.map(lambda values: tuple(sorted(values)))


fat_trees = st.builds(FatTree, st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), hops(3), pairs)


@st.composite
def trees(draw: st.DrawFn, most_nodes: int = 14, levels: int | None = None) -> Tree:
    """Trees of 1 to 4 levels, any nesting, the nodes of a leaf lying anywhere."""
    members: list[int | str] = list(draw(st.permutations(range(draw(st.integers(1, most_nodes))))))
    below_top = draw(st.integers(0, 3)) if levels is None else levels - 1
    named: list[dict[str, list[int | str]]] = []
    for depth in range(below_top):
        owners = draw(st.lists(st.integers(0, 3), min_size=len(members), max_size=len(members)))
        groups: dict[str, list[int | str]] = {}
        for member, owner in zip(members, owners, strict=True):
            groups.setdefault(f"switch-{depth}-{owner}", []).append(member)
        named.append(groups)
        members = list(groups)
    if not named:
        return Tree.from_levels([{"top": members}], draw(hops(1)), draw(pairs))
    return Tree.from_levels(named, draw(hops(below_top + 1)), draw(pairs))


def job_sizes(n_idle: int, most_jobs: int) -> st.SearchStrategy[list[int]]:
    """Sizes of jobs that fit: a single job of everything, jobs of 1 node, jobs that fill the window, or any."""
    most = min(most_jobs, n_idle)
    any_jobs = st.integers(1, most).flatmap(lambda jobs: _parts(n_idle, jobs, full=False))
    full = st.integers(1, most).flatmap(lambda jobs: _parts(n_idle, jobs, full=True))
    ones = st.integers(1, most).map(lambda jobs: [1] * jobs)
    return any_jobs | full | ones | st.just([n_idle])


def _parts(n_idle: int, jobs: int, *, full: bool) -> st.SearchStrategy[list[int]]:
    """Cut the idle nodes, or as many as are drawn, into as many parts as there are jobs."""
    total = st.just(n_idle) if full else st.integers(jobs, n_idle)
    return total.flatmap(
        lambda nodes: st.lists(
            st.integers(1, max(1, nodes - 1)), min_size=jobs - 1, max_size=jobs - 1, unique=True
        ).map(lambda cuts: [high - low for low, high in itertools.pairwise([0, *sorted(cuts), nodes])])
    )


@st.composite
def windows(
    draw: st.DrawFn,
    most_idle: int = 8,
    most_jobs: int = 3,
    strategy: Strategy = Strategy.FREE,
    topologies: st.SearchStrategy[Topology] | None = None,
) -> TopologyProblem:
    """Tiny windows on any cluster."""
    topology: Topology = draw(topologies if topologies is not None else fat_trees | trees())
    nodes = st.integers(0, topology.size - 1)
    few = st.lists(nodes, min_size=1, max_size=most_idle, unique=True)
    most = min(most_idle, topology.size)
    idle = draw(few | st.lists(nodes, min_size=most, max_size=most, unique=True))
    sizes = draw(job_sizes(len(idle), most_jobs))
    return window(topology, idle, sizes, hop_cost=draw(st.sampled_from([1000.0, 1.0, 0.37])), strategy=strategy)


def window(
    topology: Topology,
    idle: Sequence[int] | IntArray,
    sizes: Sequence[int],
    hop_cost: float = 1000.0,
    strategy: Strategy = Strategy.FREE,
    name: str = "window",
) -> TopologyProblem:
    """Make a window whose jobs are named ``job-0``, ``job-1``, ..."""
    jobs = tuple(Job(f"job-{index}", size) for index, size in enumerate(sizes))
    return TopologyProblem(topology, np.array(idle, dtype=np.int64), jobs, hop_cost, name, strategy)


def tiny_window(seed: int, strategy: Strategy = Strategy.FREE) -> TopologyProblem:
    """Return a random window of 10 idle nodes and 3 jobs on a tree of 1 to 4 levels, by the seed modulo 4."""
    rng = np.random.default_rng(seed)
    levels = seed % 4 + 1
    groups = np.zeros((levels - 1, 14), dtype=np.int64)
    members = np.arange(14)
    for depth in range(levels - 1):
        owners = rng.integers(0, 5 - depth, size=int(members.max()) + 1)
        members = np.unique(owners[members], return_inverse=True)[1]
        groups[depth] = members
    names = tuple(tuple(f"switch-{depth}-{group}" for group in np.unique(row)) for depth, row in enumerate(groups))
    tree = Tree(groups, names, tuple(range(2, 2 * levels + 1, 2)), "ordered" if seed % 3 else "unordered")
    idle = rng.choice(14, size=10, replace=False)
    return window(tree, idle, rng.integers(1, 4, size=3).tolist(), strategy=strategy, name=f"tiny-{seed}")


def paper_window(seed: int, strategy: Strategy = Strategy.FREE) -> TopologyProblem:
    """Return a window like the paper's: 1000 nodes, some 100 idle ones in runs, 2 to 6 jobs of 2 to 40 nodes."""
    rng = np.random.default_rng(seed)
    idle: set[int] = set()
    while len(idle) < 100:
        first = int(rng.integers(1000))
        idle.update(range(first, min(1000, first + int(rng.geometric(0.12)))))
    sizes: list[int] = []
    for size in rng.integers(2, 41, size=6).tolist():
        if sum(sizes) + size <= len(idle):
            sizes.append(size)
    return window(FatTree(10, 10, 10), sorted(idle), sizes, strategy=strategy, name=f"paper-{seed}")


def resequenced(problem: TopologyProblem, order: Sequence[int] | IntArray) -> TopologyProblem:
    """Return the same window with its idle nodes in another order: position i is what position ``order[i]`` was.

    The cluster holds the idle nodes alone, so that any order can be had.
    """
    groups = encode(problem).groups[:, np.asarray(order)]
    names = tuple(tuple(f"switch-{depth}-{group}" for group in np.unique(row)) for depth, row in enumerate(groups))
    tree = Tree(groups, names, problem.topology.hops, problem.topology.pairs)
    return TopologyProblem(tree, np.arange(len(order)), problem.jobs, problem.hop_cost, problem.name, problem.strategy)


def with_jobs(problem: TopologyProblem, jobs: Sequence[Job]) -> TopologyProblem:
    """Return the window with other jobs, or the same in another order."""
    return TopologyProblem(
        problem.topology, problem.idle_nodes, tuple(jobs), problem.hop_cost, problem.name, problem.strategy
    )
