"""Times in which nodes of a cluster take no jobs: maintenance, which is announced, and failures, which are not."""

from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.errors import InvalidProblemError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, shown

_COLUMNS = ("nodes", "begin_s", "end_s", "announced")
_YES_OR_NO = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Downtime:
    """A time in which some nodes take no jobs.

    Parameters
    ----------
    nodes
        Names of the nodes.
    begin_s, end_s
        The nodes are down on ``[begin_s, end_s)``, in seconds of the trace; ``end_s`` is infinite if they stay down.
    is_announced
        Whether it is known before. Then jobs keep off these nodes that by their estimates would still run at the
        beginning; those that run all the same go on. Otherwise the jobs that run there at the beginning are stopped,
        and join the queue again.

    Raises
    ------
    InvalidProblemError
        If there are no nodes, or the end is not after the beginning.
    """

    nodes: tuple[str, ...]
    begin_s: float
    end_s: float
    is_announced: bool = True

    def __post_init__(self) -> None:
        if not self.nodes:
            raise InvalidProblemError("downtime.nodes", "names no node")
        if not isfinite(self.begin_s) or not self.begin_s < self.end_s <= inf:
            fault = f"is from {self.begin_s:g} to {self.end_s:g} s, must end after it begins"
            raise InvalidProblemError("downtime", fault)


def read_downtimes(path: Path) -> tuple[Downtime, ...]:
    """Read downtimes from a CSV file.

    Its columns are ``nodes``, a list such as ``node[01-16]`` or ``cpn-d13-[01-20]``; ``begin_s`` and ``end_s``, in
    seconds of the trace; and ``announced``, ``yes`` for maintenance, ``no`` for failures. An empty ``end_s`` says that
    the nodes stay down.

    Raises `BadFileError` with the line if a row cannot be read.
    """
    found = []
    for place, row in csv_rows(path, _COLUMNS, "downtimes"):
        announced = _YES_OR_NO.get(row["announced"].strip().lower())
        if announced is None:
            raise bad_file(path, place, f"announced is {shown(row['announced'].strip())}, must be yes or no")
        begin = number_at_least_0(path, place, row, "begin_s", "seconds")
        end = number_at_least_0(path, place, row, "end_s", "seconds") if row["end_s"].strip() else inf
        try:
            found.append(Downtime(tuple(expand_hostlist(row["nodes"])), begin, end, announced))
        except ValueError as error:
            raise bad_file(path, place, str(error)) from None
    return tuple(found)
