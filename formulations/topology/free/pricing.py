"""Pricing of patterns: the demand, the charge of a job for its nodes of a group, and the best patterns.

Jobs with ``a_j`` nodes of a group of ``c`` idle nodes satisfy ``sum_j f(a_j) <= f(c)`` for every superadditive ``f``.
``f(a) = a`` is the capacity of the group, ``f(a) = floor(q a / d)`` a Chvatal-Gomory cut of it. For example, with
``q`` = 1, ``d`` = 20 and ``c`` = 38, only one job can have 20 nodes of the group. The multipliers ``u`` of such rows
charge ``u f(a)`` for ``a`` nodes. Charges add up to one table per group, which the dynamic program of the pricing uses.
"""

from dataclasses import dataclass

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.formulations.topology.column_generation import Answer
from allocopt.kernels.compiled import kernel
from allocopt.kernels.insertion import (
    INSERTION_STATE,
    JOB_CLASSES,
    InsertionState,
    JobClasses,
    apply_rules,
    fill_table,
    insertion_state,
    place_job,
)
from allocopt.kernels.tree import GROUP_TREE, GroupTree


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """The jobs of a window in classes of equal ones; if fragmentation has a weight, the leftover is the last job."""

    classes: JobClasses
    of_job: IntArray

    @property
    def sizes(self) -> IntArray:
        """Nodes of every job, shape ``(J,)``."""
        return self.classes.sizes[self.of_job]

    @property
    def largest(self) -> int:
        """Nodes of the largest job."""
        return int(self.classes.sizes.max())


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    vertex: int
    multiplier: int  # q; 1 for the capacity of the group
    divisor: int  # d; 1 for the capacity of the group

    def values(self, counts: IntArray) -> IntArray:
        """Return f of every count."""
        return self.multiplier * counts // self.divisor


@kernel(
    void(GROUP_TREE, INSERTION_STATE, JOB_CLASSES, float64[::1], int64[::1], int64[:, ::1], float64[::1], float64[::1])
)
def _best_patterns(
    tree: GroupTree,
    state: InsertionState,  # all nodes idle
    classes: JobClasses,
    charge: FloatArray,  # charge for k nodes of vertex v at first[v] + k, in hops; the top is free
    first: IntArray,
    counts: IntArray,  # nodes of each vertex in the best pattern of each class, shape (R, V)
    savings: FloatArray,  # savings of these patterns in hops, shape (R,)
    values: FloatArray,  # savings less charges; minus infinity if a class has no pattern
) -> None:
    """Find for every class the pattern with the largest saving less charges, on a tree without other jobs."""
    top, n_leaves = tree.idle.size - 1, tree.leaf_first.size - 1
    for r in range(classes.sizes.size):
        size = classes.sizes[r]
        for vertex in range(top):
            start = state.offset[vertex]
            if vertex >= n_leaves:
                fill_table(tree, state, vertex, size)
            for k in range(min(tree.idle[vertex], size) + 1):
                saving = tree.weight[vertex] * k * k if vertex < n_leaves else state.tables[start + k]
                state.tables[start + k] = saving - size * charge[first[vertex] + k]
            if classes.ruled:
                apply_rules(tree, state, classes, r, vertex, size)
        if not place_job(tree, state, size) and classes.ruled:
            counts[r, :] = 0
            savings[r] = values[r] = -np.inf
            continue
        squares, charged, bonus = 0.0, 0.0, 0.0
        for vertex in range(top + 1):
            count = state.take[vertex]
            counts[r, vertex] = count
            squares += tree.weight[vertex] * count * count
            charged += charge[first[vertex] + count]
            if count == size:
                bonus += classes.bonus[r, classes.level[vertex]]
        savings[r] = classes.factor[r] * squares / size + bonus
        values[r] = savings[r] - charged


