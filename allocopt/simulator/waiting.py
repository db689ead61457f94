"""Reasons for the waits of jobs, as far as they follow from the starts in a schedule."""

from collections.abc import Sequence

import numpy as np

from allocopt.simulator.schedule import Schedule

DEPENDENCY, RESOURCES, QUEUE = "dependency", "resources", "queue"


def waited_for(schedule: Schedule, parts: Sequence[str]) -> list[str]:
    """Return the reason for which each job waited, empty for a job that started when it was submitted.

    - ``queue``: other jobs of its part were waiting when it joined the queue.
    - ``resources``: no job of its part was waiting, so it waited for room, or because of a reservation in another part.
    - ``dependency``: it started when it joined the queue, but it joined after its submission, because its preceding
      job ended late.

    Parameters
    ----------
    schedule
        The schedule of the jobs.
    parts
        Label of each job's part of the queue, such as its partition, in the order of the schedule.
    """
    release, start = schedule.release, schedule.start
    submit = schedule.workload.submit
    found = [""] * len(parts)
    # By part, the latest start of the jobs that joined the queue before.
    last: dict[str, float] = {}
    for job in np.lexsort((np.arange(len(parts)), release)).tolist():
        part = parts[job]
        if start[job] > release[job]:
            found[job] = QUEUE if last.get(part, -np.inf) > release[job] else RESOURCES
        elif start[job] > submit[job]:
            found[job] = DEPENDENCY
        last[part] = max(last.get(part, -np.inf), float(start[job]))
    return found
