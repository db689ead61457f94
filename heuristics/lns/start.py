"""Between allocations and the holdings that the search works on."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import InsertionState, insert_jobs, insertion_state, single_job_savings
from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding, allocation_of_owners, encode, owners_of
from allocopt.problems.group_tree import group_tree
from allocopt.problems.job_classes import EVERYWHERE, constant_hops, job_classes
from allocopt.problems.side import penalty
from allocopt.problems.topology import Allocation, TopologyProblem
from heuristics.lns.holding import hold_all
from heuristics.lns.insertion import AHEAD, PAD
from heuristics.lns.state import Groups, Holdings, Moves, Open, Rules, Search


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A problem as the search takes it.

    Parameters
    ----------
    problem
        The problem.
    encoding, tree
        Its arrays, and the tree of its groups.
    """

    problem: TopologyProblem
    encoding: Encoding
    tree: GroupTree

    def cost(self, saving: float) -> float:
        """Hop cost of an allocation that saves so many hops."""
        return float(self.encoding.scale * (constant_hops(self.problem, self.encoding) - saving))

    def groups(self, first: IntArray) -> Groups:
        """Make the tree, all idle, for jobs whose entries begin at ``first``."""
        tree, n_leaves = self.tree, len(self.tree.leaf_first) - 1
        n_vertices, m = len(tree.idle), len(tree.leaf_positions)
        n_children = np.diff(tree.first_child)
        parent = np.full(n_vertices, -1, dtype=np.int64)
        parent[tree.children] = np.repeat(np.arange(n_vertices), n_children)
        place = np.zeros(n_vertices, dtype=np.int64)
        place[tree.children] = np.arange(len(tree.children))
        return Groups(
            parent=parent,
            weight=tree.weight,
            idle=tree.idle.copy(),
            first_child=tree.first_child,
            children=tree.children.copy(),
            awake=n_children,
            place=place,
            seen=np.zeros(n_vertices, dtype=np.int64),
            freed=np.zeros(n_vertices, dtype=np.int64),
            next_freed=np.zeros(n_vertices, dtype=np.int64),
            leaf_first=tree.leaf_first,
            holders=np.zeros(m, dtype=np.int64),
            n_holders=np.zeros(n_leaves, dtype=np.int64),
            seat=np.zeros(first[-1], dtype=np.int64),
            owner=np.repeat(np.arange(len(first) - 1), np.diff(first)),
            worth=np.zeros(n_leaves),
            price=np.zeros(n_leaves),
        )

    def open(self, most_removed: int, moves: Moves) -> Open:
        """Make room for the part of the tree that is open in a step."""
        largest, n_open = int(self.encoding.sizes.max()), self._most_open(most_removed, moves)
        counts = (np.zeros(n_open, dtype=np.int64) for _ in range(6))
        products = np.empty((n_open, PAD + largest + AHEAD))
        products[:, :PAD] = -np.inf
        return Open(
            vertex=next(counts),
            first=next(counts),
            last=next(counts),
            idle=next(counts),
            take=next(counts),
            weight=np.zeros(n_open),
            price=np.zeros(n_open),
            charge=np.zeros(n_open),
            tables=np.empty((n_open, largest + AHEAD)),
            products=products,
            reach=next(counts),
        )

    def _most_open(self, most_removed: int, moves: Moves) -> int:
        """Return how many vertices may be open in a step."""
        removed = int(np.sort(self.encoding.sizes)[-most_removed:].sum())
        most = [1]
        for n_groups in self.encoding.n_groups[::-1].tolist():
            most.append(min(n_groups, removed + most[-1] * max(moves.few, moves.others)))
        return sum(most)

    def search(
        self, allocation: Allocation, alone: FloatArray, most_removed: int, moves: Moves
    ) -> tuple[Groups, Open, Search]:
        """Begin at an allocation; ``alone`` is what each job would save if it had all idle nodes for itself."""
        first = np.concatenate(([0], np.cumsum(self.encoding.sizes)))
        return self.begin(self._holdings(allocation, first), alone, most_removed, moves)

    def begin(
        self, holdings: Holdings, alone: FloatArray, most_removed: int, moves: Moves
    ) -> tuple[Groups, Open, Search]:
        """Begin where the jobs hold nodes, whose savings are yet to be computed; see `search`."""
        sizes = self.encoding.sizes.astype(np.int64)
        groups = self.groups(holdings.first)
        saving = hold_all(groups, holdings, np.zeros(len(self.tree.idle), dtype=np.int64))
        n_jobs = len(sizes)
        most_removed = min(most_removed, n_jobs)
        n_entries = min(int(sizes.max()), len(self.tree.leaf_first) - 1)
        return (
            groups,
            self.open(most_removed, moves),
            Search(
                sizes=sizes,
                alone=alone,
                present=holdings,
                best=holdings._replace(
                    length=holdings.length.copy(),
                    leaf=holdings.leaf.copy(),
                    nodes=holdings.nodes.copy(),
                    saving=holdings.saving.copy(),
                ),
                eagerness=np.zeros(n_jobs),
                savings=np.array([saving, saving]),
                changed=np.zeros(n_jobs, dtype=np.int64),
                is_changed=np.zeros(n_jobs, dtype=np.int64),
                counters=np.zeros(3, dtype=np.int64),
                removed=np.zeros(most_removed, dtype=np.int64),
                length=np.zeros(most_removed, dtype=np.int64),
                leaf=np.zeros((most_removed, n_entries), dtype=np.int64),
                nodes=np.zeros((most_removed, n_entries), dtype=np.int64),
                saving=np.zeros(most_removed),
            ),
        )

    def rules(self, allocation: Allocation, groups: Groups, part: Open, search: Search) -> Rules:
        """Return the rules of the jobs, and add what they save to the savings of a search.

        Parameters
        ----------
        allocation
            Where the search begins.
        groups, part, search
            Its state, which changes.
        """
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

    def _holdings(self, allocation: Allocation, first: IntArray) -> Holdings:
        """Count the nodes that each job has of each leaf."""
        owners = owners_of(self.problem, allocation)[self.tree.leaf_positions]
        n_jobs, n_leaves = len(first) - 1, len(self.tree.leaf_first) - 1
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

    def allocation(self, holdings: Holdings) -> Allocation:
        """Give every job the idle nodes of its leaves, from the first one on in every leaf."""
        first, length = holdings.first, holdings.length
        jobs = np.repeat(np.arange(len(length)), length)
        entry = np.arange(len(jobs)) + (first[:-1] - np.cumsum(length) + length)[jobs]
        order = np.argsort(holdings.leaf[entry], kind="stable")
        leaves, nodes = holdings.leaf[entry][order], holdings.nodes[entry][order]
        taken = np.bincount(leaves, nodes, minlength=len(self.tree.leaf_first) - 1).astype(np.int64)
        shift = self.tree.leaf_first[:-1] - np.cumsum(taken) + taken
        places = np.arange(nodes.sum()) + np.repeat(shift[leaves], nodes)
        owners = np.full(len(self.tree.leaf_positions), -1, dtype=np.int64)
        owners[self.tree.leaf_positions[places]] = np.repeat(jobs[order], nodes)
        return allocation_of_owners(self.problem, owners)


@dataclass(frozen=True, slots=True, eq=False)
class Start(Window):
    """A problem, and what there is before the search: the jobs alone, and the greedy allocation.

    Parameters
    ----------
    empty
        State for inserting jobs into the empty tree.
    """

    empty: InsertionState

    @classmethod
    def of(cls, problem: TopologyProblem) -> "Start":
        """Prepare a problem."""
        encoding = encode(problem)
        tree = group_tree(encoding)
        largest = int(encoding.sizes.max())
        return cls(problem, encoding, tree, insertion_state(tree, largest))

    def alone(self) -> FloatArray:
        """Say what each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``; first."""
        sizes = self.encoding.sizes
        return single_job_savings(self.tree, self.empty, int(sizes.max()))[sizes] / sizes

    def greedy(self) -> Allocation:
        """Insert the jobs exactly, the largest first; only once, for the tree is full then."""
        order = np.argsort(-self.encoding.sizes, kind="stable")
        owners = np.full(self.encoding.n_idle, -1, dtype=np.int64)
        insert_jobs(self.tree, self.empty, self.encoding.sizes[order], 0, len(order), owners)
        return allocation_of_owners(self.problem, np.append(order, -1)[owners])
