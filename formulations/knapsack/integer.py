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
from dataclasses import replace
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.knapsack import KnapsackSolver
from allocopt.problems.knapsack import KnapsackProblem, Selection
from allocopt.problems.knapsack.packing import ROUNDING, Gains
from allocopt.solving import Capabilities, Run
from formulations.backends.program import BinaryProgram, Formulation, Names, Rows
from formulations.backends.solver import CP_SAT, BackEndSolver

# Capacity up to which a unit too much is more than the tolerances of solvers that compute with floats.
LARGEST_FLOAT_UNITS = 100_000


class KnapsackModel(Formulation):
    """The program of a problem, without what is worth no more than an objective that is known already."""

    def __init__(self, gains: Gains, least: float = -math.inf) -> None:
        problem = gains.problem
        self._problem, self._gains, self._least = problem, gains, least
        self._is_counted = self._gains.shared is not None
        # Jobs without a gain of their own, and numbers of jobs that cannot be worth more, are left out.
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
        """Return the most nonzeros that the program of a problem has, known before it is built."""
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
        for block in range(self._n_blocks):
            self._add_block(rows, block)
        if self._is_counted:
            rows.at_most(1, (self._n_y + np.arange(len(self._counts)), 1))
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
        slots = [slot_of.get(job, -1) for job in jobs] if self._problem.slots is not None else []
        return Selection.of(jobs, slots)

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
        # The program leaves out what is worth no more than what was known already.
        slack = ROUNDING * (abs(self._gains.constant) + abs(bound))
        return max(self._least, self._gains.constant - bound + slack)

    def _add_block(self, rows: Rows, block: int) -> None:
        """Add the rows of the y of one number of jobs, or of all y where the number does not matter."""
        n = len(self._jobs)
        y, z = block * n + np.arange(n), np.array([self._n_y + block])
        problem = self._problem
        for column, free in zip(problem.requests[self._jobs].T, problem.capacity.values(), strict=True):
            asking = np.flatnonzero(column)
            units, room = _reduced(column[asking], free)
            # A resource that is no constraint gets no row.
            if not len(asking) or units.sum() <= room:
                continue
            if self._is_counted:
                rows.at_most(0, (y[asking], units), (z, -room))
            else:
                rows.at_most(room, (y[asking], units))
        if self._is_counted:
            rows.at_most(0, (y, 1), (z, -self._counts[block]), lower=0)
        elif problem.slots is None:
            # A program needs a row, and where everything fits it has no other.
            rows.at_most(n, (y, 1))


def _reduced(units: IntArray, free: int) -> tuple[IntArray, int]:
    """Units and what is free of them, divided by what all units are multiples of; no more free than is asked for."""
    divisor = max(1, math.gcd(*units.tolist()))
    return units // divisor, min(free, int(units.sum())) // divisor


class IntegerKnapsack(BackEndSolver[KnapsackProblem, Gains], KnapsackSolver):
    """The program of a knapsack, with CP-SAT on integer gains, which tell apart any number of units."""

    largest_nonzeros: ClassVar[int] = 300_000
    no_model = "no job can be selected to its gain"

    @property
    def capabilities(self) -> Capabilities:
        able = super().capabilities
        if self.back_end == CP_SAT:
            return able
        return replace(able, largest=f"{able.largest}, {LARGEST_FLOAT_UNITS:,} free units, common divisors apart")

    def refusal(self, problem: KnapsackProblem) -> str | None:
        too_many = super().refusal(problem) or self.too_many(KnapsackModel.most_nonzeros(Gains.of(problem)))
        if too_many is not None or self.back_end == CP_SAT:
            return too_many
        requests = problem.requests[problem.fitting].T
        units = max(_reduced(asked, free)[1] for asked, free in zip(requests, problem.capacity.values(), strict=True))
        if units <= LARGEST_FLOAT_UNITS:
            return None
        return f"it has {units:,} free units, the most that are told apart are {LARGEST_FLOAT_UNITS:,}"

    tables = staticmethod(Gains.of)

    def prepare(self, problem: KnapsackProblem, gains: Gains, run: Run) -> object:
        self.begin(problem, run, gains.bound(), gains.greedy())
        return run.solution

    def formulate(self, problem: KnapsackProblem, gains: Gains, known: float | None = None) -> Formulation:
        return KnapsackModel(gains, -math.inf if known is None else known)
