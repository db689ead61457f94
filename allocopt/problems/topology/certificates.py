"""Certificates of bounds on allocations: prices of parts of groups (FREE), and of block sizes (SCAS).

``docs/certificates.md`` has the formulas, symbols and proofs. Only checkers compute bounds with this code, no solver
does. Any prices prove a bound, so prices are rounded first; everything after that is exact.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numba import int64, void

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.compiled import kernel
from allocopt.problems.certificate import Certificate, InvalidCertificateError, floors
from allocopt.problems.topology.problem import TopologyProblem
from allocopt.problems.topology.side_constraints import SideConstraints, level_index, segment_sizes
from allocopt.problems.tree_check import CheckTree, fill_values

GRID = 2**24  # prices of block sizes, in hops, are multiples of 1 / GRID
LEAST_BITS, MOST_BITS = 20, 44  # prices of parts are multiples of 2^-b hops; range of b, as large as 64 bits allow
MOST_SAVINGS = 64.0  # prices above this multiple of the largest saving of a job are lowered to it
EVERYWHERE = SideConstraints()


@dataclass(frozen=True, slots=True)
class PartClass:
    """Prices of the parts of a class: one or several groups of one level with equal prices.

    Parameters
    ----------
    level
        Level of the groups, 1 for leaf switches.
    groups
        Numbers of the groups, as in `Topology.groups_of`. A class of several groups counts as an unlimited number of
        groups, each as large as the largest of them.
    prices
        Price, in hops, of 0, 1, 2, .. nodes of one group: the first is 0, none is negative. A larger part has the last
        price.
    """

    level: int
    groups: tuple[int, ...]
    prices: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PartPrices(Certificate[TopologyProblem]):
    """Prices of parts of groups; they bound the cost of FREE, and so of every strategy. Other groups have price 0."""

    classes: tuple[PartClass, ...] = ()

    method: ClassVar[str] = "part-prices"

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        return (fill_values, _fill_worths)

    def seconds(self, problem: TopologyProblem) -> float:
        n_idle, levels = len(problem.idle_nodes), len(problem.topology.hops)
        kinds = {(job.nodes, job.placement) for job in problem.jobs}
        merged = sum(len(one.groups) - 1 for one in self.classes)
        # For every job size, the table of each group is joined to that of the groups before it.
        width = max(1, n_idle // max(1, n_idle - merged))
        steps = sum(min(n_idle, 4 * nodes * width) * nodes * levels for nodes, _ in kinds)
        longest = sum(len(one.prices) for one in self.classes)
        return 4e-4 + 2e-4 * len(kinds) + 2e-9 * (steps + 4 * longest * levels) + 5e-8 * n_idle * (levels + len(kinds))

    def bound(self, problem: TopologyProblem) -> Fraction:
        groups = _Classes(problem, self.classes, self._grid(problem))
        formula = HopFormula.of(problem.topology, problem.hop_cost)
        scale = Fraction(formula.scale)
        kinds: dict[tuple[int, SideConstraints], int] = {}
        hops = Fraction(0)
        for job in problem.jobs:
            placement = job.placement or EVERYWHERE
            kinds[job.nodes, placement] = kinds.get((job.nodes, placement), 0) + 1
            hops += formula.top * job.nodes - formula.bottom
            if placement.prefer is not None:
                hops += Fraction(placement.prefer.penalty) / scale
        for (nodes, placement), count in kinds.items():
            hops -= count * groups.most_saved(nodes, placement, Fraction(1), scale)
        weight, left = Fraction(problem.fragmentation_weight), problem.n_left
        if weight and left:
            # The leftover counts as one more job, with weighted hops.
            hops += weight * (formula.top * left - formula.bottom) - groups.most_saved(left, EVERYWHERE, weight, scale)
        largest = max(job.nodes for job in problem.jobs)
        return scale * (hops - Fraction(groups.worth(max(largest, left) if weight else largest), groups.grid))

    def _grid(self, problem: TopologyProblem) -> int:
        """Return the number by which a hop is divided: prices are multiples of the quotient."""
        nodes, hops = _largest_part(problem), problem.topology.hops
        highest = max((price for one in self.classes for price in one.prices[: nodes + 1]), default=0.0)
        if not math.isfinite(highest):
            raise InvalidCertificateError(f"a price is {highest}, must be finite")
        highest = min(highest, _highest_price(problem))
        largest = nodes**2 * (hops[-1] * max(1.0, problem.fragmentation_weight) + highest * len(hops))
        return int(2 ** max(LEAST_BITS, min(MOST_BITS, 58 - math.ceil(math.log2(max(1.0, largest))))))

    def rounding(self, problem: TopologyProblem) -> float:
        # Rounding costs at most one step of the grid for each price that a job pays, and each gain of the leftover.
        paid = int(problem.sizes.sum()) + 2 * (problem.n_left if problem.fragmentation_weight else 0)
        scale = HopFormula.of(problem.topology, problem.hop_cost).scale
        return len(problem.topology.hops) * paid * scale / self._grid(problem)


def _largest_part(problem: TopologyProblem) -> int:
    """Return the most nodes that one job, or the leftover, takes from a group."""
    return max(int(problem.sizes.max()), problem.n_left if problem.fragmentation_weight else 0)


def _highest_price(problem: TopologyProblem) -> float:
    """Return a price in hops far above what any job saves; higher ones count as this one."""
    preferred = [job.placement.prefer.penalty for job in problem.jobs if job.placement and job.placement.prefer]
    hops = problem.topology.hops[-1] * _largest_part(problem) * max(1.0, problem.fragmentation_weight)
    scale = HopFormula.of(problem.topology, problem.hop_cost).scale
    return float(MOST_SAVINGS * (hops + max(preferred, default=0.0) / scale))


class _Classes:
    """The groups that hold idle nodes, some of them merged into classes, and the prices of their parts."""

    def __init__(self, problem: TopologyProblem, priced: Sequence[PartClass], grid: int) -> None:
        self.problem, self.grid = problem, grid
        rows = problem.topology.groups_of(problem.idle_nodes)
        formula = HopFormula.of(problem.topology, problem.hop_cost)
        # For every level: the numbers of its groups, and the group of each idle node.
        levels = [np.unique(row, return_inverse=True) for row in rows]
        class_of = [np.full(len(names), -1, dtype=np.int64) for names, _ in levels]
        tables: list[list[int]] = []
        highest = _highest_price(problem)
        for one in priced:
            self._merge(one, levels, class_of, len(tables))
            tables.append(_rounded(one.prices, grid, highest))
        self.is_merged = any(len(one.groups) > 1 for one in priced)
        for of_group in class_of:
            apart = np.flatnonzero(of_group < 0)
            of_group[apart] = len(tables) + np.arange(len(apart))
            tables += [[0]] * len(apart)
        n = len(tables) + 1
        # Classes in the order of their levels, the top last.
        order = np.concatenate([*(np.unique(of_group) for of_group in class_of), [n - 1]]).astype(np.int64)
        place = np.empty(n, dtype=np.int64)
        place[order] = np.arange(n)
        self.level = np.full(n, len(levels), dtype=np.int64)
        self.parent = np.full(n, n - 1, dtype=np.int64)
        self.parent[-1] = -1
        self.idle, self.several = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.bool_)
        self.members: list[IntArray] = [np.zeros(0, dtype=np.int64)] * n  # by class: idle nodes of each of its groups
        self.allowed_at = np.zeros(n, dtype=np.int64)  # index of one idle node below each class
        for level, (_, group_of) in enumerate(levels):
            at = place[class_of[level]]
            held = np.bincount(group_of, minlength=len(at))
            above = place[class_of[level + 1][levels[level + 1][1]]] if level + 1 < len(levels) else None
            example = np.zeros(len(at), dtype=np.int64)
            example[group_of] = np.arange(len(group_of))
            rising = np.argsort(at, kind="stable")
            mine, begin = np.unique(at[rising], return_index=True)
            for one, of_class in zip(mine.tolist(), np.split(held[rising], begin[1:]), strict=True):
                self.members[one] = of_class
            self.level[at], self.allowed_at[at] = level, example
            np.maximum.at(self.idle, at, held)
            self.several[at] = np.bincount(at, minlength=n)[at] > 1
            if above is not None:
                self.parent[at[group_of]] = above
                if len(np.unique(np.stack((at[group_of], above)), axis=1)[0]) > len(np.unique(at)):
                    raise InvalidCertificateError("a class has groups below two classes of the level above")
        self.idle[-1] = len(problem.idle_nodes)
        self.weight = np.array([*formula.weights, 0], dtype=np.int64)[self.level]
        self.tables = [tables[one] if one < len(tables) else [0] for one in order.tolist()]
        self.highest = max(map(max, self.tables))
        self.last = np.array([len(table) - 1 for table in self.tables])
        self.first = np.concatenate(([0], np.cumsum(self.last + 1)[:-1]))
        # Use integers of any size if 64 bits are too few.
        kind: Any = np.int64 if self.highest < 2**62 else np.object_
        self.prices = np.array([price for table in self.tables for price in table], dtype=kind)

    def _merge(self, one: PartClass, levels: Sequence[Any], class_of: Sequence[IntArray], number: int) -> None:
        if not 1 <= one.level <= len(levels) or not one.groups or not one.prices:
            raise InvalidCertificateError(
                f"a class has level {one.level}, which does not exist, or no groups or no prices"
            )
        names = levels[one.level - 1][0]
        at = np.searchsorted(names, one.groups)
        known = (at < len(names)) & (names[np.minimum(at, len(names) - 1)] == one.groups)
        if not known.all() or (class_of[one.level - 1][at] >= 0).any() or len(set(one.groups)) < len(one.groups):
            raise InvalidCertificateError("a class names a group twice, or one without idle nodes or of another class")
        class_of[one.level - 1][at] = number

    def most_saved(self, nodes: int, placement: SideConstraints, weight: Fraction, scale: Fraction) -> Fraction:
        """Return the most hops that a job saves, times ``weight``, after the prices of its parts are subtracted."""
        tree = CheckTree.of(self.parent, np.minimum(self.idle, nodes), self.several)
        lengths = np.diff(tree.first)
        class_of = np.repeat(np.arange(len(lengths)), lengths)
        count = np.arange(int(tree.first[-1])) - np.repeat(tree.first[:-1], lengths)
        squares, unit = self.weight[class_of] * count * count, weight * self.grid
        highest = self.highest
        largest = math.ceil(unit * int(self.weight.sum())) * nodes**2 + highest * nodes**2 * (
            len(self.problem.topology.hops)
        )
        if unit.denominator == 1 and largest < 2**60:
            gains = squares * unit.numerator
        else:
            gains = np.array([math.ceil(unit * int(square)) for square in squares], dtype=np.object_)
        # Parts larger than the price table have its last price.
        charges = self.prices[self.first[class_of] + np.minimum(count, self.last[class_of])]
        gains, forbidden = gains - nodes * charges.astype(gains.dtype), None
        if placement != EVERYWHERE:
            gains = gains.astype(np.object_)
            forbidden, extra = self._ruled(gains, placement, nodes, class_of, count, scale)
            largest += extra
        best = tree.best(gains, largest, forbidden)[nodes]
        if best is None:
            raise InvalidCertificateError("the rules of a job leave no place for it: there is no solution to bound")
        return Fraction(best, nodes * self.grid)

    def _ruled(
        self, gains: Any, placement: SideConstraints, nodes: int, class_of: IntArray, count: IntArray, scale: Fraction
    ) -> tuple[BoolArray, int]:
        """Return the counts that a job's rules forbid, and the gain of its preference, which is added to ``gains``."""
        topology, extra = self.problem.topology, 0
        if self.is_merged:
            raise InvalidCertificateError("classes of several groups prove no bound if jobs have placement rules")
        # Rules allow all nodes of a leaf switch or none.
        allowed = placement.allowed(topology, self.problem.idle_nodes)
        leaf = self.level == 0
        is_closed = np.zeros(len(leaf), dtype=np.bool_)
        is_closed[leaf] = ~allowed[self.allowed_at[leaf]]
        forbidden = is_closed[class_of] & (count > 0)
        level = self.level[class_of]
        if placement.within is not None:
            at = level == level_index(topology, placement.within)
            forbidden |= at & (count > 0) & (count < nodes)
        for at, size in enumerate(segment_sizes(placement.segments, topology)):
            if size:
                forbidden |= (level == at) & (count % size > 0)
        if placement.prefer is not None:
            extra = math.ceil(Fraction(placement.prefer.penalty) / scale * nodes * self.grid)
            gains[(level == level_index(topology, placement.prefer.level)) & (count == nodes)] += extra
        return forbidden, extra

    def worth(self, largest: int) -> int:
        """Return the largest total price of parts that fit the groups, each part of at most ``largest`` nodes."""
        total = 0
        for table, held in zip(self.tables, self.members, strict=True):
            if len(held) and max(table) > 0:
                prices = np.array(_stretched(table, min(int(held.max()), largest) + 1), dtype=np.object_)
                is_small = int(max(prices)) * int(held.max()) < 2**60
                kind: Any = np.int64 if is_small else np.object_
                worths = np.zeros(int(held.max()) + 1, dtype=kind)
                (_fill_worths if is_small else _fill_worths.py_func)(prices.astype(kind), worths)  # type: ignore[attr-defined]
                total += sum(int(worths[idle]) for idle in held.tolist())
        return total


