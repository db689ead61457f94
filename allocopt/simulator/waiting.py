"""What jobs of a schedule waited for, as far as starts alone tell."""

from collections.abc import Sequence

import numpy as np

from allocopt.simulator.schedule import Schedule

DEPENDENCY, RESOURCES, QUEUE = "dependency", "resources", "queue"


def waited_for(schedule: Schedule, parts: Sequence[str]) -> list[str]:
    """Return what each job waited for when it joined the queue, empty for one that started as it was submitted.

    - ``queue``: others of its part were waiting already.
    - ``resources``: none was, so that it waited for room, or beside a reservation of another part.
    - ``dependency``: it started as it joined the queue, which it did after its submission, for a preceding job ended
      late.

    Parameters
    ----------
    schedule
        When all jobs joined the queue and started.
    parts
        Label of each job's part of the queue, such as its partition, in the order of the schedule.
    """
    release, start = schedule.release, schedule.start
    submit = schedule.workload.submit
    found = [""] * len(parts)
    # By part, the last start of all jobs that joined the queue before.
    last: dict[str, float] = {}
    for job in np.lexsort((np.arange(len(parts)), release)).tolist():
        part = parts[job]
        if start[job] > release[job]:
            found[job] = QUEUE if last.get(part, -np.inf) > release[job] else RESOURCES
        elif start[job] > submit[job]:
            found[job] = DEPENDENCY
        last[part] = max(last.get(part, -np.inf), float(start[job]))
    return found
