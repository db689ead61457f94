"""The bound of FREE: column generation over job patterns, strengthened by cuts.

A pattern says how many nodes a job takes of every group. The master problem picks one pattern for every job so that
no leaf gives more nodes than it has; jobs of equal size and equal rules share their patterns. Cuts are added to it as
further rows; all rows together charge a job for its nodes (`formulations.topology.free.pricing`). At any charges

    sum_r e_r max_p (saving_r(p) - charge(p)) + largest income from charges

is at least the largest saving of any allocation (a Lagrangian bound), so that the generation can stop anywhere.
"""

from collections.abc import Callable

import numpy as np
from numba import float64, int64, void
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import kernel
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.solving.budget import ENDLESS_S, Clock
from formulations.topology.free.pricing import Charges, PricedPatterns, Pricing, Row

SMOOTHING = 0.7
"""Weight of the best multipliers so far in those that are tried next (Wentges 1997)."""

EQUAL_RELATIVE = 1e-9
"""Bound and value of the master problem within this relative distance are equal."""

LARGEST_MULTIPLIER = 2
"""Cuts round the capacity times 1/2, 1/3, 1/4, .. and 2/3, 2/5, 2/7, ..."""

LEAST_VIOLATION = 1e-3

UNPLACED = 10.0
"""What a job pays for getting no nodes, in all that the jobs could save if each was alone."""


@kernel(void(GROUP_TREE, int64[:, ::1], float64[::1], int64, int64, float64[::1], int64[:, ::1]))
def most_violated(
    tree: GroupTree,
    counts: IntArray,
    picked: FloatArray,
    largest: int,
    largest_multiplier: int,
    violation: FloatArray,
    cuts: IntArray,
) -> None:
    """Find the cut ``sum_j floor(q a_j / d) <= floor(q c / d)`` of every group that patterns violate most.

    Parameters
    ----------
    tree
        The groups.
    counts, picked
        Nodes of each vertex by pattern, shape ``(P, V)``, and how often each is picked, shape ``(P,)``.
    largest
        Nodes of the largest job.
    largest_multiplier
        Largest q.
    violation
        Largest violation by group, written in place, shape ``(V,)``; 0 at the top.
    cuts
        Its q and d, written in place, shape ``(V, 2)``.
    """
    for vertex in range(tree.idle.size):
        violation[vertex] = 0.0
        idle = tree.idle[vertex]
        if vertex == tree.idle.size - 1:
            continue
        for q in range(1, largest_multiplier + 1):
            for d in range(q + 1, q * min(idle, largest) + 1):
                if q > 1 and d % q == 0:
                    continue
                excess = -float(q * idle // d)
                for pattern in range(picked.size):
                    if counts[pattern, vertex] > 0:
                        excess += picked[pattern] * (q * counts[pattern, vertex] // d)
                if excess > violation[vertex]:
                    violation[vertex] = excess
                    cuts[vertex, 0], cuts[vertex, 1] = q, d


class Master:
    """The master problem, solved by GLOP, which begins at the basis of the time before.

    Parameters
    ----------
    multiplicity
        Jobs of each class, shape ``(R,)``.
    charges
        The rows, which it takes over.
    """

    def __init__(self, multiplicity: IntArray, charges: Charges) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing:false")
        self._infinity = self._solver.infinity()
        self._jobs = [self._solver.Constraint(float(count), float(count)) for count in multiplicity]
        self._charges = charges
        self._saving = self._solver.Objective()
        self._saving.SetMaximization()
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
        """Add a pattern of a class of jobs; return False if it is there already.

        Parameters
        ----------
        r
            Index of the class.
        counts
            Nodes of each vertex, shape ``(V,)``.
        saving
            What the pattern saves, in hops.
        """
        key = (r, counts.tobytes())
        if key in self._seen:
            return False
        self._seen.add(key)
        column = self._solver.NumVar(0.0, self._infinity, "")
        self._columns.append(column)
        self._counts.append(counts)
        self._saving.SetCoefficient(column, float(saving))
        self._jobs[r].SetCoefficient(column, 1.0)
        taken = counts.tolist()
        for constraint, row in zip(self._rows, self._charges.rows, strict=True):
            value = row.multiplier * taken[row.vertex] // row.divisor
            if value:
                constraint.SetCoefficient(column, float(value))
        return True

    def add_all(self, patterns: PricedPatterns) -> bool:
        """Add the patterns of all classes; return whether any is new."""
        added = [
            self.add(r, counts, saving)
            for r, (counts, saving) in enumerate(zip(patterns.counts, patterns.savings.tolist(), strict=True))
        ]
        return any(added)

    def solve(self, clock: Clock) -> tuple[float, FloatArray] | None:
        """Return the value and the multipliers of the rows; None if GLOP fails or runs out of time."""
        of_parameters = pywraplp.MPSolverParameters
        for incremental in (of_parameters.INCREMENTALITY_ON, of_parameters.INCREMENTALITY_OFF):
            seconds = clock.remaining()
            if seconds <= 0.0:
                break
            if seconds < ENDLESS_S:
                # GLOP takes whole milliseconds.
                self._solver.SetTimeLimit(max(1, int(1000 * seconds)))
            parameters = of_parameters()
            parameters.SetIntegerParam(of_parameters.INCREMENTALITY, incremental)
            if self._solver.Solve(parameters) == pywraplp.Solver.OPTIMAL:
                multipliers = np.array([row.dual_value() for row in self._rows])
                return float(self._saving.Value()), np.maximum(multipliers, 0.0)
        return None

    def patterns_in_use(self) -> tuple[IntArray, FloatArray]:
        """Return the patterns that are picked, shape ``(P, V)``, and how often, after a solve."""
        picked = np.array([column.solution_value() for column in self._columns])
        use = np.flatnonzero(picked > 1e-9)
        return np.array([self._counts[column] for column in use]), picked[use]


class ColumnGeneration:
    """Generates columns, and cuts after them, as long as it may.

    Parameters
    ----------
    pricing
        What to price with.
    clock
        The running clock.
    may_go_on
        Asked before every master problem.
    """

    def __init__(self, pricing: Pricing, clock: Clock, may_go_on: Callable[[], bool]) -> None:
        started = clock.elapsed()
        self._pricing = pricing
        self._clock = clock
        self._may_go_on = may_go_on
        self._master = Master(pricing.multiplicity, pricing.charges)
        self._converged = False
        self.best = pricing.at(np.zeros(pricing.n_leaves))
        if pricing.is_possible:
            self._master.add_all(self.best)
        self._round_s = clock.elapsed() - started
        """What another round takes, about: as long as the one before."""

    def add_allocation(self, counts: IntArray) -> None:
        """Add the patterns of an allocation, so that the master problem has a solution.

        Parameters
        ----------
        counts
            Nodes of each vertex by job, shape ``(J, V)``.
        """
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
            solved = self._master.solve(self._clock)
            if solved is None:
                return False
            is_tight = self.best.bound - solved[0] <= EQUAL_RELATIVE * max(1.0, abs(self.best.bound))
            self._converged = is_tight or not self._price_near(solved[1])
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

    def _price_near(self, multipliers: FloatArray) -> bool:
        """Price between the best multipliers and these, then at these; return whether a new pattern came of it."""
        best = np.zeros(len(multipliers))
        best[: len(self.best.multipliers)] = self.best.multipliers
        for smoothing in (SMOOTHING, 0.0):
            tried = self._pricing.at(smoothing * best + (1 - smoothing) * multipliers)
            self.best = min(self.best, tried, key=lambda patterns: patterns.bound)
            if self._master.add_all(tried):
                return True
        return False
