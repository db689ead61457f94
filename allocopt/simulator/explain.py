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
        view = simulation.view
        if self.job not in view.queue:
            return
        text = self._reason(simulation)
        if self.reasons and self.reasons[-1].text == text:
            self.reasons[-1].last = view.now
            self.reasons[-1].passes += 1
        else:
            self.reasons.append(_Reason(view.now, view.now, 1, text))

    def _reason(self, simulation: Simulation) -> str:
        view, job = simulation.view, self.job
        if not isinstance(self._scheduler, ListScheduler):
            fits = "would fit, and" if view.fits(job) else _wants(view, job) + ", and"
            return f"{fits} was not started by {name_of(self._scheduler)}"
        backfill = self._scheduler.backfill
        if backfill is Backfill.CONSERVATIVE:
            needs = _in_words(view, view.request[job])
            reserved, estimate = seconds(view.reserved[job]), seconds(view.estimate[job])
            return f"has a reservation for {reserved}, the first time that leaves {needs} for {estimate}"
        queue = view.queue.tolist()
        head = queue[0]
        if head == job:
            (shadow, _), running = view.shadow(job), view.running
            ends = running[np.maximum(view.expected_end[running], view.now) <= shadow]
            shown = ", ".join(str(view.ids[other]) for other in ends[:5]) + (", ..." if len(ends) > 5 else "")
            when = f"fits at {seconds(shadow)} by the estimates, after {shown}"
            return f"first in the queue, {_wants(view, job)}; {when}"
        where = f"number {queue.index(job) + 1} in the queue"
        if backfill is Backfill.NONE:
            return f"{where}, nobody overtakes its head, job {view.ids[head]}, which {_wants(view, head)}"
        if not view.fits(job):
            return f"{where}, {_wants(view, job)}"
        shadow, spare = view.shadow(head)
        return (
            f"{where}, would fit, but run until {seconds(view.now + view.estimate[job])}, beyond {seconds(shadow)}, "
            f"when the head, job {view.ids[head]}, is to start with {_in_words(view, spare)} to spare"
        )


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
