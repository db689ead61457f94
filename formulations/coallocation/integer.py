"""Solvers ``scip``, ``highs`` and ``cp-sat`` of co-allocation problems, and their binary program.

``x_{h,g,q}`` says that guest g is on host h at quota q. With one guest a host, each pair has one column, at its best
quota: maximize ``sum value x`` with at most one x for every guest and every host.

With several, capped by their quotas, the excess of a host from missing cores is a function ``f_h(Q)`` of their sum Q
alone, and the rest adds up over pairs. ``z_{h,Q}`` says that the guests of h hold at most Q percent, and ``y_{h,g,g'}``
that both g and g' are on h. With c for contention in steps of excess, for every host (and guest on it):

- ``sum x <= K``, ``sum q x <= sum Q z``, ``sum z <= 1``, ``sum memory x <= free memory``,
- ``sum f_h(Q) z + sum c_{h,g} x <= limit_h``,
- ``x_{h,g} + x_{h,g'} - y_{h,g,g'} <= 1`` where g and g' contend, ``x_{h,g}`` being the sum over q,
- ``sum e_{h,g,q} x + sum c_{g,g'} y <= limit_g``, where e is the excess of g alone on h.

Left out is what is never in an optimal solution: a guest that is worth nothing alone on a host (beside others it is
worth no more, `allocopt.problems.coallocation.pairs.alone_bound`), and a quota at which it takes as long as at a
smaller one.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.coallocation import CoallocationSolver
from allocopt.errors import InvalidSolutionError, UsageError
from allocopt.problems.coallocation.interference import capped_host_steps, contention_steps
from allocopt.problems.coallocation.pairs import Pairs, memory_steps
from allocopt.problems.coallocation.problem import (
    LARGEST_PERCENT,
    Coallocation,
    CoallocationProblem,
    GuestPlace,
)
from allocopt.problems.coallocation.verify import verify_coallocation
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Promise
from allocopt.solving.result import StopReason
from allocopt.solving.run import Run
from formulations.backends.protocol import BinaryProgram, NameGrid, Rows, spans
from formulations.backends.solver import CP_SAT, HIGHS, SCIP, BackEndSolver, BackEndSpec, ask_child, stop_reason
from formulations.coallocation.assignment import assignment_bound, best_assignment

ROUNDING = 1e-12
"""What sums of values can lose by rounding, relative to what is summed, and more than that."""


@dataclass(frozen=True, slots=True, eq=False)
class CoallocationModel:
    """The program of a problem.

    Parameters
    ----------
    problem
        The problem.
    pairs
        Its tables.
    """

    problem: CoallocationProblem
    pairs: Pairs
    x: IntArray = field(init=False)
    """Host, guest and number of the quota of every x, in this order, shape ``(x, 3)``."""
    z: IntArray = field(init=False)
    """Host and percent of every z, shape ``(z, 2)``; none with one guest a host."""
    y: IntArray = field(init=False)
    """Host and two guests of every y, shape ``(y, 3)``; none with one guest a host."""

    def __post_init__(self) -> None:
        several = self.problem.max_guests > 1
        x = _several_columns(self.pairs) if several else _single_columns(self.pairs)
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "z", _totals(self.problem, x) if several else np.empty((0, 2), dtype=np.int64))
        object.__setattr__(self, "y", _meetings(self.problem, x) if several else np.empty((0, 3), dtype=np.int64))

    def is_empty(self) -> bool:
        """Whether no placement is worth anything."""
        return not len(self.x)

    def nonzeros(self) -> int:
        """Most nonzeros that the program has."""
        per_x = 2 if self.problem.max_guests == 1 else 6
        quotas = len(self.problem.percents)
        return per_x * len(self.x) + 3 * len(self.z) + (3 + 2 * quotas) * len(self.y)

    def program(self) -> BinaryProgram:
        """Build the program; columns are x, then z, then y."""
        problem, (host, guest, quota) = self.problem, self.x.T
        rows = Rows()
        for number in np.unique(guest).tolist():
            rows.at_most(1, (np.flatnonzero(guest == number), 1))
        if problem.max_guests == 1:
            for number in np.unique(host).tolist():
                rows.at_most(1, (np.flatnonzero(host == number), 1))
            return rows.program(-self.pairs.values[host, guest, quota], self._names())
        for number in np.unique(host).tolist():
            self._add_host(rows, number)
        costs = np.concatenate((-self._worth(), self._costs_of_totals(), self._costs_of_meetings()))
        return rows.program(costs, self._names())

    def decode(self, chosen: IntArray) -> Coallocation | None:
        """Return the solution of the chosen columns; None if tolerances let something pass that breaks a rule."""
        percents = self.problem.percents
        places = (
            GuestPlace(guest, host, int(percents[quota]))
            for host, guest, quota in self.x[chosen[chosen < len(self.x)]].tolist()
        )
        solution = Coallocation(tuple(places))
        try:
            verify_coallocation(self.problem, solution)
        except InvalidSolutionError:
            return None
        return solution

    def encode(self, solution: Coallocation) -> IntArray | None:
        """Columns of a solution; None if the program leaves some of it out."""
        column = {tuple(row): number for number, row in enumerate(self.x.tolist())}
        total_column = {tuple(row): len(self.x) + number for number, row in enumerate(self.z.tolist())}
        meeting = {tuple(row): len(self.x) + len(self.z) + number for number, row in enumerate(self.y.tolist())}
        percents, columns = self.problem.percents, []
        on_host: dict[int, list[GuestPlace]] = {}
        for place in solution.places:
            columns.append(column.get((place.host, place.guest, int(np.searchsorted(percents, place.percent))), -1))
            on_host.setdefault(place.host, []).append(place)
        for host, places in on_host.items() if self.problem.max_guests > 1 else ():
            columns.append(total_column.get((host, sum(place.percent for place in places)), -1))
            guests = sorted(place.guest for place in places)
            pairs = [(host, first, second) for first in guests for second in guests if first < second]
            columns.extend(meeting[pair] for pair in pairs if pair in meeting)
        return None if -1 in columns else np.sort(np.array(columns, dtype=np.int64))

    def bound_of(self, bound: float) -> float:
        """Upper bound on the objective: that of the program, or 0, for nobody may be placed."""
        return max(0.0, -bound + ROUNDING * abs(bound))

    def _worth(self) -> FloatArray:
        """Return what every x is worth, apart from the cores that its host misses."""
        problem, (host, guest, quota) = self.problem, self.x.T
        excess = self.pairs.guest_steps[host, guest, quota]
        worth = problem.gains[guest] - problem.guest_costs[guest] * excess
        return np.asarray(worth - problem.host_costs[host] * self._contention(host, guest))

    def _costs_of_totals(self) -> FloatArray:
        """Return what the cores that a host misses cost, for every z."""
        host, total = self.z.T
        return np.asarray(self.problem.host_costs[host] * capped_host_steps(self.problem.host_demands, host, total))

    def _costs_of_meetings(self) -> FloatArray:
        """Return what the contention of two guests costs, for every y."""
        first, second = self._between()
        _, one, two = self.y.T
        return np.asarray(self.problem.guest_costs[one] * first + self.problem.guest_costs[two] * second)

    def _contention(self, host: IntArray, guest: IntArray) -> IntArray:
        """Excess in steps that hosts have from the contention with guests."""
        hosts = self.problem.host_demands
        how = self.problem.interference
        return contention_steps(hosts, host, self.problem.guest_demands, guest, hosts.cores[host], how)

    def _between(self) -> tuple[IntArray, IntArray]:
        """Excess in steps of the first and of the second guest of every y from each other."""
        return _between(self.problem, *self.y.T)

    def _add_host(self, rows: Rows, number: int) -> None:
        """Add the rows of one host with several guests."""
        problem = self.problem
        x, z = np.flatnonzero(self.x[:, 0] == number), np.flatnonzero(self.z[:, 0] == number)
        guest, quota = self.x[x, 1], self.x[x, 2]
        columns, divisor = len(self.x) + z, int(np.gcd.reduce(problem.percents))
        rows.at_most(problem.max_guests, (x, 1))
        rows.at_most(1, (columns, 1))
        rows.at_most(0, (x, problem.percents[quota] // divisor), (columns, -(self.z[z, 1] // divisor)))
        excess = capped_host_steps(problem.host_demands, self.z[z, 0], self.z[z, 1])
        contention = self._contention(self.x[x, 0], guest)
        rows.at_most(int(problem.host_limits[number]), (columns, excess), (x, contention))
        free, taken = memory_steps(problem)
        rows.at_most(int(free[number]), (x, taken[number, guest]))
        self._add_meetings(rows, number, x)

    def _add_meetings(self, rows: Rows, number: int, x: IntArray) -> None:
        """Add the rows of guests that meet on a host."""
        mine = np.flatnonzero(self.y[:, 0] == number)
        if not len(mine):
            return
        guests, first, counts = np.unique(self.x[x, 1], return_index=True, return_counts=True)
        columns = len(self.x) + len(self.z) + mine
        ends = np.searchsorted(guests, self.y[mine, 1:])
        parts = [spans(x[0] + first[end], counts[end]) for end in ends.T]
        held = np.concatenate([parts[0][0], parts[1][0], columns])
        row_of = np.concatenate([parts[0][1], parts[1][1], np.arange(len(mine))])
        rows.add(row_of, held, np.where(np.arange(len(held)) < len(held) - len(mine), 1, -1), np.ones(len(mine)))
        excess, guest_of = (
            self.pairs.guest_steps[number, self.x[x, 1], self.x[x, 2]],
            np.searchsorted(guests, self.x[x, 1]),
        )
        contention = np.concatenate(_between(self.problem, *self.y[mine].T))
        rows.add(
            np.concatenate((guest_of, ends[:, 0], ends[:, 1])),
            np.concatenate((x, columns, columns)),
            np.concatenate((excess, contention)),
            self.problem.guest_limits[guests],
        )

    def _names(self) -> list[NameGrid]:
        """Names of the columns."""
        percents = self.problem.percents
        x = self.x if self.problem.max_guests > 1 else self.x[:, :2]
        grids = _grids("x", np.column_stack((x[:, :-1], percents[x[:, -1]])) if x.shape[1] > 2 else x)
        return [*grids, *_grids("z", self.z), *_grids("y", self.y)]


def _grids(stem: str, table: IntArray) -> list[NameGrid]:
    """Names of columns whose indices are the rows of a table, those that differ in the last index together."""
    if not len(table):
        return []
    changes = np.flatnonzero((table[1:, :-1] != table[:-1, :-1]).any(axis=1)) + 1
    return [
        NameGrid(stem, (*(part[:1, axis] for axis in range(table.shape[1] - 1)), part[:, -1]))
        for part in np.split(table, changes)
    ]


def _single_columns(pairs: Pairs) -> IntArray:
    """Host, guest and best quota of every pair that is worth something."""
    host, guest = np.nonzero(pairs.best() > 0)
    return np.column_stack((host, guest, pairs.best_quota()[host, guest]))


def _several_columns(pairs: Pairs) -> IntArray:
    """Host, guest and quota where the guest is worth something and no smaller quota does as well."""
    keep: BoolArray = pairs.values > 0
    better = np.ones_like(keep)
    better[:, :, 1:] = pairs.guest_steps[:, :, 1:] < pairs.guest_steps[:, :, :-1]
    # Where the smaller quota is not allowed to the guest, neither is one at which it takes as long.
    return np.argwhere(keep & better)


def _totals(problem: CoallocationProblem, x: IntArray) -> IntArray:
    """Hosts and the percent that their guests can hold together within the hosts' bounds."""
    found: list[tuple[int, int]] = []
    for host in np.unique(x[:, 0]).tolist():
        percents = np.unique(problem.percents[x[x[:, 0] == host, 2]]).tolist()
        sums = {0}
        for _ in range(problem.max_guests):
            sums |= {total + percent for total in sums for percent in percents if total + percent <= LARGEST_PERCENT}
        totals = np.array(sorted(sums - {0}))
        held = capped_host_steps(problem.host_demands, np.full_like(totals, host), totals)
        found.extend((host, total) for total in totals[held <= problem.host_limits[host]].tolist())
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _meetings(problem: CoallocationProblem, x: IntArray) -> IntArray:
    """Hosts and pairs of guests that can be there together and contend."""
    free, taken = memory_steps(problem)
    found = [np.empty((0, 3), dtype=np.int64)]
    for host in np.unique(x[:, 0]).tolist():
        mine = x[x[:, 0] == host]
        guests, first = np.unique(mine[:, 1], return_index=True)
        one, two = np.triu_indices(len(guests), 1)
        percent, memory = problem.percents[mine[first, 2]], taken[host, guests]
        fits = percent[one] + percent[two] <= LARGEST_PERCENT
        fits &= memory[one] + memory[two] <= free[host]
        pairs = np.column_stack((np.full(len(one), host), guests[one], guests[two]))[fits]
        contend = np.add(*_between(problem, *pairs.T)) > 0
        found.append(pairs[contend])
    return np.concatenate(found)


