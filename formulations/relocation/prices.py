"""Prices of nodes: a lower bound on the cost of starting gangs, and the leaf groups that can be part of good answers.

This is a Lagrangian relaxation: gangs pay for nodes, and each leaf group offers the nodes that pay best,
independently of the other groups. Gang k pays ``mu_k`` for a node, less ``nu_k`` for each leaf group that it uses. The
cost c_j of a running job's leaving is split over its groups, ``sum_g lambda_{j,g} = c_j``. For all such prices a
relocation costs at least

    ``L = sum_k min(wait_cost_k, mu_k least_nodes_k - nu_k most_groups_k) + sum_g v_g``

with ``v_g = min_n F_g(n) - P(n)``. ``F_g(n)`` is the least cost of making n nodes of group g usable
(`allocopt.formulations.relocation.freed_nodes`), and ``P(n)`` is the most that gangs pay for n nodes of one group. If
gang k gets nodes of g, a relocation costs at least ``L - v_g + min_n F_g(n) - P_k(n)``, where P_k is the most that
gangs pay if k is among them. The best prices are the dual solution of a linear program over the offers of groups.
Column generation adds the offers that pay at its prices (Dantzig and Wolfe 1960, doi:10.1287/opre.8.1.101).
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.formulations.backends.program import Rows
from allocopt.formulations.relocation.cells import Cells, fill_nodes
from allocopt.formulations.relocation.freed_nodes import FreedNodes, fixed_cost, node_cost
from allocopt.problems.relocation.problem import RelocationProblem, WaitingGang

MOST_ROUNDS = 40
FIRST_GROUPS = 3  # offers at the beginning, for each number of nodes, as a multiple of the groups that a gang needs
MISSING = 10.0  # price of a missing node of a gang that must start, as a multiple of the largest cost of a job
CLOSED = 1e-9  # gain of an offer that counts as rounding, as a share of the largest cost of a job


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Bounds by the best prices.

    Parameters
    ----------
    bound
        Lower bound of the cost of any relocation.
    least_cost
        Lower bound of the cost if a gang gets nodes of a leaf group, shape ``(gangs, groups)``.
    is_used
        Whether the solution of the linear program uses each leaf group.
    """

    bound: float
    least_cost: FloatArray
    is_used: BoolArray

    @classmethod
    def of(cls, problem: RelocationProblem, cells: Cells) -> "Prices | None":
        """Return the bounds of a problem by prices.

        Return None if it has no gangs or leaf groups, if no gang could ever start, or if gangs could share nodes.
        """
        if not problem.waiting or not len(problem.groups):
            return None
        if not fill_nodes([gang.request for gang in problem.waiting], problem.capacity):
            return None
        freed = FreedNodes(problem, cells)
        gangs = [_Gang(gang, freed.most) for gang in problem.waiting]
        if not any(gang.counts for gang in gangs):
            return None
        return _Pricing(problem, freed, gangs).run()


class _Gang:
    """A gang: its number of nodes, its most leaf groups (0 for any), and its possible numbers of nodes in one group."""

    def __init__(self, gang: WaitingGang, most: int) -> None:
        asked = gang.request
        self.nodes, self.groups, self.wait_cost = asked.least_nodes, asked.most_groups[0], gang.wait_cost
        segment = (asked.segments[0] if asked.segments else 0) or 1
        # The fewest nodes that a group has to give, if the others give as many as they can.
        least = min(max(1, self.nodes - (self.groups - 1) * most), self.nodes) if self.groups else 1
        counts = [count for count in range(segment, min(most, asked.most_nodes) + 1, segment) if count >= least]
        self.counts = counts[:1] if self.groups == 1 else counts


class _Offers:
    """Offers of nodes by groups: the columns of the linear program.

    An offer has a group, the number of nodes for each gang, then for each gang 1 if it gets any, and the cost of jobs
    that are in no other group. For all other jobs, each entry of ``offer``, ``pair`` and ``part`` is the part of a
    pair's share that belongs to an offer.
    """

    def __init__(self, n_gangs: int) -> None:
        self.group, self.given = np.zeros(0, dtype=np.int64), np.zeros((0, 2 * n_gangs), dtype=np.int64)
        self.cost = np.zeros(0)
        self.offer, self.pair, self.part = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)

    def add(self, freed: FreedNodes, groups: IntArray, counts: IntArray, given: IntArray) -> None:
        """Add offers of the cheapest ``counts`` nodes of some groups."""
        own, offer, pair, part = freed.parts(groups, counts)
        is_split = freed.is_split[pair]
        own += np.bincount(offer[~is_split], (part * freed.shares[pair])[~is_split], len(groups))
        self.offer = np.append(self.offer, offer[is_split] + len(self.group))
        self.pair, self.part = np.append(self.pair, pair[is_split]), np.append(self.part, part[is_split])
        self.group, self.cost = np.append(self.group, groups), np.append(self.cost, own)
        self.given = np.concatenate((self.given, given))


