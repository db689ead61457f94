"""What one guest on one host is worth, for all pairs and quotas at once, and what follows from it."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.problems.coallocation.excess import contention_steps, cpu_steps, in_steps
from allocopt.problems.coallocation.interference import Sharing
from allocopt.problems.coallocation.problem import CoallocationProblem

MOST_TRIPLES, MOST_TERMS = 1_000_000, 10_000_000
"""Hosts times guests times quotas that tables are made for, and these times the stages that are summed over."""


def pairs_refusal(problem: CoallocationProblem) -> str | None:
    """Why the tables would be too large; None if they are not."""
    stages = problem.host_demands.shares.shape[1], problem.guest_demands.shares.shape[1]
    triples = len(problem.hosts) * len(problem.guests) * len(problem.percents)
    terms = triples * (stages[0] * stages[1] if problem.sharing is Sharing.SHARES else max(stages))
    if triples <= MOST_TRIPLES and terms <= MOST_TERMS:
        return None
    return (
        f"it has {triples:,} hosts x guests x quotas, {terms:,} with the stages; {MOST_TRIPLES:,} and {MOST_TERMS:,} "
        "are taken"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Every guest alone on every host at every quota.

    Parameters
    ----------
    host_steps, guest_steps
        Excess in steps, shape ``(H, G, Q)``.
    values
        What the placement is worth; minus infinity where it breaks a rule, shape ``(H, G, Q)``.
    """

    host_steps: IntArray
    guest_steps: IntArray
    values: FloatArray

    @classmethod
    def of(cls, problem: CoallocationProblem) -> "Pairs":
        """Make the tables of a problem."""
        host_steps, guest_steps, fits = _steps(problem)
        fits = fits & (host_steps <= problem.host_limits[:, None, None])
        fits &= guest_steps <= problem.guest_limits[:, None]
        host, guest = np.arange(len(problem.hosts))[:, None, None], np.arange(len(problem.guests))[None, :, None]
        values = problem.guest_worth(guest, guest_steps) - problem.host_losses(host, host_steps)
        return cls(host_steps, guest_steps, np.where(fits, values, -np.inf))

    def best_quota(self) -> IntArray:
        """Return the number of the quota at which each pair is worth most, the least of equals, shape ``(H, G)``."""
        return np.asarray(self.values.argmax(axis=2))

    def best(self) -> FloatArray:
        """Return what each pair is worth at most, shape ``(H, G)``."""
        return np.asarray(self.values.max(axis=2))


def memory_steps(problem: CoallocationProblem) -> tuple[IntArray, IntArray]:
    """Memory that is free on each host, and that each guest takes on it, in steps, shapes ``(H,)`` and ``(H, G)``."""
    size = problem.guest_demands.cores / problem.host_demands.cores[:, None]
    free = in_steps(1.0) - in_steps(problem.host_demands.peaks)
    return free, in_steps(problem.guest_demands.peaks * size)


def fitting(problem: CoallocationProblem) -> BoolArray:
    """Whether each guest has room in the cores and the memory of each host, alone on it, shape ``(H, G)``."""
    free, taken = memory_steps(problem)
    return (problem.guest_demands.cores <= problem.host_demands.cores[:, None]) & (taken <= free[:, None])


def alone_bound(values: FloatArray) -> float:
    """Upper bound: every guest at the best of its places, as if it were alone there.

    It holds for several guests on a host too: the excess that guests cause together is no less than the sum of what
    each of them causes alone, for the CPU's is convex in the cores that are taken, 0 at none, and the rest adds up.
    """
    return float(np.maximum(0.0, values.max(axis=(0, 2))).sum())


def _steps(problem: CoallocationProblem) -> tuple[IntArray, IntArray, BoolArray]:
    """Excess of hosts and guests in steps, and where there is room, shape ``(H, G, Q)`` each."""
    shape = (len(problem.hosts), len(problem.guests), len(problem.percents))
    room = fitting(problem)
    if problem.measured_steps is not None:
        of_hosts, of_guests = (np.broadcast_to(steps[..., None], shape) for steps in problem.measured_steps)
        return of_hosts, of_guests, np.broadcast_to((room & (of_hosts[..., 0] >= 0))[..., None], shape)
    hosts, guests = problem.host_demands, problem.guest_demands
    host, guest = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    triple = (host[..., None], guest[..., None], problem.percents[None, None, :])
    host_steps, guest_steps = cpu_steps(hosts, guests, *triple, problem.sharing)
    cores, how = hosts.cores[host], problem.interference
    host_steps = host_steps + contention_steps(hosts, host, guests, guest, cores, how)[..., None]
    guest_steps = guest_steps + contention_steps(guests, guest, hosts, host, cores, how)[..., None]
    return host_steps, guest_steps, np.broadcast_to(room[..., None], shape)
