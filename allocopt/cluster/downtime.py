"""Downtimes of nodes: announced maintenance, and unannounced failures."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

import numpy as np

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, shown

_COLUMNS = ("nodes", "begin_s", "end_s", "announced")
_YES_OR_NO = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Downtime:
    """A period in which some nodes are down.

    Parameters
    ----------
    nodes
        Names of the nodes.
    begin_s, end_s
        The nodes are down on ``[begin_s, end_s)``, in seconds after the first job of the trace was submitted;
        ``end_s`` is infinite if they stay down.
    is_announced
        Whether schedulers know of the downtime before it begins. If they do, a job does not start on these nodes if it
        would, by its estimate, still run when the downtime begins; a job that still runs then continues. If they do
        not, the jobs that run on these nodes when the downtime begins are stopped and join the queue again.

    Raises
    ------
    InvalidProblemError
        If no node is given, the beginning is not finite, or the end is not after it.
    """

    nodes: tuple[str, ...]
    begin_s: float
    end_s: float
    is_announced: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.nodes, str) or not all(isinstance(node, str) for node in self.nodes):
            raise InvalidProblemError("downtime.nodes", f"is {self.nodes!r}, must be a tuple of names")
        object.__setattr__(self, "nodes", tuple(self.nodes))
        for name in ("begin_s", "end_s"):
            if not isinstance(getattr(self, name), int | float | np.number):
                raise InvalidProblemError(f"downtime.{name}", f"is {getattr(self, name)!r}, must be seconds")
        if not isinstance(self.is_announced, bool | np.bool_):
            raise InvalidProblemError("downtime.is_announced", f"is {self.is_announced!r}, must be True or False")
        if not self.nodes:
            raise InvalidProblemError("downtime.nodes", "must name at least one node")
        if not isfinite(self.begin_s) or not self.begin_s < self.end_s <= inf:
            fault = (
                f"begins at {self.begin_s:g} s and ends at {self.end_s:g} s; must begin at a finite time and end later"
            )
            raise InvalidProblemError("downtime", fault)


def checked_downtimes(downtimes: Iterable[Downtime]) -> tuple[Downtime, ...]:
    """Return downtimes as a tuple. Raises `UsageError` for anything but a sequence of `Downtime`."""
    if isinstance(downtimes, Downtime) or not isinstance(downtimes, Iterable):
        raise UsageError(f"the downtimes are {downtimes!r}, must be a sequence of `Downtime`")
    found = tuple(downtimes)
    for one in found:
        if not isinstance(one, Downtime):
            raise UsageError(f"the downtimes contain {one!r}, must be only `Downtime` objects")
    return found


def read_downtimes(path: Path, nodes: Collection[str] | None = None) -> tuple[Downtime, ...]:
    """Read downtimes from a CSV file.

    Its columns are ``nodes``, a list such as ``node[01-16]`` or ``cpn-d13-[01-20]``; ``begin_s`` and ``end_s``, in
    seconds after the first job of the trace was submitted; and ``announced``, ``yes`` for maintenance and ``no`` for
    failures. If ``end_s`` is empty, the nodes stay down.

    Raises `BadFileError`, which names the line, if a row cannot be read or names a node that is not in ``nodes``.
    """
    found = []
    for place, row in csv_rows(path, _COLUMNS, "downtimes"):
        announced = _YES_OR_NO.get(row["announced"].strip().lower())
        if announced is None:
            raise bad_file(path, place, f"announced is {shown(row['announced'].strip())}, must be yes or no")
        begin = number_at_least_0(path, place, row, "begin_s", "seconds after the first submission")
        end = inf
        if row["end_s"].strip():
            end = number_at_least_0(path, place, row, "end_s", "seconds after the first submission, or empty")
        try:
            found.append(Downtime(tuple(expand_hostlist(row["nodes"])), begin, end, announced))
        except ValueError as error:
            raise bad_file(path, place, str(error)) from None
        unknown = [] if nodes is None else [name for name in found[-1].nodes if name not in nodes]
        if unknown:
            fault = f"the machine has no node {shown(unknown[0])}"
            raise bad_file(
                path, place, f"{fault}; if the machine leaves it out because it takes no jobs, remove it from this file"
            )
    return tuple(found)
