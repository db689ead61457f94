"""Why a job waits: what it waited for, at each pass that passed it over."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.errors import UsageError
from allocopt.simulator.engine import Simulation, name_of
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import AnyScheduler, ListScheduler
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


@dataclass(slots=True)
class _Reason:
    first: float  # times of the first and the last pass that passed the job over for it, in seconds
    last: float
    passes: int
    text: str


class Explanation:
    """An observer that notes why one job does not start. Raises `UsageError` if there is no such job."""

    def __init__(self, workload: Workload, job_id: int, scheduler: AnyScheduler) -> None:
        # The job is named by its number in the trace.
        found = np.flatnonzero(workload.ids == job_id)
        if not len(found):
            raise UsageError(f"there is no job {job_id} to explain in {workload.name}; it may have been dropped")
        self.job = int(found[0])
        self.reasons: list[_Reason] = []
        self._scheduler = scheduler

    def __call__(self, simulation: Simulation) -> None:
        """Note why the job still waits after a pass, if it does."""
        view, job, scheduler = simulation.view, self.job, self._scheduler
        queue = view.queue.tolist()
        if job not in queue:
            return
        head, where = queue[0], f"number {queue.index(job) + 1} in the queue"
        if not isinstance(scheduler, ListScheduler):
            fits = "would fit, and" if view.fits(job) else _wants(view, job) + ", and"
            text = f"{fits} was not started by {name_of(scheduler)}"
        elif scheduler.backfill is Backfill.CONSERVATIVE:
            needs = _in_words(view, view.request[job])
            reserved, estimate = seconds(view.reserved[job]), seconds(view.estimate[job])
            text = f"has a reservation for {reserved}, the first time that leaves {needs} for {estimate}"
        elif head == job:
            (shadow, _), running = view.shadow(job), view.running
            ends = running[np.maximum(view.expected_end[running], view.now) <= shadow]
            shown = ", ".join(str(view.ids[other]) for other in ends[:5]) + (", ..." if len(ends) > 5 else "")
            when = f"fits at {seconds(shadow)} by the estimates, after {shown}"
            text = f"first in the queue, {_wants(view, job)}; {when}"
        elif scheduler.backfill is Backfill.NONE:
            text = f"{where}, nobody overtakes its head, job {view.ids[head]}, which {_wants(view, head)}"
        elif not view.fits(job):
            text = f"{where}, {_wants(view, job)}"
        else:
            shadow, spare = view.shadow(head)
            text = (
                f"{where}, would fit, but run until {seconds(view.now + view.estimate[job])}, beyond {seconds(shadow)},"
                f" when the head, job {view.ids[head]}, is to start with {_in_words(view, spare)} to spare"
            )
        if self.reasons and self.reasons[-1].text == text:
            self.reasons[-1].last = view.now
            self.reasons[-1].passes += 1
        else:
            self.reasons.append(_Reason(view.now, view.now, 1, text))


def _wants(view: View, job: int) -> str:
    return f"asks for {_in_words(view, view.request[job])} with {_in_words(view, view.free)} free"


def _in_words(view: View, units: IntArray) -> str:
    # Of the resources after the first only what there is.
    named = list(zip(units.tolist(), view.platform.resources, strict=True))
    shown = (named[0], *(pair for pair in named[1:] if pair[0]))
    return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in shown)


def seconds(time: float) -> str:
    """Write a time in full, as the schedule's files have it."""
    return f"{int(time) if float(time).is_integer() else time} s"
