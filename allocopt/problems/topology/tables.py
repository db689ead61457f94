"""A window as arrays for kernels and models: its groups and their tree, classes of equal jobs, SCAS blocks.

Positions ``0 .. m - 1`` stand for the idle nodes in order. Only groups that hold an idle node are kept, and renumbered.
"""

from dataclasses import dataclass

import numpy as np
from numba import float64, int64

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.compiled import helper, kernel
from allocopt.kernels.insertion import JobClasses
from allocopt.kernels.tree import GROUP_TREE, GroupTree, circular_block_costs
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.certificates import PartClass, PartPrices, SizePrices
from allocopt.problems.topology.side_constraints import SideConstraints, level_index, segment_sizes


def encode(problem: TopologyProblem) -> Encoding:
    """Return the arrays of a problem."""
    given = problem.topology.groups_of(problem.idle_nodes)
    steps, groups = np.diff(given, axis=1), np.zeros(given.shape, dtype=np.int64)
    # If nodes are numbered switch by switch, a sum renumbers the groups, without a search for distinct values.
    np.cumsum(steps > 0, axis=1, out=groups[:, 1:])
    for level in np.flatnonzero((steps < 0).any(axis=1)).tolist():
        groups[level] = np.unique(given[level], return_inverse=True)[1]
    formula = HopFormula.of(problem.topology, problem.hop_cost)
    weights = np.array(formula.weights, dtype=np.float64)
    bottom, top, scale = float(formula.bottom), float(formula.top), float(formula.scale)
    return Encoding(groups, groups.max(axis=1) + 1, weights, bottom, top, scale, problem.sizes)


@helper(allocates=True)
def _sorted_by(keys: IntArray, n_keys: int) -> tuple[IntArray, IntArray]:
    first = np.zeros(n_keys + 1, dtype=np.int64)
    for key in keys:
        first[key + 1] += 1
    for key in range(n_keys):
        first[key + 1] += first[key]
    place, indices = first.copy(), np.empty(keys.size, dtype=np.int64)
    for index in range(keys.size):
        indices[place[keys[index]]] = index
        place[keys[index]] += 1
    return first, indices


@kernel(GROUP_TREE(int64[:, ::1], int64[::1], float64[::1]), allocates=True)
def _tree(groups: IntArray, n_groups: IntArray, weights: FloatArray) -> GroupTree:
    n_levels, m = groups.shape
    n_vertices = n_groups.sum() + 1
    parent = np.full(n_vertices, n_vertices - 1)
    weight, idle = np.zeros(n_vertices), np.zeros(n_vertices, dtype=np.int64)
    first = 0
    for level in range(n_levels):
        above = first + n_groups[level]
        for i in range(m):
            vertex = first + groups[level, i]
            idle[vertex] += 1
            if level + 1 < n_levels:
                parent[vertex] = above + groups[level + 1, i]
        weight[first:above] = weights[level]
        first = above
    idle[n_vertices - 1] = m
    first_child, children = _sorted_by(parent[: n_vertices - 1], n_vertices)
    n_leaves = n_groups[0] if n_levels > 0 else 1
    leaf_of = groups[0] if n_levels > 0 else np.zeros(m, dtype=np.int64)
    leaf_first, leaf_positions = _sorted_by(leaf_of, n_leaves)
    return GroupTree(first_child, children, weight, idle, leaf_positions, leaf_first)


TREE_KERNELS = (_tree,)  # compiled functions that `group_tree` calls


def group_tree(encoding: Encoding) -> GroupTree:
    """Return the tree of a problem's groups; if there is only one level, the top is the only leaf."""
    tree: GroupTree = _tree(encoding.groups, encoding.n_groups, encoding.weights)
    return tree


EVERYWHERE = SideConstraints()


def job_classes(
    problem: TopologyProblem, encoding: Encoding, tree: GroupTree, leftover_is_job: bool = False
) -> tuple[JobClasses, IntArray]:
    """Return the classes of equal jobs, and the class of every job.

    Classes are sorted by size, then by the first job with the same rules. If the fragmentation has a weight and
    ``leftover_is_job`` is set, the leftover is one more job, the last one, in its own class. Otherwise its weight is a
    field of the classes.
    """
    placements = [job.placement or EVERYWHERE for job in problem.jobs]
    # Reversed, so that equal rules get the index of the first job that has them.
    first = {placement: index for index, placement in reversed(list(enumerate(placements)))}
    keys = np.array([problem.sizes, [first[placement] for placement in placements]])
    found, example, of_job = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    rules = [placements[index] for index in example]
    sizes, factor = found[0], np.ones(len(rules))
    of_job, leftover = of_job.reshape(-1).astype(np.int64), 0.0
    if problem.fragmentation_weight > 0 and problem.n_left > 0:
        if leftover_is_job:
            of_job, sizes = np.append(of_job, len(sizes)), np.append(sizes, problem.n_left)
            factor, rules = np.append(factor, problem.fragmentation_weight), [*rules, EVERYWHERE]
        else:
            # As for jobs (Eq. 1), the cost of the leftover is divided by its number of nodes.
            leftover = problem.fragmentation_weight / problem.n_left
    # An area is a set of leaves that is open to the jobs of some classes.
    nodes = problem.idle_nodes[tree.leaf_positions[tree.leaf_first[:-1]]]
    areas = {(placement.only_in, placement.not_in): placement for placement in rules}
    is_open = [placement.allowed(problem.topology, nodes) for placement in areas.values()]
    number = {area: index for index, area in enumerate(areas)}
    # By class and level: the number of which the nodes in a group must be a multiple, and the hops that a job saves by
    # staying within one group.
    shape = (len(rules), len(problem.topology.hops))
    step, bonus = np.ones(shape, dtype=np.int64), np.zeros(shape)
    for r, placement in enumerate(rules):
        step[r, :-1] = np.maximum(segment_sizes(placement.segments, problem.topology), 1)
        if placement.within is not None:
            # With `within`, a group holds all nodes of the job or none, so the step is the job's size. It is a multiple
            # of the segment size, so the segment rule holds too.
            step[r, level_index(problem.topology, placement.within)] = sizes[r]
        if placement.prefer is not None:
            bonus[r, level_index(problem.topology, placement.prefer.level)] = placement.prefer.penalty / encoding.scale
    classes = JobClasses(
        sizes=np.ascontiguousarray(sizes),
        factor=factor,
        step=step,
        bonus=bonus,
        area=np.array([number[placement.only_in, placement.not_in] for placement in rules], dtype=np.int64),
        is_open=np.array(is_open),
        # Level of every vertex of the tree; the top is the last one.
        level=np.repeat(np.arange(len(encoding.n_groups) + 1), np.append(encoding.n_groups, 1)),
        leftover=leftover,
        ruled=int(problem.has_side_constraints),
    )
    return classes, of_job


