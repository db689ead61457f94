"""Questions about waiting jobs, for explanations: slow and plain."""

import numpy as np

from allocopt.arrays import IntArray
from allocopt.simulator.view import View


def in_words(view: View, units: IntArray) -> str:
    """Write units of each resource with their names; of those after the first only what there is."""
    named = list(zip(units.tolist(), view.platform.resources, strict=True))
    shown = (named[0], *(pair for pair in named[1:] if pair[0]))
    return ", ".join(f"{count} {name.removesuffix('s') if count == 1 else name}" for count, name in shown)


def seconds(time: float) -> str:
    """Write a time in full, as the schedule's files have it."""
    return f"{int(time) if float(time).is_integer() else time} s"


def promise(view: View, job: int) -> tuple[float, IntArray, list[int]]:
    """Say when a job can start by the estimates, what is spare then, and which jobs end until then.

    An estimated end that has passed counts as now.
    """
    running = view.running
    ends = np.maximum(view.expected_end[running], view.now)
    spare = np.array(view.free)
    shadow = view.now
    for time in np.unique(ends):
        if (spare >= view.request[job]).all():
            break
        shadow = float(time)
        spare = spare + view.request[running[ends == time]].sum(axis=0)
    return shadow, spare - view.request[job], running[ends <= shadow].tolist()
