"""Heterogeneous jobs of Slurm, whose components 7+0, 7+1, ... start together (see Slurm's guide to them)."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocopt.cluster.request import Request
from allocopt.traces.workload import Workload

JOINED = "components of one heterogeneous job, simulated as one job on all their nodes"
APART = "asks for different nodes in each component of a heterogeneous job, which is not modelled"
"""Reasons why components are joined, and why they are left out."""

_NO_OFFSET = 2**32 - 2  # NO_VAL of slurm.h
COMPONENT = re.compile(r"(\d+)\+(\d+)", re.ASCII)


def with_joined_components(workload: Workload, *, shares_nodes: bool) -> Workload:
    """Return a workload in which each heterogeneous job is one job on the nodes of all its components.

    So the components start together, and the job ends when the last one ends. If jobs share nodes, components that ask
    for different nodes cannot be joined: they are dropped and counted. A component that has no others in the trace is
    an ordinary job.
    """
    groups: dict[str, list[int]] = {}
    for row, name in enumerate(workload.names.tolist()):
        if match := COMPONENT.fullmatch(name):
            groups.setdefault(match[1], []).append(row)
    groups = {name: rows for name, rows in groups.items() if len(rows) > 1}
    if not groups:
        return workload
    columns = {name: getattr(workload, name).copy() for name in _JOINED}
    reasons = [""] * len(workload)
    joined = 0
    for name, rows in groups.items():
        first, *others = rows
        request = _joined([workload.requests[row] for row in rows])
        if shares_nodes and request is None and any(workload.requests[row] is not None for row in rows):
            for row in rows:
                reasons[row] = APART
            continue
        joined += len(rows)
        for column, values in columns.items():
            values[first] = _JOINED[column](values[rows])
        columns["requests"][first] = request
        columns["names"][first] = f"{name}+[{','.join(workload.names[row].partition('+')[2] for row in rows)}]"
        for row in others:
            reasons[row] = _MERGED
    made = replace(workload, **columns).without(reasons)
    dropped = tuple((reason, jobs) for reason, jobs in made.dropped if reason != _MERGED)
    return replace(made, dropped=dropped, repaired=(*made.repaired, *(((JOINED, joined),) if joined else ())))


def component_id(job: str, offset: str) -> str:
    """Return the id of a component, such as ``7+0``, from its job and offset; empty if these are not set."""
    is_one = job.isdecimal() and offset.isdecimal() and int(job) > 0 and int(offset) < _NO_OFFSET
    return f"{job}+{offset}" if is_one else ""


_MERGED = "merged into the first component"
_JOINED: Mapping[str, Callable[[NDArray[Any]], Any]] = {
    "processors": np.sum,
    "run": np.max,
    "estimate": np.max,
    "recorded_start": np.min,
    "recorded_nodes": lambda lists: ",".join(lists.tolist()) if all(lists.tolist()) else "",
    "names": lambda names: names[0],
    "requests": lambda requests: requests[0],
}


def _joined(requests: Sequence[Request | None]) -> Request | None:
    """Return one request for all components; None if a request is unknown or they ask for different nodes."""
    known = [one for one in requests if one is not None]
    alike = {replace(one, tasks=None, least_nodes=1, most_nodes=None) for one in known}
    if len(known) < len(requests) or len(alike) > 1 or any(one.least_nodes != one.most_nodes for one in known):
        return None
    nodes = sum(one.least_nodes for one in known)
    tasks = [one.tasks for one in known]
    total = None if None in tasks else sum(one for one in tasks if one is not None)
    return replace(known[0], tasks=total, least_nodes=nodes, most_nodes=nodes)