def _rounded(prices: Sequence[float], grid: int, highest: float) -> list[int]:
    found = floors(prices, grid)
    if found[0] != 0 or min(found) < 0:
        raise InvalidCertificateError("prices must begin with 0, and none may be negative")
    # Prices may be lowered, because any prices prove a bound.
    return [min(price, math.ceil(highest * grid)) for price in found]


def _stretched(table: Sequence[int], length: int) -> list[int]:
    return [*table[:length], *([table[-1]] * (length - len(table)))]


@kernel(void(int64[::1], int64[::1]))
def _fill_worths(prices: IntArray, worths: IntArray) -> None:
    """Fill ``worths``, 0 before, with the largest total price of parts that fit into 0, 1, .. nodes together."""
    for idle in range(1, worths.size):
        worths[idle] = worths[idle - 1]
        for nodes in range(1, min(idle, prices.size - 1) + 1):
            worths[idle] = max(worths[idle], worths[idle - nodes] + prices[nodes])


@dataclass(frozen=True, slots=True)
class SizePrices(Certificate[TopologyProblem]):
    """Prices of blocks by size, in hops, which bound the cost of SCAS; sizes not named have price 0."""

    prices: tuple[tuple[int, float], ...] = ()

    method: ClassVar[str] = "size-prices"

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        return (_fill_block_hops, _least_path)

    def seconds(self, problem: TopologyProblem) -> float:
        sizes = np.unique(problem.sizes)
        # In the worst case, one path for each number of nodes behind the cut of the circle.
        work = len(problem.idle_nodes) * len(sizes)
        return 3e-4 + 2e-9 * work * (0.2 * int(sizes[-1]) + 10 * len(problem.topology.hops))

    def rounding(self, problem: TopologyProblem) -> float:
        scale = HopFormula.of(problem.topology, problem.hop_cost).scale
        return 2 * (len(problem.jobs) + 1) * scale / GRID

    def bound(self, problem: TopologyProblem) -> Fraction:
        if problem.strategy != "scas" or problem.has_side_constraints:
            raise InvalidCertificateError("prices of block sizes prove a bound of strategy scas only")
        sizes, counts = np.unique(problem.sizes, return_counts=True)
        priced = [size for size, _ in self.prices]
        unknown = set(priced) - set(sizes.tolist())
        if unknown or len(set(priced)) < len(priced):
            fault = f"no job asks for {min(unknown)} nodes" if unknown else "a size has two prices"
            raise InvalidCertificateError(fault)
        rounded = dict(
            zip((size for size, _ in self.prices), floors((price for _, price in self.prices), GRID), strict=True)
        )
        costs = block_costs(problem, sizes)
        price = np.array([rounded.get(size, 0) for size in sizes.tolist()], dtype=np.object_)
        spent = sum(int(count) * int(of_size) for count, of_size in zip(counts, price, strict=True))
        reduced = costs.astype(np.object_) - price[:, None]
        largest = sum(max(abs(int(row.min())), abs(int(row.max()))) for row in reduced) * len(problem.idle_nodes)
        kind: Any = np.int64 if largest < 2**60 else np.object_
        labels = np.zeros((2, len(problem.idle_nodes) + 1), dtype=kind)
        least = (_least_path if kind is np.int64 else _least_path.py_func)(reduced.astype(kind), sizes, labels)  # type: ignore[attr-defined]
        scale = Fraction(HopFormula.of(problem.topology, problem.hop_cost).scale)
        return scale * Fraction(spent + int(least), GRID)


