"""Allocations of windows with side constraints, one exact insertion after the other."""

from collections.abc import Callable, Sequence

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.kernels.insertion import (
    InsertionState,
    fill_ruled_tables,
    insert_ruled_job,
    insertion_state,
    place_if_possible,
)
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_owners, encode
from allocopt.problems.topology.tables import TREE_KERNELS, constant_hops, group_tree, job_classes

PRICE = 1.0
"""Standard deviation of random leaf prices, in hops per node."""

TIE_BREAK = 1e-6
"""Part of the price that sends ties between integers to the fullest leaves: these savings may be fractions."""


RULED_KERNELS = (*TREE_KERNELS, insertion_state, fill_ruled_tables, insert_ruled_job, place_if_possible)
"""Entries that `RuledInsertion` calls."""


class RuledInsertion:
    """Inserts the jobs of a window with side constraints in any order."""

    def __init__(self, problem: TopologyProblem) -> None:
        self._problem = problem
        self._encoding = encode(problem)
        self._tree = group_tree(self._encoding)
        self._classes, self._of_job = job_classes(problem, self._encoding, self._tree)
        self._largest = int(problem.sizes.max())

    def largest_first(self) -> list[int]:
        """Jobs by falling size, those of a class side by side."""
        order: list[int] = np.lexsort((self._of_job, -self._problem.sizes)).tolist()
        return order

    def insert(
        self, order: Sequence[int], may_go_on: Callable[[], bool], prices: FloatArray | None = None
    ) -> Allocation | int | None:
        """Insert the jobs in an order, each where it then costs least, as long as it may go on.

        ``prices`` is what a node of each leaf costs besides, in hops, shape ``(leaves,)``. Returns the allocation, the
        first job that does not find nodes, or None if it had to stop.
        """
        state = self._fresh_state()
        owners = np.full(len(self._problem.idle_nodes), -1, dtype=np.int64)
        last = -1
        for job in order:
            if not may_go_on():
                return None
            r = int(self._of_job[job])
            if r != last:
                size = int(self._classes.sizes[r])
                if prices is not None:
                    state.price[:] = size * prices
                fill_ruled_tables(self._tree, state, self._classes, r, size)
                last = r
            if not insert_ruled_job(self._tree, state, self._classes, r, owners, job):
                return job
        return allocation_of_owners(self._problem, owners)

    def search(
        self, failed: int, tries: int, may_go_on: Callable[[], bool], rng: np.random.Generator
    ) -> Allocation | None:
        """Look for any allocation: a job that does not find nodes comes first the next time.

        ``failed`` is the one that found none where the largest came first. Every second time leaves have random prices.
        """
        order = self.largest_first()
        n_leaves = len(self._tree.leaf_first) - 1
        for attempt in range(tries):
            if attempt % 16 == 15:
                order = [int(job) for job in rng.permutation(order)]
            order = [failed, *(job for job in order if job != failed)]
            prices = PRICE * rng.standard_normal(n_leaves) if attempt % 2 else None
            found = self.insert(order, may_go_on, prices)
            if not isinstance(found, int):
                return found
            failed = found
        return None

    def bound(self, may_go_on: Callable[[], bool]) -> float | None:
        """Return the cost where every job, and the leftover, has all nodes for itself.

        It is infinite if a job has no place even so, and None if the computation had to stop.
        """
        classes = self._classes._replace(leftover=0.0)
        state = self._fresh_state()._replace(tie_break=0.0)
        saved = np.zeros(len(classes.sizes))
        for r, size in enumerate(classes.sizes.tolist()):
            if not may_go_on():
                return None
            fill_ruled_tables(self._tree, state, classes, r, size)
            if not place_if_possible(self._tree, state, size):
                return np.inf
            squares = float(state.take.astype(np.float64) ** 2 @ self._tree.weight)
            bonus = classes.bonus[r, classes.level[state.take == size]].sum()
            saved[r] = squares / size + bonus
        saving = float(saved[self._of_job].sum()) + self._classes.leftover * self._most_left_squares()
        hops = constant_hops(self._problem, self._encoding)
        # Sums of fractions: what they lose by rounding is far less than this.
        return self._encoding.scale * (hops - saving - 1e-9 * max(1.0, abs(hops)))

    def _most_left_squares(self) -> float:
        left, total = self._problem.n_left, 0.0
        for groups, weight in zip(self._encoding.groups, self._encoding.weights.tolist(), strict=True):
            falling = np.sort(np.bincount(groups))[::-1]
            taken = np.diff(np.minimum(np.concatenate(([0], np.cumsum(falling))), left)).astype(np.float64)
            total += weight * float((taken * taken).sum())
        return total

    def _fresh_state(self) -> InsertionState:
        state = insertion_state(self._tree, self._largest)
        return state._replace(tie_break=TIE_BREAK * state.tie_break)
