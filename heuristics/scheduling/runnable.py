"""Policies ``binpacking`` and ``random-runnable``: runnable jobs start until no waiting job fits.

They are the BinPacking and Random of the DRAS paper, section 5.1. A job is runnable if what it asks for is free.
Nothing is promised to the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import Decision, ListScheduler, Start
from allocopt.simulator.view import View
from heuristics.scheduling.queue_orders import LargestFirst


def bin_packing() -> ListScheduler:
    """Start the largest runnable job, again and again: the queue order ``largest`` with first-fit backfilling."""
    return ListScheduler(LargestFirst(), Backfill.FIRST_FIT)


@dataclass(frozen=True, slots=True)
class RandomRunnable:
    """Start a random runnable job, again and again, every one equally likely at every scheduling point.

    The queue order ``random`` draws one order for the whole simulation instead, in which an unlucky job stays last. A
    negative seed is a `UsageError`.
    """

    name: ClassVar[str] = "random-runnable"

    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")

    def schedule(self, view: View) -> Iterator[Decision]:
        """Start jobs in an order drawn from seed and time, each if it still fits."""
        moment = int(np.float64(view.now + 0.0).view(np.uint64))
        queue = view.queue
        jobs = np.random.default_rng((self.seed, moment, len(queue))).permutation(queue)
        while len(jobs := jobs[view.fitting(jobs)]):
            yield Start(int(jobs[0]))
            jobs = jobs[1:]
