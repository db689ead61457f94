"""Explains why a job waits: the reason at each pass that left it waiting."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from allocopt.errors import UsageError
from allocopt.simulator.engine import Simulation
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import AnyScheduler, ListScheduler, built_in_of, name_of
from allocopt.simulator.state import waits
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


@dataclass(slots=True)
class _Reason:
    first: float  # times of the first and the last pass that left the job waiting for this reason, in seconds
    last: float
    passes: int
    text: str


class Explanation:
    """An observer that records why one job does not start.

    ``job`` is the name of the job in the trace, or its number. Raises `UsageError` if there is no such job.
    """

    def __init__(self, workload: Workload, job: str | int, scheduler: AnyScheduler) -> None:
        found = np.flatnonzero(workload.names == str(job))
        if not len(found):
            found = np.flatnonzero([str(number) == str(job) for number in workload.ids.tolist()])
        if not len(found):
            raise UsageError(f"there is no job {job} to explain in {workload.name}; it may have been dropped")
        self.job = int(found[0])
        self.reasons: list[_Reason] = []
        self._scheduler = built_in_of(scheduler) or scheduler

    def __call__(self, simulation: Simulation) -> None:
        """Record why the job still waits after a pass, if it does."""
        view = simulation.view
        if not waits(simulation.state, self.job):
            return
        text = self._reason(view)
        if self.reasons and self.reasons[-1].text == text:
            self.reasons[-1].last = view.now
            self.reasons[-1].passes += 1
        else:
            self.reasons.append(_Reason(view.now, view.now, 1, text))

    def _reason(self, view: View) -> str:
        job, scheduler = self.job, self._scheduler
        part = view.partition_of(job)
        queue = [other for other in view.queue.tolist() if view.partition_of(other) == part]
        of_part = f" of partition {part}" if part else ""
        head, where = queue[0], f"number {queue.index(job) + 1} in the queue{of_part}"
        if not isinstance(scheduler, ListScheduler):
            fits = "would fit, and" if view.fits(job) else view.wants(job) + ", and"
            return f"{fits} was not started by {name_of(scheduler)}"
        if scheduler.backfill is Backfill.CONSERVATIVE and view.now <= view.reserved[job] < np.inf:
            reserved, estimate = seconds(view.reserved[job]), seconds(view.estimate[job])
            return f"has a reservation for {reserved}, the first time that leaves {view.asks(job)} for {estimate}"
        if head == job and not view.fits(job):
            return f"first in the queue{of_part}, {view.wants(job)}; {_when_it_fits(view, job)}"
        if head == job:
            where = f"first in the queue{of_part}"
        elif scheduler.backfill is Backfill.NONE:
            return f"{where}, no job overtakes its head, job {view.name_of(head)}, which {view.wants(head)}"
        if not view.fits(job):
            return f"{where}, {view.wants(job)}"
        if scheduler.backfill is Backfill.EASY:
            end = view.now + view.planned_run(job)
            for other in _heads(view):
                shadow, spare = view.shadow(other)
                if other != job and view.now < shadow < end:
                    until = f"run until {seconds(end)}, beyond {seconds(shadow)}"
                    when = f"when {_head_in_words(view, other)} is to start with {view.in_words(spare)} to spare"
                    return f"{where}, would fit, but {until}, {when}"
        return f"{where}, would fit, but not in addition to jobs before it in the queue"


def _when_it_fits(view: View, job: int) -> str:
    """Return in words when a job that does not fit now will fit according to the estimates."""
    (shadow, _), running = view.shadow(job), view.running
    if shadow == np.inf:
        return "according to the estimates, it never fits"
    ends = running[np.maximum(view.expected_end[running], view.now) <= shadow]
    shown = ", ".join(view.name_of(other) for other in ends[-5:]) + (" and others" if len(ends) > 5 else "")
    return f"fits at {seconds(shadow)} by the estimates{f', after {shown}' if shown else ''}"


def _heads(view: View) -> Iterator[int]:
    """Yield the first waiting job of each partition."""
    seen = set()
    for job in view.queue.tolist():
        if (part := view.partition_of(job)) not in seen:
            seen.add(part)
            yield job


def _head_in_words(view: View, head: int) -> str:
    part = view.partition_of(head)
    return f"the head{f' of partition {part}' if part else ''}, job {view.name_of(head)},"


def seconds(time: float) -> str:
    """Return a time in full digits, as in the files of a schedule."""
    return f"{int(time) if float(time).is_integer() else time} s"
