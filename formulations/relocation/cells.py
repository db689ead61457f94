"""Cells: groups of nodes that are equivalent in a relocation, so that a program only needs to count them.

A job *leaves* its nodes if it stops or moves. Nodes belong to the same cell if they lie in the same leaf group and the
same node sets, have the same free amounts beside jobs that must stay, are equally open to other jobs, and hold equally
many tasks of the same job that may leave, or no such job. A node with several jobs that may leave is a separate cell.
If two jobs that get new nodes could share a node, every node is a separate cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.problems.relocation.problem import RelocationProblem


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of a problem, numbered in the order of their first nodes.

    Parameters
    ----------
    nodes
        Nodes of each cell, sorted.
    of_node
        Cell of each node, shape ``(nodes,)``.
    first
        First node of each cell, shape ``(cells,)``.
    free
        Amounts of a node of each cell without those of jobs that must stay, shape ``(cells, resources)``.
    is_taken
        Whether a job that must stay is on the nodes of each cell.
    is_closed
        Whether no job may be placed there: the nodes have to be empty, or an exclusive job must stay there.
    residents
        Numbers of the running jobs that may leave, by cell.
    never_share
        Whether no two jobs that get new nodes could share one.
    """

    nodes: tuple[IntArray, ...]
    of_node: IntArray
    first: IntArray
    free: IntArray
    is_taken: BoolArray
    is_closed: BoolArray
    residents: tuple[tuple[int, ...], ...]
    never_share: bool

    def may_serve(self, requests: Sequence[ClusterRequest]) -> BoolArray:
        """Return for each cell whether any of these jobs could get a node of it if all jobs that may leave had left."""
        found = np.zeros(len(self.nodes), dtype=np.bool_)
        for alone, *amounts in pieces_of(requests):
            found |= (np.array(amounts) <= self.free).all(axis=1) & ~(bool(alone) & self.is_taken)
        return found & ~self.is_closed

    @property
    def sizes(self) -> IntArray:
        """Number of nodes of each cell."""
        return np.array([len(nodes) for nodes in self.nodes], dtype=np.int64)

    @classmethod
    def of(cls, problem: RelocationProblem) -> "Cells":
        """Return the cells of a problem."""
        free = problem.capacity.copy()
        is_taken, is_alone = (np.zeros(problem.size, dtype=np.bool_) for _ in range(2))
        jobs, nodes, _ = problem.pieces
        may_leave = np.array([job.may_leave for job in problem.running], dtype=np.bool_)[jobs]
        np.subtract.at(free, nodes[~may_leave], problem.taken[~may_leave])
        is_taken[nodes[~may_leave]] = True
        is_alone[nodes[~may_leave & problem.is_exclusive[jobs]]] = True
        # For each node: one of the jobs that may leave it, the tasks of this job there, and the number of such jobs.
        jobs, nodes, tasks = problem.pieces[:, may_leave]
        resident = np.full((2, problem.size), -1, dtype=np.int64)
        resident[0, nodes], resident[1, nodes] = jobs, tasks
        n_residents = np.bincount(nodes, minlength=problem.size)
        placed = placeable(problem)
        never_share = fill_nodes(placed, problem.capacity)
        if not never_share:
            of_node = np.arange(problem.size)
        else:
            groups = problem.groups
            leaf = groups[0] if len(groups) else np.zeros(problem.size, dtype=np.int64)
            flags = np.stack((problem.emptied, is_taken, is_alone)).astype(np.int64)
            own = np.where(n_residents > 1, np.arange(problem.size), -1)
            columns = np.vstack((leaf, flags, own, resident, free.T, _mask_numbers(placed, problem.size)))
            _, first, inverse = np.unique(columns.T, axis=0, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first, kind="stable")] = np.arange(len(first))
            of_node = rank[inverse.reshape(-1)]
        by_cell = np.split(np.argsort(of_node, kind="stable"), np.cumsum(np.bincount(of_node))[:-1])
        first = np.array([nodes[0] for nodes in by_cell], dtype=np.int64)
        by_node = jobs[np.argsort(nodes, kind="stable")]
        ends = np.cumsum(n_residents)[first].tolist()
        return cls(
            nodes=tuple(by_cell),
            of_node=of_node,
            first=first,
            free=free[first],
            is_taken=is_taken[first],
            is_closed=(problem.emptied | is_alone)[first],
            residents=tuple(
                tuple(by_node[end - count : end].tolist())
                for end, count in zip(ends, n_residents[first].tolist(), strict=True)
            ),
            never_share=never_share,
        )


def placeable(problem: RelocationProblem) -> list[ClusterRequest]:
    """Return the requests of jobs that may get new nodes: running jobs that may move, then waiting gangs."""
    moving = (job.request for job in problem.running if job.move_cost is not None)
    return [*moving, *(gang.request for gang in problem.waiting)]


def least_tasks(request: ClusterRequest) -> int:
    """Return the fewest tasks that a job can have on one of its nodes."""
    return max(1, request.tasks - (request.most_nodes - 1) * request.most_tasks)


def pieces_of(requests: Sequence[ClusterRequest]) -> set[tuple[int, ...]]:
    """Return distinct tuples: 1 for an exclusive request, otherwise 0; then the least amounts it takes of a node."""
    return {(int(one.is_exclusive), *(one.per_node + least_tasks(one) * one.per_task).tolist()) for one in requests}


def fill_nodes(requests: Sequence[ClusterRequest], capacity: IntArray) -> bool:
    """Return whether no two of these jobs can share a node."""
    half = capacity.max(axis=0, initial=0) // 2
    shared = [one.per_node + least_tasks(one) * one.per_task for one in requests if not one.is_exclusive]
    return not shared or bool((np.array(shared) > half).all(axis=0).any())


def _mask_numbers(requests: Sequence[ClusterRequest], size: int) -> IntArray:
    """Return a number per node, equal for nodes that lie in the same node sets, shape ``(1, nodes)``."""
    distinct = {id(one.masks): one.masks for one in requests if not one.masks.all()}
    if not distinct:
        return np.zeros((1, size), dtype=np.int64)
    rows = np.unique(np.concatenate(list(distinct.values())), axis=0)
    packed = np.packbits(rows, axis=0).T
    return np.unique(packed, axis=0, return_inverse=True)[1].reshape(1, -1)