def _between(problem: CoallocationProblem, host: IntArray, one: IntArray, two: IntArray) -> tuple[IntArray, IntArray]:
    """Excess in steps of each of two guests from the other on a host."""
    guests, how, cores = problem.guest_demands, problem.interference, problem.host_demands.cores[host]
    first = contention_steps(guests, one, guests, two, cores, how)
    return first, contention_steps(guests, two, guests, one, cores, how)


LARGEST_NONZEROS = 500_000


@dataclass(frozen=True)
class IntegerCoallocation(BackEndSolver, CoallocationSolver):
    """A solver that hands the program of a co-allocation to a back end."""

    @property
    def capabilities(self) -> Capabilities:
        """Co-allocation problems, to proof."""
        return Capabilities(
            frozenset(),
            frozenset({Promise.EXACT, Promise.ANYTIME, Promise.BOUND}),
            f"{LARGEST_NONZEROS:,} nonzeros of the model",
        )

    def refusal(self, problem: CoallocationProblem) -> str | None:
        """Why the problem is too large, or None."""
        too_many = super().refusal(problem)
        if too_many is not None or (problem.max_guests == 1 and most_columns(problem) * 2 <= LARGEST_NONZEROS):
            return too_many
        nonzeros = CoallocationModel(problem, Pairs.of(problem)).nonzeros()
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, the largest taken has {LARGEST_NONZEROS:,}"
        return None

    def program(self, problem: CoallocationProblem) -> BinaryProgram:
        """Build the whole program of a problem.

        Raises
        ------
        UsageError
            If no placement is worth anything, so that there is none.
        """
        model = CoallocationModel(problem, Pairs.of(problem))
        if model.is_empty():
            raise UsageError(f"{problem.name!r} has no model: no guest can be placed to its gain")
        return model.program()

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        """Solve the program from the best assignment on, which leaves nothing to do with one guest a host.

        See `SearchSolver.search`.
        """
        pairs = Pairs.of(problem)
        run.offer(Coallocation())
        if not run.clock.expired():
            run.offer(best_assignment(problem, pairs))
            run.prove(assignment_bound(problem, pairs))
        if not run.is_proved():
            self.begin(problem, pairs, run)
        if run.is_proved():
            return StopReason.PROVED
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        ask_child(self.back_end, run, CoallocationModel(problem, pairs), seed, run.solution, budget.iterations)
        return stop_reason(run.clock, budget)


def most_columns(problem: CoallocationProblem) -> int:
    """Most columns that the program of one guest a host has."""
    return len(problem.hosts) * len(problem.guests)


@dataclass(frozen=True)
class ScipCoallocation(IntegerCoallocation):
    """The program in SCIP."""

    name: ClassVar[str] = "scip"
    back_end: ClassVar[BackEndSpec] = SCIP


@dataclass(frozen=True)
class HighsCoallocation(IntegerCoallocation):
    """The program in HiGHS."""

    name: ClassVar[str] = "highs"
    back_end: ClassVar[BackEndSpec] = HIGHS


@dataclass(frozen=True)
class CpSatCoallocation(IntegerCoallocation):
    """The program in CP-SAT, on integer values."""

    name: ClassVar[str] = "cp-sat"
    back_end: ClassVar[BackEndSpec] = CP_SAT
