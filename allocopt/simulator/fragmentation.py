"""How scattered the idle nodes are over the switches of a cluster.

At one instant and one level of the tree, with f_g idle nodes in group g and f in all, the fragmentation is
``1 - sum_g f_g^2 / S(f)``, S(f) being the most that f idle nodes can give, packed into the largest groups one after
the other. It is 0 where they are packed (so on an empty machine) and tends to 1 as they scatter.

The sum of squares counts the ordered pairs of idle nodes that share a group, each node with itself included: Simpson's
index of concentration (Nature 163, 1949, doi:10.1038/163688a0) times f^2, and the only thing by which the hop cost of a
node set depends on where it lies (see `hop_costs`). The classic external fragmentation of memory, 1 minus
the share of the largest free block, sees one group alone and would call an empty cluster of many leaves fragmented.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.usage import Window


@dataclass(frozen=True, slots=True, eq=False)
class _Changes:
    """Nodes that become idle (+1) or busy (-1), in the order of time; arrays of shape ``(m,)``."""

    time: FloatArray
    node: IntArray
    change: IntArray


def mean_fragmentation(schedule: Schedule, window: Window) -> tuple[float | None, ...] | None:
    """Fragmentation of the idle nodes at each level below the top, a mean over the time in which nodes are idle.

    A node is idle when no job holds it. The work grows as m log m in the number m of nodes started and ended on.

    Returns
    -------
    tuple or None
        One mean per level, the leaf level first, each None if no node is ever idle; None where the schedule has no
        nodes or no topology.
    """
    if schedule.nodes is None or schedule.topology is None:
        return None
    changes = _changes(schedule.start, schedule.end, schedule.nodes)
    size = schedule.topology.size
    last = np.flatnonzero(np.diff(changes.time, append=np.inf))
    instants = np.concatenate(([window.start], changes.time[last], [window.end]))
    durations = np.diff(window.clip(instants))
    idle = np.concatenate(([size], size + np.cumsum(changes.change)[last]))
    weights = np.where(idle > 0, durations, 0.0)
    groups = schedule.topology.groups_of(np.arange(size))
    return tuple(_mean_at_level(level, changes, last, idle, weights) for level in groups)


def _changes(start: FloatArray, end: FloatArray, nodes: Sequence[IntArray]) -> _Changes:
    """When nodes become idle or busy, several jobs on one node taken together."""
    jobs = np.repeat(np.arange(len(nodes)), [len(held) for held in nodes])
    node = np.concatenate((*nodes, *nodes)).astype(np.int64)
    time = np.concatenate((start[jobs], end[jobs]))
    step = np.repeat(np.array([1, -1]), len(jobs))
    # Ends before starts at the same instant. Every node ends with no job, so that one running sum serves all.
    order = np.lexsort((step, time, node))
    node, time, step = node[order], time[order], step[order]
    holders = np.cumsum(step)
    turns = np.flatnonzero(holders == (step > 0))
    turns = turns[np.argsort(time[turns], kind="stable")]
    return _Changes(time[turns], node[turns], -step[turns])


def _mean_at_level(
    group_of: IntArray, changes: _Changes, last: IntArray, idle: IntArray, weights: FloatArray
) -> float | None:
    """Mean fragmentation at a level; ``last`` holds the last change of every instant, ``weights`` its seconds."""
    total = float(weights.sum())
    if total <= 0:
        return None
    sizes = np.bincount(group_of)
    group = group_of[changes.node]
    order = np.argsort(group, kind="stable")
    # Every group ends as it began, all idle, so that one running sum serves all.
    after = np.empty(len(group), dtype=np.int64)
    after[order] = sizes[group[order]] + np.cumsum(changes.change[order])
    before = after - changes.change
    all_idle = int((sizes * sizes).sum())
    squares = np.concatenate(([all_idle], all_idle + np.cumsum(after * after - before * before)[last]))
    scattered = 1.0 - squares / np.maximum(_most_squares(sizes, idle), 1)
    return float((scattered * weights).sum() / total)


def _most_squares(sizes: IntArray, idle: IntArray) -> IntArray:
    """Largest sum of squares that numbers of idle nodes can give in groups of these sizes."""
    falling = np.sort(sizes)[::-1]
    nodes = np.concatenate(([0], np.cumsum(falling)))
    squares = np.concatenate(([0], np.cumsum(falling * falling)))
    filled = np.searchsorted(nodes, idle, "right") - 1
    most: IntArray = squares[filled] + (idle - nodes[filled]) ** 2
    return most
