"""Base of all trace formats: turns the jobs of a file into a workload, and a workload into rows of plain numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, starmap
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file
from allocopt.files.reading import without_compression
from allocopt.traces.workload import NO_JOB, PRECEDING_LOST, UNKNOWN_USER, Counts, Precedence, Workload

NO_RUN_TIME = "run time not positive"
NO_PROCESSORS = "number of processors not positive"

Number = int | float

_TOLD = 3


class Damage:
    """Counts the damaged rows of a file, which are dropped, and keeps the first faults; ``strict`` raises the first."""

    def __init__(self, path: Path, *, strict: bool = False) -> None:
        self._path = path
        self._strict = strict
        self._rows = 0
        self._told: list[BadFileError] = []

    @property
    def first(self) -> BadFileError | None:
        """The first fault."""
        return self._told[0] if self._told else None

    def drop(self, rows: int, errors: Iterable[BadFileError], *, left: int) -> None:
        """Count dropped rows, with the error of each; raise the first error if ``strict``, or if no row is left."""
        # Making a message may take a pass over the file: make only those that are shown.
        self._told += islice(errors, _TOLD - len(self._told))
        if self._told and (self._strict or not left):
            raise self._told[0]
        self._rows += rows

    def counts(self) -> Counts:
        """Return the number of dropped rows with a reason that lists the first faults; empty if no row was dropped."""
        told = "; ".join(str(fault).removeprefix(f"{self._path}: ") for fault in self._told)
        more = "; ..." if self._rows > len(self._told) else ""
        return ((f"damaged ({told}{more})", self._rows),) if self._rows else ()


class TraceFormat(ABC):
    """A format of workload files, plain or compressed (``.gz``); `allocopt.traces.reading` selects it by the ending."""

    keeps: ClassVar[frozenset[str]] = frozenset()
    """Information that this format can hold and most others cannot, as named in `losses`."""

    @abstractmethod
    def read(self, path: Path, damage: Damage) -> Workload:
        """Read a workload; damaged rows and jobs that cannot be run are dropped and counted.

        Raises `BadFileError` if the file cannot be read, is not in the format, or no job is left; it names the place.
        """

    @abstractmethod
    def write(self, path: Path, workload: Workload) -> None:
        """Write a workload; raise `BadFileError` if this fails, or if `read` could not read the file afterwards."""

    def losses(self, workload: Workload) -> list[str]:
        """Return one line for each kind of information in a workload that the format cannot hold."""
        known = {
            "users": workload.users != UNKNOWN_USER,
            "preceding jobs and think times": workload.preceding != NO_JOB,
            "recorded starts": ~np.isnan(workload.recorded_start),
            "recorded nodes": workload.recorded_nodes.astype(np.bool_),
            "names": workload.names.astype(np.bool_),
            "requests": workload.requests.astype(np.bool_),
            "names of users": workload.user_names.astype(np.bool_),
            "accounts": workload.accounts.astype(np.bool_),
        }
        counts = {what: int(jobs.sum()) for what, jobs in known.items() if what not in self.keeps}
        return [f"{what} lost, the format has none: {jobs}" for what, jobs in counts.items() if jobs]


def trace_name(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = without_compression(path.name)
    for ending in (".swf", ".json", ".txt", ".csv", ".tsv", ".psv", ".events", ".parquet"):
        name = name.removesuffix(ending)
    return name or path.name


def runnable_jobs(
    path: Path,
    error: Callable[[int, str, str], BadFileError],
    damage: Damage,
    repairs: Mapping[str, BoolArray],
    machine: int | None = None,
    **given: NDArray[Any] | None,
) -> Workload:
    """Return the workload of the rows whose jobs can be run.

    A row is damaged, and dropped, if an earlier row has the same job, or its job is submitted before time 0 or would
    have to end before it starts. Raises `BadFileError` if no job is left.

    Parameters
    ----------
    path, damage
        The file, and the count of its damaged rows.
    error
        Function that returns an error, given a row, the place in it (``job``, ``submit`` or ``preceding``) and a fault.
    repairs
        By reason, the rows in which a missing value was filled in.
    machine
        Processors of the trace's own machine, None if unknown.
    given
        Columns of a `Workload`, None if unknown. A preceding job may be missing from the rows.
    """
    columns = {name: values for name, values in given.items() if values is not None}
    ids, submit, runs, asks = columns["ids"], columns["submit"], columns["run"] > 0, columns["processors"] > 0
    rows = np.flatnonzero(runs & asks)
    if not len(rows):
        raise damage.first or bad_file(path, f"none of its {len(ids)} jobs has a positive run time and size")

    def without(damaged: IntArray, place: str, fault: Callable[[int], str]) -> IntArray:
        left = np.delete(rows, damaged)
        errors = (error(row, place, f"is {fault(row)}") for row in rows[damaged].tolist())
        damage.drop(len(damaged), errors, left=len(left))
        return left

    # Only jobs that can be run need distinct ids.
    _, first = np.unique(ids[rows], return_index=True)
    if len(first) < len(rows):
        again = np.setdiff1d(np.arange(len(rows)), first)
        rows = without(again, "job", lambda row: f"{ids[row]}, the number of an earlier job")
    early = np.flatnonzero(submit[rows] < 0)
    rows = without(early, "submit", lambda row: f"{submit[row]:g}, must not be negative")
    lost, found = 0, None
    if "preceding" in columns:
        before = columns["preceding"]
        precedence = Precedence(ids, before, columns["think_s"])
        circular = precedence.of(rows).rows_on_cycles()
        endless = "so that job {} would have to end before it starts".format
        rows = without(circular, "preceding", lambda row: f"{before[row]}, {endless(ids[row])}")
        found, lost = precedence.of(rows).without_lost()
    kept = {name: values[rows] for name, values in columns.items()} | (found._asdict() if found else {})
    filled = _counts({reason: repaired[rows] for reason, repaired in repairs.items()})
    return Workload(
        trace_name(path),
        **kept,
        machine_processors=machine,
        dropped=(*damage.counts(), *_counts({NO_RUN_TIME: ~runs, NO_PROCESSORS: runs & ~asks})),
        repaired=(*filled, (PRECEDING_LOST, lost)) if lost else filled,
    )


def _counts(flags: Mapping[str, BoolArray]) -> Counts:
    return tuple((reason, int(flagged.sum())) for reason, flagged in flags.items() if flagged.any())


class Row(NamedTuple):
    """A job as plain numbers; whole seconds are integers, so that they are written without ``.0``."""

    job: int
    submit: Number
    run: Number
    processors: int
    estimate: Number
    user: int
    preceding: int
    think: Number
    executable: int


_WRITTEN = {
    "ids": "id",
    "submit": "submit time",
    "run": "run time",
    "processors": "number of processors",
    "estimate": "estimate",
    "users": "user",
    "preceding": "preceding job",
    "think_s": "think time",
    "executables": "executable",
}
"""Columns of a workload in the order of `Row`, with their names in messages."""


def rows_of(path: Path, workload: Workload) -> Iterator[Row]:
    """Return the jobs of a workload as rows, in its order; raise `BadFileError` if a value is too large."""
    if not len(workload):
        raise bad_file(path, "cannot be written: the workload holds no jobs")
    # An integer: as floats, 2^53 and 2^53 + 1 would be the same.
    most = int(LARGEST)
    for column, what in _WRITTEN.items():
        values = getattr(workload, column)
        for job in np.flatnonzero((values < -most) | (values > most))[:1].tolist():
            fault = f"its {what} is {values[job]}, must be within 2^53 of 0"
            raise bad_file(path, f"cannot be written: job {workload.ids[job]}", fault)
    return starmap(Row, zip(*(plain(getattr(workload, column)) for column in _WRITTEN), strict=True))


def plain(values: IntArray | FloatArray) -> list[Number]:
    """Return Python numbers; whole ones are integers."""
    return [int(value) if float(value).is_integer() else value for value in values.tolist()]
