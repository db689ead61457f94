"""Solver ``dp``: SCAS, and DCAS (`dcas`, see ``docs/dcas.md``), solved exactly by dynamic programming.

For SCAS the program runs over the multisets of jobs, on the line and on the circle of idle positions.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import float64, int16, int64, void
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.formulations.topology.dcas.search import DCAS_KERNELS, search_dcas
from allocopt.formulations.topology.dcas.window import Multisets, dcas_refusal
from allocopt.kernels.compiled import kernel
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.second_search import Searched
from allocopt.problems.topology.tables import BLOCK_KERNELS, Blocks
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Budget
from allocopt.topology import TopologySolver

LARGEST_TABLE = 10_000_000
MANY_JOBS = 9  # least number of jobs for which DCAS starts with the SCAS optimum; fewer jobs take less time without it
SLICE = 1_000_000  # table entries times sizes between two looks at the clock: a few milliseconds

ChoiceArray = NDArray[np.int16]


@kernel(
    void(
        *(float64[:, ::1], int16[:, ::1], float64[:, ::1], int64[::1], int64[:, ::1], int64[::1], int64[::1]),
        *(int64, int64, int64),
    ),
    allocates=True,
)
def _fill_positions(
    best: FloatArray,  # least costs, see below, shape (m + 1, S)
    choice: ChoiceArray,  # index of the size placed last, or -1 for an idle node, shape (m + 1, S)
    costs: FloatArray,  # cost of the block of size r that begins at each position, shape (R, m)
    sizes: IntArray,
    digits: IntArray,
    strides: IntArray,
    used: IntArray,
    start: int,
    first: int,
    last: int,
) -> None:
    """Fill rows ``first .. last`` of the tables of the line that begins at ``start``; earlier rows must be filled.

    ``best[p, s] = min(best[p - 1, s], min_r best[p - n_r, s - e_r] + costs[r, p - n_r])`` is the least cost of placing
    multiset s within positions ``start .. p - 1``.
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
        # States are the inner loop, so that rows are read and written in the order of memory.
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


class _Circle:
    """Searches the placements of all jobs on the circle, and records solutions and bounds."""

    def __init__(self, problem: TopologyProblem, blocks: Blocks, run: Run) -> None:
        self._problem, self._blocks, self._run = problem, blocks, run
        self._multisets = Multisets.of(blocks.sizes, blocks.counts)
        self._m, n_states = int(blocks.costs.shape[1]), len(self._multisets.used)
        self._best: FloatArray = np.empty((self._m + 1, n_states))
        self._choice: ChoiceArray = np.empty((self._m + 1, n_states), dtype=np.int16)

    def search(self) -> bool:
        """Find the best placement of all jobs; return False if the time ran out."""
        # First, search the placements in which no job straddles the cut. Then search the cases in which a given block
        # straddles it, the most promising first, as long as they may beat the incumbent. Cases with equally many nodes
        # behind the cut use the tables of the same line.
        full = len(self._multisets.used) - 1
        if not self._fill(0):
            return False
        self._offer(self._starts(self._m, full))
        total, costs, cases = self._blocks.cheapest_total(), self._blocks.costs, []
        for r, size in enumerate(self._blocks.sizes.tolist()):
            others = total - float(costs[r].min())
            # Bound of the case, nodes behind the cut, index of the size, and start of the block.
            cases += [
                (others + float(costs[r, start]), start + size - self._m, r, start)
                for start in range(self._m - size + 1, self._m)
            ]
        cases.sort(key=lambda case: case[0])
        # The first remaining case has the least bound, which is a bound for the whole problem.
        while cases := [case for case in cases if self._run.objective is None or case[0] < self._run.objective]:
            self._run.prove(cases[0][0], Searched(cases[0][0]))
            behind = cases[0][1]
            if not self._fill(behind):
                return False
            for _, _, r, start in (case for case in cases if case[1] == behind):
                rest = full - int(self._multisets.strides[r])
                cost = float(self._best[start, rest]) + float(costs[r, start])
                if self._run.objective is None or cost < self._run.objective:
                    starts = self._starts(start, rest)
                    starts[r].append(start)
                    self._offer(starts)
            cases = [case for case in cases if case[1] != behind]
        return True

    def _fill(self, start: int) -> bool:
        """Fill the tables for the line that begins at ``start``; return False if the time ran out."""
        blocks, sets = self._blocks, self._multisets
        tables = self._best, self._choice, blocks.costs, blocks.sizes, sets.digits, sets.strides, sets.used
        rows = max(1, SLICE // sets.digits.size)
        for first in range(start, self._m + 1, rows):
            if self._run.clock.expired():
                return False
            _fill_positions(*tables, start, first, min(self._m, first + rows - 1))
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
        self._run.offer(Allocation.of_blocks(self._problem, self._blocks.starts_of_jobs(self._problem, starts)))


@dataclass(frozen=True, slots=True)
class DynamicProgram(TopologySolver):
    """Exact SCAS and DCAS; SCAS takes O(m S R) per case for S multisets of R distinct sizes."""

    name: ClassVar[str] = "dp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset({Strategy.SCAS, Strategy.DCAS}),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_TABLE:,} table entries: (idle nodes + 1) x product over sizes of (jobs of the size + 1); "
        "for dcas at most two levels of switches below the top, each switch with consecutive idle nodes",
    )

    def refusal(self, problem: TopologyProblem) -> str | None:
        _, counts = np.unique(problem.sizes, return_counts=True)
        # Python integers: the product of a few hundred jobs overflows 64 bits.
        entries = (len(problem.idle_nodes) + 1) * math.prod((counts + 1).tolist())
        if entries > LARGEST_TABLE:
            return f"its tables would have {rounded(entries)} entries, at most {LARGEST_TABLE:,} are supported"
        return dcas_refusal(problem) if problem.strategy is Strategy.DCAS else None

    def kernels(self, problem: TopologyProblem) -> Iterable[Callable[..., Any]]:
        scas = (*BLOCK_KERNELS, _fill_positions)
        return scas if problem.strategy is Strategy.SCAS else (*scas, *DCAS_KERNELS)

    def search(self, problem: TopologyProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        run.offer(Allocation.sequential(problem))
        if problem.strategy is Strategy.DCAS:
            if len(problem.jobs) >= MANY_JOBS:
                # Start with the SCAS optimum, or the best found in a quarter of the time.
                quarter = run.clock.grant(0.25)
                run.offer(self.solve(problem.with_strategy(Strategy.SCAS), quarter, seed).solution)
            return search_dcas(problem, run)
        blocks = Blocks.of(problem)
        run.prove(*blocks.cheapest())
        if run.is_proved():
            return StopReason.PROVED
        circle = _Circle(problem, blocks, run)
        if circle.search() and run.objective is not None:
            run.prove(run.objective, Searched(run.objective))
        return StopReason.TIME_LIMIT