def constant_hops(problem: TopologyProblem, encoding: Encoding) -> float:
    """Return the cost of an allocation before its savings are subtracted, in hops."""
    hops = float((encoding.top * encoding.sizes - encoding.bottom).sum())
    prefers = [job.placement.prefer for job in problem.jobs if job.placement is not None]
    hops += sum(prefer.penalty for prefer in prefers if prefer is not None) / encoding.scale
    if problem.fragmentation_weight > 0 and problem.n_left > 0:
        hops += problem.fragmentation_weight * (encoding.top * problem.n_left - encoding.bottom)
    return hops


def node_prices(problem: TopologyProblem, prices: FloatArray) -> PartPrices:
    """Return the certificate of node prices, in hops, by idle position; prices are equal within a leaf switch."""
    rows = problem.topology.groups_of(problem.idle_nodes)
    if not len(rows):
        return PartPrices()
    leaves, first, counts = np.unique(rows[0], return_index=True, return_counts=True)
    largest = int(problem.sizes.max())
    classes = []
    for leaf, price, idle in zip(leaves.tolist(), prices[first].tolist(), counts.tolist(), strict=True):
        if price > 0.0:
            classes.append(PartClass(1, (leaf,), tuple(price * nodes for nodes in range(min(idle, largest) + 1))))
    return PartPrices(tuple(classes))


def group_prices(problem: TopologyProblem, encoding: Encoding, charge: FloatArray) -> PartPrices:
    """Return the certificate of prices of parts.

    ``charge`` holds the prices of 0, 1, .. up to all idle nodes of each vertex of `group_tree`, in order.
    """
    rows = problem.topology.groups_of(problem.idle_nodes)
    classes, start = [], 0
    for level, (row, given) in enumerate(zip(encoding.groups, rows, strict=True), 1):
        _, first, counts = np.unique(row, return_index=True, return_counts=True)
        for name, idle in zip(given[first].tolist(), counts.tolist(), strict=True):
            prices = charge[start : start + idle + 1]
            start += idle + 1
            if prices.any():
                classes.append(PartClass(level, (name,), tuple(prices.tolist())))
    return PartPrices(tuple(classes))


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Circular blocks of idle positions."""

    sizes: IntArray  # distinct job sizes, sorted, shape (R,)
    counts: IntArray  # number of jobs of each size, shape (R,)
    costs: FloatArray  # hop cost of the block of size r that begins at position i, shape (R, m)

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Blocks":
        """Return the blocks of a problem with their costs."""
        encoding = encode(problem)
        sizes, counts = np.unique(encoding.sizes, return_counts=True)
        return cls(sizes, counts.astype(np.int64), circular_block_costs(encoding, sizes), float(encoding.scale))

    scale: float = 1.0  # cost of a hop

    def cheapest_total(self) -> float:
        """Return the total cost of the cheapest block of each job: a lower bound, because blocks may overlap."""
        return float(self.counts @ self.costs.min(axis=1))

    def cheapest(self) -> tuple[float, SizePrices]:
        """Return the bound of `cheapest_total`, and its certificate."""
        return self.cheapest_total(), self.size_prices(self.costs.min(axis=1))

    def size_prices(self, prices: FloatArray) -> SizePrices:
        """Return the certificate of prices by size, shape ``(R,)``, in the unit of costs."""
        return SizePrices(tuple(zip(self.sizes.tolist(), (prices / self.scale).tolist(), strict=True)))

    def starts_of_jobs(self, problem: TopologyProblem, starts: list[list[int]]) -> IntArray:
        """Return the start of each job; jobs of size r get the chosen ``starts[r]`` in increasing order."""
        left = {int(size): sorted(chosen, reverse=True) for size, chosen in zip(self.sizes, starts, strict=True)}
        return np.array([left[job.nodes].pop() for job in problem.jobs], dtype=np.int64)


BLOCK_KERNELS = (circular_block_costs,)  # compiled functions that `Blocks.of` calls
