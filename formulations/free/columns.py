"""The bound of FREE: column generation over job patterns, strengthened by cuts.

A pattern says how many nodes a job takes of every group. The master problem picks one pattern for every job so that
no leaf gives more nodes than it has; jobs of equal size and equal rules share their patterns. Cuts are added to it as
further rows; all rows together charge a job for its nodes (`formulations.free.charges`). At any charges

    sum_r e_r max_p (saving_r(p) - charge(p)) + largest income from charges

is at least the largest saving of any allocation (a Lagrangian bound), so that the generation can stop anywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from ortools.linear_solver import pywraplp

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import InsertionState, insertion_state
from allocopt.kernels.tree import GroupTree
from allocopt.solving.budget import ENDLESS_S, Clock
from formulations.free.charges import Charges, Row
from formulations.free.demand import Demand
from formulations.free.pricing import best_patterns, most_violated

SMOOTHING = 0.7
"""Weight of the best multipliers so far in those that are tried next (Wentges 1997)."""

EQUAL_RELATIVE = 1e-9
"""Bound and value of the master problem within this relative distance are equal."""

LARGEST_MULTIPLIER = 2
"""Cuts round the capacity times 1/2, 1/3, 1/4, .. and 2/3, 2/5, 2/7, ..."""

LEAST_VIOLATION = 1e-3

UNPLACED = 10.0
"""What a job pays for getting no nodes, in all that the jobs could save if each was alone."""


@dataclass(frozen=True, slots=True, eq=False)
class PricedPatterns:
    """The best pattern of every class of jobs under some charges.

    Parameters
    ----------
    multipliers
        One for each row that there was, in hops.
    charge
        The table of charges; see `Charges.table`.
    counts
        Nodes of each vertex by class, shape ``(R, V)``.
    savings
        What the patterns save, in hops, charges not taken off, shape ``(R,)``.
    bound
        No allocation saves more, in hops.
    """

    multipliers: FloatArray
    charge: FloatArray
    counts: IntArray
    savings: FloatArray
    bound: float


class Pricing:
    """Finds the best pattern of every class of jobs, the job having all idle nodes for itself.

    Parameters
    ----------
    tree
        The groups.
    demand
        The jobs.

    Attributes
    ----------
    is_possible
        Whether every job, alone, has a pattern.
    least_value
        Value of a job that gets no nodes; minus infinity where every job has to be placed.
    """

    def __init__(self, tree: GroupTree, demand: Demand) -> None:
        self.tree = tree
        self.demand = demand
        self.sizes, self.multiplicity = demand.classes.sizes, demand.multiplicity
        self.is_possible = True
        self.least_value = -np.inf
        self.n_leaves = len(tree.leaf_first) - 1
        self.idle: IntArray = tree.idle[: self.n_leaves]
        self.charges = Charges(tree)
        self._state: InsertionState = insertion_state(tree, demand.largest)

    def at(self, multipliers: FloatArray) -> PricedPatterns:
        """Price the patterns; there is one multiplier for each of the first rows, none negative."""
        charge = self.charges.table(multipliers)
        counts = np.empty((len(self.sizes), len(self.tree.idle)), dtype=np.int64)
        savings, values = np.empty(len(self.sizes)), np.empty(len(self.sizes))
        classes = self.demand.classes
        best_patterns(self.tree, self._state, classes, charge, self.charges.first, counts, savings, values)
        if classes.ruled:
            self.is_possible = bool(np.isfinite(values).all())
            values = np.maximum(values, self.least_value)
        bound = float(self.multiplicity @ values) + self.charges.income(charge)
        return PricedPatterns(multipliers, charge, counts, savings, bound)

    def counts_of_vertices(self, counts: IntArray) -> IntArray:
        """Return the nodes of every vertex from those of the leaves, shape ``(J, V)``."""
        every = np.zeros((len(counts), len(self.tree.idle)), dtype=np.int64)
        every[:, : self.n_leaves] = counts
        for vertex in range(self.n_leaves, len(self.tree.idle)):
            children = self.tree.children[self.tree.first_child[vertex] : self.tree.first_child[vertex + 1]]
            every[:, vertex] = every[:, children].sum(axis=1)
        return every

    def savings_of(self, counts: IntArray) -> FloatArray:
        """Return what every job saves with its nodes of each vertex, in hops, shape ``(J,)``."""
        return self.demand.savings_of(counts, self.tree.weight)


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
