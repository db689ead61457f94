"""Certificates of bounds on co-allocations: prices of places on hosts (the dual of the assignment problem).

``docs/certificates.md`` has the formula and its proof. Only checkers compute bounds with this code, no solver does.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.certificate import Certificate, InvalidCertificateError, floors
from allocopt.problems.coallocation.problem import CoallocationProblem

GRID = 2**40
ROUNDING = 1e-12  # relative; exceeds the rounding error of a guest's worth in floats


@dataclass(frozen=True, slots=True)
class HostPrices(Certificate[CoallocationProblem]):
    """Price of a place on each host, in the order of the hosts, none negative; empty if all are 0."""

    prices: tuple[float, ...] = ()

    method: ClassVar[str] = "host-prices"

    def seconds(self, problem: CoallocationProblem) -> float:
        stages = int(problem.host_demands.cpu.shape[1] * problem.guest_demands.cpu.shape[1])
        triples = len(problem.hosts) * len(problem.guests) * len(problem.percents)
        return 2e-4 + 1.2e-4 * len(problem.hosts) + 3e-8 * triples * stages

    def bound(self, problem: CoallocationProblem) -> Fraction:
        prices = floors(self.prices, GRID) or [0] * len(problem.hosts)
        if len(prices) != len(problem.hosts) or min(prices) < 0:
            raise InvalidCertificateError(f"needs a price of 0 or more for each of {len(problem.hosts)} hosts")
        best = [0] * len(problem.guests)
        for host, price in enumerate(prices):
            for guest, worth in enumerate(_worths(problem, host).tolist()):
                if worth > 0.0:
                    best[guest] = max(best[guest], math.ceil(Fraction(worth * (1.0 + ROUNDING)) * GRID) - price)
        return Fraction(sum(best) + problem.max_guests * sum(prices), GRID)


def _worths(problem: CoallocationProblem, host: int) -> FloatArray:
    """Return the best worth of each guest as the only one on a host; minus infinity if it is not allowed there."""
    hosts, guests, how = problem.host_demands, problem.guest_demands, problem.interference
    n_guests, n_quotas = len(problem.guests), len(problem.percents)
    guest, percent = np.repeat(np.arange(n_guests), n_quotas), np.tile(problem.percents, n_guests)
    one = np.full(len(guest), host)
    if problem.measured_steps is not None:
        of_host, of_guest = problem.measured_steps[:, host, guest]
        may_be = of_host >= 0
    else:
        of_host, of_guest = hosts.cpu_steps(guests, one, guest, percent, problem.sharing)
        cores = hosts.cores[one]
        of_host = of_host + hosts.contention_steps(one, guests, guest, cores, how)
        of_guest = of_guest + guests.contention_steps(guest, hosts, one, cores, how)
        may_be = np.ones(len(guest), dtype=np.bool_)
    free, taken = problem.memory_steps
    may_be &= (guests.cores[guest] <= hosts.cores[host]) & (taken[host, guest] <= free[host])
    may_be &= (of_host <= problem.host_limits[host]) & (of_guest <= problem.guest_limits[guest])
    worth = problem.guest_worth(guest, of_guest) - problem.host_losses(one, of_host)
    return np.asarray(np.where(may_be, worth, -np.inf).reshape(n_guests, n_quotas).max(axis=1))
