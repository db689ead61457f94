"""How a schedule uses the machine over time: makespan, utilization, queue length."""

from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.simulator.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time, in seconds; what is measured of the machine is measured within it."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """Length in seconds."""
        return self.end - self.start

    def clip(self, times: FloatArray) -> FloatArray:
        """Move times outside to the nearer end."""
        clipped: FloatArray = np.clip(times, self.start, self.end)
        return clipped

    def mean(self, total: float) -> float:
        """Mean over the window of what adds up to ``total`` over its seconds; 0 where the window has no length."""
        return total / self.length if self.length > 0 else 0.0


def utilization(schedule: Schedule, window: Window) -> float:
    """Share of the machine's processor-seconds that jobs hold."""
    start = schedule.start if schedule.held_from is None else schedule.held_from
    held = window.clip(schedule.end) - window.clip(start)
    return window.mean(float((held * schedule.workload.processors).sum())) / schedule.processors


def mean_queue_length(schedule: Schedule, window: Window) -> float:
    """Mean over time of the number of jobs that wait; a job waits from its release to its start."""
    waited = window.clip(schedule.start) - window.clip(schedule.release)
    return window.mean(float(waited.sum()))


def max_queue_length(schedule: Schedule, window: Window) -> int:
    """Largest number of jobs that wait at once; those that start as they are released never do."""
    released, started = np.sort(window.clip(schedule.release)), np.sort(window.clip(schedule.start))
    # The queue is longest right after some release.
    waiting = np.searchsorted(released, released, "right") - np.searchsorted(started, released, "right")
    return int(waiting.max())
