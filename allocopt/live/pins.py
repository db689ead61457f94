"""Values of Slurm jobs that make and end a pin: the required nodes, and a mark in the administrator's comment."""

from collections.abc import Mapping, Sequence

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.live.slurm import MARK, SlurmJob

FREE: Mapping[str, str] = {"StartTime": "now", "AdminComment": ""}
"""Values that end a hold and remove the mark."""


def mark_of(job: SlurmJob, by_ms: int) -> str:
    """Return the mark of a job that is managed by the service which began at ``by_ms``, in ms since 1970."""
    return f"{MARK} priority={job.own_priority} by={by_ms}"


def pinned(job: SlurmJob, nodes: Sequence[str], mark: str, now_s: float) -> dict[str, str]:
    """Return the values that pin a job to nodes and let it begin there at once."""
    values = {"ReqNodeList": fold_hostlist(nodes), "StartTime": "now"}
    # Slurm may add nodes to the list if the job allows more.
    if range_of := _range(job):
        values["NumNodes"] = str(len(nodes))
    return {**values, "AdminComment": f"{mark} pinned={int(now_s)}{range_of}"}


def requeued(job: SlurmJob, mark: str, now_s: float) -> dict[str, str]:
    """Return the values that mark a job before it is requeued; they keep what is needed to end an earlier pin."""
    was_pinned = f" pinned={job.mark['pinned']}{_range(job)}" if job.is_pinned else ""
    return {"AdminComment": f"{mark} requeued={int(now_s)}{was_pinned}"}


def _range(job: SlurmJob) -> str:
    """Return the part of a mark with the least and most nodes asked for before any pin; empty if these are equal."""
    asked = job.request
    if job.is_pinned:
        return f" least={job.mark['least']} most={job.mark['most']}" if {"least", "most"} <= job.mark.keys() else ""
    if asked is None or asked.least_nodes == asked.most_nodes:
        return ""
    return f" least={asked.least_nodes} most={asked.most_nodes or 0}"


def cleared(job: SlurmJob) -> dict[str, str]:
    """Return the values that restore what a job asked for before it was pinned; empty if it is not pinned."""
    if not job.is_pinned:
        return {}
    mark = job.mark
    nodes = f"{mark['least']}-{mark['most']}" if mark.get("most") else str(mark.get("least"))
    return {"ReqNodeList": ""} | ({"NumNodes": nodes} if "least" in mark else {})
