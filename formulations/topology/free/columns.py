"""The bound of FREE: column generation over job patterns, strengthened by cuts.

A pattern says how many nodes a job takes of every group. The master problem picks one pattern for every job so that
no leaf gives more nodes than it has; jobs of equal size and equal rules share their patterns. Cuts are added to it as
further rows; all rows together charge a job for its nodes (`formulations.topology.free.pricing`). At any charges

    sum_r e_r max_p (saving_r(p) - charge(p)) + largest income from charges

is at least the largest saving of any allocation (a Lagrangian bound), so that the generation can stop anywhere.
"""

from collections.abc import Callable

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.solving.budget import Clock
from formulations.topology.column_generation import Generation, RestrictedMaster
from formulations.topology.free.pricing import Charges, PricedPatterns, Pricing, Row, most_violated

LARGEST_MULTIPLIER = 2
"""Cuts round the capacity times 1/2, 1/3, 1/4, .. and 2/3, 2/5, 2/7, ..."""

LEAST_VIOLATION = 1e-3

UNPLACED = 10.0
"""What a job pays for getting no nodes, in all that the jobs could save if each was alone."""


class Master(RestrictedMaster[PricedPatterns]):
    """The master problem.

    Parameters
    ----------
    multiplicity, charges
        Jobs of each class, shape ``(R,)``, and the rows, which it takes over.
    """

    def __init__(self, multiplicity: IntArray, charges: Charges) -> None:
        super().__init__(multiplicity)
        self._charges = charges
        self._columns: list[pywraplp.Variable] = []
        self._counts: list[IntArray] = []
        self._rows: list[pywraplp.Constraint] = []
        self._seen: set[tuple[int, bytes]] = set()
        self.add_rows()

    def add_rows(self) -> None:
        """Take over the rows that are new."""
        counts = np.array(self._counts)
        for index in range(len(self._rows), len(self._charges.rows)):
            row = self._solver.Constraint(-self._infinity, self._charges.right_side(index))
            self._rows.append(row)
            if not self._columns:
                continue
            values = self._charges.rows[index].values(counts[:, self._charges.rows[index].vertex])
            for column in np.flatnonzero(values).tolist():
                row.SetCoefficient(self._columns[column], float(values[column]))

    def add(self, r: int, counts: IntArray, saving: float) -> bool:
        """Add a pattern of class r that has so many nodes of each vertex; return False if it is there already."""
        key = (r, counts.tobytes())
        if key in self._seen:
            return False
        self._seen.add(key)
        column = self._column(self._jobs[r], float(saving))
        self._columns.append(column)
        self._counts.append(counts)
        taken = counts.tolist()
        for constraint, row in zip(self._rows, self._charges.rows, strict=True):
            value = row.multiplier * taken[row.vertex] // row.divisor
            if value:
                constraint.SetCoefficient(column, float(value))
        return True

    def add_answers(self, answer: PricedPatterns) -> bool:
        """Add the patterns of all classes; return whether any is new."""
        patterns = zip(answer.counts, answer.savings.tolist(), strict=True)
        return any([self.add(r, counts, saving) for r, (counts, saving) in enumerate(patterns)])

    def _duals(self) -> FloatArray:
        duals: FloatArray = np.array([row.dual_value() for row in self._rows])
        return np.maximum(duals, 0.0)

    def patterns_in_use(self) -> tuple[IntArray, FloatArray]:
        """Return the patterns that are picked, shape ``(P, V)``, and how often, after a solve."""
        picked = np.array([column.solution_value() for column in self._columns])
        use = np.flatnonzero(picked > 1e-9)
        return np.array([self._counts[column] for column in use]), picked[use]


class ColumnGeneration(Generation[PricedPatterns]):
    """Generates columns, and cuts after them, as long as it may.

    Parameters
    ----------
    pricing, clock
        What to price with, and the running clock.
    may_go_on
        Asked before every master problem.
    """

    equal_relative = 1e-9

    def __init__(self, pricing: Pricing, clock: Clock, may_go_on: Callable[[], bool]) -> None:
        started = clock.elapsed()
        self._pricing, self._clock, self._may_go_on = pricing, clock, may_go_on
        self._master = Master(pricing.multiplicity, pricing.charges)
        self._converged = False
        super().__init__(pricing.at, self._master, pricing.at(np.zeros(pricing.n_leaves)))
        if pricing.is_possible:
            self._master.add_answers(self.best)
        self._round_s = clock.elapsed() - started
        """What another round takes, about: as long as the one before."""

    def add_allocation(self, counts: IntArray) -> None:
        """Add the patterns of an allocation, shape ``(J, V)``, so that the master problem has a solution."""
        classes = self._pricing.demand.of_job.tolist()
        for r, job, saving in zip(classes, counts, self._pricing.savings_of(counts).tolist(), strict=True):
            self._master.add(r, job, saving)

    def allow_unplaced(self) -> None:
        """Let jobs get no nodes at a price that no saving is worth, so that the master problem has a solution."""
        self._pricing.least_value = -UNPLACED * (1.0 + abs(self.best.bound))
        nothing = np.zeros(len(self._pricing.tree.idle), dtype=np.int64)
        for r in range(len(self._pricing.sizes)):
            self._master.add(r, nothing, self._pricing.least_value)

    def converge(self) -> bool:
        """Generate columns until the bound is the value of the master problem; return False if it had to stop."""
        self._converged = False
        while not self._converged and self._clock.remaining() >= self._round_s and self._may_go_on():
            started = self._clock.elapsed()
            converged = self._round(self._clock.remaining)
            if converged is None:
                return False
            self._converged = converged
            self._round_s = self._clock.elapsed() - started
        return self._converged

    def cut(self) -> bool:
        """Add the most violated cut of every group; return whether there is one. First it must have converged."""
        if not self._converged:
            return False
        counts, picked = self._master.patterns_in_use()
        violation = np.empty(counts.shape[1])
        cuts = np.empty((counts.shape[1], 2), dtype=np.int64)
        largest = self._pricing.demand.largest
        most_violated(self._pricing.tree, counts, picked, largest, LARGEST_MULTIPLIER, violation, cuts)
        found = np.flatnonzero(violation > LEAST_VIOLATION)
        for vertex in found.tolist():
            self._pricing.charges.add(Row(vertex, int(cuts[vertex, 0]), int(cuts[vertex, 1])))
        self._master.add_rows()
        self._converged = len(found) == 0
        return len(found) > 0