def block_costs(problem: TopologyProblem, sizes: IntArray) -> IntArray:
    """Return the cost of each block by size and first position, in 1 / GRID hops, rounded down, shape ``(R, m)``."""
    formula = HopFormula.of(problem.topology, problem.hop_cost)
    rows = problem.topology.groups_of(problem.idle_nodes)
    groups = np.array([np.unique(row, return_inverse=True)[1] for row in rows], dtype=np.int64)
    groups = groups.reshape(len(rows), len(problem.idle_nodes))
    hops = np.zeros((len(sizes), len(problem.idle_nodes)), dtype=np.int64)
    hops += (formula.top * sizes * sizes - formula.bottom * sizes)[:, None]
    counts = np.zeros(int(groups.max(initial=0)) + 1, dtype=np.int64)
    _fill_block_hops(groups, np.array(formula.weights, dtype=np.int64), sizes, counts, hops)
    if int(hops.max()) < 2**60 // GRID:
        return hops * GRID // sizes[:, None]
    exact: IntArray = (hops.astype(np.object_) * GRID) // sizes[:, None].astype(np.object_)
    return exact


@kernel(void(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1]))
def _fill_block_hops(groups: IntArray, weights: IntArray, sizes: IntArray, counts: IntArray, hops: IntArray) -> None:
    """Subtract from ``hops`` what each block saves by several nodes in one group.

    Hops and savings are multiplied by the number of the block's nodes. ``counts`` is scratch with an entry for each
    group; all are 0 before and after the call.
    """
    n_levels, m = groups.shape
    for level in range(n_levels):
        for r in range(sizes.size):
            squares = 0
            for at in range(sizes[r]):
                squares += 2 * counts[groups[level, at]] + 1
                counts[groups[level, at]] += 1
            for start in range(m):
                hops[r, start] -= weights[level] * squares
                left, joined = groups[level, start], groups[level, (start + sizes[r]) % m]
                squares -= 2 * counts[left] - 1
                counts[left] -= 1
                squares += 2 * counts[joined] + 1
                counts[joined] += 1
            for at in range(sizes[r]):
                counts[groups[level, at]] = 0


