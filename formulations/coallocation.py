"""Exact solvers of co-allocation problems: ``assignment``, and the program of ``scip``, ``highs`` and ``cp-sat``.

With one guest per host, each pair of a host and a guest has a best quota. Only the assignment of guests to hosts is
left to decide. This is a linear assignment problem, solved in polynomial time (Crouse, "On implementing 2D rectangular
assignment algorithms", 2016).

``x_{h,g,q}`` is 1 if guest g is on host h at quota q. With one guest per host, each pair has one column, at its best
quota: maximize ``sum value x`` with at most one x for every guest and every host.

With several guests per host, each guest uses at most its quota. The excess of a host from missing cores then depends
only on the sum Q of the quotas, as ``f_h(Q)``, and all other excess adds up over pairs. ``z_{h,Q}`` is 1 if the guests
of h hold at most Q percent, ``y_{h,g,g'}`` if both g and g' are on h. With c for the excess from contention, in steps,
for every host, and for every guest on it:

- ``sum x <= K``, ``sum q x <= sum Q z``, ``sum z <= 1``, ``sum memory x <= free memory``,
- ``sum f_h(Q) z + sum c_{h,g} x <= limit_h``,
- ``x_{h,g} + x_{h,g'} - y_{h,g,g'} <= 1`` where g and g' contend, ``x_{h,g}`` being the sum over q,
- ``sum e_{h,g,q} x + sum c_{g,g'} y <= limit_g``, where e is the excess of g as the only guest on h.

The program leaves out columns that no optimal solution needs: those of a guest on a host where it is worth nothing as
the only guest (with others it is worth no more, see `allocopt.problems.coallocation.pairs.Pairs.bound`), and those of a
quota at which the guest takes as long as at a smaller one.
"""

import itertools
from typing import ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from allocopt.arrays import IntArray
from allocopt.coallocation import CoallocationSolver
from allocopt.formulations.backends.program import BinaryProgram, Formulation, Rows, column_numbers, names_of
from allocopt.formulations.backends.solver import BackEndSolver
from allocopt.problems.coallocation.certificates import HostPrices
from allocopt.problems.coallocation.pairs import MOST_TRIPLES, Pairs
from allocopt.problems.coallocation.problem import LARGEST_PERCENT, Coallocation, CoallocationProblem, GuestPlace
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget

PRICE_STEP = 1e-13  # relative change of prices that counts as rounding
ROUNDING = 1e-12  # relative; exceeds the rounding error of sums of values


def _assignment_bound(pairs: Pairs) -> tuple[float, HostPrices]:
    """Return an upper bound and its certificate, as if the guests of a host, at most ``max_guests``, shared nothing.

    `Pairs.bound` explains why the bound holds for several guests on a host.
    """
    worth, places = np.maximum(0.0, pairs.best()), pairs.problem.max_guests
    rows, guests = linear_sum_assignment(np.repeat(worth, places, axis=0), maximize=True)
    host_of = np.full(worth.shape[1], -1)
    host_of[guests] = rows // places
    placed = np.flatnonzero((host_of >= 0) & (worth[host_of, np.arange(len(host_of))] > 0))
    alone = np.setdiff1d(np.arange(len(host_of)), placed)
    # Find the least prices of hosts at which no guest would gain on another host. They are the lengths of longest
    # paths over exchanges of guests. There are no positive cycles, because the assignment is optimal.
    prices = worth[:, alone].max(axis=1, initial=0.0)
    own = worth[host_of[placed], placed]
    for _ in range(len(worth)):
        raised = np.maximum(prices, (prices[host_of[placed]] + worth[:, placed] - own).max(axis=1, initial=0.0))
        if np.allclose(raised, prices, rtol=0.0, atol=PRICE_STEP * float(worth.max(initial=0.0))):
            break
        prices = raised
    return float(own.sum()), HostPrices(tuple(prices.tolist()))


def _best_assignment(pairs: Pairs) -> Coallocation:
    # The best solution in which every host has at most one guest.
    worth, quota = np.maximum(0.0, pairs.best()), pairs.best_quota()
    hosts, guests = linear_sum_assignment(worth, maximize=True)
    return Coallocation(
        tuple(
            GuestPlace(guest, host, int(pairs.problem.percents[quota[host, guest]]))
            for host, guest in zip(hosts.tolist(), guests.tolist(), strict=True)
            if worth[host, guest] > 0
        )
    )


