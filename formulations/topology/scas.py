"""SCAS to proof by dynamic programs over the idle sequence: multisets of jobs, on the line and on the circle."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int16, int64, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.encoding import allocation_of_blocks
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.run import Run


@dataclass(frozen=True, slots=True, eq=False)
class Multisets:
    """All multisets of at most ``counts[r]`` jobs of each size.

    Parameters
    ----------
    strides
        Distance between a multiset's number and the number of the one with one more job of size r, shape ``(R,)``.
    digits
        Number of jobs of size r in each multiset, shape ``(R, S)``.
    used
        Nodes that each multiset takes, shape ``(S,)``.
    """

    strides: IntArray
    digits: IntArray
    used: IntArray

    @property
    def full(self) -> int:
        """Number of the multiset of all jobs."""
        return int(self.digits.shape[1]) - 1

    @classmethod
    def of(cls, sizes: IntArray, counts: IntArray) -> "Multisets":
        """Enumerate the multisets of ``counts[r]`` jobs of size ``sizes[r]``."""
        strides = np.concatenate(([1], np.cumprod(counts + 1)[:-1]))
        states = np.arange(np.prod(counts + 1))
        digits = states // strides[:, None] % (counts[:, None] + 1)
        return cls(strides, digits, sizes @ digits)


def number_of_multisets(sizes: IntArray) -> int:
    """Count the multisets of jobs of these sizes, one per job, without enumerating them."""
    _, counts = np.unique(sizes, return_counts=True)
    # Python integers: the product overflows 64 bits for a few hundred jobs.
    product = 1
    for count in counts.tolist():
        product *= count + 1
    return product


ChoiceArray = NDArray[np.int16]

SLICE = 1_000_000
"""Table entries times sizes between two looks at the clock: a few milliseconds."""


@kernel(
    void(
        *(float64[:, ::1], int16[:, ::1], float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1]),
        *(int64, int64, int64),
    ),
    allocates=True,
)
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
    digits, strides, used
        As in `Multisets`.
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


class _Straddle(NamedTuple):
    """The case that a job of size index ``r`` straddles the cut with ``behind`` nodes behind it.

    Its block begins at position ``start``, before the cut; ``bound`` is its cost plus the cheapest block of every other
    job.
    """

    r: int
    behind: int
    start: int
    cost: float
    bound: float


class Circle:
    """Searches the placements of all jobs on the circle, and records what it finds and proves.

    Parameters
    ----------
    problem, blocks
        The window, and the costs of its blocks.
    run
        The record.
    """

    def __init__(self, problem: TopologyProblem, blocks: Blocks, run: Run) -> None:
        self._problem, self._blocks, self._run = problem, blocks, run
        self._multisets = Multisets.of(blocks.sizes, blocks.counts)
        self._m, n_states = int(blocks.costs.shape[1]), self._multisets.full + 1
        self._best: FloatArray = np.empty((self._m + 1, n_states))
        self._choice: ChoiceArray = np.empty((self._m + 1, n_states), dtype=np.int16)

    def search_line(self) -> bool:
        """Find the best placement in which no job straddles the cut; return False if the time ran out."""
        if not self._fill(0):
            return False
        self._offer(self._starts(self._m, self._multisets.full))
        return True

    def search_straddling(self) -> bool:
        """Solve the cases that may beat the incumbent, the most promising first; return False if the time ran out.

        All cases with the same number of nodes behind the cut share the tables of one line. The least bound of the
        cases that are left bounds the whole problem.
        """
        cases = self._promising(self._straddling_cases())
        while cases:
            self._run.prove(cases[0].bound)
            behind = cases[0].behind
            if not self._fill(behind):
                return False
            for case in cases:
                if case.behind == behind:
                    self._solve_case(case)
            cases = self._promising(case for case in cases if case.behind != behind)
        return True

    def _straddling_cases(self) -> list[_Straddle]:
        total = self._blocks.cheapest_total()
        cases = []
        for r, size in enumerate(self._blocks.sizes.tolist()):
            others = total - float(self._blocks.costs[r].min())
            for behind in range(1, size):
                start = self._m - size + behind
                cost = float(self._blocks.costs[r, start])
                cases.append(_Straddle(r, behind, start, cost, others + cost))
        return sorted(cases, key=lambda case: case.bound)

    def _promising(self, cases: Iterable[_Straddle]) -> list[_Straddle]:
        return [case for case in cases if self._run.objective is None or case.bound < self._run.objective]

    def _solve_case(self, case: _Straddle) -> None:
        others = self._multisets.full - int(self._multisets.strides[case.r])
        cost = float(self._best[case.start, others]) + case.cost
        if self._run.objective is None or cost < self._run.objective:
            starts = self._starts(case.start, others)
            starts[case.r].append(case.start)
            self._offer(starts)

    def _fill(self, start: int) -> bool:
        """Fill the tables for the line that begins at ``start``; return False if the time ran out before the end."""
        blocks, multisets = self._blocks, self._multisets
        rows = max(1, SLICE // multisets.digits.size)
        for first in range(start, self._m + 1, rows):
            if self._run.clock.expired():
                return False
            last = min(self._m, first + rows - 1)
            of_multisets = multisets.digits, multisets.strides, multisets.used
            fill_positions(self._best, self._choice, blocks.costs, blocks.sizes, *of_multisets, start, first, last)
        return True

    def _starts(self, end: int, multiset: int) -> list[list[int]]:
        starts: list[list[int]] = [[] for _ in self._blocks.sizes]
        position = end
        while multiset > 0:
            r = int(self._choice[position, multiset])
            position -= 1 if r < 0 else int(self._blocks.sizes[r])
            if r >= 0:
                starts[r].append(position)
                multiset -= int(self._multisets.strides[r])
        return starts

    def _offer(self, starts: list[list[int]]) -> None:
        self._run.offer(allocation_of_blocks(self._problem, self._blocks.starts_of_jobs(self._problem, starts)))
