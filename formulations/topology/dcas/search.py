"""The search for the best DCAS allocation: rounds with a rising limit on the excess over the Lagrangian bound.

A round that finds nothing proves that the optimum exceeds the bound by its limit; the first that finds something has
found the optimum. Most windows are settled by a limit far below the distance to the first incumbent.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.encoding import encode
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Clock
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.sizes import rounded
from formulations.topology.dcas.bounds import Prices, Reach, empty_reach, fill_reach, good_prices, no_prices
from formulations.topology.dcas.decoding import Decoder
from formulations.topology.dcas.kernels import (
    FULL,
    N_PARTS,
    PAUSED,
    Fillings,
    Parts,
    Scratch,
    advance,
    empty_fillings,
    empty_parts,
    empty_scratch,
    first_cursor,
    longer_fillings,
    longer_parts,
)
from formulations.topology.dcas.window import (
    MOST_LEVELS,
    Classes,
    Sequence,
    bits_of,
    class_sizes,
    classes_of,
    cuts,
    distinct_levels,
    sequence_from,
)

SLICE = 100_000
"""Entries looked at between two looks at the clock: a few milliseconds."""

FIRST_CAPACITY, LARGEST_CAPACITY = 1 << 17, 1 << 24
"""Parts that the tables have room for: at first, and at most (0.7 GB). Fillings have a quarter."""

FIRST_LIMIT, GROWTH, LEAST_GROWTH = 0.004, 1.6, 1.1
"""Limit of the first round, relative to the bound, and by what it grows from round to round."""

SNAP = 1.3
"""A limit that comes as near as this to the incumbent's excess is raised to it: no other round can follow."""

LONG_ROUND, MORE_DECODES = 10_000, 250
"""After a round of so many parts it is worth while to look for a better incumbent: placing the jobs so many times."""

NEGLIGIBLE = 1e-9
"""An incumbent that can be beaten by no more than this, relative to it, is not searched on."""


