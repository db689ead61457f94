"""What an agent of two-level scheduling is rewarded for: a weighted sum of parts."""

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from allocopt.errors import UsageError
from allocopt.kernels.compiled import inlined
from allocopt.simulator.kernels.queue import queued
from allocopt.simulator.state import CAPACITY as ALL
from allocopt.simulator.state import FREE, State

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the parts of a reward; the first three are those of Eq. 1, ``capacity`` that of Eq. 2.

    The parts that are named in Eq. 1 and 2 are paid per choice. The others are gains: over an episode they add up to an
    objective of its schedule, and every second in which jobs wait costs as it passes, whoever is chosen later. Raises
    `UsageError` if a weight is not finite, or the unit not positive.

    Parameters
    ----------
    oldest
        w1, on the wait of the chosen job over the longest wait in the queue; 0 where nobody has waited yet.
    size
        w2, on the size of the chosen job over the machine.
    used
        w3, on the share of the machine in use after the choice.
    capacity
        On the sum over the jobs that wait after the choice of -1 / t, over the number of those before it; t is the
        estimate in units of ``unit_s``.
    mean_wait
        On minus the mean wait of the episode's jobs, in ``unit_s``.
    mean_square_wait
        On minus the mean of the squares of these waits.
    longest_wait
        On minus the longest of these waits.
    bounded_slowdown
        On minus their mean bounded slowdown, each job's paid when it starts.
    unit_s
        Seconds that count as 1, positive.
    """

    oldest: float = 0.0
    size: float = 0.0
    used: float = 0.0
    capacity: float = 0.0
    mean_wait: float = 0.0
    mean_square_wait: float = 0.0
    longest_wait: float = 0.0
    bounded_slowdown: float = 0.0
    unit_s: float = HOUR_S

    def __post_init__(self) -> None:
        for part in fields(self):
            if not np.isfinite(getattr(self, part.name)):
                raise UsageError(f"the reward's {part.name} is {getattr(self, part.name)}, must be a finite number")
        if self.unit_s <= 0:
            raise UsageError(f"the reward's unit is {self.unit_s} s, must be positive")


CAPABILITY = Weights(oldest=1 / 3, size=1 / 3, used=1 / 3)
"""Eq. 1 with the paper's weights, for machines that are built for large jobs."""
CAPACITY = Weights(capacity=1.0)  # Eq. 2, for machines that are built for many jobs


class Waits(Protocol):
    """What gains are made of: sums over jobs so far, of those who wait too, and the longest wait."""

    wait_s: float
    square_wait: float  # of the squares of waits, where these are paid for
    longest_wait_s: float
    bounded_slowdown: float  # over the jobs that have started


@inlined
def gained(total: Waits, weights: Weights, n: int) -> float:
    """Worth of the waits so far of so many jobs; rewards are its changes."""
    return -(
        weights.mean_wait * total.wait_s / (n * weights.unit_s)
        + weights.mean_square_wait * total.square_wait / (n * weights.unit_s * weights.unit_s)
        + weights.longest_wait * total.longest_wait_s / weights.unit_s
        + weights.bounded_slowdown * total.bounded_slowdown / n
    )


@inlined
def worth_of_job(state: State, weights: Weights, job: int) -> float:
    """Terms 1 and 2 of Eq. 1 for a job that is about to be chosen."""
    now = state.clock[0].now
    longest = now - state.jobs[queued(state, 0)].release
    share = (now - state.jobs[job].release) / longest if longest > 0.0 else 0.0
    return float(weights.oldest * share + weights.size * state.request[job, 0] / state.units[ALL, 0])


@inlined
def worth_of_choice(state: State, weights: Weights, n_queued: int) -> float:
    """Term 3 of Eq. 1, and Eq. 2, after a choice among so many waiting jobs."""
    machine = state.units[ALL, 0]
    worth = weights.used * (machine - state.units[FREE, 0]) / machine
    if weights.capacity != 0.0:
        total = 0.0
        for at in range(state.clock[0].n_queued):
            total -= weights.unit_s / state.jobs[queued(state, at)].estimate
        worth += weights.capacity * total / n_queued
    return float(worth)
