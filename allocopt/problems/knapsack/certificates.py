"""Certificates of bounds on selections; ``docs/certificates.md`` has the formulas and proofs.

Gains are rounded up to a grid, so that all sums are whole numbers and no bound is too low. Only checkers compute bounds
with this code, no solver does.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.certificate import Certificate, InvalidCertificateError, TooLargeToCheckError
from allocopt.problems.knapsack.problem import KnapsackProblem, Reward

GRID = 2**80  # gains are multiples of 1 / GRID
MOST_ENTRIES = 20_000_000  # most entries of the table of the second dynamic program


@dataclass(frozen=True, slots=True, eq=False)
class _Worth:
    """The objective of a selection as a constant, a mean and a sum; exact, except that gains are rounded up."""

    constant: Fraction
    shared: list[int]  # for each job in ``jobs``: gain that enters the mean, in multiples of 1 / GRID
    own: list[int]  # for each job in ``jobs``: gain that enters the sum, likewise
    jobs: IntArray  # jobs that fit if no other job is selected

    @classmethod
    def of(cls, problem: KnapsackProblem) -> "_Worth":
        """Return the worth of the jobs of a problem."""
        jobs = [number for number in range(len(problem.jobs)) if _fits(problem, number)]
        numbers = [Fraction(number) for number in problem.numbers.tolist()]
        zeros = [0] * len(jobs)
        if problem.reward is Reward.LINEAR:
            return cls(Fraction(0), zeros, [_up(numbers[job]) for job in jobs], np.array(jobs, dtype=np.int64))
        if problem.reward is Reward.CAPACITY:
            every = [_up(1 / number / len(numbers)) for number in numbers]
            # The objective if all jobs keep waiting. It is negative, so its amount is rounded down.
            constant = -Fraction(sum(math.floor(GRID / number / len(numbers)) for number in numbers), GRID)
            return cls(constant, zeros, [every[job] for job in jobs], np.array(jobs, dtype=np.int64))
        first, second, third = map(Fraction, problem.weights)
        longest, size = max(numbers), problem.size
        sizes = problem.sizes.tolist()
        shared = [_up((first * numbers[job] / longest if longest else 0) + second * sizes[job] / size) for job in jobs]
        own = [_up(third * sizes[job] / size) for job in jobs]
        return cls(third * problem.in_use / size, shared, own, np.array(jobs, dtype=np.int64))


def _fits(problem: KnapsackProblem, job: int) -> bool:
    room = list(problem.capacity.values())
    if problem.slots is not None:
        room[0] = min(room[0], max(problem.slots, default=0))
    return all(asked <= free for asked, free in zip(problem.requests[job].tolist(), room, strict=True))


def _up(value: Fraction) -> int:
    return math.ceil(value * GRID)


@dataclass(frozen=True, slots=True)
class UnitPrice(Certificate[KnapsackProblem]):
    """The price of a unit of one resource, for objectives without a mean (Dantzig 1957)."""

    resource: str
    price: float

    method: ClassVar[str] = "unit-price"

    def seconds(self, problem: KnapsackProblem) -> float:
        return 1e-4 + 8e-6 * len(problem.jobs)

    def bound(self, problem: KnapsackProblem) -> Fraction:
        if self.resource not in problem.capacity or not 0.0 <= self.price < math.inf:
            raise InvalidCertificateError(f"unknown resource {self.resource!r}, or invalid price {self.price}")
        worth, price = _Worth.of(problem), math.floor(Fraction(self.price) * GRID)
        if any(worth.shared):
            raise InvalidCertificateError("a unit price proves no bound of an objective with a mean")
        units = problem.requests[worth.jobs, list(problem.capacity).index(self.resource)].tolist()
        gained = sum(max(0, own - price * asked) for own, asked in zip(worth.own, units, strict=True))
        return worth.constant + Fraction(gained + price * problem.capacity[self.resource], GRID)


@dataclass(frozen=True, slots=True)
class CountBounds(Certificate[KnapsackProblem]):
    """The largest of the bounds for 0, 1, .. selected jobs.

    The bound for k jobs combines the mean of the k largest gains that enter the mean with the k largest sizes.
    """

    method: ClassVar[str] = "count-bounds"

    def seconds(self, problem: KnapsackProblem) -> float:
        return 1e-4 + 1.5e-5 * len(problem.jobs)

    def bound(self, problem: KnapsackProblem) -> Fraction:
        worth = _Worth.of(problem)
        means, best, total = sorted(worth.shared, reverse=True), worth.constant, 0
        sizes = sorted(problem.sizes[worth.jobs].tolist(), reverse=True)
        if problem.reward is not Reward.CAPABILITY:
            raise InvalidCertificateError("bounds by the number of jobs are valid only for objective capability")
        rate = Fraction(problem.weights[2]) / problem.size * GRID
        held = 0
        for k in range(1, _most_jobs(problem, worth.jobs) + 1):
            total += means[k - 1]
            held = min(problem.free, held + sizes[k - 1])
            best = max(best, worth.constant + (Fraction(total, k) + rate * held) / GRID)
        return best


def _most_jobs(problem: KnapsackProblem, jobs: IntArray) -> int:
    """Return an upper bound of the number of jobs in a feasible selection."""
    most = len(jobs)
    for column, free in zip(problem.requests[jobs].T.tolist(), problem.capacity.values(), strict=True):
        total = count = 0
        for asked in sorted(column):
            total += asked
            if total > free:
                break
            count += 1
        most = min(most, count)
    return most


@dataclass(frozen=True, slots=True)
class Searched(Certificate[KnapsackProblem]):
    """The optimum, found a second time by another dynamic program, for one resource and no slots."""

    method: ClassVar[str] = "search"

    def seconds(self, problem: KnapsackProblem) -> float:
        if len(problem.resources) > 1 or problem.slots is not None:
            return math.inf
        rows, columns = self._shape(problem)
        if rows * columns > MOST_ENTRIES:
            return math.inf
        return 2e-4 + len(problem.jobs) * (2e-5 + 4e-9 * rows * columns)

    @staticmethod
    def _shape(problem: KnapsackProblem) -> tuple[int, int]:
        jobs = problem.fitting
        rows = _most_jobs(problem, jobs) if problem.reward is Reward.CAPABILITY else 0
        unit = math.gcd(*problem.sizes[jobs].tolist()) or 1
        return rows + 1, min(problem.free, int(problem.sizes[jobs].sum())) // unit + 1

    def bound(self, problem: KnapsackProblem) -> Fraction:
        if math.isinf(self.seconds(problem)):
            raise TooLargeToCheckError(
                "the problem is too large for a second search, or has slots or several resources"
            )
        worth = _Worth.of(problem)
        rows, columns = self._shape(problem)
        sizes = problem.sizes[worth.jobs]
        unit = math.gcd(*sizes.tolist()) or 1
        is_counted = problem.reward is Reward.CAPABILITY
        gains = worth.shared if is_counted else worth.own
        # Drop as many bits as needed for the sum of all gains to fit 62 bits.
        shift = max(0, sum(abs(gain) for gain in gains).bit_length() - 61)
        small = [-(-gain >> shift) for gain in gains]
        table = np.full((rows, columns), -(2**62), dtype=np.int64)
        table[0, 0 if is_counted else slice(None)] = 0
        for size, gain in zip((sizes // unit).tolist(), small, strict=True):
            if size >= columns:
                continue
            before, after = (table[:-1], table[1:]) if is_counted else (table, table)
            offered = before[:, : columns - size] + gain
            after[:, size:] = np.maximum(after[:, size:], offered)
        if not is_counted:
            return worth.constant + Fraction(int(table.max()) << shift, GRID)
        rate = Fraction(problem.weights[2]) * unit / problem.size
        best = worth.constant
        for k in range(1, rows):
            for units in np.flatnonzero(table[k] >= 0).tolist():
                mean = Fraction(int(table[k, units]) << shift, k * GRID)
                best = max(best, worth.constant + mean + rate * units)
        return best