@dataclass(slots=True, eq=False)
class Nesting:
    """The tables of one window, and the rounds that fill them.

    Parameters
    ----------
    sequence, classes
        The window.
    reach
        Bounds on what blocks can save.
    parts, fillings, scratch
        The tables.
    n_parts
        Parts that the last round kept.
    parts_by_limit
        Limit of each round that came to its end, and the parts that it kept.
    """

    sequence: Sequence
    classes: Classes
    reach: Reach
    parts: Parts
    fillings: Fillings
    scratch: Scratch
    n_parts: int = 0
    parts_by_limit: list[tuple[float, int]] = field(default_factory=list)

    @classmethod
    def of(cls, sequence: Sequence, classes: Classes, prices: Prices) -> "Nesting":
        """Allocate the tables of a window."""
        reach = empty_reach(sequence, classes, prices.leaf, prices.best)
        return cls(
            sequence,
            classes,
            reach,
            empty_parts(sequence, classes, FIRST_CAPACITY),
            empty_fillings(sequence, FIRST_CAPACITY // 4),
            empty_scratch(classes),
        )

    def fill_reach(self, clock: Clock) -> bool:
        """Fill the bounds; return False if the time ran out."""
        for c in range(len(self.classes.sizes)):
            for leaf in range(len(self.sequence.pod)):
                if clock.expired():
                    return False
                fill_reach(self.sequence, self.classes, self.reach, c, leaf)
        return True

    def fill(self, limit: float, clock: Clock) -> bool:
        """Fill the tables with all that stays below ``limit``; return False if time or room ran out."""
        cursor = first_cursor(self.sequence)
        self.scratch.stamp[:] = 0
        self.scratch.saving_stamp[:] = 0
        ended = PAUSED
        while ended in (PAUSED, FULL):
            if clock.expired():
                return False
            ended = advance(
                self.sequence, self.classes, self.reach, self.parts, self.fillings, self.scratch, cursor, limit, SLICE
            )
            if ended == FULL and not self._grow():
                return False
        self.n_parts = int(cursor[N_PARTS])
        self.parts_by_limit.append((limit, self.n_parts))
        return True

    def best(self) -> int:
        """Return the filling of the whole sequence, or -1 if none stayed below the limit."""
        first, last = self.fillings.first[0], self.fillings.last[0]
        whole = np.flatnonzero(self.fillings.blocks[first:last] == len(self.classes.used) - 1)
        return int(first + whole[0]) if len(whole) else -1

    def owners(self, filling: int) -> IntArray:
        """Return the number of the block that owns each position in a filling of the whole sequence.

        Blocks are numbered class by class, so that the leftover is the last one.
        """
        owners = np.empty(len(self.sequence.leaf), dtype=np.int64)
        number = np.concatenate(([0], np.cumsum(self.classes.counts[:-1])))
        waiting = [(filling, 0)]
        while waiting:
            filling, position = waiting.pop()
            blocks, part = int(self.fillings.blocks[filling]), int(self.fillings.part[filling])
            rest = int(self.fillings.rest[filling])
            if rest >= 0:
                length = self.classes.used[blocks] - self.classes.used[self.fillings.blocks[rest]]
                waiting.append((rest, position + int(length)))
            c = self._class_of(part, position)
            while part >= 0:
                owners[position] = number[c]
                gap, part = int(self.parts.gap[part]), int(self.parts.rest[part])
                position += 1
                if gap >= 0:
                    waiting.append((gap, position))
                    position += int(self.classes.used[self.fillings.blocks[gap]])
            number[c] += 1
        return owners

    def _class_of(self, part: int, position: int) -> int:
        """Class of a whole block that begins at a position."""
        every = np.arange(len(self.classes.sizes))
        first = self.parts.first[every, position, self.classes.sizes]
        last = self.parts.last[every, position, self.classes.sizes]
        return int(np.flatnonzero((first <= part) & (part < last))[0])

    def _grow(self) -> bool:
        """Make the tables as large as may be; return False if they are.

        At once, for memory is taken only as it is written to, and there is little to copy yet.
        """
        if len(self.parts.nested) >= LARGEST_CAPACITY:
            return False
        self.parts = longer_parts(self.parts, LARGEST_CAPACITY)
        self.fillings = longer_fillings(self.fillings, LARGEST_CAPACITY // 4)
        return True


def growth(parts_by_limit: list[tuple[float, int]]) -> float:
    """Return by what the limit had best grow after these rounds.

    If the work of a round is a power of its limit, all rounds together cost least, at worst, where the last is e times
    as much work as the one before it.
    """
    if len(parts_by_limit) < 2:
        return GROWTH
    (limit_before, parts_before), (limit, parts) = parts_by_limit[-2:]
    power = math.log((parts + 1) / (parts_before + 1)) / math.log(limit / limit_before)
    return min(max(math.exp(1 / max(power, 1.0)), LEAST_GROWTH), GROWTH)


def search(nesting: Nesting, decoder: Decoder, prices: Prices, run: Run) -> None:
    """Go through the rounds until the run's incumbent is proved, or time or room runs out.

    Parameters
    ----------
    nesting
        The tables of the window, the reach filled.
    decoder
        Finds better incumbents where rounds become long.
    prices
        Prices and bound.
    run
        The record, with an incumbent.
    """
    limit = FIRST_LIMIT * abs(prices.bound)
    while run.objective is not None:
        most = run.objective * (1 - NEGLIGIBLE) - prices.bound
        limit = most if limit * SNAP >= most else limit
        if limit > 0 and not nesting.fill(limit, run.clock):
            return
        filling = nesting.best() if limit > 0 else -1
        if filling >= 0:
            decoder.offer(nesting.owners(filling), run)
        if filling >= 0 or limit == most:
            run.prove(run.objective)
            return
        run.prove(prices.bound + limit)
        if nesting.n_parts >= LONG_ROUND:
            decoder.improve(prices, MORE_DECODES, run)
        limit *= growth(nesting.parts_by_limit)


LARGEST_INDEX = 20_000_000
"""Entries of the tables whose size is known beforehand: 160 MB."""

BITS = 62

MANY_JOBS = 6
"""Rounds of so many jobs are long enough to pay for a second ascent of the prices."""

DECODES = 100
"""How often the jobs are placed one after the other, without prices and with them."""


def dcas_refusal(problem: TopologyProblem) -> str | None:
    """Why the window cannot be taken under DCAS, or None."""
    encoding = encode(problem)
    groups, _ = distinct_levels(encoding)
    if len(groups) > MOST_LEVELS:
        return f"{len(groups)} levels of switches below the top tell its idle nodes apart, dcas takes {MOST_LEVELS}"
    if len(cuts(groups)) == 0:
        return "idle nodes of a switch do not follow each other in the circular sequence, as dcas needs"
    sizes, counts = class_sizes(encoding)
    if bits_of(counts) > BITS:
        return f"its jobs take {bits_of(counts)} bits to count by size, dcas takes {BITS}"
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
    sequence, classes = sequence_from(groups, weights, cut), classes_of(encoding)
    decoder = Decoder.of(problem, sequence, classes, cut)
    prices = no_prices(sequence, classes)
    run.prove(prices.bound)
    decoder.improve(prices, DECODES, run)
    for _ in range(1 if len(problem.jobs) < MANY_JOBS else 2):
        if run.objective is not None and not run.is_proved():
            # The better the incumbent, the better the steps of the prices, and the other way round.
            prices = good_prices(sequence, classes, prices, run.objective, run.clock)
            run.prove(prices.bound)
            decoder.improve(prices, DECODES, run)
    if not run.is_proved() and not run.clock.expired():
        nesting = Nesting.of(sequence, classes, prices)
        if nesting.fill_reach(run.clock):
            search(nesting, decoder, prices, run)
    return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.COMPLETED
