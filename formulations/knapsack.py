"""Exact solvers of knapsack problems: ``dp`` for one resource, and the program of ``scip``, ``highs`` and ``cp-sat``.

If the objective has no mean, the dynamic program is the table V[c] of the largest gain within c units. With a mean (the
objective ``capability``, Eq. 1 of the DRAS paper), the objective of k jobs that take c units together is
``constant + D / k + rate * c``, where D is the sum of the gains whose mean counts. For given k and c it increases with
D, so the table D[k][c] of the largest sums contains an optimal selection.

In the binary program without a mean, ``y_j`` is 1 if job j is selected: maximize ``sum own_j y_j`` so that the
resources suffice. With a mean, ``z_k`` is 1 if k jobs are selected, and ``y_{k,j}`` if job j is one of these k:

- maximize ``sum (shared_j / k + own_j) y_{k,j}`` with ``sum_k z_k <= 1``,
- ``sum_j y_{k,j} = k z_k`` and ``y_{k,j} <= z_k`` for every k and j,
- ``sum_j units_{j,r} y_{k,j} <= free_r z_k`` for every k and resource r.

Its linear relaxation is the convex hull of the relaxations for each k (Balas 1979), so it is as tight as the best of
them.

With slots, ``x_{j,s}`` is 1 if job j is in slot s: ``sum_s x_{j,s} = sum_k y_{k,j}``, and
``sum_j units_j x_{j,s} <= slot_s`` for every slot.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numba import boolean, float64, int64, uint64, void
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Names, Rows
from allocopt.formulations.backends.solver import CP_SAT, BackEndSolver
from allocopt.kernels.compiled import kernel
from allocopt.knapsack import KnapsackSolver
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.problems.knapsack.certificates import Searched
from allocopt.problems.knapsack.packing import ROUNDING, Gains
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.base import rounded
from allocopt.solving.budget import Budget

BitArray = NDArray[np.uint64]

WORD = 64  # jobs whose decisions share a word
LARGEST_TABLE = 10_000_000  # most entries of the tables, decisions included: 80 MB
SLICE = 10_000_000  # states between two looks at the clock: some milliseconds
LARGEST_FLOAT_UNITS = 100_000  # most free units for which one unit too many exceeds the tolerances of solvers


@kernel(void(float64[:, ::1], uint64[:, :, ::1], int64[::1], float64[::1], int64, int64))
def _add_counted_jobs(
    best: FloatArray,  # largest sum of gains of k jobs of c units together, shape (K + 1, C + 1); -inf for none
    taken: BitArray,  # decisions, shape (words, K + 1, C + 1)
    sizes: IntArray,
    gains: FloatArray,
    first: int,
    last: int,
) -> None:
    """Add jobs ``first .. last - 1``: ``D[k][c] = max(D[k][c], D[k - 1][c - n_j] + g_j)``."""
    # Jobs are sorted by size, so that few states can be reached at first.
    most, capacity, reach = best.shape[0] - 1, best.shape[1] - 1, 0
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
            # Slices and selections instead of branches, so that the compiler vectorizes the loop.
            before, after = best[k - 1, :width], best[k, size : size + width]
            marks = taken[job // WORD, k, size : size + width]
            for c in range(width):
                offered = before[c] + gain
                better = offered > after[c]
                after[c] = offered if better else after[c]
                marks[c] |= bit if better else uint64(0)


@kernel(void(float64[::1], uint64[:, :, ::1], int64[::1], float64[::1], int64, int64))
def _add_jobs(best: FloatArray, taken: BitArray, sizes: IntArray, gains: FloatArray, first: int, last: int) -> None:
    """Add jobs ``first .. last - 1``: ``V[c] = max(V[c], V[c - n_j] + g_j)``, where c is the available units."""
    capacity = best.shape[0] - 1
    for job in range(first, last):
        size, gain = sizes[job], gains[job]
        bit = uint64(1) << uint64(job % WORD)
        # Downwards, so that values of fewer units do not include the job yet.
        for c in range(capacity, size - 1, -1):
            offered = best[c - size] + gain
            if offered > best[c]:
                best[c] = offered
                taken[job // WORD, 0, c] |= bit


@kernel(void(uint64[:, :, ::1], int64[::1], int64, int64, int64, boolean[::1]))
def _trace(taken: BitArray, sizes: IntArray, n_jobs: int, k: int, c: int, selected: BoolArray) -> None:
    """Mark the jobs of the best selection among the first ``n_jobs`` jobs.

    If ``taken`` has several rows k, the selection has k jobs with c units; otherwise it has any jobs within c units.
    """
    # If there are several rows, row 0 stands for no jobs and has no decisions.
    for job in range(n_jobs - 1, -1, -1):
        if (taken[job // WORD, k, c] >> uint64(job % WORD)) & uint64(1):
            selected[job] = True
            k = max(0, k - 1)
            c -= sizes[job]


@dataclass(frozen=True, slots=True, eq=False)
class _Items:
    """The jobs that may be selected, sorted by size, in units of the greatest common divisor of their sizes."""

    jobs: IntArray  # their indices in the problem
    sizes: IntArray
    gains: FloatArray  # gains that the table sums
    capacity: int  # units that they can take together
    words: int  # number of words for the decisions of a state

    @classmethod
    def of(cls, gains: Gains) -> "_Items":
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
    """Exact selections under one resource: O(J C), or O(J K C) for ``capability`` if at most K jobs fit."""

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
        items = _Items.of(gains)
        rows = 1 if gains.shared is None else problem.most_jobs(items.jobs) + 1
        entries = rows * (items.capacity + 1) * (1 + items.words)
        if entries > LARGEST_TABLE:
            return f"its tables would have {rounded(entries)} entries, at most {LARGEST_TABLE:,} are supported"
        return None

    def kernels(self, problem: KnapsackProblem) -> Iterable[Callable[..., Any]]:
        return (_add_jobs, _add_counted_jobs, _trace)

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        gains = Gains.of(problem)
        self.begin(problem, run, *gains.bound(), gains.greedy())
        if run.is_proved():
            return StopReason.PROVED
        items = _Items.of(gains)
        n_jobs, n_states, most = len(items.jobs), items.capacity + 1, 0
        best = np.zeros(n_states)
        if gains.shared is not None:
            # Selections of more than `most` jobs cannot be better than the incumbent.
            known = -math.inf if run.objective is None else run.objective
            most = int(np.flatnonzero(gains.count_bounds() > known).max(initial=0))
            if most > 0 and run.clock.expired():
                return StopReason.TIME_LIMIT
            best = np.full((most + 1, n_states), -np.inf)
            best[0, 0] = 0.0
        entered = 0
        if gains.shared is None or most > 0:
            taken = np.zeros((items.words, most + 1, n_states), dtype=np.uint64)
            add = _add_jobs if gains.shared is None else _add_counted_jobs
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
            # If the time has run out, this is the best selection of the jobs added so far.
            run.offer(Selection(tuple(items.jobs[selected].tolist())))
            if entered < n_jobs:
                return StopReason.TIME_LIMIT
        if run.objective is not None:
            run.prove(run.objective, Searched())
        return StopReason.TIME_LIMIT


class _KnapsackModel(Formulation):
    """The program of a problem, without columns that cannot improve a known objective."""

    def __init__(self, gains: Gains, least: float = -math.inf) -> None:
        problem = gains.problem
        self._problem, self._gains, self._least = problem, gains, least
        self._is_counted = self._gains.shared is not None
        # With a mean, leave out numbers of jobs that cannot be better than `least`; otherwise, jobs without a gain.
        self._jobs, self._counts = problem.fitting, np.empty(0, dtype=np.int64)
        if self._is_counted:
            worth_it = np.flatnonzero(self._gains.count_bounds() > least)
            self._counts = worth_it[worth_it > 0]
        else:
            self._jobs = self._jobs[self._gains.own[self._jobs] > 0]
        self._n_blocks = len(self._counts) if self._is_counted else 1
        # Columns are y by count and job, then z by count, then x by job and slot, as in `_pairs`.
        self._n_y = self._n_blocks * len(self._jobs)
        self._first_x = self._n_y + len(self._counts)
        rooms = np.array(problem.slots or (), dtype=np.int64)
        places, slots = np.nonzero(problem.sizes[self._jobs][:, None] <= rooms)
        self._pairs: IntArray = np.column_stack((self._jobs[places], slots))

    @staticmethod
    def most_nonzeros(gains: Gains) -> int:
        """Return an upper bound of the number of nonzeros, known before the program is built."""
        problem = gains.problem
        n, n_resources = len(problem.fitting), len(problem.resources)
        if gains.shared is None:
            blocks, rows = 1, n * (n_resources + 1)
        else:
            blocks = problem.most_jobs(problem.fitting)
            rows = blocks * (n * (n_resources + 3) + n_resources + 2)
        return rows + (0 if problem.slots is None else n * (blocks + 2 * len(problem.slots)))

    def is_empty(self) -> bool:
        return self._n_y == 0

    def program(self) -> BinaryProgram:
        rows = Rows()
        self._add_blocks(rows)
        names: list[Names] = [("y", self._jobs)]
        if self._is_counted:
            names = [("y", self._counts, self._jobs), ("z", self._counts)]
        if self._problem.slots is not None:
            x = self._first_x + np.arange(len(self._pairs))
            ends = np.searchsorted(self._pairs[:, 0], self._jobs, side="right")
            for place, mine in enumerate(np.split(x, ends[:-1])):
                rows.at_most(0, (place + len(self._jobs) * np.arange(self._n_blocks), 1), (mine, -1), lower=0)
                if len(mine):
                    names.append(("x", self._jobs[place : place + 1], self._pairs[mine - self._first_x, 1]))
            for slot, size in enumerate(self._problem.slots):
                held = self._pairs[:, 1] == slot
                if held.any():
                    units, room = _reduced(self._problem.sizes[self._pairs[held, 0]], size)
                    rows.at_most(room, (x[held], units))
        own = self._gains.own[self._jobs]
        worth = own
        if self._gains.shared is not None:
            y = np.arange(self._n_y)
            z = self._n_y + y // len(self._jobs)
            rows.add(np.tile(y, 2), np.concatenate((y, z)), np.repeat([1.0, -1.0], len(y)), np.zeros(len(y)))
            worth = (self._gains.shared[self._jobs] / self._counts[:, None] + own).ravel()
        return rows.program(np.append(-worth, np.zeros(self._first_x - self._n_y + len(self._pairs))), names)

    def decode(self, chosen: IntArray) -> Selection:
        jobs = self._jobs[chosen[chosen < self._n_y] % len(self._jobs)].tolist()
        slot_of = dict(self._pairs[chosen[chosen >= self._first_x] - self._first_x].tolist())
        slots = () if self._problem.slots is None else tuple(slot_of.get(job, -1) for job in jobs)
        return Selection(tuple(jobs), slots)

    def encode(self, solution: Selection) -> IntArray | None:
        jobs = np.array(solution.jobs, dtype=np.int64)
        if not np.isin(jobs, self._jobs).all() or (self._is_counted and len(jobs) not in self._counts):
            return None
        place = np.searchsorted(self._jobs, jobs)
        if self._is_counted:
            row = int(np.searchsorted(self._counts, len(jobs)))
            place = np.append(row * len(self._jobs) + place, self._n_y + row)
        index = {tuple(pair): self._first_x + number for number, pair in enumerate(self._pairs.tolist())}
        pairs = [index[pair] for pair in zip(solution.jobs, solution.slots, strict=False)]
        return np.sort(np.concatenate((place, np.array(pairs, dtype=np.int64))))

    def bound_of(self, bound: float) -> float:
        # The program leaves out solutions that are no better than the known one, so the bound cannot be below it.
        slack = ROUNDING * (abs(self._gains.constant) + abs(bound))
        return max(self._least, self._gains.constant - bound + slack)

    def _add_blocks(self, rows: Rows) -> None:
        problem, n = self._problem, len(self._jobs)
        # A block is all y of one number of jobs, or all y if the number does not matter.
        for block in range(self._n_blocks):
            y, z = block * n + np.arange(n), np.array([self._n_y + block])
            for column, free in zip(problem.requests[self._jobs].T, problem.capacity.values(), strict=True):
                asking = np.flatnonzero(column)
                units, room = _reduced(column[asking], free)
                # A resource that suffices for all jobs gets no row.
                if len(asking) and units.sum() > room:
                    capacity = [(z, -room)] if self._is_counted else []
                    rows.at_most(0 if self._is_counted else room, (y[asking], units), *capacity)
            if self._is_counted:
                rows.at_most(0, (y, 1), (z, -self._counts[block]), lower=0)
            elif problem.slots is None:
                # This row always holds. If everything fits, it is the only one, and a program needs at least one.
                rows.at_most(n, (y, 1))
        if self._is_counted:
            rows.at_most(1, (self._n_y + np.arange(len(self._counts)), 1))


def _reduced(units: IntArray, free: int) -> tuple[IntArray, int]:
    """Return requests and free units, divided by the requests' common divisor; ignore units beyond all requests."""
    divisor = max(1, math.gcd(*units.tolist()))
    return units // divisor, min(free, int(units.sum())) // divisor


