"""Downtimes on shared nodes: which downtimes schedulers know, and the effects of their begins and ends."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.downtime import Downtime
from allocopt.errors import InvalidProblemError
from allocopt.kernels.arrays import record_dtype
from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.kernels.events import change_machine, next_machine_change, requeue
from allocopt.simulator.shared.state import DowntimeRecord, Shared, release
from allocopt.simulator.state import NOBODY, RUNNING


def downtime_records(cluster: Cluster, downtimes: Sequence[Downtime]) -> Any:
    """Return one record per node of each downtime, sorted by node, for `new_shared`.

    Raises `InvalidProblemError` if a downtime names a node that the cluster does not have.
    """
    number_of = {name: number for number, name in enumerate(cluster.topology.nodes)}
    unknown = [name for downtime in downtimes for name in downtime.nodes if name not in number_of]
    if unknown:
        raise InvalidProblemError("downtimes", f"there is no node {unknown[0]}")
    rows = sorted(
        (number_of[name], downtime.begin_s, downtime.end_s, int(downtime.is_announced))
        for downtime in downtimes
        for name in downtime.nodes
    )
    records = np.zeros(len(rows), dtype=record_dtype(DowntimeRecord))
    for record, row in zip(records, rows, strict=True):
        record["node"], record["begin"], record["end"], record["is_announced"] = row
    return records


def nodes_meeting_downtime(s: Shared, estimate: float) -> BoolArray:
    """Return for each node whether a job with this estimate, started there now, would meet a known downtime."""
    now = s.clock["now"][0]
    known = s.downtimes[(s.downtimes["is_announced"] > 0) | (s.downtimes["begin"] <= now)]
    begins_before_end_of_job = (known["begin"] <= now) | (known["begin"] < now + estimate)
    is_met = np.zeros(len(s.order), dtype=np.bool_)
    is_met[known["node"][(known["end"] > now) & begins_before_end_of_job]] = True
    return is_met


@inlined
def is_known_downtime(s: Shared, row: int) -> bool:
    """Whether schedulers know the downtime in a row of `Shared.downtimes`: it is announced, or has begun."""
    return bool(s.downtimes[row].is_announced or s.downtimes[row].begin <= s.clock[0].now)


@inlined
def meets_downtime(s: Shared, node: int, since: float, estimate: float) -> bool:
    """Whether a job with this estimate, started on a node at ``since``, would meet a known downtime of the node."""
    # Return at once without downtimes, because this is called for every examined node.
    if s.downtimes.size == 0:
        return False
    for row in range(s.first_downtime[node], s.first_downtime[node + 1]):
        begin, end = s.downtimes[row].begin, s.downtimes[row].end
        if is_known_downtime(s, row) and since < end and (begin <= since or begin < since + estimate):
            return True
    return False


@next_machine_change.answer(Shared)
@inlined
def _next_machine_change(s: Shared) -> float:
    """Return the next time at which a node fails or comes back."""
    return float(s.changes[s.clock[0].next_change])


@inlined
def _first_job_to_requeue(s: Shared, failed: BoolArray) -> int:
    """Return the running job with the lowest number that is on a failed node and does not end now."""
    first = NOBODY
    for place in range(s.clock[0].n_running):
        job = s.lists[RUNNING, place]
        record = s.jobs[job]
        if record.end > s.clock[0].now and (first == NOBODY or job < first):
            for at in range(record.first, record.first + record.n_nodes):
                if failed[s.held[0, at]]:
                    first = job
    return int(first)


@inlined
def requeue_on_nodes(s: Shared, job: int) -> None:
    """Stop a running job, release its nodes, and put it into the queue again; see `requeue`."""
    requeue(s, job)
    s.jobs[job].n_nodes = 0


@change_machine.answer(Shared)
@helper()
def _change_nodes(s: Shared) -> None:
    """Bring back nodes whose downtime ends now; requeue the jobs on nodes that fail now, in order of submission."""
    clock, failed = s.clock[0], s.inside
    while s.changes[clock.next_change] <= clock.now:
        clock.next_change += 1
    clock.n_changed = 1
    failed[:] = False
    for row in range(s.downtimes.size):
        downtime = s.downtimes[row]
        if downtime.end == clock.now:
            release(s, downtime.node)
        failed[downtime.node] |= downtime.begin == clock.now and not downtime.is_announced
    job = _first_job_to_requeue(s, failed)
    while job != NOBODY:
        requeue_on_nodes(s, job)
        job = _first_job_to_requeue(s, failed)
    for partition in range(s.partitions.size):
        s.partitions[partition].is_stale = 1
