"""Solver ``dp`` of knapsack problems with one resource: exact, by dynamic programming over units.

Without a mean in the objective this is the table V[c] of the largest gain within c units. With one (Eq. 1) the
objective of k jobs that take c units together is ``constant + D / k + rate * c``, where D is the sum of what enters by
its mean: it rises with D alone, so that the table D[k][c] of the largest sums holds an optimal selection.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import boolean, float64, int64, uint64, void
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from allocopt.knapsack import KnapsackSolver
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.problems.knapsack.packing import Gains
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Budget

BitArray = NDArray[np.uint64]

WORD = 64  # jobs whose decisions share a word


@kernel(void(float64[:, ::1], uint64[:, :, ::1], int64[::1], float64[::1], int64, int64))
def add_counted_jobs(
    best: FloatArray, taken: BitArray, sizes: IntArray, gains: FloatArray, first: int, last: int
) -> None:
    """Let jobs ``first .. last - 1`` enter: ``D[k][c] = max(D[k][c], D[k - 1][c - n_j] + g_j)``.

    ``D`` is ``best``, the largest sum of gains of k jobs of c units together, shape ``(K + 1, C + 1)``, -inf where
    there are none; decisions are of shape ``(words, K + 1, C + 1)``. Jobs come by rising size, so that few states are
    looked at.
    """
    most, capacity = best.shape[0] - 1, best.shape[1] - 1
    reach = 0
    for job in range(first):
        reach = min(capacity, reach + sizes[job])
    for job in range(first, last):
        size, gain = sizes[job], gains[job]
        reach = min(capacity, reach + size)
        bit = uint64(1) << uint64(job % WORD)
        for k in range(min(most, job + 1), 0, -1):
            width = reach + 1 - size
            if width <= 0:
                continue
            # Slices and selections instead of branches: the compiler makes vector instructions of the loop.
            before, after = best[k - 1, :width], best[k, size : size + width]
            marks = taken[job // WORD, k, size : size + width]
            for c in range(width):
                offered = before[c] + gain
                better = offered > after[c]
                after[c] = offered if better else after[c]
                marks[c] |= bit if better else uint64(0)


@kernel(void(float64[::1], uint64[:, :, ::1], int64[::1], float64[::1], int64, int64))
def _add_jobs(best: FloatArray, taken: BitArray, sizes: IntArray, gains: FloatArray, first: int, last: int) -> None:
    """Let jobs ``first .. last - 1`` enter: ``V[c] = max(V[c], V[c - n_j] + g_j)``, c the units at hand.

    V is ``best``, of shape ``(C + 1,)``; decisions are ``taken``, of shape ``(words, 1, C + 1)``.
    """
    capacity = best.shape[0] - 1
    for job in range(first, last):
        size, gain = sizes[job], gains[job]
        bit = uint64(1) << uint64(job % WORD)
        # Downwards, so that the value of fewer units is still that without the job.
        for c in range(capacity, size - 1, -1):
            offered = best[c - size] + gain
            if offered > best[c]:
                best[c] = offered
                taken[job // WORD, 0, c] |= bit


@kernel(void(uint64[:, :, ::1], int64[::1], int64, int64, int64, boolean[::1]))
def _trace(taken: BitArray, sizes: IntArray, n_jobs: int, k: int, c: int, selected: BoolArray) -> None:
    """Mark the jobs of the best selection of k jobs of c units, or of any number within c, among the first ``n_jobs``.

    Nothing is ever taken in a row of no jobs, unless it is the only one, of any number.
    """
    for job in range(n_jobs - 1, -1, -1):
        if (taken[job // WORD, k, c] >> uint64(job % WORD)) & uint64(1):
            selected[job] = True
            k = max(0, k - 1)
            c -= sizes[job]


LARGEST_TABLE = 10_000_000  # entries of the tables, decisions included: 80 MB
SLICE = 10_000_000  # states that are looked at between two looks at the clock: some milliseconds


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """The jobs that may be selected, by rising size, in units of their greatest common divisor."""

    jobs: IntArray  # their indices in the problem
    sizes: IntArray
    gains: FloatArray  # what is summed in the table
    capacity: int  # units that they can take together
    words: int  # that hold the decisions of a state

    @classmethod
    def of(cls, gains: Gains) -> "Items":
        """Return the items of a problem with one resource."""
        problem, fitting = gains.problem, gains.problem.fitting
        if gains.shared is None:
            fitting = fitting[gains.own[fitting] > 0]
        fitting = fitting[np.argsort(problem.sizes[fitting], kind="stable")]
        sizes = problem.sizes[fitting]
        unit = max(1, math.gcd(*sizes.tolist()))
        summed, words = gains.own if gains.shared is None else gains.shared, max(1, -(-len(fitting) // WORD))
        return cls(fitting, sizes // unit, summed[fitting], min(problem.free, int(sizes.sum())) // unit, words)


@dataclass(frozen=True, slots=True)
class KnapsackDynamicProgram(KnapsackSolver):
    """Exact selections under one resource: O(J C) for values and Eq. 2, O(J K C) for Eq. 1 where at most K jobs fit."""

    name: ClassVar[str] = "dp"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(),
        frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
        f"{LARGEST_TABLE:,} table entries: (free units + 1) x (1 + jobs / {WORD}), for capability times the most jobs "
        "that fit; one resource, no slots",
    )

    def refusal(self, problem: KnapsackProblem) -> str | None:
        if len(problem.resources) > 1:
            return f"it has {len(problem.resources)} resources, dp takes one; scip, highs and cp-sat take several"
        if problem.slots is not None:
            return "it has slots, which dp does not take; scip, highs and cp-sat do"
        too_many = super(KnapsackDynamicProgram, self).refusal(problem)
        if too_many is not None:
            return too_many
        gains = Gains.of(problem)
        items = Items.of(gains)
        rows = 1 if gains.shared is None else problem.most_jobs(items.jobs) + 1
        entries = rows * (items.capacity + 1) * (1 + items.words)
        if entries > LARGEST_TABLE:
            return f"its tables would have {rounded(entries)} entries, the largest taken are {LARGEST_TABLE:,}"
        return None

    def kernels(self, problem: KnapsackProblem) -> Iterable[Callable[..., Any]]:
        return (_add_jobs, add_counted_jobs, _trace)

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        gains = Gains.of(problem)
        self.begin(problem, run, gains.bound(), gains.greedy())
        if run.is_proved():
            return StopReason.PROVED
        items = Items.of(gains)
        n_jobs, n_states, most = len(items.jobs), items.capacity + 1, 0
        best = np.zeros(n_states)
        if gains.shared is not None:
            # Only numbers of jobs that may be worth more than what is known.
            known = -math.inf if run.objective is None else run.objective
            most = int(np.flatnonzero(gains.count_bounds() > known).max(initial=0))
            if most > 0 and run.clock.expired():
                return StopReason.TIME_LIMIT
            best = np.full((most + 1, n_states), -np.inf)
            best[0, 0] = 0.0
        entered = 0
        if gains.shared is None or most > 0:
            taken = np.zeros((items.words, most + 1, n_states), dtype=np.uint64)
            add = _add_jobs if gains.shared is None else add_counted_jobs
            step = max(1, SLICE // best.size)
            while entered < n_jobs and not run.clock.expired():
                last = min(n_jobs, entered + step)
                add(best, taken, items.sizes, items.gains, entered, last)
                entered = last
            k, c = 0, items.capacity
            if gains.shared is not None and entered > 0:
                unit = int(problem.sizes[items.jobs[0]]) // int(items.sizes[0])
                counts = np.arange(1, min(most, entered) + 1)
                worth = best[counts] / counts[:, None] + gains.rate * unit * np.arange(n_states)
                row, c = divmod(int(np.argmax(worth)), n_states)
                k = row + 1
            selected = np.zeros(n_jobs, dtype=np.bool_)
            _trace(taken, items.sizes, entered, k, c, selected)
            # Among the first jobs alone, if the time has run out.
            run.offer(Selection(tuple(items.jobs[selected].tolist())))
            if entered < n_jobs:
                return StopReason.TIME_LIMIT
        if run.objective is not None:
            run.prove(run.objective)
        return StopReason.TIME_LIMIT
