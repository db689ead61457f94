"""What a site did itself: the starts and nodes of a trace as a schedule."""

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.simulator.schedule import Schedule

RECORDED = "as recorded"  # name of what the site did, where allocators and schedulers are named


def on_held_nodes(schedule: Schedule) -> BoolArray:
    """Whether each job started on a node that another job held, shape ``(n,)``; none did if nodes are not known."""
    shared = np.zeros(len(schedule.start), dtype=np.bool_)
    if schedule.nodes is None:
        return shared
    job = np.repeat(np.arange(len(schedule.nodes)), [len(held) for held in schedule.nodes])
    node = np.concatenate((*schedule.nodes, np.empty(0, dtype=np.int64))).astype(np.int64)
    order = np.lexsort((schedule.start[job], node))
    job, node = job[order], node[order]
    start, end = schedule.start[job], schedule.end[job]
    # Each node's times are shifted beyond those of the node before, so that one running maximum serves all.
    shift = node * (float(np.ptp(np.concatenate((start, end, [0.0])))) + 1.0)
    held = np.zeros(len(job), dtype=np.bool_)
    held[1:] = np.maximum.accumulate(end + shift)[:-1] > (start + shift)[1:]
    # Of jobs that start together on a node the first has company, too.
    held[:-1] |= (np.diff(start) == 0) & (np.diff(node) == 0)
    shared[job[held]] = True
    return shared
