"""Between allocations and the state that the search works on."""

import time
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding, owners_of
from allocopt.problems.group_tree import TREE_KERNELS, encode_with_tree
from allocopt.problems.job_classes import EVERYWHERE, constant_hops, job_classes
from allocopt.problems.side import penalty
from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.lns.beginning import (
    begin_at,
    begin_elsewhere,
    begin_greedily,
    parts_of,
    positions_of,
    savings_alone,
)
from heuristics.lns.random import folded
from heuristics.lns.state import Holdings, Moves, Rules, State

START_KERNELS = (*TREE_KERNELS, begin_greedily, begin_elsewhere, parts_of, positions_of)
RULED_START_KERNELS = (*TREE_KERNELS, begin_at, savings_alone, parts_of, positions_of)
"""Entries that beginning and ending a search calls: of few jobs without rules, and of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A problem as the search takes it.

    Parameters
    ----------
    problem
        The problem.
    encoding, tree
        Its arrays, and the tree of its groups.
    most_hops
        Hops of an allocation that saves none.
    encoding_s
        How long it took to read the problem, in seconds: a measure of what else takes time.
    """

    problem: TopologyProblem
    encoding: Encoding
    tree: GroupTree
    most_hops: float
    encoding_s: float

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Window":
        """Prepare a problem."""
        started = time.perf_counter()
        encoding, tree = encode_with_tree(problem)
        most_hops = constant_hops(problem, encoding)
        return cls(problem, encoding, tree, most_hops, time.perf_counter() - started)

    def cost(self, saving: float) -> float:
        """Hop cost of an allocation that saves so many hops."""
        return self.encoding.scale * (self.most_hops - saving)

    def alone(self) -> FloatArray:
        """Say what each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``."""
        saving: FloatArray = savings_alone(self.tree, self.encoding.sizes)
        return saving

    def greedily(self, most_removed: int, moves: Moves, seed: int) -> State:
        """Begin at the allocation that inserts the jobs exactly, the largest first."""
        state: State = begin_greedily(self.tree, self.encoding.sizes, most_removed, moves, folded(seed))
        return state

    def begin(self, allocation: Allocation, alone: FloatArray, most_removed: int, moves: Moves, seed: int) -> State:
        """Begin at an allocation; ``alone`` as in `Search`."""
        holdings, sizes = self._holdings(allocation), self.encoding.sizes
        state: State = begin_at(self.tree, sizes, holdings, alone, most_removed, moves, folded(seed))
        return state

    def moved(self, state: State, allocation: Allocation, moves: Moves) -> State:
        """Begin at an allocation in place of the one that a state begins at."""
        other: State = begin_elsewhere(state, self._holdings(allocation), moves)
        return other

    def rules(self, allocation: Allocation, state: State) -> Rules:
        """Return the rules of the jobs, and add what they save to the savings of a state.

        Parameters
        ----------
        allocation
            Where the search begins.
        state
            Its state, which changes.
        """
        groups, part, search = parts_of(state)
        classes, of_job = job_classes(self.problem, self.encoding, self.tree)
        for job, nodes in enumerate(allocation.nodes):
            prefer = (self.problem.jobs[job].placement or EVERYWHERE).prefer
            if prefer is not None:
                paid = penalty(self.problem.topology, self.problem.jobs[job].placement or EVERYWHERE, nodes)
                search.present.saving[job] += (prefer.penalty - paid) / self.encoding.scale
        search.best.saving[:] = search.present.saving
        left = float(groups.idle.astype(np.float64) ** 2 @ groups.weight)
        search.savings[:] = search.present.saving.sum() + classes.leftover * left
        return Rules(classes, of_job, np.zeros(len(part.vertex), dtype=np.int64))

    def allocation(self, state: State) -> Allocation:
        """Return the allocation of the best state: of every leaf, its idle nodes from the first one on."""
        return self.allocation_of(parts_of(state)[2].best)

    def allocation_of(self, holdings: Holdings) -> Allocation:
        """Return the allocation of what the jobs hold; see `allocation`."""
        return self._of_positions(positions_of(self.tree, holdings))

    def _of_positions(self, positions: IntArray) -> Allocation:
        """Give the jobs the idle nodes at these positions, those of the first job first."""
        nodes, last, of_jobs = self.problem.idle_nodes[positions], 0, []
        for size in self.encoding.sizes.tolist():
            of_jobs.append(nodes[last : last + size])
            last += size
        return Allocation(tuple(of_jobs))

    def _holdings(self, allocation: Allocation) -> Holdings:
        """Count the nodes that each job has of each leaf."""
        owners = owners_of(self.problem, allocation)[self.tree.leaf_positions]
        sizes: IntArray = self.encoding.sizes
        n_jobs, n_leaves, first = len(sizes), len(self.tree.leaf_first) - 1, np.append(0, np.cumsum(sizes))
        leaf_of = np.repeat(np.arange(n_leaves), np.diff(self.tree.leaf_first))
        held = owners >= 0
        pairs, nodes = np.unique(owners[held] * n_leaves + leaf_of[held], return_counts=True)
        jobs, leaves = pairs // n_leaves, pairs % n_leaves
        length = np.bincount(jobs, minlength=n_jobs)
        entry = np.arange(len(jobs)) + (first[:-1] - np.cumsum(length) + length)[jobs]
        holdings = Holdings(
            first, length, np.zeros(first[-1], dtype=np.int64), np.zeros(first[-1], dtype=np.int64), np.zeros(n_jobs)
        )
        holdings.leaf[entry], holdings.nodes[entry] = leaves, nodes
        return holdings
