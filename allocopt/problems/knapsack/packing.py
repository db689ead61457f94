"""What selections are worth, those that fit, one job after the other, and bounds that hold for all of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import gt, sub

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.knapsack.problem import KnapsackProblem, Reward, Selection

ROUNDING = 1e-13  # what sums of gains can lose by rounding, relative to what is summed, and more than that
MOST_JOBS, MOST_PLACES = 10_000, 500_000
"""Jobs, and jobs times resources and slots, beyond which packing them takes a noticeable part of a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """The objective of a selection S as ``constant + (mean of shared over S) + (sum of own over S)``.

    Parameters
    ----------
    constant
        Objective of the empty selection.
    shared
        What enters by its mean, not negative, shape ``(J,)``; None where nothing does.
    own
        What enters by its sum, shape ``(J,)``; with ``shared`` it is ``rate`` times the job's size.
    rate
        Gain of a unit of the first resource that is selected; 0 without ``shared``.
    """

    constant: float
    shared: FloatArray | None
    own: FloatArray
    rate: float = 0.0

    @classmethod
    def of(cls, problem: KnapsackProblem) -> "Gains":
        """Return the gains of a problem."""
        if problem.reward is Reward.LINEAR:
            return cls(0.0, None, problem.numbers)
        if problem.reward is Reward.CAPACITY:
            inverse = 1.0 / problem.numbers / len(problem.jobs)
            return cls(-float(inverse.sum()), None, inverse)
        first, second, third = problem.weights
        waits, sizes = problem.numbers, problem.sizes / problem.size
        starvation = waits / max(float(waits.max()), 1e-300)
        constant, rate = third * problem.in_use / problem.size, third / problem.size
        return cls(constant, first * starvation + second * sizes, third * sizes, rate)


def fits_alone(problem: KnapsackProblem) -> IntArray:
    """Jobs that could be selected alone: they fit what is free, and a slot."""
    room = np.array(list(problem.capacity.values()), dtype=np.int64)
    if problem.slots is not None:
        room[0] = min(int(room[0]), max(problem.slots, default=0))
    return np.flatnonzero((problem.requests <= room).all(axis=1))


def packing_refusal(problem: KnapsackProblem) -> str | None:
    """Return why packing the jobs one after the other would take too long; None if it does not."""
    n_jobs = len(problem.jobs)
    places = n_jobs * (len(problem.resources) + len(problem.slots or ()))
    if n_jobs > MOST_JOBS:
        return f"it has {n_jobs:,} jobs, the most taken are {MOST_JOBS:,}"
    if places > MOST_PLACES:
        return f"it has {places:,} jobs times resources and slots, the most taken are {MOST_PLACES:,}"
    return None


def greedy_selections(problem: KnapsackProblem, gains: Gains) -> Iterator[Selection]:
    """Select jobs in a few orders while they fit, and yield each selection, or the best of its beginnings.

    The orders are by gain, by gain for what is asked for, and by size, the most first; where a mean counts, fewer
    jobs may be worth more, so that every beginning is looked at.
    """
    fitting = fits_alone(problem)
    gain = gains.own if gains.shared is None else gains.shared + gains.own
    fitting = fitting[gain[fitting] > 0] if gains.shared is None else fitting
    if not len(fitting):
        return
    share = (problem.requests / np.maximum(1, list(problem.capacity.values()))).max(axis=1)
    sizes = problem.sizes.astype(np.float64)
    for key in (gain, gain / np.maximum(share, 1e-12), sizes, -sizes):
        order = fitting[np.argsort(-key[fitting], kind="stable")]
        chosen, slots = _packed(problem, order.tolist())
        count = len(chosen)
        if gains.shared is not None and chosen:
            means = np.cumsum(gains.shared[chosen]) / np.arange(1, count + 1)
            count = int(np.argmax(means + np.cumsum(gains.own[chosen]))) + 1
        yield selection_of(chosen[:count], slots[:count])


def selection_of(jobs: Sequence[int], slots: Sequence[int] = ()) -> Selection:
    """Return a selection of jobs, and of their slots if there are some, in any order."""
    if not slots:
        return Selection(tuple(sorted(jobs)))
    pairs = sorted(zip(jobs, slots, strict=True))
    return Selection(tuple(job for job, _ in pairs), tuple(slot for _, slot in pairs))


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
            slot = min((s for s in range(len(room)) if room[s] >= asked[0]), key=room.__getitem__, default=-1)
            if slot < 0:
                continue
            room[slot] -= asked[0]
            slots.append(slot)
        left = list(map(sub, left, asked))
        chosen.append(job)
    return chosen, slots


def count_bounds(problem: KnapsackProblem, gains: Gains) -> FloatArray:
    """Bound on the objective of every selection of k jobs, by k from 0 to the most jobs that can fit.

    The k largest means, and the units of the k largest jobs or all that is free, as if both could be had together.
    """
    assert gains.shared is not None, "without a mean the number of jobs does not matter"
    fitting = fits_alone(problem)
    most = most_jobs(problem, fitting)
    means = np.sort(gains.shared[fitting])[::-1][:most]
    units = np.minimum(np.cumsum(np.sort(problem.sizes[fitting])[::-1][:most]), problem.free)
    bounds = gains.constant + np.cumsum(means) / np.arange(1, most + 1) + gains.rate * units
    return np.concatenate(([gains.constant], bounds * (1.0 + ROUNDING)))


def most_jobs(problem: KnapsackProblem, fitting: IntArray) -> int:
    """Count the jobs that fit together at most: of every resource the smallest requests."""
    counts = [len(fitting)]
    for column, free in zip(problem.requests[fitting].T, problem.capacity.values(), strict=True):
        counts.append(int(np.searchsorted(np.cumsum(np.sort(column)), free, side="right")))
    return min(counts)


def simple_bound(problem: KnapsackProblem, gains: Gains) -> float:
    """Bound on the objective of every selection, without a search.

    Without a mean, jobs may be split, and one resource at a time is scarce (Dantzig 1957).
    """
    if gains.shared is not None:
        return float(count_bounds(problem, gains).max())
    fitting = fits_alone(problem)
    fitting = fitting[gains.own[fitting] > 0]
    if (problem.requests[fitting].sum(axis=0) <= list(problem.capacity.values())).all():
        return problem.objective(Selection(tuple(fitting.tolist())))
    best = float(gains.own[fitting].sum())
    for column, free in zip(problem.requests[fitting].T, problem.capacity.values(), strict=True):
        order = np.argsort(-gains.own[fitting] / np.maximum(column, 1e-9), kind="stable")
        units, worth = column[order], gains.own[fitting][order]
        before = np.cumsum(units) - units
        share = np.clip((free - before) / np.maximum(units, 1), 0.0, 1.0)
        best = min(best, float((np.where(units > 0, share, 1.0) * worth).sum()))
    return gains.constant + best + ROUNDING * (abs(gains.constant) + best)