class Assignment(CoallocationSolver):
    """The best assignment of guests to hosts; O(G^2 H)."""

    name: ClassVar[str] = "assignment"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(),
        frozenset({Promise.EXACT, Promise.BOUND}),
        f"{MOST_TRIPLES:,} hosts x guests x quotas, one guest a host",
    )

    def refusal(self, problem: CoallocationProblem) -> str | None:
        if problem.max_guests > 1:
            return f"it allows {problem.max_guests} guests per host, an assignment only one"
        return super().refusal(problem)

    def search(self, problem: CoallocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        pairs = Pairs.of(problem)
        run.prove(pairs.bound(), HostPrices())
        run.offer(Coallocation())
        if run.clock.expired():
            return StopReason.TIME_LIMIT
        solution = _best_assignment(pairs)
        run.offer(solution)
        run.prove(problem.objective(solution), _assignment_bound(pairs)[1])
        return StopReason.PROVED


class CoallocationModel(Formulation):
    """The program of a co-allocation problem; the module's docstring has its columns and rows."""

    def __init__(self, pairs: Pairs) -> None:
        problem = pairs.problem
        self._problem, self._pairs = problem, pairs
        # Tables with a row per column of the program: host, guest and index of the quota in x; host and percent in z;
        # host and two guests in y.
        self.z, self.y = (np.empty((0, width), dtype=np.int64) for width in (2, 3))
        if problem.max_guests == 1:
            hosts, guests = np.nonzero(pairs.best() > 0)
            self.x: IntArray = np.column_stack((hosts, guests, pairs.best_quota()[hosts, guests]))
            return
        better = np.ones(pairs.values.shape, dtype=np.bool_)
        better[:, :, 1:] = pairs.guest_steps[:, :, 1:] < pairs.guest_steps[:, :, :-1]
        # A quota at which the guest takes as long as at a smaller one is not needed: its largest excess allows both or
        # neither.
        self.x = np.argwhere((pairs.values > 0) & better)
        (free, taken), z, y = problem.memory_steps, [self.z], [self.y]
        for host in np.unique(self.x[:, 0]).tolist():
            mine = self.x[self.x[:, 0] == host]
            # Total percents that the guests can hold within the host's limits.
            sums, percents = {0}, np.unique(problem.percents[mine[:, 2]]).tolist()
            for _ in range(problem.max_guests):
                sums |= {total + more for total in sums for more in percents if total + more <= LARGEST_PERCENT}
            totals = np.array(sorted(sums - {0}))
            hosts = np.full_like(totals, host)
            held = problem.host_demands.capped_host_steps(hosts, totals) <= problem.host_limits[host]
            z.append(np.column_stack((hosts, totals))[held])
            # Pairs of guests that fit the host together and contend.
            guests, first = np.unique(mine[:, 1], return_index=True)
            one, two = np.triu_indices(len(guests), 1)
            percent, memory = problem.percents[mine[first, 2]], taken[host, guests]
            fits = (percent[one] + percent[two] <= LARGEST_PERCENT) & (memory[one] + memory[two] <= free[host])
            together = np.column_stack((np.full(len(one), host), guests[one], guests[two]))[fits]
            y.append(together[np.add(*_between(problem, *together.T)) > 0])
        self.z, self.y = np.concatenate(z), np.concatenate(y)

    def is_empty(self) -> bool:
        return not len(self.x)

    def most_nonzeros(self) -> int:
        """Return an upper bound of the number of nonzeros of the program."""
        per_x = 2 if self._problem.max_guests == 1 else 6
        return per_x * len(self.x) + 3 * len(self.z) + (3 + 2 * len(self._problem.percents)) * len(self.y)

    def program(self) -> BinaryProgram:
        # Columns are x, then z, then y.
        problem, (host, guest, quota), rows = self._problem, self.x.T, Rows()
        for number in np.unique(guest).tolist():
            rows.at_most(1, (np.flatnonzero(guest == number), 1))
        if problem.max_guests == 1:
            for number in np.unique(host).tolist():
                rows.at_most(1, (np.flatnonzero(host == number), 1))
            named = names_of("x", self.x[:, :2])
            return rows.program(-self._pairs.values[host, guest, quota], named)
        for number in np.unique(host).tolist():
            x, z = np.flatnonzero(host == number), np.flatnonzero(self.z[:, 0] == number)
            here, quotas = guest[x], quota[x]
            columns, divisor = len(self.x) + z, int(np.gcd.reduce(problem.percents))
            rows.at_most(problem.max_guests, (x, 1))
            rows.at_most(1, (columns, 1))
            rows.at_most(0, (x, problem.percents[quotas] // divisor), (columns, -(self.z[z, 1] // divisor)))
            excess = problem.host_demands.capped_host_steps(self.z[z, 0], self.z[z, 1])
            rows.at_most(int(problem.host_limits[number]), (columns, excess), (x, self._contention(host[x], here)))
            free, taken = problem.memory_steps
            rows.at_most(int(free[number]), (x, taken[number, here]))
            mine = np.flatnonzero(self.y[:, 0] == number)
            if not len(mine):
                continue
            columns = len(self.x) + len(self.z) + mine
            guests, of_guest = np.unique(here, return_inverse=True)
            ends = np.searchsorted(guests, self.y[mine, 1:])
            # For each pair of guests in y: the columns x of the first guest, then those of the second.
            row_of, held = zip(*(np.nonzero(of_guest == end[:, None]) for end in ends.T), strict=True)
            values = np.repeat([1, -1], (sum(map(len, held)), len(mine)))
            meeting = np.concatenate((*row_of, np.arange(len(mine))))
            rows.add(meeting, np.concatenate((*(x[one] for one in held), columns)), values, np.ones(len(mine)))
            excess = self._pairs.guest_steps[number, here, quotas]
            rows.add(
                np.concatenate((of_guest, ends[:, 0], ends[:, 1])),
                np.concatenate((x, columns, columns)),
                np.concatenate((excess, *_between(self._problem, *self.y[mine].T))),
                self._problem.guest_limits[guests],
            )
        # The worth of x is the gain of the guest, less the cost of its excess as the only guest and of its contention
        # with the host. The cost of z is that of missing cores, the cost of y that of contention between two guests.
        worth = problem.gains[guest] - problem.guest_costs[guest] * self._pairs.guest_steps[host, guest, quota]
        worth = worth - problem.host_costs[host] * self._contention(host, guest)
        (of_host, total), (_, one, two) = self.z.T, self.y.T
        missing = problem.host_costs[of_host] * problem.host_demands.capped_host_steps(of_host, total)
        first, second = _between(problem, *self.y.T)
        meeting = problem.guest_costs[one] * first + problem.guest_costs[two] * second
        named = names_of("x", np.column_stack((host, guest, problem.percents[quota])))
        named += names_of("z", self.z) + names_of("y", self.y)
        return rows.program(np.concatenate((-worth, missing, meeting)), named)

    def decode(self, chosen: IntArray) -> Coallocation:
        places = (
            GuestPlace(guest, host, int(self._problem.percents[quota]))
            for host, guest, quota in self.x[chosen[chosen < len(self.x)]].tolist()
        )
        return Coallocation(tuple(places))

    def encode(self, solution: Coallocation) -> IntArray | None:
        column, percents, columns = column_numbers(x=self.x, z=self.z, y=self.y), self._problem.percents, []
        on_host: dict[int, list[GuestPlace]] = {}
        for place in solution.places:
            quota = int(np.searchsorted(percents, place.percent))
            columns.append(column.get(("x", place.host, place.guest, quota), -1))
            on_host.setdefault(place.host, []).append(place)
        for host, places in on_host.items() if self._problem.max_guests > 1 else ():
            columns.append(column.get(("z", host, sum(place.percent for place in places)), -1))
            meetings = itertools.combinations(sorted(place.guest for place in places), 2)
            columns += [column["y", host, *pair] for pair in meetings if ("y", host, *pair) in column]
        return None if -1 in columns else np.sort(np.array(columns, dtype=np.int64))

    def bound_of(self, bound: float) -> float:
        # The bound is at least 0, the objective without any guests.
        return max(0.0, -bound + ROUNDING * abs(bound))

    def _contention(self, host: IntArray, guest: IntArray) -> IntArray:
        hosts, how = self._problem.host_demands, self._problem.interference
        return hosts.contention_steps(host, self._problem.guest_demands, guest, hosts.cores[host], how)


def _between(problem: CoallocationProblem, host: IntArray, one: IntArray, two: IntArray) -> tuple[IntArray, IntArray]:
    """Return the excess, in steps, that two guests on a host cause each other."""
    guests, how, cores = problem.guest_demands, problem.interference, problem.host_demands.cores[host]
    first = guests.contention_steps(one, guests, two, cores, how)
    return first, guests.contention_steps(two, guests, one, cores, how)


class IntegerCoallocation(BackEndSolver[CoallocationProblem, Pairs], CoallocationSolver):
    """Solver of the program `CoallocationModel`."""

    largest_nonzeros: ClassVar[int] = 500_000
    no_model = "placing a guest never improves the objective"

    def refusal(self, problem: CoallocationProblem) -> str | None:
        too_many = super().refusal(problem)
        # For one guest per host, the size is known to be small without building the model.
        few = problem.max_guests == 1 and 2 * len(problem.hosts) * len(problem.guests) <= self.largest_nonzeros
        if too_many is not None or few:
            return too_many
        return self.too_many(CoallocationModel(Pairs.of(problem)).most_nonzeros())

    tables = staticmethod(Pairs.of)

    def prepare(self, problem: CoallocationProblem, pairs: Pairs, run: Run) -> object:
        run.offer(Coallocation())
        # With one guest per host, this bound equals the objective, and no program is built.
        if not run.clock.expired():
            run.offer(_best_assignment(pairs))
            run.prove(*_assignment_bound(pairs))
        if not run.is_proved():
            self.begin(problem, run, pairs.bound(), HostPrices(), pairs.greedy(run.clock.expired))
        return run.solution

    def formulate(self, problem: CoallocationProblem, pairs: Pairs, known: float | None = None) -> Formulation:
        return CoallocationModel(pairs)