@dataclass(frozen=True, slots=True, eq=False)
class _Dual:
    """The dual solution of the linear program: prices by gang; by group ``worth``, the dual of "at most one offer"."""

    node_prices: FloatArray
    group_prices: FloatArray
    worth: FloatArray
    is_used: BoolArray


class _Pricing:
    """The linear program, and its column generation."""

    def __init__(self, problem: RelocationProblem, freed: FreedNodes, gangs: list[_Gang]) -> None:
        self._freed, self._gangs = freed, gangs
        # Cost of jobs that have to leave anyway; each leaves at least its nodes that have to be emptied.
        jobs, nodes, _ = problem.pieces
        given_up = np.bincount(jobs, problem.emptied[nodes], len(problem.running)).astype(np.int64).tolist()
        leaving = [(problem.running[number], given_up[number]) for number in problem.leaving]
        self._fixed = sum(fixed_cost(job) + count * node_cost(job, count) for job, count in leaving)
        self._scale = float(freed.costs[freed.job].max(initial=0.0)) or 1.0

    def run(self) -> Prices:
        """Return the bounds by the best prices."""
        freed, offers = self._freed, self._first()
        n_groups = len(freed.least)
        is_used = np.zeros(n_groups, dtype=np.bool_)
        best = Prices(0.0, np.zeros((len(self._gangs), n_groups)), is_used)
        for _ in range(MOST_ROUNDS):
            dual = self._solved(offers)
            if dual is None:
                break
            is_used = dual.is_used
            paid, given = self._paid(dual)
            left = freed.least - paid
            counts = left.argmin(axis=1)
            values = left[np.arange(n_groups), counts]
            bound = self._fixed + self._terms(dual) + float(values.sum())
            if bound > best.bound:
                best = Prices(bound, bound - values + self._least_left(dual), is_used)
            pays = np.flatnonzero(values < -dual.worth - CLOSED * self._scale)
            if not len(pays):
                break
            offers.add(freed, pays, counts[pays], given[counts[pays]])
        return replace(best, is_used=is_used)

    def _first(self) -> _Offers:
        """Return offers of the cheapest groups, for each possible number of nodes of each gang."""
        least, n_gangs = self._freed.least, len(self._gangs)
        offers = _Offers(n_gangs)
        for number, gang in enumerate(self._gangs):
            for count in gang.counts:
                enough = FIRST_GROUPS * -(-gang.nodes // count)
                groups = np.argsort(least[:, count], kind="stable")[:enough]
                groups = groups[np.isfinite(least[groups, count])]
                given = np.zeros((len(groups), 2 * n_gangs), dtype=np.int64)
                given[:, number], given[:, n_gangs + number] = count, 1
                offers.add(self._freed, groups, np.full(len(groups), count), given)
        return offers

    def _terms(self, dual: _Dual) -> float:
        """Return the total payment of the gangs, each at most its cost of waiting."""
        total = 0.0
        prices = zip(self._gangs, dual.node_prices.tolist(), dual.group_prices.tolist(), strict=True)
        for gang, of_node, of_group in prices:
            paid = of_node * gang.nodes - of_group * gang.groups
            total += paid if gang.wait_cost is None else min(gang.wait_cost, paid)
        return total

    def _least_left(self, dual: _Dual) -> FloatArray:
        """Return the least ``F_g(n) - P_k(n)`` of group g if gang k gets nodes there, shape ``(gangs, groups)``."""
        least = self._freed.least
        found = np.full((len(self._gangs), len(least)), np.inf)
        for number, gang in enumerate(self._gangs):
            others, _ = self._paid(dual, but=number)
            for count in gang.counts:
                paid = others[: len(others) - count] + dual.node_prices[number] * count - dual.group_prices[number]
                np.minimum(found[number], (least[:, count:] - paid).min(axis=1), out=found[number])
        return found

    def _paid(self, dual: _Dual, but: int | None = None) -> tuple[FloatArray, IntArray]:
        """Return P, the most that gangs pay for each number of nodes of one group, and the nodes of each gang.

        Gang number ``but`` is left out.
        """
        n_gangs = len(self._gangs)
        paid = np.zeros(self._freed.most + 1)
        given = np.zeros((len(paid), 2 * n_gangs), dtype=np.int64)
        for number, gang in enumerate(self._gangs):
            before, given_before = paid.copy(), given.copy()
            for count in gang.counts if number != but else ():
                more = before[: len(before) - count] + dual.node_prices[number] * count - dual.group_prices[number]
                better = np.flatnonzero(more > paid[count:])
                paid[better + count] = more[better]
                given[better + count] = given_before[better]
                given[better + count, number], given[better + count, n_gangs + number] = count, 1
        return paid, given

    def _solved(self, offers: _Offers) -> _Dual | None:
        """Solve the linear program and split the costs of jobs by its prices; return the dual solution.

        Return None if it is not solved.
        """
        freed, n_gangs, n_offers = self._freed, len(self._gangs), len(offers.group)
        limits = np.array([gang.groups for gang in self._gangs])
        pairs, pair_of = np.unique(offers.pair, return_inverse=True)
        jobs, job_of = np.unique(freed.job[pairs], return_inverse=True)
        groups, group_of = np.unique(offers.group, return_inverse=True)
        is_bound = limits > 1
        offer, gang = np.nonzero(offers.given[:, :n_gangs])
        of_bound = is_bound[gang]
        every_gang = np.arange(n_gangs)
        # Columns: offers, jobs that leave, nodes that gangs lack.
        leaves, lacks = n_offers + np.arange(len(jobs)), n_offers + len(jobs) + every_gang
        rows = Rows()
        nodes = np.array([gang.nodes for gang in self._gangs])
        given = offers.given[offer, gang]
        sold = -np.append(given, np.ones_like(every_gang))
        rows.add(np.append(gang, every_gang), np.append(offer, lacks), sold, -nodes)
        ones = np.ones(int(of_bound.sum()))
        rows.add((np.cumsum(is_bound) - 1)[gang[of_bound]], offer[of_bound], ones, limits[is_bound])
        rows.add(group_of, np.arange(n_offers), np.ones(n_offers), np.ones(len(groups)))
        pair_rows = np.append(pair_of, np.arange(len(pairs)))
        columns, parts = np.append(offers.offer, leaves[job_of]), np.append(offers.part, -np.ones(len(pairs)))
        rows.add(pair_rows, columns, parts, np.zeros(len(pairs)))
        costs = np.concatenate((offers.cost, freed.costs[jobs], self._lacking())) / self._scale
        program = rows.program(costs, ())
        # SciPy's types allow dense matrices only.
        matrix: Any = program.matrix
        answer = linprog(costs, A_ub=matrix, b_ub=program.row_upper, bounds=(0, None), method="highs")
        if answer.x is None:
            return None
        prices = np.maximum(-answer.ineqlin.marginals, 0.0) * self._scale
        ends = np.cumsum((n_gangs, is_bound.sum(), len(groups)))
        node_prices, bound_prices, worth, pair_prices = np.split(prices, ends)
        freed.split(self._split(pairs, pair_prices))
        dual = _Dual(node_prices, np.zeros(n_gangs), np.zeros(len(freed.least)), np.zeros(len(freed.least), np.bool_))
        dual.group_prices[is_bound], dual.worth[groups] = bound_prices, worth
        dual.is_used[offers.group[answer.x[:n_offers] > CLOSED]] = True
        return dual

    def _lacking(self) -> FloatArray:
        """Return the price of a missing node of each gang."""
        waits = (
            MISSING * self._scale * gang.nodes if gang.wait_cost is None else gang.wait_cost for gang in self._gangs
        )
        return np.array([cost / gang.nodes for cost, gang in zip(waits, self._gangs, strict=True)])

    def _split(self, pairs: IntArray, prices: FloatArray) -> FloatArray:
        """Return shares: prices for pairs in the program; other pairs of a job divide the rest of its cost."""
        freed = self._freed
        n_jobs = len(freed.costs)
        shares, is_priced = freed.shares.copy(), np.zeros(len(freed.job), dtype=np.bool_)
        shares[pairs], is_priced[pairs] = prices, True
        known = np.bincount(freed.job[is_priced], shares[is_priced], n_jobs)
        is_open = ~is_priced & np.isin(freed.job, freed.job[pairs])
        of_open = freed.job[is_open]
        n_open = np.bincount(of_open, minlength=n_jobs)
        shares[is_open] = np.maximum(freed.costs[of_open] - known[of_open], 0.0) / n_open[of_open]
        # Scale the shares down where rounding has raised their sum above the cost.
        total = np.bincount(freed.job, shares, n_jobs)[freed.job]
        scaled: FloatArray = shares * np.minimum(1.0, freed.costs[freed.job] / np.where(total > 0.0, total, 1.0))
        return scaled