class IntegerKnapsack(BackEndSolver[KnapsackProblem, Gains], KnapsackSolver):
    """Solver of the program in the module's docstring. CP-SAT works on integers, so it takes any number of units."""

    largest_nonzeros: ClassVar[int] = 300_000
    no_model = "selecting a job never improves the objective"

    @property
    def capabilities(self) -> Capabilities:
        able = super().capabilities
        if self.back_end == CP_SAT:
            return able
        return replace(
            able, largest=f"{able.largest}, {LARGEST_FLOAT_UNITS:,} free units after division by common divisors"
        )

    def refusal(self, problem: KnapsackProblem) -> str | None:
        too_many = super().refusal(problem) or self.too_many(_KnapsackModel.most_nonzeros(Gains.of(problem)))
        if too_many is not None or self.back_end == CP_SAT:
            return too_many
        requests = problem.requests[problem.fitting].T
        units = max(_reduced(asked, free)[1] for asked, free in zip(requests, problem.capacity.values(), strict=True))
        if units <= LARGEST_FLOAT_UNITS:
            return None
        return f"it has {units:,} free units, the tolerances of the solver allow at most {LARGEST_FLOAT_UNITS:,}"

    tables = staticmethod(Gains.of)

    def prepare(self, problem: KnapsackProblem, gains: Gains, run: Run) -> object:
        self.begin(problem, run, *gains.bound(), gains.greedy())
        return run.solution

    def formulate(self, problem: KnapsackProblem, gains: Gains, known: float | None = None) -> Formulation:
        return _KnapsackModel(gains, -math.inf if known is None else known)
