"""The search for the best DCAS allocation: rounds with a rising limit on the excess over the Lagrangian bound.

A round that finds nothing proves that the optimum exceeds the bound by its limit; the first that finds something has
found the optimum. Most windows are settled by a limit far below the distance to the first incumbent.
"""

import math

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving import Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Clock
from formulations.topology.dcas.bounds import Prices, Reach, ascend, fill_reach, good_prices, no_prices
from formulations.topology.dcas.decoding import Decoder, decode
from formulations.topology.dcas.kernels import FULL, N_PARTS, PAUSED, advance, empty_tables, longer_tables, restart
from formulations.topology.dcas.window import MOST_LEVELS, Window, class_sizes, cuts, distinct_levels, window_of

DCAS_KERNELS = (fill_reach, advance, decode, ascend)  # entries that the search calls
SLICE = 100_000  # entries looked at between two looks at the clock: a few milliseconds

FIRST_CAPACITY, LARGEST_CAPACITY = 1 << 17, 1 << 24
"""Parts that the tables have room for: at first, and at most (0.7 GB). Fillings have a quarter."""

LARGEST_INDEX = 20_000_000  # entries of the tables whose size is known beforehand: 160 MB
BITS = 62

FIRST_LIMIT, GROWTH, LEAST_GROWTH = 0.004, 1.6, 1.1
"""Limit of the first round, relative to the bound, and by what it grows from round to round."""

SNAP = 1.3  # a limit that comes as near as this to the incumbent's excess is raised to it: no other round can follow
MANY_JOBS = 6  # rounds of so many jobs are long enough to pay for a second ascent of the prices
DECODES = 100  # how often the jobs are placed one after the other, without prices and with them

LONG_ROUND, MORE_DECODES = 10_000, 250
"""After a round of so many parts it is worth while to look for a better incumbent: placing the jobs so many times."""

NEGLIGIBLE = 1e-9  # an incumbent that can be beaten by no more than this, relative to it, is not searched on


def dcas_refusal(problem: TopologyProblem) -> str | None:
    """Return why the window cannot be taken under DCAS, or None."""
    encoding = encode(problem)
    groups, _ = distinct_levels(encoding)
    if len(groups) > MOST_LEVELS:
        return f"{len(groups)} levels of switches below the top tell its idle nodes apart, dcas takes {MOST_LEVELS}"
    if len(cuts(groups)) == 0:
        return "idle nodes of a switch do not follow each other in the circular sequence, as dcas needs"
    sizes, counts = class_sizes(encoding)
    bits = sum(count.bit_length() + 1 for count in counts.tolist())
    if bits > BITS:
        return f"its jobs take {bits} bits to count by size, dcas takes {BITS}"
    n_leaves = 1 if len(groups) == 0 else int(groups[0].max()) + 1
    largest = int(encoding.sizes.max()) + 1
    entries = len(sizes) * (n_leaves * largest * largest + encoding.n_idle * (int(sizes.max()) + 1))
    if entries > LARGEST_INDEX:
        return f"its dcas tables would have {rounded(entries)} entries, the largest taken are {LARGEST_INDEX:,}"
    return None


def search_dcas(problem: TopologyProblem, run: Run) -> StopReason:
    """Search the window to proof, or as long as time and room last; the run has an incumbent."""
    encoding = encode(problem)
    groups, weights = distinct_levels(encoding)
    cut = int(cuts(groups)[0])
    window = window_of(encoding, groups, weights, cut)
    decoder = Decoder(problem, window, cut)
    prices = no_prices(window)
    run.prove(prices.bound)
    decoder.improve(prices, DECODES, run)
    for _ in range(1 if len(problem.jobs) < MANY_JOBS else 2):
        if run.objective is not None and not run.is_proved():
            # The better the incumbent, the better the steps of the prices, and the other way round.
            prices = good_prices(window, prices, run.objective, run.clock)
            run.prove(prices.bound)
            decoder.improve(prices, DECODES, run)
    if not run.is_proved() and not run.clock.expired():
        rounds = _Rounds(window, prices)
        if rounds.fill_reach(run.clock):
            _go_through(rounds, decoder, prices, run)
    return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.COMPLETED


def _go_through(rounds: "_Rounds", decoder: Decoder, prices: Prices, run: Run) -> None:
    limit = FIRST_LIMIT * abs(prices.bound)
    while run.objective is not None:
        most = run.objective * (1 - NEGLIGIBLE) - prices.bound
        limit = most if limit * SNAP >= most else limit
        if limit > 0 and not rounds.fill(limit, run.clock):
            return
        owners = rounds.best_owners() if limit > 0 else None
        if owners is not None:
            decoder.offer(owners, run)
        if owners is not None or limit == most:
            run.prove(run.objective)
            return
        run.prove(prices.bound + limit)
        if rounds.parts_by_limit[-1][1] >= LONG_ROUND:
            decoder.improve(prices, MORE_DECODES, run)
        limit *= growth(rounds.parts_by_limit)


def growth(parts_by_limit: list[tuple[float, int]]) -> float:
    """Return by what the limit had best grow after rounds of these limits, which kept so many parts.

    If the work of a round is a power of its limit, all rounds together cost least, at worst, where the last is e times
    as much work as the one before it.
    """
    if len(parts_by_limit) < 2:
        return GROWTH
    (limit_before, parts_before), (limit, parts) = parts_by_limit[-2:]
    power = math.log((parts + 1) / (parts_before + 1)) / math.log(limit / limit_before)
    return min(max(math.exp(1 / max(power, 1.0)), LEAST_GROWTH), GROWTH)


class _Rounds:
    def __init__(self, window: Window, prices: Prices) -> None:
        self._window = window
        width = np.where(window.factor > 0, window.sizes + 1, 1)
        ends = np.cumsum(len(window.pod) * (window.sizes + 1) * width)
        first = np.concatenate(([0], ends[:-1]))
        self._reach = Reach(prices.leaf, prices.best, np.empty(int(ends[-1])), first, width)
        self._tables = empty_tables(window, FIRST_CAPACITY)
        self.parts_by_limit: list[tuple[float, int]] = []

    def fill_reach(self, clock: Clock) -> bool:
        for c in range(len(self._window.sizes)):
            for leaf in range(len(self._window.pod)):
                if clock.expired():
                    return False
                fill_reach(self._window, self._reach, c, leaf)
        return True

    def fill(self, limit: float, clock: Clock) -> bool:
        """Fill the tables with all that stays below ``limit``; return False if time or room ran out."""
        restart(self._window, self._tables)
        ended = PAUSED
        while ended in (PAUSED, FULL):
            if clock.expired():
                return False
            ended = advance(self._window, self._reach, self._tables, limit, SLICE)
            if ended == FULL:
                if len(self._tables.parts.nested) >= LARGEST_CAPACITY:
                    return False
                # At once, for memory is taken only as it is written to, and there is little to copy yet.
                self._tables = longer_tables(self._tables, LARGEST_CAPACITY)
        self.parts_by_limit.append((limit, int(self._tables.cursor[N_PARTS])))
        return True

    def best_owners(self) -> IntArray | None:
        """Return the block that owns each position in the best filling of the line, blocks numbered class by class."""
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
