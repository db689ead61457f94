"""The SCAS dynamic program: positions times multisets of job sizes, on the line and on the circle.

On a line ``best[p, s]`` is the least cost of placing multiset s within the positions before p. The idle sequence is a
circle, so that at most one job straddles the cut between its end and its head; every such job, with every number of
nodes behind the cut, is a case of its own, and a case is left out when even the cheapest blocks for the other jobs
cannot make it better than the incumbent. That bound leaves few cases where the cut lies between two pods, as it mostly
does.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numba import float64, int16, int64, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from allocopt.problems.blocks import Blocks
from allocopt.problems.encoding import allocation_of_blocks
from allocopt.problems.topology import TopologyProblem
from allocopt.solving.budget import Clock
from allocopt.solving.run import Run
from formulations.topology.multisets import Multisets

ChoiceArray = NDArray[np.int16]

TABLES = (float64[:, ::1], int16[:, ::1], float64[:, ::1])
SIGNATURE = void(*TABLES, int64[::1], int64[:, ::1], int64[::1], int64[::1], int64, int64, int64)


@kernel(SIGNATURE, allocates=True)
def fill_positions(
    best: FloatArray,
    choice: ChoiceArray,
    costs: FloatArray,
    sizes: IntArray,
    digits: IntArray,
    strides: IntArray,
    used: IntArray,
    start: int,
    first: int,
    last: int,
) -> None:
    """Fill rows ``first .. last`` of the tables of the line that begins at position ``start``.

    ``best[p, s]`` is the least cost of placing multiset s within positions ``start .. p - 1``:
    ``best[p, s] = min(best[p - 1, s], min_r best[p - n_r, s - e_r] + costs[r, p - n_r])``.

    Parameters
    ----------
    best, choice
        Tables of shape ``(m + 1, S)``, written in place; a choice is the size r placed last, or -1 for an idle node.
    costs
        Cost of the block of size r that begins at each position, shape ``(R, m)``.
    sizes
        Distinct job sizes, shape ``(R,)``.
    digits
        Number of jobs of size r in multiset s, shape ``(R, S)``.
    strides
        Distance from a multiset to the one with one more job of size r, shape ``(R,)``.
    used
        Nodes that multiset s takes, shape ``(S,)``.
    start
        First position of the line.
    first, last
        Rows to fill; the rows ``start .. first - 1`` are filled already.
    """
    n_sizes, n_states = digits.shape
    for position in range(first, last + 1):
        if position == start:
            best[position, :] = np.inf
            best[position, 0] = 0.0
            choice[position, :] = -1
            continue
        for state in range(n_states):
            best[position, state] = best[position - 1, state]
            choice[position, state] = -1
        for r in range(n_sizes):
            before = position - sizes[r]
            if before < start:
                continue
            for state in range(strides[r], n_states):
                if digits[r, state] == 0 or used[state] > position - start:
                    continue
                cost = best[before, state - strides[r]] + costs[r, before]
                if cost < best[position, state]:
                    best[position, state] = cost
                    choice[position, state] = r


SLICE = 1_000_000
"""Table entries times sizes between two looks at the clock: a few milliseconds."""


class Line:
    """Best placements of every multiset of jobs on the line from some position to the end of the sequence.

    Parameters
    ----------
    blocks
        Costs of the blocks.
    multisets
        The states.
    """

    def __init__(self, blocks: Blocks, multisets: Multisets) -> None:
        n_sizes, m = blocks.costs.shape
        n_states = multisets.full + 1
        self._blocks = blocks
        self._multisets = multisets
        self._best: FloatArray = np.empty((m + 1, n_states))
        self._choice: ChoiceArray = np.empty((m + 1, n_states), dtype=np.int16)
        self._rows_per_slice = max(1, SLICE // (n_sizes * n_states))

    def fill(self, start: int, clock: Clock) -> bool:
        """Fill the tables for the line that begins at ``start``; return False if the time ran out before the end."""
        m = self._blocks.costs.shape[1]
        for first in range(start, m + 1, self._rows_per_slice):
            if clock.expired():
                return False
            last = min(m, first + self._rows_per_slice - 1)
            fill_positions(
                self._best,
                self._choice,
                self._blocks.costs,
                self._blocks.sizes,
                self._multisets.digits,
                self._multisets.strides,
                self._multisets.used,
                start,
                first,
                last,
            )
        return True

    def cost(self, end: int, multiset: int) -> float:
        """Least cost of a multiset on the positions from the start to ``end - 1``; infinite where it has no room."""
        return float(self._best[end, multiset])

    def starts(self, end: int, multiset: int) -> list[list[int]]:
        """Trace the best placement back: the start positions chosen for each distinct size."""
        starts: list[list[int]] = [[] for _ in self._blocks.sizes]
        position = end
        while multiset > 0:
            r = int(self._choice[position, multiset])
            position -= 1 if r < 0 else int(self._blocks.sizes[r])
            if r >= 0:
                starts[r].append(position)
                multiset -= int(self._multisets.strides[r])
        return starts


@dataclass(frozen=True, slots=True)
class Straddle:
    """The case that a job of size index ``r`` straddles the cut with ``behind`` nodes behind it.

    Parameters
    ----------
    r
        Index of the job's size.
    behind
        Number of its nodes at the head of the sequence.
    start
        Position at which its block begins, before the cut.
    cost
        Cost of its block.
    bound
        That cost plus the cheapest block of every other job.
    """

    r: int
    behind: int
    start: int
    cost: float
    bound: float


def straddling_cases(blocks: Blocks) -> list[Straddle]:
    """All cases in which one job straddles the cut, the least bound first."""
    m = blocks.costs.shape[1]
    total = blocks.cheapest_total()
    cases = []
    for r, size in enumerate(blocks.sizes.tolist()):
        others = total - float(blocks.costs[r].min())
        for behind in range(1, size):
            start = m - size + behind
            cost = float(blocks.costs[r, start])
            cases.append(Straddle(r, behind, start, cost, others + cost))
    return sorted(cases, key=lambda case: case.bound)


class Circle:
    """Searches the placements of all jobs on the circle, and records what it finds and proves.

    Parameters
    ----------
    problem
        The window.
    blocks
        Costs of its blocks.
    run
        The record.
    """

    def __init__(self, problem: TopologyProblem, blocks: Blocks, run: Run) -> None:
        self._problem = problem
        self._blocks = blocks
        self._run = run
        self._multisets = Multisets.of(blocks.sizes, blocks.counts)
        self._line = Line(blocks, self._multisets)

    def search_line(self) -> bool:
        """Find the best placement in which no job straddles the cut; return False if the time ran out."""
        if not self._line.fill(0, self._run.clock):
            return False
        self._offer(self._line.starts(self._blocks.costs.shape[1], self._multisets.full))
        return True

    def search_straddling(self) -> bool:
        """Solve the cases that may beat the incumbent, the most promising first; return False if the time ran out.

        All cases with the same number of nodes behind the cut share the tables of one line. The least bound of the
        cases that are left bounds the whole problem.
        """
        cases = self._promising(straddling_cases(self._blocks))
        while cases:
            self._run.prove(cases[0].bound)
            behind = cases[0].behind
            if not self._line.fill(behind, self._run.clock):
                return False
            for case in cases:
                if case.behind == behind:
                    self._offer_case(case)
            cases = self._promising(case for case in cases if case.behind != behind)
        return True

    def _promising(self, cases: Iterable[Straddle]) -> list[Straddle]:
        """Leave out the cases that cannot be better than the incumbent."""
        return [case for case in cases if self._run.objective is None or case.bound < self._run.objective]

    def _offer_case(self, case: Straddle) -> None:
        """Offer the best placement of a case if it beats the incumbent."""
        others = self._multisets.full - int(self._multisets.strides[case.r])
        cost = self._line.cost(case.start, others) + case.cost
        if self._run.objective is None or cost < self._run.objective:
            starts = self._line.starts(case.start, others)
            starts[case.r].append(case.start)
            self._offer(starts)

    def _offer(self, starts: list[list[int]]) -> None:
        """Offer the allocation with these start positions per distinct size."""
        self._run.offer(allocation_of_blocks(self._problem, self._blocks.starts_of_jobs(self._problem, starts)))
