"""The decoder of a window: it offers the allocations that it finds to the run."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.encoding import allocation_of_owners
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.run import Run
from formulations.dynamic.dcas.classes import Classes
from formulations.dynamic.dcas.decoding.kernels import Decoding, decode, decoding_of
from formulations.dynamic.dcas.prices.ascent import Prices
from formulations.dynamic.dcas.reach import Reach
from formulations.dynamic.dcas.sequence import Sequence

NOISE = 0.012
"""Largest noise on the cost of a block, relative to the bound of the window."""

SLICE = 100_000
"""Positions looked at between two looks at the clock: a few milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Decoder:
    """Places the jobs of a window one after the other.

    Parameters
    ----------
    problem
        The window.
    sequence, classes
        The same as kernels take it.
    cut
        Idle position with which the sequence begins.
    space
        Working space.
    """

    problem: TopologyProblem
    sequence: Sequence
    classes: Classes
    cut: int
    space: Decoding

    @classmethod
    def of(cls, problem: TopologyProblem, sequence: Sequence, classes: Classes, cut: int) -> "Decoder":
        """Allocate the working space of a window."""
        return cls(problem, sequence, classes, cut, decoding_of(sequence, classes))

    def improve(self, prices: Prices, times: int, run: Run) -> None:
        """Place all jobs so many times under prices, or until the time runs out; offer what beats the incumbent."""
        reach = Reach(prices.leaf, prices.best, np.empty(0), *(np.empty(0, dtype=np.int64) for _ in range(2)))
        per_slice = max(1, SLICE // (len(self.problem.jobs) * len(self.sequence.leaf)))
        for done in range(0, times, per_slice):
            if run.clock.expired() or run.objective is None or run.is_proved():
                return
            most = run.objective - prices.bound
            repeats = min(per_slice, times - done)
            noise = NOISE * abs(prices.bound)
            if decode(self.sequence, self.classes, reach, self.space, noise, most, repeats) < most:
                self.offer(self.space.best_owners, run)

    def offer(self, owners: IntArray, run: Run) -> None:
        """Offer an allocation given by the block that owns each position, blocks numbered by rising size."""
        jobs = np.append(np.argsort(self.problem.sizes, kind="stable"), -1)
        run.offer(allocation_of_owners(self.problem, np.roll(jobs[owners], self.cut)))
