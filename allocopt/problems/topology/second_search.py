"""A second search for the optimum of a window, which checks the proof of a dynamic program or a search.

No solver uses this code, and each search works differently from the solver whose proof it checks. SCAS tries every
place at which the circle can be cut. DCAS tries every order of the jobs. FREE assigns leaf after leaf and follows only
choices that lose less against certified prices than the bound allows. All numbers are integers. Windows that are too
large are not checked.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numba import int64, void

from allocopt.arrays import IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.kernels.compiled import kernel
from allocopt.problems.base import Strategy
from allocopt.problems.certificate import Certificate, InvalidCertificateError, TooLargeToCheckError, floors
from allocopt.problems.topology.certificates import GRID, PartClass, PartPrices, SizePrices, block_costs
from allocopt.problems.topology.problem import TopologyProblem

MOST_ENTRIES, MOST_STEPS = 20_000_000, 2_000_000_000  # limits of SCAS: entries of its table, steps to fill it
MOST_ORDERED = 300_000  # limit of DCAS: ways to place the jobs one after the other
MOST_STATES, MOST_TRIED = 300_000, 5_000_000  # limits of FREE: states after a leaf, choices tried
LARGEST_GAIN = 2**60
IMPOSSIBLE = -(2**62)


@dataclass(frozen=True, slots=True)
class Searched(Certificate[TopologyProblem]):
    """A bound that an exhaustive search has proved; another exhaustive search checks it.

    Parameters
    ----------
    cost
        The bound: no allocation costs less.
    classes
        Prices of single groups that guide the search of FREE, as in `PartPrices`.
    """

    cost: float
    classes: tuple[PartClass, ...] = ()

    method: ClassVar[str] = "search"

    @staticmethod
    def kernels() -> Iterable[Callable[..., Any]]:
        return (*PartPrices.kernels(), *SizePrices.kernels(), _fill_packings)

    def seconds(self, problem: TopologyProblem) -> float:
        n_idle, n_jobs = len(problem.idle_nodes), len(problem.jobs)
        if problem.has_side_constraints:
            return math.inf
        if problem.strategy is Strategy.SCAS:
            # Usually, few places have to be tried.
            return 3e-4 + 1e-8 * _steps_of_scas(problem) / int(problem.sizes.max())
        if problem.strategy is Strategy.DCAS:
            ways = math.prod(range(max(1, n_idle - n_jobs + 1), n_idle + 1))
            return 4e-5 * ways if ways <= MOST_ORDERED else math.inf
        is_small = len(problem.topology.hops) <= 3 and n_jobs <= 12 and n_idle <= 1000
        return 0.05 + 1e-3 * n_idle * n_jobs if is_small else math.inf

    def rounding(self, problem: TopologyProblem) -> float:
        scale = HopFormula.of(problem.topology, problem.hop_cost).scale
        return len(problem.jobs) * scale / GRID

    def bound(self, problem: TopologyProblem) -> Fraction:
        if math.isinf(self.seconds(problem)):
            raise TooLargeToCheckError("the window is too large for a second search, or has side constraints")
        if problem.strategy is Strategy.SCAS:
            return _least_scas(problem)
        if problem.strategy is Strategy.DCAS:
            return _least_dcas(problem)
        return _FreeSearch(problem, self.classes).bound(Fraction(self.cost))


def _too_large() -> TooLargeToCheckError:
    return TooLargeToCheckError("the window is too large for a second search")


# -- SCAS


def _steps_of_scas(problem: TopologyProblem) -> float:
    sizes, counts = np.unique(problem.sizes, return_counts=True)
    states = math.prod((counts + 1).tolist())
    n_idle = len(problem.idle_nodes)
    steps = states * n_idle * len(sizes) * int(sizes[-1])
    return steps if states * (n_idle + 1) <= MOST_ENTRIES and steps <= MOST_STEPS else math.inf


def _least_scas(problem: TopologyProblem) -> Fraction:
    """Return the least cost of disjoint blocks.

    Among the first places, as many as the largest size has nodes, at least one has no block across it. So the circle is
    cut at each of these places in turn. A place is skipped if no packing that is new there can be cheaper than the best
    one so far.
    """
    sizes, counts = np.unique(problem.sizes, return_counts=True)
    costs = block_costs(problem, sizes)
    m, strides = len(problem.idle_nodes), np.concatenate(([1], np.cumprod(counts + 1)))
    if int(costs.max()) * len(problem.jobs) >= LARGEST_GAIN:
        raise _too_large()
    table = np.zeros((m + 1, int(strides[-1])), dtype=np.int64)
    least = np.full(1, np.iinfo(np.int64).max)
    _fill_packings(costs.astype(np.int64), sizes, counts.astype(np.int64), strides.astype(np.int64), table, least)
    return Fraction(HopFormula.of(problem.topology, problem.hop_cost).scale) * Fraction(int(least[0]), GRID)


@kernel(void(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1]), allocates=True)
def _fill_packings(
    costs: IntArray, sizes: IntArray, counts: IntArray, strides: IntArray, table: IntArray, least: IntArray
) -> None:
    """Lower ``least[0]`` to the least cost of a packing; ``table`` is scratch by positions used and blocks placed."""
    m, n_states = costs.shape[1], table.shape[1]
    nothing = 2**61
    cheapest = np.zeros(sizes.size, dtype=np.int64)
    total = 0
    for r in range(sizes.size):
        cheapest[r] = costs[r].min()
        total += counts[r] * cheapest[r]
    for cut in range(sizes[sizes.size - 1]):
        # A packing not seen at earlier cuts has a block that ends at this cut and lies across the first cut.
        floor = 0 if cut == 0 else nothing
        for r in range(sizes.size):
            if 0 < cut < sizes[r]:
                floor = min(floor, total - cheapest[r] + costs[r, cut - sizes[r]])
        if floor >= least[0]:
            continue
        for at in range(m + 1):
            for state in range(n_states):
                best = table[at - 1, state] if at > 0 else (0 if state == 0 else nothing)
                for r in range(sizes.size):
                    is_placed = state // strides[r] % (counts[r] + 1) > 0
                    if is_placed and at >= sizes[r]:
                        start = (cut + at - sizes[r]) % m
                        best = min(best, table[at - sizes[r], state - strides[r]] + costs[r, start])
                table[at, state] = min(best, nothing)
        least[0] = min(least[0], table[m, n_states - 1])


# -- DCAS


def _least_dcas(problem: TopologyProblem) -> Fraction:
    """Return the least cost over all orders of the jobs and all places of each job: the definition of the strategy."""
    formula = HopFormula.of(problem.topology, problem.hop_cost)
    rows = [row.tolist() for row in problem.topology.groups_of(problem.idle_nodes)]

    @cache
    def cost(positions: tuple[int, ...]) -> Fraction:
        n = len(positions)
        hops = formula.top * n * n - formula.bottom * n
        for weight, row in zip(formula.weights, rows, strict=True):
            groups = [row[position] for position in positions]
            hops -= weight * sum(groups.count(group) ** 2 for group in set(groups))
        return Fraction(hops, n)

    @cache
    def least(idle: tuple[int, ...], sizes: tuple[int, ...]) -> Fraction:
        found = []
        for size in dict.fromkeys(sizes):
            rest = list(sizes)
            rest.remove(size)
            for start in range(len(idle)):
                taken = {(start + step) % len(idle) for step in range(size)}
                block = tuple(idle[place] for place in sorted(taken))
                left = tuple(idle[place] for place in range(len(idle)) if place not in taken)
                found.append(cost(block) + (least(left, tuple(rest)) if rest else 0))
                if len(idle) == size:
                    break
        return min(found)

    sizes = tuple(sorted(problem.sizes.tolist()))
    return Fraction(formula.scale) * least(tuple(range(len(problem.idle_nodes))), sizes)


# -- FREE


@dataclass(frozen=True, slots=True, eq=False)
class _Leaf:
    """A leaf switch in the order of the search."""

    idle: int
    prices: list[int]  # price of 0, 1, .. of its nodes
    worth: list[int]  # largest total price of parts that fit into 0, 1, .. of its nodes
    pod: int
    ends_pod: bool


_JobState = tuple[int, int, int]
"""Size of a job, its nodes in earlier pods, and its nodes in all earlier leaves."""


class _FreeSearch:
    """Search that assigns leaf after leaf to the jobs.

    A state holds the nodes of each job in earlier pods, and in all earlier leaves. Under the prices, each job has a
    best way to continue if no other job is there. The *loss* of a choice is how much less jobs gain than in their best
    way, plus the part of the groups' worth that is not paid. The saving of an allocation is the bound by the prices
    less all losses. So the search follows only choices whose losses stay below the distance between that bound and the
    claimed cost.
    """

    def __init__(self, problem: TopologyProblem, classes: Iterable[PartClass]) -> None:
        self.problem = problem
        self.formula = HopFormula.of(problem.topology, problem.hop_cost)
        self.sizes = problem.sizes.tolist()
        # The unit of losses is a hop divided by the grid and by the least common multiple of the sizes.
        self.unit = math.lcm(*self.sizes)
        self.classes = tuple(classes)
        if any(len(one.groups) != 1 for one in self.classes):
            raise InvalidCertificateError("prices that guide a search must be those of single groups")
        self._read()
        self.steps = 0
        self.best_alone = cache(self._best_alone)
        self.choices = cache(self._choices)

    def _read(self) -> None:
        rows = self.problem.topology.groups_of(self.problem.idle_nodes)
        m = len(self.problem.idle_nodes)
        rows = np.concatenate((rows, np.zeros((2 - len(rows), m), dtype=np.int64))) if len(rows) < 2 else rows
        given = {(one.level, one.groups[0]): floors(one.prices, GRID) for one in self.classes}
        below_top = len(self.problem.topology.hops) - 1
        self.leaf_weight = self.formula.weights[0] if below_top >= 1 else 0
        self.pod_weight = self.formula.weights[1] if below_top >= 2 else 0
        largest = max(self.sizes)
        pairs, counts = np.unique(np.stack((rows[1], rows[0])), axis=1, return_counts=True)
        pods, leaves = pairs.tolist()
        self.pod_prices: list[list[int]] = []
        self.pod_worth: list[int] = []
        self.leaves: list[_Leaf] = []
        for at, (pod, leaf, idle) in enumerate(zip(pods, leaves, counts.tolist(), strict=True)):
            ends = at + 1 == len(pods) or pods[at + 1] != pod
            prices = _lengthened(given.get((1, leaf), [0]) if below_top >= 1 else [0], min(idle, largest))
            self.leaves.append(_Leaf(idle, prices, _worths(prices, idle), len(self.pod_prices), ends))
            if ends:
                held = sum(count for other, count in zip(pods, counts.tolist(), strict=True) if other == pod)
                of_pod = _lengthened(given.get((2, pod), [0]) if below_top >= 2 else [0], min(held, largest))
                self.pod_prices.append(of_pod)
                self.pod_worth.append(_worths(of_pod, held)[held])
        # Idle nodes from each leaf on.
        self.behind = [sum(leaf.idle for leaf in self.leaves[at:]) for at in range(len(self.leaves) + 1)]

    def bound(self, cost: Fraction) -> Fraction:
        """Return the claimed cost if no allocation costs less, otherwise a lower bound of the cost."""
        scale = Fraction(self.formula.scale)
        hops = sum(self.formula.top * n - self.formula.bottom for n in self.sizes)
        most = sum(self.best_alone(n, 0, 0, 0) * (self.unit // n) for n in self.sizes)
        most += self.unit * (sum(leaf.worth[leaf.idle] for leaf in self.leaves) + sum(self.pod_worth))
        # An allocation that is cheaper than claimed loses less than this.
        allowed = most - (hops - cost / scale) * GRID * self.unit
        if allowed <= 0:
            return cost
        least = self._least_loss(allowed)
        if least is None:
            return cost
        lower: Fraction = scale * (hops - (most - least) / Fraction(GRID * self.unit))
        return min(cost, lower)

    def _least_loss(self, allowed: Fraction) -> Fraction | None:
        """Return the least loss of an allocation that loses less than ``allowed``; None if there is none."""
        states: dict[tuple[_JobState, ...], int] = {tuple((n, 0, 0) for n in sorted(self.sizes)): 0}
        for at in range(len(self.leaves)):
            after: dict[tuple[_JobState, ...], int] = {}
            for state, loss in states.items():
                for following, more in self._shared_out(at, state, allowed - loss):
                    key = tuple(sorted(following))
                    if loss + more < after.get(key, allowed):
                        after[key] = loss + more
            if len(after) > MOST_STATES or self.steps > MOST_TRIED:
                raise _too_large()
            states = after
        return Fraction(min(states.values())) if states else None

    def _shared_out(
        self, at: int, state: tuple[_JobState, ...], slack: Fraction
    ) -> Iterator[tuple[list[_JobState], int]]:
        """Yield the state after a leaf, and the loss, for each division of its nodes that loses less than the slack."""
        leaf = self.leaves[at]
        wanted = sum(n - placed for n, _, placed in state)
        options = [[(taken, lost) for taken, lost in self.choices(at, job) if lost < slack] for job in state]

        def rest(job: int, room: int, paid: int, lost: int, taken: list[int]) -> Iterator[tuple[list[int], int]]:
            self.steps += 1
            # The remaining jobs pay at most the worth of the remaining room.
            unpaid = self.unit * (leaf.worth[leaf.idle] - paid - leaf.worth[room])
            if lost + unpaid >= slack:
                return
            if job == len(state):
                # The nodes that jobs still need have to fit behind this leaf.
                if wanted - (leaf.idle - room) <= self.behind[at + 1]:
                    yield taken, lost + self.unit * (leaf.worth[leaf.idle] - paid)
                return
            for nodes, more in options[job]:
                if nodes <= room:
                    yield from rest(job + 1, room - nodes, paid + leaf.prices[nodes], lost + more, [*taken, nodes])

        for taken, lost in rest(0, leaf.idle, 0, 0, []):
            following, of_pod = [], 0
            for (n, before, placed), nodes in zip(state, taken, strict=True):
                inside = placed + nodes - before
                of_pod += self.pod_prices[leaf.pod][inside]
                following.append((n, placed + nodes if leaf.ends_pod else before, placed + nodes))
            if leaf.ends_pod:
                lost += self.unit * (self.pod_worth[leaf.pod] - of_pod)
            if lost < slack:
                yield following, lost

    def _choices(self, at: int, job: _JobState) -> list[tuple[int, int]]:
        """Return each number of nodes that a job may take from a leaf, and the loss against the job's best way."""
        n, before, placed = job
        best = self.best_alone(n, at, before, placed)
        found = []
        for nodes in range(min(self.leaves[at].idle, n - placed) + 1):
            gained = self._gain(n, at, before, placed, nodes)
            if gained is not None:
                found.append((nodes, (best - gained) * (self.unit // n)))
        return found

    def _gain(self, n: int, at: int, before: int, placed: int, nodes: int) -> int | None:
        """Return the most that a job still gains if it takes ``nodes`` from a leaf; None if too few nodes remain."""
        leaf, inside = self.leaves[at], placed + nodes - before
        if inside >= len(self.pod_prices[leaf.pod]):
            return None
        gain = GRID * self.leaf_weight * nodes**2 - n * leaf.prices[nodes]
        if leaf.ends_pod:
            gain += GRID * self.pod_weight * inside**2 - n * self.pod_prices[leaf.pod][inside]
            before = placed + nodes
        further = self.best_alone(n, at + 1, before, placed + nodes)
        return None if further == IMPOSSIBLE else gain + further

    def _best_alone(self, n: int, at: int, before: int, placed: int) -> int:
        """Return the most that a job gains from leaf ``at`` on, times its nodes, if no other job takes nodes."""
        if at == len(self.leaves):
            return 0 if placed == n else IMPOSSIBLE
        if n - placed > self.behind[at]:
            return IMPOSSIBLE
        found = (self._gain(n, at, before, placed, nodes) for nodes in range(min(self.leaves[at].idle, n - placed) + 1))
        return max((gain for gain in found if gain is not None), default=IMPOSSIBLE)


def _lengthened(prices: list[int], most: int) -> list[int]:
    return [*prices[: most + 1], *itertools.repeat(prices[-1], most + 1 - len(prices))]


def _worths(prices: list[int], idle: int) -> list[int]:
    """Return the largest total price of parts that fit into 0, 1, .. nodes."""
    found = [0]
    for room in range(1, idle + 1):
        sold = (found[room - nodes] + prices[nodes] for nodes in range(1, min(room, len(prices) - 1) + 1))
        found.append(max(found[room - 1], *sold))
    return found
