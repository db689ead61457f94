"""Tables of the worth of every guest on every host at every quota, and bounds and greedy solutions from them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.coallocation.problem import LARGEST_PERCENT, Coallocation, CoallocationProblem, GuestPlace

# Most entries of the tables (hosts times guests times quotas), and most terms in all: an entry is a sum over stages.
MOST_TRIPLES, MOST_TERMS = 1_000_000, 10_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Tables of what a guest causes and is worth if it is the only one on its host, shape ``(H, G, Q)``.

    Their axes are host, guest and quota. ``host_steps`` and ``guest_steps`` hold the excess of either job in steps, and
    ``values`` the worth of the placement, minus infinity if it breaks a rule.
    """

    problem: CoallocationProblem
    host_steps: IntArray
    guest_steps: IntArray
    values: FloatArray

    @classmethod
    def of(cls, problem: CoallocationProblem) -> "Pairs":
        """Return the tables of a problem."""
        shape = (len(problem.hosts), len(problem.guests), len(problem.percents))
        hosts, guests = problem.host_demands, problem.guest_demands
        host, guest = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
        # Even a single guest has to fit the cores and the memory of its host.
        free, taken = problem.memory_steps
        room = (guests.cores <= hosts.cores[:, None]) & (taken <= free[:, None])
        if problem.measured_steps is not None:
            host_steps, guest_steps = (np.broadcast_to(steps[..., None], shape) for steps in problem.measured_steps)
            room &= host_steps[..., 0] >= 0
        else:
            triple = (host[..., None], guest[..., None], problem.percents[None, None, :])
            host_steps, guest_steps = hosts.cpu_steps(guests, *triple, problem.sharing)
            cores, how = hosts.cores[host], problem.interference
            host_steps = host_steps + hosts.contention_steps(host, guests, guest, cores, how)[..., None]
            guest_steps = guest_steps + guests.contention_steps(guest, hosts, host, cores, how)[..., None]
        fits = room[..., None] & (host_steps <= problem.host_limits[:, None, None])
        fits &= guest_steps <= problem.guest_limits[:, None]
        worth = problem.guest_worth(guest[..., None], guest_steps)
        values = worth - problem.host_losses(host[..., None], host_steps)
        return cls(problem, host_steps, guest_steps, np.where(fits, values, -np.inf))

    def best_quota(self) -> IntArray:
        """Return the index of the best quota of each pair, the smallest of equal ones, shape ``(H, G)``."""
        return np.asarray(self.values.argmax(axis=2))

    def best(self) -> FloatArray:
        """Return the worth of each pair at its best quota, shape ``(H, G)``."""
        return np.asarray(self.values.max(axis=2))

    def bound(self) -> float:
        """Return an upper bound of the objective: every guest at its best place, as if no other guest were there.

        The bound also holds for several guests on a host: together they cause at least the sum of the excesses that
        each causes without the others. CPU excess is convex in the cores taken and 0 at none; contention is additive.
        """
        return float(np.maximum(0.0, self.values.max(axis=(0, 2))).sum())

    def greedy(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[Coallocation]:
        """Place the guests one by one in each of three orders, and yield each solution.

        The orders are: largest worth first, most cores first, and first the guest that loses most if it does not get
        its best host. If ``is_over`` returns True, the guests placed so far are the solution.
        """
        best = np.maximum(0.0, self.best())
        worth, sizes = best.max(axis=0), self.problem.guest_demands.cores
        second = np.sort(best, axis=0)[-2] if len(best) > 1 else np.zeros(len(worth))
        for key in (worth, sizes, worth - second):
            packing = _Packing(self)
            for guest in np.argsort(-key, kind="stable").tolist():
                if is_over():
                    break
                packing.place_best(guest)
            yield Coallocation(tuple(packing.places))

    def first_fit(self, percent: int) -> Coallocation:
        """Give each guest, in order, ``percent`` of the first host without a guest yet on which it breaks no rule."""
        places = []
        free = np.ones(len(self.problem.hosts), dtype=bool)
        quota = int(np.searchsorted(self.problem.percents, percent))
        for guest in range(len(self.problem.guests)):
            fits = np.flatnonzero(free & np.isfinite(self.values[:, guest, quota]))
            if len(fits):
                places.append(GuestPlace(guest, int(fits[0]), percent))
                free[fits[0]] = False
        return Coallocation(tuple(places))


_NOBODY = -1


class _Packing:
    def __init__(self, pairs: Pairs) -> None:
        self.problem, self.pairs = (problem := pairs.problem), pairs
        self.places: list[GuestPlace] = []
        n_hosts = len(problem.hosts)
        self._members = np.full((n_hosts, problem.max_guests), _NOBODY, dtype=np.int64)
        self._count, self._percent, self._stalls = np.zeros((3, n_hosts), dtype=np.int64)
        self._memory, self._taken = problem.memory_steps
        self._slack = problem.guest_limits
        totals = np.arange(LARGEST_PERCENT + 1)[None, :]
        self._alone = problem.host_demands.capped_host_steps(np.arange(n_hosts)[:, None], totals)

    def place_best(self, guest: int) -> None:
        worth = self.pairs.values[:, guest].copy() if self.problem.max_guests == 1 else self._worth(guest)
        worth[self._count >= self.problem.max_guests] = -np.inf
        host, quota = map(int, np.unravel_index(int(worth.argmax()), worth.shape))
        if not worth[host, quota] > 0:
            return
        mine, theirs = self._stalls_with(guest)
        n_members, percent = self._count[host], int(self.problem.percents[quota])
        self._slack[self._members[host, :n_members]] -= theirs[host, :n_members]
        self._slack[guest] -= self.pairs.guest_steps[host, guest, quota] + mine[host].sum()
        self._members[host, n_members] = guest
        self._count[host] += 1
        self._percent[host] += percent
        self._memory[host] -= self._taken[host, guest]
        self._stalls[host] += self._contention(guest)[host]
        self.places.append(GuestPlace(guest, host, percent))

    def _worth(self, guest: int) -> FloatArray:
        # Worth of adding the guest, by host and quota; minus infinity if that breaks a rule.
        problem, pairs = self.problem, self.pairs
        rows, total = np.arange(len(problem.hosts))[:, None], self._percent[:, None] + problem.percents
        (mine, theirs), contention = self._stalls_with(guest), self._contention(guest)
        # CPU excess is not linear in the percent that guests hold, so look it up for the sums before and after.
        held = self._alone[rows, np.minimum(total, LARGEST_PERCENT)]
        added = held - self._alone[rows, self._percent[:, None]] + contention[:, None]
        own = pairs.guest_steps[:, guest] + mine.sum(axis=1)[:, None]
        room = np.asarray((self._taken[:, guest] <= self._memory) & (theirs <= self._slack[self._members]).all(axis=1))
        fits = (total <= LARGEST_PERCENT) & room[:, None]
        fits &= np.isfinite(pairs.values[:, guest]) & (own <= problem.guest_limits[guest])
        fits &= held + (self._stalls + contention)[:, None] <= problem.host_limits[:, None]
        costs = (theirs * problem.guest_costs[self._members]).sum(axis=1)[:, None]
        worth = problem.gains[guest] - problem.guest_costs[guest] * own - problem.host_costs[:, None] * added - costs
        return np.where(fits, worth, -np.inf)

    def _contention(self, guest: int) -> IntArray:
        rows, hosts = np.arange(len(self.problem.hosts)), self.problem.host_demands
        guests, how = self.problem.guest_demands, self.problem.interference
        return hosts.contention_steps(rows, guests, np.full(len(rows), guest), hosts.cores, how)

    def _stalls_with(self, guest: int) -> tuple[IntArray, IntArray]:
        # Excess that each guest on each host causes this guest, and this guest causes each of them.
        guests, how, there = self.problem.guest_demands, self.problem.interference, self._members != _NOBODY
        cores, one = self.problem.host_demands.cores[:, None], np.full_like(self._members, guest)
        mine = guests.contention_steps(one, guests, self._members, cores, how)
        theirs = guests.contention_steps(self._members, guests, one, cores, how)
        return mine * there, theirs * there
