"""Schedulers as a user would write them, from what a view shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from allocopt.arrays import IntArray
from allocopt.simulator.decisions import Start
from allocopt.simulator.rules import QueueOrder
from allocopt.simulator.scheduler import get_policy, policy_names
from allocopt.simulator.state import QUEUE
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


class AskingEasy:
    """EASY backfilling by what the view answers."""

    def schedule(self, view: View) -> Iterator[Start]:
        while (head := view.head) is not None and view.fits(head):
            yield Start(head)
        if head is not None:
            yield from map(Start, view.backfillable(head))


@dataclass
class Wavering:
    """Starts the head if it fits, and some of those that may be backfilled; checks who those are as it goes on."""

    rng: np.random.Generator
    answers: int = 0

    def schedule(self, view: View) -> Iterator[Start]:
        assert view.first(3).tolist() == view.queue[:3].tolist()
        while (head := view.head) is not None and view.fits(head):
            yield Start(head)
        if head is None:
            return
        shadow, spare = view.shadow(head)
        at_shadow = np.maximum(view.expected_end[view.running], view.now) <= shadow
        held = view.request[view.running[at_shadow]].sum(axis=0)
        assert (spare == view.free + held - view.request[head]).all()
        if len(spare) == 1:
            assert (shadow, spare[0]) == promise(view, head)
        heads = [head]
        if self.rng.random() < 0.2:
            shadow, heads = np.inf, []
        for job, expected in zip(view.backfillable(*heads), backfillable(view, shadow, spare), strict=True):
            assert job == expected
            self.answers += 1
            if self.rng.random() < 0.3:
                state = view.as_pool.state
                first = state.clock["first"][0]
                assert state.lists[QUEUE, first : first + state.clock["n_queued"][0]].tolist() == view.queue.tolist()
            if self.rng.random() < 0.6:
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


def backfillable(view: View, shadow: float, spare: IntArray) -> Iterator[int]:
    """Yield the waiting jobs that fit what is free, each when asked for it, and delay nobody who starts at a time."""
    queue, left = view.queue, spare.copy()
    for job in queue[view.fitting(queue)].tolist():
        in_time = view.now + view.estimate[job] <= shadow
        if view.fits(job) and (in_time or (view.request[job] <= left).all()):
            yield job
            if not in_time and not np.isnan(view.start[job]):
                left -= view.request[job]


def promise(view: View, head: int) -> tuple[float, int]:
    """Earliest time at which a job fits by the estimates, and the processors that it leaves over then."""
    running = view.running
    ends = np.maximum(view.expected_end[running], view.now)
    for time in np.sort(ends):
        free = view.free_processors + int(view.processors[running[ends <= time]].sum())
        if free >= view.processors[head]:
            return float(time), free - int(view.processors[head])
    raise AssertionError("the head does not fit an empty machine")
