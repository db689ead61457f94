"""What the objectives of a knapsack problem have in common: a constant, a mean and a sum over the selected jobs."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.knapsack import KnapsackProblem, Reward


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
        return cls(
            third * problem.in_use / problem.size,
            first * starvation + second * sizes,
            third * sizes,
            third / problem.size,
        )


def fits_alone(problem: KnapsackProblem) -> IntArray:
    """Jobs that could be selected alone: they fit what is free, and a slot."""
    room = np.array(list(problem.capacity.values()), dtype=np.int64)
    if problem.slots is not None:
        room[0] = min(int(room[0]), max(problem.slots, default=0))
    return np.flatnonzero((problem.requests <= room).all(axis=1))
