"""Costs of freeing nodes for gangs, by leaf group and number of nodes."""

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.formulations.relocation.cells import Cells, pieces_of
from allocopt.problems.relocation.problem import PlacedJob, RelocationProblem


class FreedNodes:
    """Costs of making nodes usable for gangs, by leaf group.

    A node is usable once some gang has room there. A *pair* is a job that is in the way and one of the groups in which
    it is. The cost of a job's leaving is split over its pairs; each pair has a *share* of it. Nodes become usable in
    *items*. If a job can only stop, the nodes of a group on which it is the only job in the way are one item; any other
    node is a separate item. An item costs a part of the share of each of its pairs, plus the costs per node of jobs
    that move.

    Parameters
    ----------
    problem
        A problem in which no two gangs could share a node.
    cells
        The cells of the problem.
    """

    job: IntArray
    """Job of each pair."""
    group: IntArray
    """Group of each pair."""
    is_split: BoolArray
    """Whether the job of each pair has other pairs."""
    costs: FloatArray
    """Cost of leaving of each running job, without costs per node; infinity if it must not leave."""
    shares: FloatArray
    """Share of each pair in the cost of its job."""
    least: FloatArray
    """The least cost of n or more usable nodes of a group, shape ``(groups, most + 1)``; infinity if it has fewer."""

    def __init__(self, problem: RelocationProblem, cells: Cells) -> None:
        group, running = problem.groups[0], problem.running
        n_groups, n_jobs = int(group.max()) + 1, len(running)
        is_usable, is_in_way = _in_way(problem, cells)
        jobs, nodes = problem.pieces[:2, is_in_way]
        n_in_way = np.bincount(nodes, minlength=problem.size)
        self._idle = np.bincount(group[is_usable & (n_in_way == 0)], minlength=n_groups)
        self._counts = np.arange(np.bincount(group[is_usable], minlength=n_groups).max(initial=0) + 1)
        pairs, pair = np.unique(np.stack((jobs, group[nodes])), axis=1, return_inverse=True)
        self.job, self.group = pairs
        self._pair = pair.reshape(-1)
        n_nodes, in_pair = np.bincount(jobs, minlength=n_jobs), np.bincount(self._pair, minlength=len(self.job))
        self._part = 1.0 / in_pair[self._pair]
        self.costs = np.array([fixed_cost(job) for job in running])
        self.shares = self.costs[self.job] * in_pair / n_nodes[self.job]
        self.is_split = (np.bincount(self.job, minlength=n_jobs) > 1)[self.job]
        may_move = np.array([job.move_cost is not None for job in running], dtype=np.bool_)[jobs]
        is_whole = (n_in_way[nodes] == 1) & ~may_move
        names, self._item = np.unique(np.where(is_whole, self._pair, len(self.job) + nodes), return_inverse=True)
        n_items = len(names)
        self._nodes = np.where(names < len(self.job), np.bincount(self._item, minlength=n_items), 1)
        by_node = np.array([node_cost(job, count) for job, count in zip(running, n_nodes.tolist(), strict=True)])
        self._own = np.bincount(self._item, by_node[jobs], n_items)
        of_item = np.zeros(n_items, dtype=np.int64)
        of_item[self._item] = group[nodes]
        # Number the items of each group, so that items with the same number are handled for all groups at once.
        ranked = np.argsort(of_item, kind="stable")
        number = np.empty(n_items, dtype=np.int64)
        number[ranked] = np.arange(n_items) - np.searchsorted(of_item[ranked], np.arange(n_groups))[of_item[ranked]]
        self._at = np.full((int(number.max(initial=-1)) + 1, n_groups), -1)
        self._at[number, of_item] = np.arange(n_items)
        self.split(self.shares)

    @property
    def most(self) -> int:
        """The most usable nodes of any group."""
        return len(self._counts) - 1

    def split(self, shares: FloatArray) -> None:
        """Set new shares of pairs, and update `least`."""
        self.shares = shares
        costs = self._own + np.bincount(self._item, self._part * shares[self._pair], len(self._nodes))
        least = np.where(self._counts <= self._idle[:, None], 0.0, np.inf)
        self._takes = np.zeros((len(self._at), *least.shape), dtype=np.bool_)
        for at, takes in zip(self._at, self._takes, strict=True):
            nodes, cost = np.where(at >= 0, self._nodes[at], 0), np.where(at >= 0, costs[at], 0.0)
            before = np.maximum(self._counts - nodes[:, None], 0)
            with_item = np.take_along_axis(least, before, axis=1) + cost[:, None]
            np.less(with_item, least, out=takes)
            least = np.where(takes, with_item, least)
        self.least = least

    def parts(self, groups: IntArray, counts: IntArray) -> tuple[FloatArray, IntArray, IntArray, FloatArray]:
        """Return the costs of the cheapest ``counts`` nodes of some groups.

        Returns
        -------
        own
            Costs per node of the jobs that move, for each of the groups.
        place, pair, part
            The parts of shares that are paid, one per entry: index into ``groups``, pair, and part of the pair's share.
        """
        left: IntArray = counts.copy()
        place = np.full(len(self._nodes), -1)
        for at, takes in zip(self._at[::-1], self._takes[::-1], strict=True):
            is_taken, item = takes[groups, left], at[groups]
            place[item[is_taken]] = np.flatnonzero(is_taken)
            left -= np.where(is_taken, np.minimum(left, self._nodes[item]), 0)
        is_taken, is_paid = place >= 0, place[self._item] >= 0
        own = np.bincount(place[is_taken], self._own[is_taken], len(groups)).astype(np.float64)
        return own, place[self._item[is_paid]], self._pair[is_paid], self._part[is_paid]


def fixed_cost(job: PlacedJob) -> float:
    """Return the lower of the costs of stopping and moving a job, without costs per node; infinity if it must stay."""
    return min(cost if cost is not None else np.inf for cost in (job.stop_cost, job.move_cost))


def node_cost(job: PlacedJob, most: int) -> float:
    """Return the least that a job costs per node beyond `fixed_cost`, if it leaves at most ``most`` nodes."""
    if job.move_cost is None or not most:
        return 0.0
    if job.stop_cost is None:
        return job.node_cost
    return min(job.node_cost, (job.stop_cost - fixed_cost(job)) / most)


def _in_way(problem: RelocationProblem, cells: Cells) -> tuple[BoolArray, BoolArray]:
    """Return whether a gang could use each node, and whether each piece of a running job is in the way of that."""
    jobs, nodes, _ = problem.pieces
    requests = [gang.request for gang in problem.waiting]
    is_usable = cells.may_serve(requests)[cells.of_node]
    is_usable &= np.logical_or.reduce([request.masks.any(axis=0) for request in requests])
    is_beside = np.zeros(len(jobs), dtype=np.bool_)
    for alone, *amounts in pieces_of(requests):
        if not alone:
            fits = (np.array(amounts) + problem.taken <= cells.free[cells.of_node[nodes]]).all(axis=1)
            is_beside |= fits & ~problem.is_exclusive[jobs]
    # Jobs that have to leave anyway add no cost.
    leaves = np.array([job.may_leave for job in problem.running], dtype=np.bool_)
    leaves[list(problem.leaving)] = False
    return is_usable, is_usable[nodes] & leaves[jobs] & ~is_beside
