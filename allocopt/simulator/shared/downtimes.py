"""Downtimes of shared nodes: which of them are known, and what happens as they begin and end."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime
from allocopt.errors import InvalidProblemError
from allocopt.kernels.arrays import record_dtype
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.events import change_machine, next_change, requeue
from allocopt.simulator.shared.state import DowntimeRecord, Shared, release
from allocopt.simulator.state import NOBODY, RUNNING


def downtime_records(cluster: Cluster, downtimes: Sequence[Downtime]) -> Any:
    """Return a record for each node of each downtime, sorted by node, for `new_shared`.

    Raises `InvalidProblemError` if a downtime is of a node that the cluster does not have.
    """
    number = {name: place for place, name in enumerate(cluster.topology.nodes)}
    unknown = [name for one in downtimes for name in one.nodes if name not in number]
    if unknown:
        raise InvalidProblemError("downtimes", f"there is no node {unknown[0]}")
    rows = sorted(
        (number[name], one.begin_s, one.end_s, int(one.is_announced)) for one in downtimes for name in one.nodes
    )
    records = np.zeros(len(rows), dtype=record_dtype(DowntimeRecord))
    for record, row in zip(records, rows, strict=True):
        record["node"], record["begin"], record["end"], record["is_announced"] = row
    return records


def is_closed(s: Shared, estimate: float) -> BoolArray:
    """Whether each node is closed now to a job of an estimate because of a downtime, shape ``(nodes,)``."""
    now, found = s.clock["now"][0], np.zeros(len(s.order), dtype=np.bool_)
    known = s.downtimes[(s.downtimes["is_announced"] > 0) | (s.downtimes["begin"] <= now)]
    comes = (known["begin"] <= now) | (known["begin"] < now + estimate)
    found[known["node"][(known["end"] > now) & comes]] = True
    return found


@inlined
def is_known(s: Shared, place: int) -> bool:
    """Whether schedulers know of a downtime: it is announced, or has begun."""
    return bool(s.downtimes[place].is_announced or s.downtimes[place].begin <= s.clock[0].now)


@inlined
def is_down(s: Shared, node: int, since: float, estimate: float) -> bool:
    """Whether a known downtime keeps a job of an estimate, which would start at ``since``, off a node."""
    for place in range(s.first_downtime[node], s.first_downtime[node + 1]):
        begin, end = s.downtimes[place].begin, s.downtimes[place].end
        if is_known(s, place) and since < end and (begin <= since or begin < since + estimate):
            return True
    return False


@next_change.answer(Shared)
@inlined
def _next_change(s: Shared) -> float:
    """Return when nodes fail or come back next."""
    return float(s.changes[s.clock[0].next_change])


@inlined
def _first_stopped(s: Shared, failed: BoolArray) -> int:
    """Return the first job, by number, that runs on a failed node and does not end now."""
    first = NOBODY
    for place in range(s.clock[0].n_running):
        job = s.lists[RUNNING, place]
        record = s.jobs[job]
        if record.end > s.clock[0].now and (first == NOBODY or job < first):
            for at in range(record.first, record.first + record.n_nodes):
                if failed[s.held[0, at]]:
                    first = job
    return int(first)


@change_machine.answer(Shared)
@helper()
def _change_nodes(s: Shared) -> None:
    """Let nodes come back whose downtime ends, and requeue the jobs of nodes that fail, in their order."""
    clock, failed = s.clock[0], s.inside
    while s.changes[clock.next_change] <= clock.now:
        clock.next_change += 1
    clock.n_changed = 1
    failed[:] = False
    for place in range(s.downtimes.size):
        one = s.downtimes[place]
        if one.end == clock.now:
            release(s, one.node)
        failed[one.node] |= one.begin == clock.now and not one.is_announced
    job = _first_stopped(s, failed)
    while job != NOBODY:
        requeue(s, job)
        s.jobs[job].n_nodes = 0
        job = _first_stopped(s, failed)
    for partition in range(s.partitions.size):
        s.partitions[partition].is_stale = 1
