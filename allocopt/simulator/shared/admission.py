"""Admission: which jobs of a trace a cluster accepts, and their requests."""

from dataclasses import replace

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.named import NamedTree
from allocopt.cluster.platform import Platform
from allocopt.cluster.request import ClusterRequest, Request
from allocopt.cluster.unserved import OverLimitError, UnservedError, counted, over_time, reasons_in_words
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.traces.workload import Workload


def asked_of(workload: Workload, cluster: Cluster) -> tuple[list[ClusterRequest], IntArray, list[UnservedError | None]]:
    """Return the distinct requests of jobs, the number of each job's request, and for each job why it cannot be served.

    The reason is None for a job that the cluster can serve. Requests that it cannot serve are left out, so the numbers
    are valid only if it can serve all.
    """
    if cluster.topology.is_beside:
        raise UsageError("a cluster with rings or toruses cannot be simulated: jobs need adjacent nodes in them")
    numbers: dict[Request, int] = {}
    made: list[ClusterRequest | UnservedError] = []
    number = np.empty(len(workload), dtype=np.int64)
    for job, (request, processors) in enumerate(zip(workload.requests, workload.processors.tolist(), strict=True)):
        asked = request or (Request.whole_nodes(processors) if cluster.is_exclusive else Request(processors))
        number[job] = numbers.setdefault(asked, len(made))
        if number[job] == len(made):
            try:
                made.append(asked.on(cluster))
            except UnservedError as error:
                made.append(error)
    limits = [one.most_seconds or np.inf for one in cluster.partitions] or [np.inf]

    def fault(found: ClusterRequest | UnservedError, estimate: float, run: float) -> UnservedError | None:
        if isinstance(found, UnservedError):
            return found
        # An estimate that equals the run time means that none was given.
        if estimate <= limits[found.partition] or estimate == run:
            return None
        return over_time(estimate, limits[found.partition], cluster.partitions[found.partition].name)

    of_job = (made[one] for one in number.tolist())
    faults = list(map(fault, of_job, workload.estimate.tolist(), workload.run.tolist()))
    return [one for one in made if not isinstance(one, UnservedError)], number, faults


def machine_of(topology: NamedTree) -> Platform | Cluster:
    """Return a machine of whole nodes: a `Cluster` if blocks or a forest limit a job's nodes, else a `Platform`."""
    return Platform.whole_nodes(topology.tree) if topology.is_plain else Cluster.whole_nodes(topology)


def admitted(workload: Workload, cluster: Cluster, *, in_nodes: bool, skip_oversized: bool) -> Workload:
    """Return the jobs that a cluster accepts, with their requests.

    Jobs without a request get whole nodes if the trace counts nodes (``in_nodes``). If the resources of the cluster's
    nodes are unknown, all jobs get whole nodes. Jobs over the limits of their partition are dropped and counted, as
    Slurm refuses them. Jobs that the cluster can never serve are dropped and counted by reason (`UnservedError`) if
    ``skip_oversized``; otherwise `InvalidProblemError` names the first one, and the number of jobs for each reason.
    Raises `UsageError` for rings and toruses, because it is not known how Slurm chooses their nodes.
    """
    if in_nodes or cluster.is_bare:
        known = [None] * len(workload) if cluster.is_bare else workload.requests.tolist()
        whole = map(Request.whole_nodes, workload.processors.tolist())
        requests = np.empty(len(workload), dtype=np.object_)
        requests[:] = [one or nodes for one, nodes in zip(known, whole, strict=True)]
        workload = replace(workload, requests=requests)
    *_, faults = asked_of(workload, cluster)
    if not skip_oversized:
        refuse(workload, [None if isinstance(fault, OverLimitError) else fault for fault in faults])
    return workload.without(["" if fault is None else fault.reason for fault in faults])


def refuse(workload: Workload, faults: list[UnservedError | None]) -> None:
    """Raise `InvalidProblemError` if a job has a fault; the message names the first, and counts all by reason."""
    found = [(job, fault) for job, fault in enumerate(faults) if fault is not None]
    for job, fault in found[:1]:
        told = fault.fault
        if len(found) > 1:
            reasons = reasons_in_words(counted(other.reason for _, other in found))
            told = f"{told}; {len(found):,} jobs cannot be served: {reasons}"
        who = workload.names[job] or workload.ids[job]
        raise InvalidProblemError(f"job {who}", f"{told}; skip_oversized = true drops such jobs")
