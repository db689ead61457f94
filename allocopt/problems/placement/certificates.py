"""Certificates of bounds on placements: prices of the resources of leaves, from which the bound is recomputed exactly.

``docs/placement.md`` has the formulas, symbols and proofs. Only checkers compute bounds with this code, no solver does.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numba import boolean, int64

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.compiled import kernel
from allocopt.problems.certificate import Certificate, InvalidCertificateError, floors
from allocopt.problems.placement.problem import PlacementProblem
from allocopt.problems.tree_check import IMPOSSIBLE, LARGEST_GAIN, CheckTree, fill_values

PRICED_SIZES = 3  # how many sizes of a job (numbers of nodes, in whole segments) are priced, from the smallest on
PRICE_SCALE, GRID = 2**80, 2**24  # prices are multiples of 1 / PRICE_SCALE, prices in hops of 1 / GRID
# Limits of the program that counts tasks: numbers of nodes that it tries, table entries, and steps.
UNEVEN_SIZES, MOST_ENTRIES, MOST_STEPS = 5, 20_000_000, 100_000_000
KIND_S, PRICED_KIND_S = 1.5e-4, 1e-3  # seconds to check a kind of job on a small cluster, without and with prices

LeafPrice = tuple[int, int, float]
"""Leaf switch, column and price per unit."""
_Table = dict[int, dict[int, int]]
"""Prices by leaf and column, in multiples of 1 / PRICE_SCALE; missing prices are 0."""


@dataclass(frozen=True, slots=True)
class LeafPrices(Certificate[PlacementProblem]):
    """Prices of the resources of leaves.

    The bound is the one by prices or the one by counting of ``docs/placement.md``, whichever is higher.

    Parameters
    ----------
    prices
        Prices that bound the cost: leaf switch, column and cost per unit; prices not listed are 0. Leaf switches are
        numbers of `Topology.groups_of` at level 1, or 0 if there is no level below the top. Columns are the resources,
        the quanta, and last the nodes of exclusive jobs.
    counting
        Prices that bound how many jobs are left out, in the same form; empty for no such bound.
    quanta
        Vectors of amounts by resource. Each has a column, which counts how often the vector fits a node.
    """

    prices: tuple[LeafPrice, ...] = ()
    counting: tuple[LeafPrice, ...] = ()
    quanta: tuple[tuple[int, ...], ...] = ()

    method: ClassVar[str] = "leaf-prices"

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        return (fill_values, _fill_uneven)

    def seconds(self, problem: PlacementProblem) -> float:
        kinds = {_key(job.request) for job in problem.jobs}
        of_kind = PRICED_KIND_S if self.prices or self.counting else KIND_S
        return 4e-4 + len(kinds) * of_kind * (1.0 + problem.size / 1000)

    def bound(self, problem: PlacementProblem) -> Fraction:
        check = _Check(problem, self.quanta)
        priced = check.priced(self.prices, counts_only=False)
        if self.counting:
            priced = max(priced, check.counted(self.counting))
        return check.with_left_out_cost(max(priced, Fraction(0)))


@dataclass(eq=False)
class _Kind:
    """Jobs with equal requests."""

    check: "_Check"
    request: ClusterRequest
    count: int

    @cached_property
    def room(self) -> IntArray:
        """Tasks that each node has room for, regardless of node sets, shape ``(m,)``."""
        return self.check.room(self.request)

    @cached_property
    def fewest(self) -> int:
        """The fewest nodes that hold a job."""
        return _fewest(self.request, self.room)

    @cached_property
    def alone(self) -> Fraction:
        """The least cost of a job without other jobs, at most the cost of leaving it out."""
        return self.check.alone(self.request, self.room, 1)

    @cached_property
    def beyond(self) -> Fraction:
        """Like `alone`, but on more nodes than `last_priced`."""
        least = self.last_priced + 1
        return self.check.left_out if least > self.most else self.check.alone(self.request, self.room, least)

    @property
    def last_priced(self) -> int:
        """The largest number of nodes that is priced; the job may be limited to fewer."""
        return self.fewest + (PRICED_SIZES - 1) * self.request.part

    @property
    def most(self) -> int:
        """The most nodes that a job can have."""
        return min(self.request.most_nodes, len(self.room))


def _key(one: ClusterRequest) -> tuple[object, ...]:
    numbers = one.tasks, one.least_nodes, one.most_nodes, one.most_tasks, bool(one.is_exclusive)
    of_levels = tuple(one.most_groups), tuple(one.segments)
    return (*numbers, *of_levels, one.per_task.tobytes(), one.per_node.tobytes(), one.masks.tobytes(), one.masks.shape)


class _Check:
    """Computes the bounds of a problem from its raw numbers."""

    def __init__(self, problem: PlacementProblem, quanta: Sequence[Sequence[int]]) -> None:
        self.problem = problem
        if any(len(quantum) != len(problem.resources) or min(quantum) < 0 or not any(quantum) for quantum in quanta):
            raise InvalidCertificateError(
                "each quantum needs an amount of 0 or more for each resource, and one above 0"
            )
        self.quanta = np.array(quanta, dtype=np.int64).reshape(len(quanta), len(problem.resources))
        self.formula = HopFormula.of(problem.topology, problem.hop_cost)
        self.scale, self.given = Fraction(self.formula.scale), Fraction(float(problem.left_out_cost or 0.0))
        nodes = (min(job.request.most_nodes, problem.size) for job in problem.jobs)
        self.most_hops = self.scale * sum(self.formula.top * n - self.formula.bottom for n in nodes)
        # If leaving a job out costs more than all hops together, a higher cost ranks solutions in the same way. So the
        # cost is capped.
        self.left_out = min(self.given, self.most_hops + self.scale)
        rows = problem.groups if len(problem.groups) else np.zeros((1, problem.size), dtype=np.int64)
        self.names, self.leaf = np.unique(rows[0], return_inverse=True)
        # The groups from the leaves upwards; the top is added last.
        levels = [np.unique(row, return_inverse=True) for row in rows]
        ends = np.cumsum([len(names) for names, _ in levels])
        self.parent = np.full(int(ends[-1]) + 1, -1, dtype=np.int64)
        self.weight = np.zeros(int(ends[-1]) + 1, dtype=np.int64)
        self.level = np.repeat(np.arange(len(levels) + 1), [*(len(names) for names, _ in levels), 1])
        for level, (names, group_of) in enumerate(levels):
            start = int(ends[level]) - len(names)
            above = levels[level + 1][1] + int(ends[level]) if level + 1 < len(levels) else int(ends[-1])
            self.parent[start + group_of] = above
            self.weight[start : start + len(names)] = self.formula.weights[level] if len(problem.groups) else 0
        self.kinds = self._kinds()

    def _kinds(self) -> list[_Kind]:
        found: dict[tuple[object, ...], list[ClusterRequest]] = {}
        for job in self.problem.jobs:
            found.setdefault(_key(job.request), []).append(job.request)
        return [_Kind(self, same[0], len(same)) for same in found.values()]

    def room(self, asked: ClusterRequest) -> IntArray:
        """Return the number of tasks that each node has room for, regardless of node sets."""
        left = self.problem.free - asked.per_node
        tasks = np.full(self.problem.size, asked.most_tasks, dtype=np.int64)
        for resource, amount in enumerate(asked.per_task.tolist()):
            if amount:
                tasks = np.minimum(tasks, left[:, resource] // amount)
        tasks[(left < 0).any(axis=1)] = 0
        if asked.is_exclusive:
            tasks[self.problem.in_use] = 0
        return tasks

    def with_left_out_cost(self, bound: Fraction) -> Fraction:
        """Convert a bound for the capped cost `left_out` into one for the given cost of leaving a job out."""
        if self.given <= self.left_out:
            return bound
        left_out, hops = divmod(bound, self.left_out)
        if hops > self.most_hops:
            left_out, hops = left_out + 1, Fraction(0)
        return left_out * self.given + hops

    # -- a job without other jobs

    def alone(self, asked: ClusterRequest, room: IntArray, fewest: int) -> Fraction:
        """Return the least cost of a job on ``fewest`` nodes or more without other jobs, at most `left_out`."""
        level = min((at for at, most in enumerate(asked.most_groups) if most == 1), default=-1)
        least = self.left_out
        for mask in asked.masks:
            inside = np.where(mask, room, 0)
            rows = [inside]
            if level >= 0:
                groups = self.problem.groups[level]
                rows = [np.where(groups == group, inside, 0) for group in np.unique(groups[inside > 0])]
            for row in rows:
                hops = self._least_hops(asked, row, fewest)
                if hops is not None:
                    least = min(least, self.scale * hops)
        return least

    def _least_hops(self, asked: ClusterRequest, room: IntArray, fewest: int) -> Fraction | None:
        """Return the least hop cost of a job, in hops, given each node's room in tasks; None if it does not fit."""
        most_room = int(room.max(initial=0))
        if most_room == 0:
            return None
        least, falling = max(fewest, _fewest(asked, room)), np.sort(room)[::-1]
        sums = np.cumsum(falling)
        # Fewer nodes cannot hold all tasks.
        least = _whole(max(least, int(np.searchsorted(sums, asked.tasks)) + 1), asked)
        if least > asked.most_nodes or least > np.count_nonzero(room):
            return None
        if least == 1:
            return Fraction(0)
        last, found = least - 1, list[Fraction]()
        share = -(-asked.tasks // least)
        if bool(((room > 0) & (room < share)).any()):
            last, found = self._uneven_hops(asked, room, least)
        eligible = room >= max(1, asked.tasks - (asked.most_nodes - 1) * most_room)
        most = min(asked.most_nodes, int(np.count_nonzero(eligible)))
        if last < most:
            saved = self._most_saved(asked, eligible, most)
            sizes = range(max(last + 1, least), most + 1)
            found += [self._hops(n, gain) for n in sizes if (gain := saved[n]) is not None]
        return min(found, default=None)

    def _hops(self, nodes: int, saved: int) -> Fraction:
        return self.formula.top * nodes - self.formula.bottom - Fraction(saved, nodes)

    def _most_saved(self, asked: ClusterRequest, eligible: BoolArray, most: int) -> list[int | None]:
        """Return the largest saving times n of n = 0 .. ``most`` eligible nodes; None for impossible numbers."""
        counts = np.bincount(self.leaf[eligible], minlength=len(self.names))
        tree = self._tree(counts, most)
        gains = self._squares(tree)
        return tree.best(gains, int(self.weight.sum()) * most**2, self._forbidden(asked, tree))

    def _steps(self, asked: ClusterRequest) -> IntArray:
        """Return, by group, the number of which the job's nodes in the group must be a multiple."""
        of_level = np.ones(int(self.level[-1]) + 1, dtype=np.int64)
        of_level[: len(asked.segments)] = np.maximum(asked.segments, 1)
        return of_level[self.level]

    def _forbidden(self, asked: ClusterRequest, tree: CheckTree) -> BoolArray | None:
        """Return whether each count is not a whole number of segments; None if the job has no segments."""
        return self._counts(tree) % np.repeat(self._steps(asked), np.diff(tree.first)) > 0 if asked.part > 1 else None

    def _tree(self, counts: IntArray, most: int) -> CheckTree:
        held = np.zeros(len(self.parent), dtype=np.int64)
        held[: len(counts)] = counts
        for v in range(len(held) - 1):
            held[self.parent[v]] += held[v]
        widths = np.minimum(held, most)
        widths[-1] = most
        return CheckTree.of(self.parent, widths)

    def _counts(self, tree: CheckTree) -> IntArray:
        counts: IntArray = np.arange(int(tree.first[-1])) - np.repeat(tree.first[:-1], np.diff(tree.first))
        return counts

    def _squares(self, tree: CheckTree) -> IntArray:
        counts = self._counts(tree)
        return np.repeat(self.weight, np.diff(tree.first)) * counts * counts

    def _uneven_hops(self, asked: ClusterRequest, room: IntArray, least: int) -> tuple[int, list[Fraction]]:
        """Return the largest number of nodes for which tasks were counted, and the least hop costs up to it."""
        unit = int(np.gcd.reduce(room))
        tasks = -(-asked.tasks // unit)
        last = min(asked.most_nodes, asked.tasks, least + UNEVEN_SIZES * asked.part - 1)
        if len(self.parent) * (last + 1) * (tasks + 1) > MOST_ENTRIES:
            return least - 1, []
        order = np.lexsort((-room, self.leaf))
        first = np.searchsorted(self.leaf[order], np.arange(len(self.names) + 1))
        saved = np.full((last + 1, tasks + 1), IMPOSSIBLE, dtype=np.int64)
        steps = self._steps(asked)
        done = _fill_uneven(self.parent, self.weight, steps, first, room[order] // unit, saved, MOST_STEPS)
        if not done:
            return least - 1, []
        sizes = [n for n in range(least, last + 1) if saved[n, tasks] > IMPOSSIBLE]
        return last, [self._hops(n, int(saved[n, tasks])) for n in sizes]

    # -- prices

    def priced(self, prices: Sequence[LeafPrice], *, counts_only: bool) -> Fraction:
        """Return the bound by prices.

        With ``counts_only``, hops cost nothing, so jobs cost something only because of prices or if they are left out.
        """
        if not prices and not counts_only:
            return sum((kind.count * kind.alone for kind in self.kinds), Fraction(0))
        table = self._table(prices)
        used = self._used(self.problem.free, ~self.problem.in_use)
        total = Fraction(0)
        for leaf, of_column in table.items():
            here = used[self.leaf == leaf]
            for column, price in of_column.items():
                total -= Fraction(price * sum(here[:, column].tolist()), PRICE_SCALE)
        return total + sum(kind.count * self._least(kind, table, counts_only=counts_only) for kind in self.kinds)

    def counted(self, prices: Sequence[LeafPrice]) -> Fraction:
        """Return the bound by counting: the prices prove how many jobs are left out at least."""
        alone = sorted((kind.alone for kind in self.kinds for _ in range(kind.count)), reverse=True)
        if not self.left_out:
            return sum(alone, Fraction(0))
        left = min(len(alone), max(0, math.ceil(self.priced(prices, counts_only=True) / self.left_out)))
        return sum(alone[left:], left * self.left_out)

    def _table(self, prices: Sequence[LeafPrice]) -> _Table:
        columns = len(self.problem.resources) + len(self.quanta) + 1
        known = {int(name): row for row, name in enumerate(self.names)}
        table: _Table = {}
        for (leaf, column, _), price in zip(prices, floors((price for *_, price in prices), PRICE_SCALE), strict=True):
            if leaf not in known or not 0 <= column < columns or price < 0:
                raise InvalidCertificateError(f"price {leaf, column}: no such leaf or column, or the price is negative")
            of_column = table.setdefault(known[leaf], {})
            of_column[column] = of_column.get(column, 0) + price
        return table

    def _used(self, amounts: IntArray, is_whole: BoolArray | bool) -> IntArray:
        """Return the units of each column, shape ``(n, C)``, for amounts on nodes, shape ``(n, R)``."""
        fits = np.full((len(amounts), len(self.quanta)), np.iinfo(np.int64).max)
        for at, quantum in enumerate(self.quanta):
            for resource in np.flatnonzero(quantum):
                fits[:, at] = np.minimum(fits[:, at], amounts[:, resource] // quantum[resource])
        whole = np.broadcast_to(np.asarray(is_whole, dtype=np.int64), len(amounts))
        return np.column_stack((amounts, fits, whole))

    def _least(self, kind: _Kind, table: _Table, *, counts_only: bool) -> Fraction:
        """Return the least cost of a job of a kind, the prices of its use included."""
        asked = kind.request
        if kind.alone >= self.left_out:
            return self.left_out
        last = min(kind.most, kind.last_priced)
        tasks = max(1, asked.tasks - (last - 1) * asked.most_tasks)
        is_eligible = (kind.room >= tasks) & asked.masks.any(axis=0)
        counts = np.bincount(self.leaf[is_eligible], minlength=len(self.names))
        # Least use of a node by a job that is not exclusive.
        shared = self._used((asked.per_node + tasks * asked.per_task)[None], False)[0]
        of_node, of_task = [0] * len(self.names), [0] * len(self.names)
        for leaf, of_column in table.items():
            if counts[leaf]:
                least = shared
                if asked.is_exclusive:
                    least = self._used(self.problem.free[is_eligible & (self.leaf == leaf)], True).min(axis=0)
                of_node[leaf] = sum(int(least[column]) * price for column, price in of_column.items())
                amounts = enumerate(asked.per_task.tolist())
                of_task[leaf] = sum(amount * of_column.get(resource, 0) for resource, amount in amounts)
        extra = 0 if asked.is_exclusive else min(of_task[leaf] for leaf in np.flatnonzero(counts).tolist())
        found = [self.left_out]
        for n in range(kind.fewest, last + 1, asked.part):
            cheapest = self._least_used if counts_only else self._least_priced
            priced = cheapest(asked, counts, of_node, n) if counts.sum() >= n else None
            if priced is not None:
                found.append(priced + Fraction((asked.tasks - n * tasks) * extra, PRICE_SCALE))
        if counts_only:
            return min(*found, Fraction(0) if kind.beyond < self.left_out else self.left_out)
        return min(self.left_out, max(min(found), kind.alone), kind.beyond)

    def _least_used(
        self, asked: ClusterRequest, counts: IntArray, of_node: Sequence[int], nodes: int
    ) -> Fraction | None:
        """Return the least price of this number of nodes, without hops; None if they cannot form whole segments."""
        if asked.part > 1:
            tree = self._tree(counts, nodes)
            gains: Any = np.zeros(int(tree.first[-1]), dtype=np.object_)
            for leaf, price in enumerate(of_node):
                first, end = int(tree.first[leaf]), int(tree.first[leaf + 1])
                gains[first:end] = [-price * taken for taken in range(end - first)]
            gain = tree.best(gains, max(of_node) * nodes, self._forbidden(asked, tree))[nodes]
            return None if gain is None else Fraction(-gain, PRICE_SCALE)
        total, left = 0, nodes
        for price, there in sorted(zip(of_node, counts.tolist(), strict=True)):
            taken = min(left, there)
            total, left = total + taken * price, left - taken
        return Fraction(total, PRICE_SCALE)

    def _least_priced(
        self, asked: ClusterRequest, counts: IntArray, of_node: Sequence[int], nodes: int
    ) -> Fraction | None:
        """Return the least hop cost plus prices of this number of nodes; None if they cannot form whole segments."""
        tree = self._tree(counts, nodes)
        # Prices in hops, rounded down to a grid much finer than a hop and than the cost of leaving a job out.
        grid = GRID * 2 ** max(0, math.ceil(self.scale / self.left_out) - 1).bit_length()
        unit = self.scale * PRICE_SCALE / grid
        of_hops = [math.floor(price / unit) for price in of_node]
        largest = (int(self.weight.sum()) * grid + max(of_hops)) * nodes**2
        gains = self._squares(tree)
        gains = (gains.astype(np.object_) if largest >= LARGEST_GAIN else gains) * grid
        for leaf in (leaf for leaf, price in enumerate(of_hops) if price):
            first, end = int(tree.first[leaf]), int(tree.first[leaf + 1])
            gains[first:end] -= np.arange(end - first).astype(gains.dtype) * (of_hops[leaf] * nodes)
        gain = tree.best(gains, largest, self._forbidden(asked, tree))[nodes]
        if gain is None:
            return None
        hops = self.formula.top * nodes - self.formula.bottom - Fraction(gain, nodes * grid)
        return self.scale * hops


def _fewest(asked: ClusterRequest, room: IntArray) -> int:
    """Return the fewest nodes that hold a job; more than ``most_nodes`` if no node has room."""
    most = int(np.where(asked.masks.any(axis=0), room, 0).max(initial=0))
    return asked.most_nodes + 1 if most == 0 else _whole(max(asked.least_nodes, -(-asked.tasks // most)), asked)


def _whole(nodes: int, asked: ClusterRequest) -> int:
    """Return the number of nodes, rounded up to whole segments."""
    return -(-nodes // asked.part) * asked.part


@kernel(boolean(*(int64[::1],) * 5, int64[:, ::1], int64), allocates=True)
def _fill_uneven(
    parent: IntArray,
    weight: IntArray,
    step: IntArray,  # the number of nodes in a group must be a multiple of its step
    first: IntArray,  # nodes of leaf v are at first[v] .. first[v + 1] - 1 of room
    room: IntArray,  # tasks of each node, decreasing within a leaf
    saved: IntArray,  # by k and t: largest saving times k of k nodes with room for t tasks or more; written in place
    most_steps: int,
) -> bool:
    """Fill ``saved``; return False if that takes more than ``most_steps`` steps."""
    n_nodes, n_tasks = saved.shape
    n_leaves = first.size - 1
    tables = np.full((parent.size, n_nodes, n_tasks), IMPOSSIBLE)
    for v in range(parent.size):
        tables[v, 0, 0] = 0
    steps = 0
    for v in range(parent.size - 1):
        p = parent[v]
        own = tables[v]
        if v < n_leaves:
            # Among all sets of k nodes of a leaf, the k nodes with most room hold most tasks.
            tasks = 0
            for k in range(1, min(n_nodes - 1, first[v + 1] - first[v]) + 1):
                if room[first[v] + k - 1] == 0:
                    break
                tasks = min(n_tasks - 1, tasks + room[first[v] + k - 1])
                own[k, tasks] = 0
        above = tables[p].copy()
        for k in range(1, n_nodes):
            best = IMPOSSIBLE
            for t in range(n_tasks - 1, 0, -1):
                # Skip an entry if another with more tasks saves at least as much.
                if k % step[v] > 0 or own[k, t] <= best:
                    continue
                best = own[k, t]
                gain = best + weight[v] * k * k
                steps += (n_nodes - k) * n_tasks
                if steps > most_steps:
                    return False
                for j in range(n_nodes - k):
                    for u in range(n_tasks):
                        before = tables[p, j, u]
                        if before > IMPOSSIBLE:
                            to = min(n_tasks - 1, u + t)
                            above[j + k, to] = max(above[j + k, to], before + gain)
        tables[p] = above
    saved[:] = tables[parent.size - 1]
    return True
