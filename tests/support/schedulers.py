"""Schedulers as a user would write them, from what a view shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from allocopt.simulator.order import QueueOrder
from allocopt.simulator.registry import get_policy, policy_names
from allocopt.simulator.scheduler import Start
from allocopt.simulator.view import View


class PlainFcfs:
    """First come, first served."""

    def schedule(self, view: View) -> Iterator[Start]:
        for job in view.queue:
            if not view.fits(job):
                return
            yield Start(job)


class PlainFirstFit:
    """Whoever fits, in the order of the queue."""

    def schedule(self, view: View) -> Iterator[Start]:
        return (Start(job) for job in view.queue if view.fits(job))


class PlainEasy:
    """EASY backfilling, with the promise to the head computed anew for every candidate."""

    def schedule(self, view: View) -> Iterator[Start]:
        queue = view.queue.tolist()
        while queue and view.fits(queue[0]):
            yield Start(queue.pop(0))
        for job in queue[1:]:
            shadow, spare = promise(view, queue[0])
            in_time = view.now + view.estimate[job] <= shadow
            if view.fits(job) and (in_time or view.processors[job] <= spare):
                yield Start(job)


@dataclass(frozen=True)
class PlainFairShare:
    """Serves the user with the fewest processors, or if that user's job may be overtaken, the first that fits."""

    overtake: bool

    def schedule(self, view: View) -> Iterator[Start]:
        while len(view.queue):
            running = view.running
            held = [view.processors[running[view.users[running] == user]].sum() for user in view.users[view.queue]]
            order = view.queue[np.lexsort((view.queue, held))].tolist()
            fitting = [job for job in (order if self.overtake else order[:1]) if view.fits(job)]
            if not fitting:
                return
            yield Start(fitting[0])


@cache
def queue_orders() -> dict[str, QueueOrder]:
    """Return the installed policies that are queue orders, by name."""
    policies = {name: get_policy(name) for name in policy_names()}
    return {name: policy for name, policy in policies.items() if isinstance(policy, QueueOrder)}


def promise(view: View, head: int) -> tuple[float, int]:
    """Earliest time at which a job fits by the estimates, and the processors that it leaves over then."""
    running = view.running
    ends = np.maximum(view.expected_end[running], view.now)
    for time in np.sort(ends):
        free = view.free_processors + int(view.processors[running[ends <= time]].sum())
        if free >= view.processors[head]:
            return float(time), free - int(view.processors[head])
    raise AssertionError("the head does not fit an empty machine")
