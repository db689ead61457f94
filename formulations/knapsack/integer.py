"""Solvers ``scip``, ``highs`` and ``cp-sat`` of knapsack problems, and their binary program.

Without a mean, ``y_j`` says that job j is selected: maximize ``sum own_j y_j`` so that the resources suffice.

With one (Eq. 1), ``z_k`` says that k jobs are selected and ``y_{k,j}`` that job j is one of these k:

- maximize ``sum (shared_j / k + own_j) y_{k,j}`` with ``sum_k z_k <= 1``,
- ``sum_j y_{k,j} = k z_k`` and ``y_{k,j} <= z_k`` for every k and j,
- ``sum_j units_{j,r} y_{k,j} <= free_r z_k`` for every k and resource r.

Its linear relaxation is the convex hull of those of all k (Balas 1979): no k is worth more in it than alone.

With slots, ``x_{j,s}`` says that job j is in slot s: ``sum_s x_{j,s} = sum_k y_{k,j}``, and
``sum_j units_j x_{j,s} <= slot_s`` for every slot.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidSolutionError, UsageError
from allocopt.knapsack import KnapsackSolver
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.problems.knapsack.packing import ROUNDING, Gains, count_bounds, fits_alone, most_jobs, selection_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from allocopt.solving.verify import verify
from formulations.backends.protocol import BinaryProgram, NameGrid
from formulations.backends.solver import CP_SAT, HIGHS, SCIP, BackEndSolver, BackEndSpec, ask_child, stop_reason


class Row(NamedTuple):
    """A row: its columns and values, and its sides."""

    columns: IntArray
    values: FloatArray
    lower: float
    upper: float


def knapsack_nonzeros(problem: KnapsackProblem) -> int:
    """Most nonzeros that the program of a problem has, known before it is built."""
    n, n_resources = len(fits_alone(problem)), len(problem.resources)
    if Gains.of(problem).shared is None:
        blocks, rows = 1, n * (n_resources + 1)
    else:
        blocks = most_jobs(problem, fits_alone(problem))
        rows = blocks * (n * (n_resources + 3) + n_resources + 2)
    return rows + (0 if problem.slots is None else n * (blocks + 2 * len(problem.slots)))


def largest_units(problem: KnapsackProblem) -> int:
    """Largest capacity in the program: units, divided by what all jobs ask for a multiple of."""
    fitting = fits_alone(problem)
    columns = problem.requests[fitting].T
    return max((_reduced(column, free)[1] for column, free in zip(columns, problem.capacity.values(), strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class KnapsackModel:
    """The program of a problem.

    Parameters
    ----------
    problem
        The problem.
    gains
        Its gains.
    jobs
        Jobs that may be selected.
    counts
        The numbers of selected jobs that are looked at; empty where they do not matter.
    least
        Objective that is known already: what the program leaves out is worth no more.
    """

    problem: KnapsackProblem
    gains: Gains
    jobs: IntArray
    counts: IntArray
    least: float

    @classmethod
    def of(cls, problem: KnapsackProblem, least: float = -math.inf) -> "KnapsackModel":
        """Return the program of what may be worth more than ``least``."""
        gains, fitting = Gains.of(problem), fits_alone(problem)
        if gains.shared is None:
            return cls(problem, gains, fitting[gains.own[fitting] > 0], np.empty(0, dtype=np.int64), least)
        worth_it = np.flatnonzero(count_bounds(problem, gains) > least)
        return cls(problem, gains, fitting, worth_it[worth_it > 0], least)

    def is_empty(self) -> bool:
        """Whether nothing is left to decide."""
        return not len(self.jobs) or (self.gains.shared is not None and not len(self.counts))

    def program(self) -> BinaryProgram:
        """Build the program; columns are y by count and job, then z by count, then x by job and slot."""
        rows = list(self._rows())
        lengths = [len(row.columns) for row in rows]
        links = self._links()
        data = (
            np.concatenate([*(row.values for row in rows), np.tile([1.0, -1.0], len(links))]),
            (
                np.concatenate(
                    (np.repeat(np.arange(len(rows)), lengths), len(rows) + np.repeat(np.arange(len(links)), 2))
                ),
                np.concatenate([*(row.columns for row in rows), links.ravel()]),
            ),
        )
        costs = np.concatenate((-self._worth().ravel(), np.zeros(len(self.counts) + len(self._pairs()))))
        n_rows = len(rows) + len(links)
        return BinaryProgram(
            costs,
            csc_array(coo_array(data, shape=(n_rows, len(costs)))),
            np.concatenate(([row.lower for row in rows], np.full(len(links), -np.inf))),
            np.concatenate(([row.upper for row in rows], np.zeros(len(links)))),
            self._names(),
            (NameGrid("row", (np.arange(n_rows),)),),
        )

    def decode(self, chosen: IntArray) -> Selection | None:
        """Return the selection of the chosen columns; None if tolerances let something pass that does not fit."""
        jobs = self.jobs[chosen[chosen < self._n_y] % len(self.jobs)]
        pairs = self._pairs()[chosen[chosen >= self._n_y + len(self.counts)] - self._n_y - len(self.counts)]
        slot_of = dict(pairs.tolist())
        slots = [slot_of.get(job, -1) for job in jobs.tolist()] if self.problem.slots is not None else []
        selection = selection_of(jobs.tolist(), slots)
        try:
            verify(self.problem, selection)
        except InvalidSolutionError:
            return None
        return selection

    def encode(self, solution: Selection) -> IntArray | None:
        """Columns of a selection; None if it has jobs, or a number of jobs, that the program leaves out."""
        jobs = np.array(solution.jobs, dtype=np.int64)
        if not np.isin(jobs, self.jobs).all():
            return None
        place = np.searchsorted(self.jobs, jobs)
        if self.gains.shared is not None:
            if len(jobs) not in self.counts:
                return None
            row = int(np.searchsorted(self.counts, len(jobs)))
            place = np.append(row * len(self.jobs) + place, self._n_y + row)
        index = {tuple(pair): number for number, pair in enumerate(self._pairs().tolist())}
        first = self._n_y + len(self.counts)
        pairs = [first + index[pair] for pair in zip(solution.jobs, solution.slots, strict=False)]
        return np.sort(np.concatenate((place, np.array(pairs, dtype=np.int64))))

    def bound_of(self, bound: float) -> float:
        """Upper bound on the objective: the constant less the bound of the program, or what was known already."""
        slack = ROUNDING * (abs(self.gains.constant) + abs(bound))
        return max(self.least, self.gains.constant - bound + slack)

    @property
    def _n_y(self) -> int:
        return len(self.jobs) * self._n_blocks

    @property
    def _n_blocks(self) -> int:
        return 1 if self.gains.shared is None else len(self.counts)

    def _pairs(self) -> IntArray:
        """Job and slot of every x, by job, shape ``(x, 2)``."""
        rooms = np.array(self.problem.slots or (), dtype=np.int64)
        places, slots = np.nonzero(self.problem.sizes[self.jobs][:, None] <= rooms)
        return np.column_stack((self.jobs[places], slots))

    def _links(self) -> IntArray:
        """Columns of ``y_{k,j} <= z_k``, shape ``(links, 2)``; none where the number of jobs does not matter."""
        y = np.arange(self._n_y if self.gains.shared is not None else 0)
        return np.column_stack((y, self._n_y + y // max(1, len(self.jobs))))

    def _worth(self) -> FloatArray:
        """Gain of every y, shape ``(blocks, jobs)``."""
        own = self.gains.own[self.jobs]
        return own[None] if self.gains.shared is None else self.gains.shared[self.jobs] / self.counts[:, None] + own

    def _rows(self) -> Iterator[Row]:
        """All rows that hold something."""
        for block in range(self._n_blocks):
            yield from self._block_rows(block)
        if len(self.counts):
            z = self._n_y + np.arange(len(self.counts))
            yield Row(z, np.ones(len(z)), -np.inf, 1.0)
        if self.problem.slots is not None:
            yield from self._slot_rows()

    def _block_rows(self, block: int) -> Iterator[Row]:
        """Rows of the y of one number of jobs, or of all y where the number does not matter."""
        n = len(self.jobs)
        y, z = block * n + np.arange(n), self._n_y + block
        counted = self.gains.shared is not None
        for column, free in zip(self.problem.requests[self.jobs].T, self.problem.capacity.values(), strict=True):
            asking = np.flatnonzero(column)
            units, room = _reduced(column[asking], free)
            if not len(asking) or units.sum() <= room:
                continue
            if counted:
                yield Row(np.append(y[asking], z), np.append(units, -room).astype(np.float64), -np.inf, 0.0)
            else:
                yield Row(y[asking], units.astype(np.float64), -np.inf, float(room))
        if counted:
            yield Row(np.append(y, z), np.append(np.ones(n), -float(self.counts[block])), 0.0, 0.0)
        elif self.problem.slots is None:
            # A program needs a row, and where everything fits it has no other.
            yield Row(y, np.ones(n), -np.inf, float(n))

    def _slot_rows(self) -> Iterator[Row]:
        """Every selected job in one slot, and what is in a slot."""
        pairs = self._pairs()
        x = self._n_y + len(self.counts) + np.arange(len(pairs))
        ends = np.searchsorted(pairs[:, 0], self.jobs, side="right")
        for place, mine in enumerate(np.split(x, ends[:-1])):
            y = place + len(self.jobs) * np.arange(self._n_blocks)
            values = np.append(np.ones(len(y)), -np.ones(len(mine)))
            yield Row(np.append(y, mine), values, 0.0, 0.0)
        for slot, size in enumerate(self.problem.slots or ()):
            held = pairs[:, 1] == slot
            if held.any():
                units, room = _reduced(self.problem.sizes[pairs[held, 0]], size)
                yield Row(x[held], units.astype(np.float64), -np.inf, float(room))

    def _names(self) -> tuple[NameGrid, ...]:
        pairs = self._pairs()
        each, ends = np.unique(pairs[:, 0], return_index=True)
        slots = tuple(
            NameGrid("x", (each[place : place + 1], mine))
            for place, mine in enumerate(np.split(pairs[:, 1], ends[1:]) if len(each) else ())
        )
        if self.gains.shared is None:
            return (NameGrid("y", (self.jobs,)), *slots)
        return (NameGrid("y", (self.counts, self.jobs)), NameGrid("z", (self.counts,)), *slots)


def _reduced(units: IntArray, free: int) -> tuple[IntArray, int]:
    """Units and what is free of them, divided by what all units are multiples of; no more free than is asked for."""
    divisor = max(1, math.gcd(*units.tolist()))
    return units // divisor, min(free, int(units.sum())) // divisor


LARGEST_NONZEROS = 300_000
LARGEST_FLOAT_UNITS = 100_000
"""Capacity up to which a unit too much is more than the tolerances of solvers that compute with floats."""


@dataclass(frozen=True)
class IntegerKnapsack(BackEndSolver, KnapsackSolver):
    """A solver that hands the program of a knapsack to a back end, as `ProgramSolver` does for topology problems."""

    largest_units: ClassVar[int | None] = LARGEST_FLOAT_UNITS

    @property
    def capabilities(self) -> Capabilities:
        """Knapsack problems, to proof."""
        units = "" if self.largest_units is None else f", {self.largest_units:,} free units, common divisors apart"
        return Capabilities(
            frozenset(),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{LARGEST_NONZEROS:,} nonzeros of the model{units}",
        )

    def refusal(self, problem: KnapsackProblem) -> str | None:
        """Why the problem is too large, or None."""
        too_many = super().refusal(problem)
        if too_many is not None:
            return too_many
        nonzeros, units = knapsack_nonzeros(problem), largest_units(problem)
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        if self.largest_units is not None and units > self.largest_units:
            return f"it has {units:,} free units, the most that are told apart are {self.largest_units:,}"
        return None

    def program(self, problem: KnapsackProblem) -> BinaryProgram:
        """Build the whole program of a problem.

        Raises
        ------
        UsageError
            If no job can be selected, so that there is none.
        """
        model = KnapsackModel.of(problem)
        if model.is_empty():
            raise UsageError(f"{problem.name!r} has no model: no job can be selected to its gain")
        return model.program()

    def search(self, problem: KnapsackProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program of what may be better than greedy selections; see `SearchSolver.search`."""
        self.begin(problem, Gains.of(problem), run)
        if run.is_proved() or run.objective is None:
            return StopReason.PROVED
        model = KnapsackModel.of(problem, run.objective)
        if model.is_empty():
            run.prove(run.objective)
            return StopReason.PROVED
        ask_child(self.back_end, run, model, seed, run.solution, budget.iterations)
        return stop_reason(run.clock, budget)


@dataclass(frozen=True)
class ScipKnapsack(IntegerKnapsack):
    """The program in SCIP."""

    name: ClassVar[str] = "scip"
    back_end: ClassVar[BackEndSpec] = SCIP


@dataclass(frozen=True)
class HighsKnapsack(IntegerKnapsack):
    """The program in HiGHS."""

    name: ClassVar[str] = "highs"
    back_end: ClassVar[BackEndSpec] = HIGHS


@dataclass(frozen=True)
class CpSatKnapsack(IntegerKnapsack):
    """The program in CP-SAT, on integer gains."""

    name: ClassVar[str] = "cp-sat"
    back_end: ClassVar[BackEndSpec] = CP_SAT
    largest_units: ClassVar[int | None] = None
