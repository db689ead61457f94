"""The bound by prices of parts, on a tree in which groups are merged into classes.

The tree is merged below a given level. Two groups are merged if they are of the same lower level and lie under the same
group of the given level. A class of merged groups offers what any of its members offers, any number of times. So a job
finds at least as much in the merged tree as in the tree itself.

Allocations follow the prices: jobs are inserted where their saving less the lost worth of the groups is largest.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.formulations.topology.column_generation import Answer
from allocopt.kernels.arrays import FloatMatrix, IntMatrix, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, insertion_state, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import group_tree
from allocopt.solving import Run
from allocopt.solving.budget import Clock

SLICE = 4_000_000  # idle nodes times nodes of the inserted jobs between two looks at the clock: some milliseconds
RANDOM_ORDERS = 5  # number of random orders that are tried before orders close to the best one
MOST_MOVED = 3  # most sizes that change their places in the order at once


class _MergedTree(NamedTuple):
    """Classes of groups: classes of leaves first, then level by level; the last of the V classes is the top.

    A *part* is a number of nodes that one job takes from one group. The part of k nodes of a group of class v has row
    ``first[v] + k``, also in tables of prices. The top has no parts. A *stock* is the set of groups of a class that
    have equally many idle nodes.
    """

    first_child: IntArray  # the children of class v are children[first_child[v] : first_child[v + 1]]
    children: IntArray
    weight: FloatArray  # saving per squared number of nodes of a part of a class, shape (V,); 0 at the top
    members: IntArray  # number of groups of each class, shape (V,)
    widest: IntArray  # nodes of the largest part of a class, shape (V,); those of the largest job at the top
    first: IntArray  # row of the part of 0 nodes of each class, shape (V + 1,); the top has none
    stock_class: IntArray  # class of the groups of each stock, sorted
    stock_idle: IntArray  # idle nodes of each group of a stock, sorted within a class
    stock_count: IntArray  # number of groups of a stock
    worth_first: IntArray  # the worth of c idle nodes of a group of class v is at worth_first[v] + c, shape (V + 1,)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.first[-1])

    @classmethod
    def of(cls, encoding: Encoding, level: int) -> "tuple[_MergedTree, list[IntArray]]":
        """Return a tree of merged groups, and the class of every group, level by level below the top.

        Groups of ``level`` and above stay separate, groups below are merged. Level 0, the leaves, merges no groups;
        level ``L - 1``, the top, merges all groups of each level.
        """
        levels = np.vstack((encoding.groups, np.zeros((1, encoding.n_idle), dtype=np.int64)))
        labels = levels.copy()
        labels[:level] = levels[level]
        counts = labels.max(axis=1) + 1
        labels += np.concatenate(([0], np.cumsum(counts)[:-1]))[:, None]
        # The class of a group is that of its first position.
        pairs = zip(levels[:-1], labels[:-1], strict=True)
        class_of_group = [of_position[np.unique(groups, return_index=True)[1]] for groups, of_position in pairs]
        n_classes, largest = int(counts.sum()), int(encoding.sizes.max())
        parent = np.full(n_classes, -1, dtype=np.int64)
        for lower, upper in itertools.pairwise(labels):
            parent[lower] = upper
        children = np.argsort(parent, kind="stable")[1:]
        idle_of_group = np.concatenate([*(np.bincount(groups) for groups in encoding.groups), np.zeros(0, dtype=int)])
        stocks = np.stack((np.concatenate([*class_of_group, labels[0, :0]]), idle_of_group))
        found, count = np.unique(stocks, axis=1, return_counts=True)
        owner, idle = (np.ascontiguousarray(row) for row in found)
        members, most_idle = np.zeros((2, n_classes), dtype=np.int64)
        np.add.at(members, owner, count)
        np.maximum.at(most_idle, owner, idle)
        widest = np.minimum(most_idle, largest)
        members[-1], widest[-1] = 1, largest
        tree = cls(
            first_child=np.searchsorted(parent[children], np.arange(n_classes + 1)),
            children=children,
            weight=np.repeat(np.append(encoding.weights, 0.0), counts),
            members=members,
            widest=widest,
            first=np.concatenate(([0], np.cumsum(np.append(widest[:-1] + 1, 0)))),
            stock_class=owner,
            stock_idle=idle,
            stock_count=count,
            worth_first=np.concatenate(([0], np.cumsum(most_idle + 1))),
        )
        return tree, class_of_group


class _Space(NamedTuple):
    """Working space; ``one``, ``several`` and ``last`` of class v begin at ``offset[v]``."""

    offset: IntArray  # shape (V + 1,)
    one: FloatArray  # largest value of k nodes of one group of a class, less the price of the part
    several: FloatArray  # largest value of k nodes of any groups of a class
    last: IntArray  # nodes of the last part in that value; 0 for none
    prefix: FloatMatrix  # largest value of k nodes in the first i children of a class
    todo: IntMatrix  # classes and nodes that have still to be split into parts, shape (2, ..)
    piece: IntArray  # nodes of a part in the best sale of c idle nodes, laid out as the worths; 0 if a node is not sold


_MERGED_TREE, _SPACE = record_type(_MergedTree), record_type(_Space)


@inlined
def _combine_children(tree: _MergedTree, space: _Space, v: int, most: int) -> int:
    """Fill the values of 0 .. ``most`` nodes in the first i children of a class, for all i; return their number."""
    first = tree.first_child[v]
    n_children: int = tree.first_child[v + 1] - first
    space.prefix[0, 0] = 0.0
    for k in range(1, most + 1):
        space.prefix[0, k] = -np.inf
    for i in range(n_children):
        child = tree.children[first + i]
        start = space.offset[child]
        limit = most if tree.members[child] > 1 else min(most, tree.widest[child])
        if i == 0:
            for k in range(most + 1):
                space.prefix[1, k] = space.several[start + k] if k <= limit else -np.inf
            continue
        for k in range(most + 1):
            value = -np.inf
            for a in range(min(k, limit) + 1):
                value = max(value, space.prefix[i, k - a] + space.several[start + a])
            space.prefix[i + 1, k] = value
    return n_children


@inlined
def _trace_parts(tree: _MergedTree, space: _Space, size: int, parts: IntArray) -> float:
    """Count, by row, the parts that a job takes by the filled tables; return the weighted sum of squared nodes."""
    top = tree.widest.size - 1
    for row in range(parts.size):
        parts[row] = 0
    squares, n_todo = 0.0, 1
    space.todo[0, 0], space.todo[1, 0] = top, size
    while n_todo > 0:
        n_todo -= 1
        v, nodes = space.todo[0, n_todo], space.todo[1, n_todo]
        first = tree.first_child[v]
        n_children = _combine_children(tree, space, v, nodes)
        for i in range(n_children - 1, -1, -1):
            child = tree.children[first + i]
            start = space.offset[child]
            # No choices were stored, so find the first split that gives the value.
            a = 0
            if i == 0:
                a = nodes
            else:
                while space.prefix[i, nodes - a] + space.several[start + a] < space.prefix[i + 1, nodes]:
                    a += 1
            nodes -= a
            while a > 0:
                part = space.last[start + a]
                parts[tree.first[child] + part] += 1
                squares += tree.weight[child] * part * part
                a -= part
                if tree.first_child[child + 1] > tree.first_child[child]:
                    space.todo[0, n_todo], space.todo[1, n_todo] = child, part
                    n_todo += 1
    return squares


@kernel(void(_MERGED_TREE, _SPACE, int64[::1], float64[::1], int64[:, ::1], float64[::1], float64[::1]))
def _best_parts(
    tree: _MergedTree,
    space: _Space,
    sizes: IntArray,
    prices: FloatArray,  # price of every part, in hops, by row
    parts: IntArray,  # number of each part in the best choice of each size, shape (R, rows)
    savings: FloatArray,  # savings of the choices in hops, shape (R,)
    values: FloatArray,  # savings less prices
) -> None:
    """Find for every size the parts with the largest saving less prices, on a tree without other jobs."""
    top = tree.widest.size - 1
    for r in range(sizes.size):
        size = sizes[r]
        for v in range(top):
            start, row, weight = space.offset[v], tree.first[v], tree.weight[v] / size
            most = min(size, space.offset[v + 1] - start - 1)
            limit, n_children = min(most, tree.widest[v]), tree.first_child[v + 1] - tree.first_child[v]
            if n_children > 0:
                _combine_children(tree, space, v, limit)
            space.one[start], space.several[start], space.last[start] = 0.0, 0.0, 0
            for k in range(1, limit + 1):
                below = space.prefix[n_children, k] if n_children > 0 else 0.0
                space.one[start + k] = below + weight * k * k - prices[row + k]
            if tree.members[v] == 1:
                for k in range(1, limit + 1):
                    space.several[start + k], space.last[start + k] = space.one[start + k], k
                continue
            for k in range(1, most + 1):
                value, last = -np.inf, 0
                for a in range(1, min(k, limit) + 1):
                    candidate = space.several[start + k - a] + space.one[start + a]
                    if candidate > value:
                        value, last = candidate, a
                space.several[start + k], space.last[start + k] = value, last
        n_children = _combine_children(tree, space, top, size)
        values[r] = space.prefix[n_children, size] if n_children > 0 else 0.0
        savings[r] = _trace_parts(tree, space, size, parts[r]) / size


@kernel(void(_MERGED_TREE, _SPACE, float64[::1], int64[:, ::1], float64[::1]))
def _best_sales(tree: _MergedTree, space: _Space, prices: FloatArray, sales: IntArray, worth: FloatArray) -> None:
    """Find for every stock the parts of the largest total price that fit into one of its groups; prices are >= 0."""
    # An unbounded knapsack per class, whose table serves the stocks of all numbers of idle nodes.
    for v in range(tree.widest.size - 1):
        start, row, widest = tree.worth_first[v], tree.first[v], tree.widest[v]
        worth[start], space.piece[start] = 0.0, 0
        for c in range(1, tree.worth_first[v + 1] - start):
            value, piece = worth[start + c - 1], 0
            for a in range(1, min(c, widest) + 1):
                candidate = worth[start + c - a] + prices[row + a]
                if candidate > value:
                    value, piece = candidate, a
            worth[start + c], space.piece[start + c] = value, piece
    for stock in range(tree.stock_class.size):
        v, idle = tree.stock_class[stock], tree.stock_idle[stock]
        for row in range(sales.shape[1]):
            sales[stock, row] = 0
        while idle > 0:
            piece = space.piece[tree.worth_first[v] + idle]
            if piece > 0:
                sales[stock, tree.first[v] + piece] += 1
            idle -= max(1, piece)


@dataclass(frozen=True, slots=True, eq=False)
class Priced(Answer):
    """The best answers of jobs and groups to prices of parts, in hops."""

    job_parts: IntArray  # number of each part that a job of each size takes, shape (R, rows)
    savings: FloatArray  # savings of these parts, without prices, shape (R,)
    sales: IntArray  # number of each part that a group of each stock sells, shape (stocks, rows)
    worth: FloatArray  # worth of c idle nodes of a group of each class, laid out by `_MergedTree.worth_first`


class Pricing:
    """Finds the best answer of every size and every stock to given prices, on a tree merged below a level."""

    def __init__(self, encoding: Encoding, level: int) -> None:
        self.tree, self.class_of_group = _MergedTree.of(encoding, level)
        self.sizes, self.multiplicity = np.unique(encoding.sizes, return_counts=True)
        self._most_saved = float(encoding.top) * self.sizes
        tree, largest, n_classes = self.tree, int(self.tree.widest[-1]), len(self.tree.widest)
        parent = np.full(n_classes, n_classes - 1)
        parent[tree.children] = np.repeat(np.arange(n_classes), np.diff(tree.first_child))
        # The groups of a class together may have to offer as many nodes as a group of the parent has.
        offset = np.concatenate(([0], np.cumsum(np.maximum(tree.widest, tree.widest[parent]) + 1)))
        one, several = np.zeros((2, int(offset[-1])))
        last, piece = (np.zeros(int(length), dtype=np.int64) for length in (offset[-1], tree.worth_first[-1]))
        prefix = np.zeros((int(np.diff(tree.first_child).max()) + 1, largest + 1))
        # Parts that wait to be split are disjoint, so they are no more than a job has nodes.
        todo = np.zeros((2, largest + 1), dtype=np.int64)
        self._space = _Space(offset, one, several, last, prefix, todo, piece)

    def at(self, prices: FloatArray) -> Priced:
        """Return the best answers to prices, which must be >= 0, and 0 for parts of no nodes."""
        tree, n_sizes = self.tree, len(self.sizes)
        job_parts = np.empty((n_sizes, tree.n_rows), dtype=np.int64)
        savings, values = np.empty(n_sizes), np.empty(n_sizes)
        _best_parts(tree, self._space, self.sizes, prices, job_parts, savings, values)
        sales = np.empty((len(tree.stock_idle), tree.n_rows), dtype=np.int64)
        worth = np.empty(int(tree.worth_first[-1]))
        _best_sales(tree, self._space, prices, sales, worth)
        income = float(tree.stock_count @ worth[tree.worth_first[tree.stock_class] + tree.stock_idle])
        # Add generously what rounding can have taken off the bound. The terms of a job's value are its savings, at most
        # `_most_saved`, less prices, which are the difference between savings and value.
        terms = 8 * len(self.class_of_group) * int(self.sizes[-1]) + int(tree.stock_idle.max(initial=0))
        terms += n_sizes + len(tree.stock_idle)
        magnitude = float(self.multiplicity @ (2 * self._most_saved + np.abs(values))) + income
        rounding = float(np.finfo(np.float64).eps) * terms * magnitude
        bound = float(self.multiplicity @ values) + income + rounding
        return Priced(prices, bound, job_parts, savings, sales, worth)

    def work(self) -> int:
        """Return the most additions that `at` takes, in the programs of jobs and the knapsacks of groups."""
        idle = np.diff(self.tree.worth_first)[:-1]
        return int(self.tree.widest[:-1] @ (idle + self.sizes.sum()))

    def inherited(self, coarse: "Pricing", prices: FloatArray) -> FloatArray:
        """Return the prices of ``coarse``, a pricing that merges more groups, as prices of this pricing.

        They prove a bound that is at least as tight as that of ``coarse``.
        """
        mine = np.zeros(self.tree.n_rows)
        for fine_class, coarse_class in zip(self.class_of_group, coarse.class_of_group, strict=True):
            for v, group in zip(*np.unique(fine_class, return_index=True), strict=True):
                start, from_ = self.tree.first[v], coarse.tree.first[coarse_class[group]]
                length = int(self.tree.widest[v]) + 1
                mine[start : start + length] = prices[from_ : from_ + length]
        return mine


@kernel(void(GROUP_TREE, INSERTION_STATE, int64[::1], float64[::1], int64[::1], int64, int64, int64[::1]))
def _insert_at_prices(
    tree: GroupTree,
    state: InsertionState,  # idle nodes after the jobs before `first`; its tables are made anew
    sizes: IntArray,
    worth: FloatArray,  # worth of c idle nodes of group v at worth_of[v] + c, in hops; the top has none
    worth_of: IntArray,
    first: int,
    last: int,
    owners: IntArray,  # index of the job that gets each idle position, written in place
) -> None:
    """Insert the jobs ``first .. last - 1`` one after the other; consecutive jobs of equal size take least time."""
    top, n_leaves = tree.idle.size - 1, tree.leaf_first.size - 1
    for job in range(first, last):
        size = sizes[job]
        for v in range(top):
            # For the same size, tables of groups from which the job before took no nodes are still valid.
            if job > 0 and size == sizes[job - 1] and state.take[v] == 0:
                continue
            table, idle, row = state.offset[v], state.idle[v], worth_of[v]
            most = min(idle, size)
            if v < n_leaves:
                for k in range(most + 1):
                    state.tables[table + k] = tree.weight[v] * k * k
            else:
                fill_table(tree, state, v, size)
            for k in range(most + 1):
                state.tables[table + k] -= size * (worth[row + idle] - worth[row + idle - k])
        place_job(tree, state, size)
        for leaf in range(n_leaves):
            start = tree.leaf_first[leaf + 1] - state.idle[leaf]
            for index in range(start, start + state.take[leaf]):
                owners[tree.leaf_positions[index]] = job
        for v in range(top + 1):
            state.idle[v] -= state.take[v]


PRICE_KERNELS = (_best_parts, _best_sales, _insert_at_prices)  # compiled functions that Python calls


class Rounding:
    """Makes allocations from the worth of idle nodes at good prices, for several orders of the job sizes."""

    def __init__(
        self, problem: TopologyProblem, encoding: Encoding, pricing: Pricing, priced: Priced, rng: np.random.Generator
    ) -> None:
        self._problem, self._rng = problem, rng
        self._tree = group_tree(encoding)
        self._worth = priced.worth
        classes = np.concatenate([*pricing.class_of_group, np.array([len(pricing.tree.widest) - 1])])
        self._worth_of: IntArray = pricing.tree.worth_first[classes]
        self._size_of_job: IntArray = np.searchsorted(pricing.sizes, problem.sizes)
        self._best, self._least, self._tried = rng.random(len(pricing.sizes)), np.inf, 0

    def proceed(self, orders: int, run: Run, remaining: Callable[[], float]) -> None:
        """Offer allocations of random orders, then of orders close to the best, until one is proved optimal."""
        for _ in range(orders):
            if run.is_proved() or remaining() <= 0.0:
                return
            self._tried += 1
            ranks = self._best.copy()
            if self._tried <= RANDOM_ORDERS:
                ranks[:] = self._rng.random(len(ranks))
            else:
                which = self._rng.integers(len(ranks), size=self._rng.integers(1, MOST_MOVED + 1))
                ranks[which] = self._rng.uniform(-0.1, 1.1, size=len(which))
            allocation = self.allocation(ranks, run.clock)
            if allocation is None:
                return
            cost = self._problem.objective(allocation)
            if cost <= self._least:
                self._best, self._least = ranks, cost
                run.offer(allocation)

    def allocation(self, ranks: FloatArray, clock: Clock) -> Allocation | None:
        """Return the allocation of jobs inserted in the order of their sizes' ranks; None if the time is over."""
        order = np.argsort(ranks[self._size_of_job], kind="stable")
        sizes = self._problem.sizes[order]
        state = insertion_state(self._tree, int(sizes.max()))
        owners = np.full(len(self._problem.idle_nodes), -1, dtype=np.int64)
        per_slice = max(1, SLICE // (len(owners) * int(sizes.max())))
        for first in range(0, len(sizes), per_slice):
            if clock.expired():
                return None
            last = min(len(sizes), first + per_slice)
            _insert_at_prices(self._tree, state, sizes, self._worth, self._worth_of, first, last, owners)
        return Allocation.of_owners(self._problem, np.append(order, -1)[owners])
