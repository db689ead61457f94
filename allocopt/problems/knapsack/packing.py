"""Gains of selections, greedy selections, and upper bounds without a search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import gt, sub

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.problems.knapsack.certificates import CountBounds, UnitPrice
from allocopt.problems.knapsack.problem import KnapsackProblem, Reward, Selection

ROUNDING = 1e-13  # relative; exceeds the rounding error of sums of gains
# Most jobs, and most jobs times resources and slots. Packing more would take a noticeable part of a second.
MOST_JOBS, MOST_PLACES = 10_000, 500_000


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """The objective of a selection S as ``constant + (mean of shared over S) + (sum of own over S)``."""

    problem: KnapsackProblem
    constant: float  # objective of the empty selection
    shared: FloatArray | None  # gains that enter the mean, not negative, shape ``(J,)``; None without a mean
    own: FloatArray  # gains that enter the sum, shape ``(J,)``; if there is a mean, ``rate`` times the job's size
    rate: float = 0.0  # gain per selected unit of the first resource; 0 without a mean

    @classmethod
    def of(cls, problem: KnapsackProblem) -> "Gains":
        """Return the gains of a problem."""
        if problem.reward is Reward.LINEAR:
            return cls(problem, 0.0, None, problem.numbers)
        if problem.reward is Reward.CAPACITY:
            inverse = 1.0 / problem.numbers / len(problem.jobs)
            return cls(problem, -float(inverse.sum()), None, inverse)
        first, second, third = problem.weights
        waits, sizes = problem.numbers, problem.sizes / problem.size
        # If no job has waited, the first term of Eq. 1 is 0, not 0 / 0.
        starvation = waits / max(float(waits.max()), 1e-300)
        constant, rate = third * problem.in_use / problem.size, third / problem.size
        return cls(problem, constant, first * starvation + second * sizes, third * sizes, rate)

    def greedy(self) -> Iterator[Selection]:
        """Go through the jobs in each of four orders, select each job that still fits, and yield each selection.

        The orders are by falling gain, by falling gain per requested share, and by size, falling and rising. If the
        objective has a mean, fewer jobs may be worth more, so each selection is cut at its best length.
        """
        problem, fitting = self.problem, self.problem.fitting
        gain = self.own if self.shared is None else self.shared + self.own
        fitting = fitting[gain[fitting] > 0] if self.shared is None else fitting
        if not len(fitting):
            return
        # Share of the scarcest resource that a job takes, because the first full resource ends the selection.
        share = (problem.requests / np.maximum(1, list(problem.capacity.values()))).max(axis=1)
        sizes = problem.sizes.astype(np.float64)
        for key in (gain, gain / np.maximum(share, 1e-12), sizes, -sizes):
            order = fitting[np.argsort(-key[fitting], kind="stable")]
            chosen, slots = _packed(problem, order.tolist())
            count = len(chosen)
            if self.shared is not None and chosen:
                means = np.cumsum(self.shared[chosen]) / np.arange(1, count + 1)
                count = int(np.argmax(means + np.cumsum(self.own[chosen]))) + 1
            yield Selection(tuple(chosen[:count]), tuple(slots[:count]))

    def count_bounds(self) -> FloatArray:
        """Return an upper bound of the objective of k jobs, for k from 0 to the most jobs that can fit.

        The bound combines the mean of the k largest gains that enter the mean with the units of the k largest jobs,
        but at most all free units.
        """
        assert self.shared is not None, "without a mean the number of jobs does not matter"
        problem, fitting = self.problem, self.problem.fitting
        most = problem.most_jobs(fitting)
        means = np.sort(self.shared[fitting])[::-1][:most]
        units = np.minimum(np.cumsum(np.sort(problem.sizes[fitting])[::-1][:most]), problem.free)
        bounds = self.constant + np.cumsum(means) / np.arange(1, most + 1) + self.rate * units
        return np.concatenate(([self.constant], bounds * (1.0 + ROUNDING)))

    def bound(self) -> tuple[float, UnitPrice | CountBounds]:
        """Return an upper bound of the objective, found without a search, and its certificate.

        Without a mean, the bound allows jobs to be split and limits one resource at a time (Dantzig 1957).
        """
        if self.shared is not None:
            return float(self.count_bounds().max()), CountBounds()
        # Dantzig's bound for a single resource is valid for all resources together; the smallest is the tightest.
        problem, fitting = self.problem, self.problem.fitting
        fitting = fitting[self.own[fitting] > 0]
        if (problem.requests[fitting].sum(axis=0) <= list(problem.capacity.values())).all():
            return problem.objective(Selection(tuple(fitting.tolist()))), UnitPrice(problem.resources[0], 0.0)
        best, price = float(self.own[fitting].sum()), UnitPrice(problem.resources[0], 0.0)
        for column, (resource, free) in zip(problem.requests[fitting].T, problem.capacity.items(), strict=True):
            order = np.argsort(-self.own[fitting] / np.maximum(column, 1e-9), kind="stable")
            units, worth = column[order], self.own[fitting][order]
            before = np.cumsum(units) - units
            share = np.clip((free - before) / np.maximum(units, 1), 0.0, 1.0)
            total = float((np.where(units > 0, share, 1.0) * worth).sum())
            if total < best:
                # The price is the gain per unit of the split job, or of the first job that finds no room.
                at = int(np.argmax((share < 1.0) & (units > 0)))
                best, price = total, UnitPrice(resource, float(worth[at] / units[at]))
        return self.constant + best + ROUNDING * (abs(self.constant) + best), price


def _packed(problem: KnapsackProblem, order: Sequence[int]) -> tuple[list[int], list[int]]:
    left = list(problem.capacity.values())
    room = None if problem.slots is None else list(problem.slots)
    requests = problem.requests.tolist()
    chosen: list[int] = []
    slots: list[int] = []
    for job in order:
        asked = requests[job]
        if asked[0] > left[0] or any(map(gt, asked, left)):
            continue
        if room is not None:
            # Choosing the smallest slot that is large enough keeps large slots for large jobs.
            slot = min((s for s in range(len(room)) if room[s] >= asked[0]), key=room.__getitem__, default=-1)
            if slot < 0:
                continue
            room[slot] -= asked[0]
            slots.append(slot)
        left = list(map(sub, left, asked))
        chosen.append(job)
    return chosen, slots
