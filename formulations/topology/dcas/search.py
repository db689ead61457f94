"""The search for the best DCAS allocation: rounds with an increasing limit on the excess over the Lagrangian bound.

Incumbents are found by placing the jobs one after the other in random orders, each on a block of least excess, or
nearly so. A round that finds nothing proves that the optimum exceeds the bound by at least the limit. The first round
that finds an allocation has found the optimum. Most windows are solved with a limit far below the distance to the first
incumbent.
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from numba import float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import HopFormula
from allocopt.formulations.topology.dcas.bounds import BOUND_KERNELS, Prices, Reach, fill_reach
from allocopt.formulations.topology.dcas.kernels import FULL, N_PARTS, PAUSED, Tables, advance
from allocopt.formulations.topology.dcas.window import WINDOW, DcasWindow, Levels
from allocopt.kernels.arrays import put, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.random import lehmer_uniform
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.certificates import PartPrices
from allocopt.problems.topology.second_search import Searched
from allocopt.problems.topology.tables import encode, node_prices
from allocopt.solving import Run, StopReason
from allocopt.solving.budget import Clock

NOISE = 0.012  # largest noise on the cost of a block, relative to the bound of the window
DECODING_SLICE = 100_000  # positions between two looks at the clock: a few milliseconds
SLICE = 100_000  # table entries between two looks at the clock: a few milliseconds
# Room of the tables in parts: at first, and at most (0.7 GB). There is room for a quarter as many fillings.
FIRST_CAPACITY, LARGEST_CAPACITY = 1 << 17, 1 << 24
# Limit of the first round, relative to the bound. From round to round it grows by a factor from LEAST_GROWTH to GROWTH.
FIRST_LIMIT, GROWTH, LEAST_GROWTH = 0.004, 1.6, 1.1
SNAP = 1.3  # a limit within this factor of the incumbent's excess is raised to it, so that the round is the last one
MANY_JOBS = 6  # least number of jobs for which rounds are long enough to pay for a second ascent of the prices
DECODES = 100  # how often all jobs are placed under zero prices, and under the prices after each ascent
# After a round of at least LONG_ROUND parts, the jobs are placed MORE_DECODES times to find a better incumbent.
LONG_ROUND, MORE_DECODES = 10_000, 250
NEGLIGIBLE = 1e-9  # relative improvement of an incumbent that is not worth a search


class _Decoding(NamedTuple):
    price: FloatArray  # `Prices.leaf`
    best: FloatArray  # `Prices.best`
    classes: IntArray  # class of every job's block, shape (J,)
    order: IntArray  # order in which jobs are placed
    left: IntArray  # positions that are still idle, in order, shape (m,)
    owners: IntArray  # block that owns each position, J for the leftover
    best_owners: IntArray
    in_leaf: IntArray  # nodes of a block by leaf; all 0 between two blocks
    in_pod: IntArray  # nodes of a block by pod; all 0 between two blocks
    random: IntArray  # state of the random numbers, one entry


@inlined
def _count(window: DcasWindow, decoding: _Decoding, position: int, by: int, factor: float) -> float:
    # Add a node to the block (`by` = 1) or remove it (-1); return the change of the block's prices less savings.
    leaf = window.leaf[position]
    pod = window.pod[leaf]
    x, y = decoding.in_leaf[leaf], decoding.in_pod[pod]
    decoding.in_leaf[leaf] += by
    decoding.in_pod[pod] += by
    saving = window.weights[0] * (2 * by * x + 1) + window.weights[1] * (2 * by * y + 1)
    return float(by * decoding.price[leaf] - factor * saving)


@inlined
def _best_start(
    window: DcasWindow, decoding: _Decoding, n_left: int, n: int, factor: float, noise: float
) -> tuple[int, float]:
    # Among the blocks of n nodes on the circle of the remaining positions, return the start and value (prices less
    # savings) of the one whose value plus noise is least.
    value = 0.0
    for index in range(n):
        value += _count(window, decoding, decoding.left[index], 1, factor)
    best, best_value, least = 0, value, np.inf
    for start in range(n_left):
        disturbed = value + noise * lehmer_uniform(decoding.random)
        if disturbed < least:
            best, best_value, least = start, value, disturbed
        entering = start + n
        if entering >= n_left:
            entering -= n_left
        value += _count(window, decoding, decoding.left[start], -1, factor)
        value += _count(window, decoding, decoding.left[entering], 1, factor)
    for leaf in range(decoding.in_leaf.size):
        decoding.in_leaf[leaf] = 0
    for pod in range(decoding.in_pod.size):
        decoding.in_pod[pod] = 0
    return best, best_value


@inlined
def _place(window: DcasWindow, decoding: _Decoding, noise: float, most: float) -> float:
    # Place the jobs in order; return the excess, or infinity once it reaches `most`.
    n_left, excess = window.leaf.size, 0.0
    for position in range(n_left):
        decoding.left[position] = position
        decoding.owners[position] = decoding.order.size
    for index in range(decoding.order.size):
        block = decoding.order[index]
        c = decoding.classes[block]
        n = window.sizes[c]
        start, value = _best_start(window, decoding, n_left, n, window.factor[c], noise)
        excess += value + decoding.best[c]
        if excess >= most:
            return np.inf
        for taken in range(start, start + n):
            decoding.owners[decoding.left[taken % n_left]] = block
        kept = 0
        for place in range(n_left):
            if decoding.owners[decoding.left[place]] != block:
                decoding.left[kept] = decoding.left[place]
                kept += 1
        n_left = kept
    if n_left > 0:
        for index in range(n_left):
            excess += decoding.price[window.leaf[decoding.left[index]]]
        excess += decoding.best[decoding.best.size - 1]
    return excess


@kernel(float64(WINDOW, record_type(_Decoding), float64, float64, int64))
def _decode(window: DcasWindow, decoding: _Decoding, noise: float, most: float, times: int) -> float:
    """Place the jobs ``times`` times in random orders; return the least excess, or ``most`` if none is below it.

    If an excess is below ``most``, the allocation of least excess is written to ``best_owners``.
    """
    for _ in range(times):
        for index in range(decoding.order.size - 1, 0, -1):
            other = int(lehmer_uniform(decoding.random) * (index + 1))
            held = decoding.order[index]
            decoding.order[index] = decoding.order[other]
            decoding.order[other] = held
        strength = lehmer_uniform(decoding.random)
        excess = _place(window, decoding, noise * strength * strength, most)
        if excess < most:
            most = excess
            put(decoding.owners, decoding.best_owners)
    return most


class _Decoder:
    """Places the jobs one after the other on a window whose circle is cut before ``cut``, and offers allocations."""

    def __init__(self, problem: TopologyProblem, window: DcasWindow, cut: int) -> None:
        self._problem, self._window, self._cut = problem, window, cut
        jobs = np.repeat(np.arange(len(window.sizes)), window.counts)[window.factor.repeat(window.counts) > 0]
        left, owners, best_owners = np.zeros((3, len(window.leaf)), dtype=np.int64)
        in_leaf, in_pod = (np.zeros(len(one), dtype=np.int64) for one in (window.pod, window.pod_start[1:]))
        self.space = _Decoding(
            *(np.zeros(len(window.pod)), np.zeros(len(window.sizes)), jobs, np.arange(len(jobs)), left, owners),
            *(best_owners, in_leaf, in_pod, np.ones(1, dtype=np.int64)),
        )

    def improve(self, prices: Prices, times: int, run: Run) -> None:
        """Place all jobs ``times`` times under prices, or until the time is over; offer better allocations."""
        self.space.price[:], self.space.best[:] = prices.leaf, prices.best
        per_slice = max(1, DECODING_SLICE // (len(self._problem.jobs) * len(self._window.leaf)))
        for done in range(0, times, per_slice):
            if run.clock.expired() or run.objective is None or run.is_proved():
                return
            most = run.objective - prices.bound
            repeats = min(per_slice, times - done)
            if _decode(self._window, self.space, NOISE * abs(prices.bound), most, repeats) < most:
                self.offer(self.space.best_owners, run)

    def offer(self, owners: IntArray, run: Run) -> None:
        """Offer an allocation, given the block that owns each position; blocks are numbered by increasing size."""
        jobs = np.append(np.argsort(self._problem.sizes, kind="stable"), -1)
        run.offer(Allocation.of_owners(self._problem, np.roll(jobs[owners], self._cut)))


DCAS_KERNELS = (*BOUND_KERNELS, advance, _decode)  # compiled functions that the search calls from Python


def search_dcas(problem: TopologyProblem, run: Run) -> StopReason:
    """Search the window exactly, as far as time and memory allow; the run must have an incumbent."""
    encoding = encode(problem)
    levels = Levels.of(encoding)
    cut = int(levels.cuts[0])
    window = DcasWindow.of(encoding, levels, cut)
    decoder = _Decoder(problem, window, cut)
    prices = Prices.none(window)
    run.prove(prices.bound, partial(_priced, problem, window, cut, prices))
    decoder.improve(prices, DECODES, run)
    for _ in range(1 if len(problem.jobs) < MANY_JOBS else 2):
        if run.objective is not None and not run.is_proved():
            # A better incumbent improves the steps of the prices, and better prices improve the incumbent.
            prices = prices.raised(window, run.objective, run.clock)
            run.prove(prices.bound, partial(_priced, problem, window, cut, prices))
            decoder.improve(prices, DECODES, run)
    if run.is_proved() or run.clock.expired():
        return StopReason.TIME_LIMIT
    rounds, limit = _Rounds(window, prices, run.clock), FIRST_LIMIT * abs(prices.bound)
    while run.objective is not None:
        most = run.objective * (1 - NEGLIGIBLE) - prices.bound
        limit = most if limit * SNAP >= most else limit
        if limit > 0 and not rounds.fill(limit, run.clock):
            break
        owners = rounds.best_owners() if limit > 0 else None
        if owners is not None:
            decoder.offer(owners, run)
        if owners is not None or limit == most:
            run.prove(run.objective, Searched(run.objective))
            break
        run.prove(prices.bound + limit, Searched(prices.bound + limit))
        if rounds.parts_by_limit[-1][1] >= LONG_ROUND:
            decoder.improve(prices, MORE_DECODES, run)
        limit *= _growth(rounds.parts_by_limit)
    return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.COMPLETED


def _priced(problem: TopologyProblem, window: DcasWindow, cut: int, prices: Prices) -> PartPrices:
    """Return the certificate of the prices of leaves; the leftover takes the cheapest nodes."""
    of_position = prices.leaf[window.leaf]
    # Jobs pay only what exceeds the price of the dearest leftover node.
    left = len(of_position) - int(problem.sizes.sum())
    level = np.sort(of_position)[max(0, left - 1)]
    scale = HopFormula.of(problem.topology, problem.hop_cost).scale
    return node_prices(problem, np.roll(np.maximum(0.0, of_position - level) / scale, cut))


def _growth(parts_by_limit: list[tuple[float, int]]) -> float:
    # Return the factor by which the limit should grow, after rounds with these limits and numbers of parts. If the work
    # of a round is a power of its limit, the total work in the worst case is least if each round takes e times the work
    # of the one before.
    if len(parts_by_limit) < 2:
        return GROWTH
    (limit_before, parts_before), (limit, parts) = parts_by_limit[-2:]
    power = math.log((parts + 1) / (parts_before + 1)) / math.log(limit / limit_before)
    return min(max(math.exp(1 / max(power, 1.0)), LEAST_GROWTH), GROWTH)


class _Rounds:
    def __init__(self, window: DcasWindow, prices: Prices, clock: Clock) -> None:
        self._window = window
        width = np.where(window.factor > 0, window.sizes + 1, 1)
        ends = np.cumsum(len(window.pod) * (window.sizes + 1) * width)
        first = np.concatenate(([0], ends[:-1]))
        self._reach = Reach(prices.leaf, prices.best, np.empty(int(ends[-1])), first, width)
        self._tables = Tables.empty(window, FIRST_CAPACITY)
        self.parts_by_limit: list[tuple[float, int]] = []
        for c, leaf in np.ndindex(len(window.sizes), len(window.pod)):
            # If there is no time to fill these tables, there is none for a round either.
            if clock.expired():
                return
            fill_reach(window, self._reach, c, leaf)

    def fill(self, limit: float, clock: Clock) -> bool:
        """Fill the tables with all entries below ``limit``; return False if time or memory ran out."""
        self._tables.restart(self._window)
        ended = PAUSED
        while ended in (PAUSED, FULL):
            if clock.expired():
                return False
            ended = advance(self._window, self._reach, self._tables, limit, SLICE)
            if ended == FULL:
                if len(self._tables.parts.nested) >= LARGEST_CAPACITY:
                    return False
                # Take the largest size at once: memory is used only when it is written to, and little has to be copied.
                self._tables = self._tables.longer(LARGEST_CAPACITY)
        self.parts_by_limit.append((limit, int(self._tables.cursor[N_PARTS])))
        return True

    def best_owners(self) -> IntArray | None:
        """Return the block that owns each position in the best filling of the line; None if there is no filling.

        Blocks are numbered class by class.
        """
        parts, fillings, used, sizes = self._tables.parts, self._tables.fillings, self._window.used, self._window.sizes
        whole = np.flatnonzero(fillings.blocks[fillings.first[0] : fillings.last[0]] == len(used) - 1)
        if len(whole) == 0:
            return None
        owners = np.empty(len(self._window.leaf), dtype=np.int64)
        number = np.concatenate(([0], np.cumsum(self._window.counts[:-1])))
        waiting = [(int(fillings.first[0] + whole[0]), 0)]
        while waiting:
            filling, position = waiting.pop()
            part, rest = int(fillings.part[filling]), int(fillings.rest[filling])
            if rest >= 0:
                length = used[fillings.blocks[filling]] - used[fillings.blocks[rest]]
                waiting.append((rest, position + int(length)))
            at = np.arange(len(sizes)), position, sizes
            c = int(np.flatnonzero((parts.first[at] <= part) & (part < parts.last[at]))[0])
            while part >= 0:
                owners[position] = number[c]
                gap, part = int(parts.gap[part]), int(parts.rest[part])
                position += 1
                if gap >= 0:
                    waiting.append((gap, position))
                    position += int(used[fillings.blocks[gap]])
            number[c] += 1
        return owners
