"""Between allocations and the counts that the search works on."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.kernels.insertion import InsertionState, fill_tables, insertion_state
from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding, allocation_of_owners, encode, owners_of
from allocopt.problems.group_tree import group_tree
from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.lns.kernels import Search


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A problem as the search takes it.

    Parameters
    ----------
    problem
        The problem.
    encoding, tree
        Its arrays, and the tree of its groups.
    state
        Idle nodes and tables, which change.
    most_removed
        Jobs removed in a step, at most.
    """

    problem: TopologyProblem
    encoding: Encoding
    tree: GroupTree
    state: InsertionState
    most_removed: int

    @classmethod
    def of(cls, problem: TopologyProblem, most_removed: int) -> "Start":
        """Prepare a problem."""
        encoding = encode(problem)
        tree = group_tree(encoding)
        return cls(problem, encoding, tree, insertion_state(tree, int(problem.sizes.max())), most_removed)

    def cost(self, saving: float) -> float:
        """Hop cost of an allocation that saves so many hops."""
        n = self.encoding.sizes
        return float(self.encoding.scale * ((self.encoding.top * n - self.encoding.bottom).sum() - saving))

    def search(self, allocation: Allocation) -> Search:
        """Begin at an allocation."""
        counts = self._counts(allocation)
        squares = counts.astype(np.float64) ** 2 @ self.tree.weight
        saving = float((squares / self.problem.sizes).sum())
        n_jobs, n_vertices = counts.shape
        return Search(
            self.problem.sizes.astype(np.int64),
            counts,
            counts.copy(),
            np.zeros(n_jobs, dtype=np.int64),
            np.array([saving, saving]),
            np.arange(n_jobs),
            np.zeros((min(self.most_removed, n_jobs), n_vertices), dtype=np.int64),
            self._branches(),
            np.ones(max(1, int(np.diff(self.tree.first_child)[-1])), dtype=np.int64),
        )

    def _branches(self) -> IntArray:
        """Child of the top in whose subtree each vertex lies, shape ``(V,)``; -1 for the top."""
        tree, top = self.tree, len(self.tree.idle) - 1
        branch = np.full(top + 1, -1, dtype=np.int64)
        branch[tree.children[tree.first_child[top] : tree.first_child[top + 1]]] = np.arange(
            tree.first_child[top + 1] - tree.first_child[top]
        )
        for vertex in range(top - 1, -1, -1):
            branch[tree.children[tree.first_child[vertex] : tree.first_child[vertex + 1]]] = branch[vertex]
        return branch

    def allocation(self, counts: IntArray) -> Allocation:
        """Give every job the idle nodes of its leaves, from the first one on in every leaf."""
        n_leaves = len(self.tree.leaf_first) - 1
        taken = np.append(counts[:, :n_leaves], np.zeros((1, n_leaves), dtype=np.int64), axis=0)
        taken[-1] = np.diff(self.tree.leaf_first) - taken.sum(axis=0)
        jobs = np.append(np.arange(len(counts)), -1)
        owners = np.empty(len(self.problem.idle_nodes), dtype=np.int64)
        owners[self.tree.leaf_positions] = np.repeat(np.tile(jobs, n_leaves), taken.T.ravel())
        return allocation_of_owners(self.problem, owners)

    def _counts(self, allocation: Allocation) -> IntArray:
        """Count the nodes of an allocation, which are then held, shape ``(J, V)``."""
        owners = owners_of(self.problem, allocation)
        n_leaves = len(self.tree.leaf_first) - 1
        leaf_of = np.empty(len(owners), dtype=np.int64)
        leaf_of[self.tree.leaf_positions] = np.repeat(np.arange(n_leaves), np.diff(self.tree.leaf_first))
        counts = np.zeros((len(self.problem.jobs), len(self.tree.idle)), dtype=np.int64)
        held = owners >= 0
        np.add.at(counts, (owners[held], leaf_of[held]), 1)
        for vertex in range(n_leaves, len(self.tree.idle)):
            children = self.tree.children[self.tree.first_child[vertex] : self.tree.first_child[vertex + 1]]
            counts[:, vertex] = counts[:, children].sum(axis=1)
        self.state.idle[:] -= counts.sum(axis=0)
        fill_tables(self.tree, self.state, int(self.problem.sizes.max()))
        return counts
