"""What a pin is to Slurm: nodes by name and a mark in the job's administrator's comment, and how it ends."""

from collections.abc import Mapping, Sequence

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.live.slurm import MARK, SlurmJob

FREE: Mapping[str, str] = {"StartTime": "now", "AdminComment": ""}
"""Values of a job that is no longer held or looked after."""


def mark_of(job: SlurmJob, by_ms: int) -> str:
    """Return the mark of a job that a service looks after, which began at a time in ms since 1970."""
    return f"{MARK} priority={job.own_priority} by={by_ms}"


def pinned(job: SlurmJob, nodes: Sequence[str], mark: str, now_s: float) -> dict[str, str]:
    """Return the values that pin a job to nodes, and let it begin there at once."""
    values = {"ReqNodeList": fold_hostlist(nodes), "StartTime": "now"}
    # A list of nodes is a minimum, to which Slurm adds.
    if range_of := _range(job):
        values["NumNodes"] = str(len(nodes))
    return {**values, "AdminComment": f"{mark} pinned={int(now_s)}{range_of}"}


def requeued(job: SlurmJob, mark: str, now_s: float) -> dict[str, str]:
    """Return the values of a job that is about to be queued again; if it was pinned, that can still be ended."""
    was_pinned = f" pinned={job.mark['pinned']}{_range(job)}" if job.is_pinned else ""
    return {"AdminComment": f"{mark} requeued={int(now_s)}{was_pinned}"}


def _range(job: SlurmJob) -> str:
    """Return what a mark says of the number of nodes that a job asked for, before any pin; empty if that is fixed."""
    asked = job.request
    if job.is_pinned:
        return f" least={job.mark['least']} most={job.mark['most']}" if {"least", "most"} <= job.mark.keys() else ""
    if asked is None or asked.least_nodes == asked.most_nodes:
        return ""
    return f" least={asked.least_nodes} most={asked.most_nodes or 0}"


def cleared(job: SlurmJob) -> dict[str, str]:
    """Return the values that give a job back what it asked for before it was pinned; none if it is not."""
    if not job.is_pinned:
        return {}
    mark = job.mark
    nodes = f"{mark['least']}-{mark['most']}" if mark.get("most") else str(mark.get("least"))
    return {"ReqNodeList": ""} | ({"NumNodes": nodes} if "least" in mark else {})