@kernel(void(GROUP_TREE, int64[:, ::1], float64[::1], int64, int64, float64[::1], int64[:, ::1]))
def _most_violated(
    tree: GroupTree,
    counts: IntArray,  # nodes of each vertex by pattern, shape (P, V)
    picked: FloatArray,  # how often each pattern is picked, shape (P,)
    largest: int,  # nodes of the largest job
    largest_multiplier: int,  # largest q
    violation: FloatArray,  # largest violation of each group, 0 at the top, shape (V,)
    cuts: IntArray,  # q and d of the most violated cut, shape (V, 2)
) -> None:
    """Find for every group the cut ``sum_j floor(q a_j / d) <= floor(q c / d)`` that patterns violate most."""
    for vertex in range(tree.idle.size):
        violation[vertex] = 0.0
        idle = tree.idle[vertex]
        if vertex == tree.idle.size - 1:
            continue
        for q in range(1, largest_multiplier + 1):
            for d in range(q + 1, q * min(idle, largest) + 1):
                if q > 1 and d % q == 0:
                    continue
                excess = -float(q * idle // d)
                for pattern in range(picked.size):
                    if counts[pattern, vertex] > 0:
                        excess += picked[pattern] * (q * counts[pattern, vertex] // d)
                if excess > violation[vertex]:
                    violation[vertex] = excess
                    cuts[vertex, 0], cuts[vertex, 1] = q, d


PRICING_KERNELS = (insertion_state, _best_patterns, _most_violated)  # compiled functions that pricing calls from Python


@dataclass(frozen=True, slots=True, eq=False)
class PricedPatterns(Answer):
    """The best pattern of every class of jobs at some multipliers of the rows, in hops."""

    charge: FloatArray  # charge for k nodes of vertex v at ``first[v] + k``
    counts: IntArray  # nodes of each vertex by class, shape (R, V)
    savings: FloatArray  # savings of the patterns, without charges, shape (R,)


class Pricing:
    """Finds the best pattern of every class on all idle nodes; at first, the rows are the capacities of leaves."""

    def __init__(self, tree: GroupTree, demand: Demand) -> None:
        self.tree, self.demand, self.sizes = tree, demand, demand.classes.sizes
        self.multiplicity: IntArray = np.bincount(demand.of_job, minlength=len(self.sizes))
        self.is_possible = True  # whether every job has a pattern
        self.least_value = -np.inf  # value of a job without nodes; minus infinity if every job has to be placed
        self.n_leaves = len(tree.leaf_first) - 1
        self.idle: IntArray = tree.idle[: self.n_leaves]
        self._first: IntArray = np.concatenate(([0], np.cumsum(tree.idle + 1)))
        self._state: InsertionState = insertion_state(tree, demand.largest)
        self.rows: list[_Row] = []
        self.values: list[FloatArray] = []  # f of every row, for 0 up to all idle nodes of its group
        for leaf in range(self.n_leaves):
            self.add_row(leaf)

    def add_row(self, vertex: int, multiplier: int = 1, divisor: int = 1) -> None:
        """Add the row ``sum_j f(a_j) <= f(c)`` of a group, ``f(a) = floor(multiplier a / divisor)``."""
        row = _Row(vertex, multiplier, divisor)
        self.rows.append(row)
        self.values.append(row.values(np.arange(self.tree.idle[vertex] + 1)).astype(np.float64))

    def at(self, multipliers: FloatArray) -> PricedPatterns:
        """Return the best patterns, given multipliers >= 0 of the first rows; further rows have multiplier 0."""
        first, n_classes, classes = self._first, len(self.sizes), self.demand.classes
        charge = np.zeros(int(first[-1]))
        for multiplier, row, of_counts in zip(multipliers.tolist(), self.rows, self.values, strict=False):
            if multiplier > 0.0:
                charge[first[row.vertex] : first[row.vertex + 1]] += multiplier * of_counts
        counts = np.empty((n_classes, len(self.tree.idle)), dtype=np.int64)
        savings, values = np.empty(n_classes), np.empty(n_classes)
        _best_patterns(self.tree, self._state, classes, charge, first, counts, savings, values)
        if classes.ruled:
            self.is_possible = bool(np.isfinite(values).all())
            values = np.maximum(values, self.least_value)
        # The jobs of an allocation pay at most the charge for all idle nodes of every group.
        bound = float(self.multiplicity @ values) + float(charge[first[1:] - 1].sum())
        return PricedPatterns(multipliers, bound, charge, counts, savings)

    def counts_of_vertices(self, counts: IntArray) -> IntArray:
        """Return the nodes of every vertex from those of the leaves, shape ``(J, V)``."""
        every = np.zeros((len(counts), len(self.tree.idle)), dtype=np.int64)
        every[:, : self.n_leaves] = counts
        for vertex in range(self.n_leaves, len(self.tree.idle)):
            children = self.tree.children[self.tree.first_child[vertex] : self.tree.first_child[vertex + 1]]
            every[:, vertex] = every[:, children].sum(axis=1)
        return every

    def savings_of(self, counts: IntArray) -> FloatArray:
        """Return the saving of every job in hops, given its nodes of each vertex, shape ``(J, V)``."""
        classes, of_job, sizes = self.demand.classes, self.demand.of_job, self.demand.sizes
        savings: FloatArray = counts.astype(np.float64) ** 2 @ self.tree.weight / sizes
        if classes.ruled:
            bonus = classes.bonus[of_job][:, classes.level]
            savings = classes.factor[of_job] * savings + (bonus * (counts == sizes[:, None])).sum(axis=1)
        return savings

    def most_violated(
        self, counts: IntArray, picked: FloatArray, largest_multiplier: int
    ) -> tuple[FloatArray, IntArray]:
        """Return for every group the most by which picked patterns violate a cut, and q and d of this cut."""
        violation, cuts = np.empty(counts.shape[1]), np.empty((counts.shape[1], 2), dtype=np.int64)
        _most_violated(self.tree, counts, picked, self.demand.largest, largest_multiplier, violation, cuts)
        return violation, cuts