@kernel(int64(int64[:, ::1], int64[::1], int64[:, ::1]))
def _least_path(costs: IntArray, sizes: IntArray, labels: IntArray) -> int:
    """Return the least total cost of disjoint blocks of the circle.

    The circle is cut into a line. In case k > 0, a block lies across the cut and has k nodes at the beginning of the
    line; in case 0, no block does.
    """
    m, largest = costs.shape[1], sizes[sizes.size - 1]
    line, own = labels[0], labels[1]
    line[0] = 0
    for at in range(1, m + 1):
        line[at] = line[at - 1]
        for r in range(sizes.size):
            if sizes[r] <= at:
                line[at] = min(line[at], line[at - sizes[r]] + costs[r, at - sizes[r]])
    best = line[m]
    for k in range(1, largest):
        # The path from k to e is at least as long as the path from 0 to e less the path from 0 to k.
        is_shorter = False
        for r in range(sizes.size):
            end = m - sizes[r] + k
            if sizes[r] > k and line[end] - line[k] + costs[r, end] < best:
                is_shorter = True
        if not is_shorter:
            continue
        own[k] = 0
        for at in range(k + 1, m + 1):
            own[at] = own[at - 1]
            for r in range(sizes.size):
                if sizes[r] <= at - k:
                    own[at] = min(own[at], own[at - sizes[r]] + costs[r, at - sizes[r]])
        for r in range(sizes.size):
            end = m - sizes[r] + k
            if sizes[r] > k:
                best = min(best, own[end] + costs[r, end])
    return int(best)
