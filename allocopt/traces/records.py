"""What formats of traces share: records become a workload, whose jobs become rows of plain numbers again."""

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
    """Rows of a file that were dropped for a fault: how many, and what the first ones had; a strict one has none."""

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
        """Count rows, with the error of each; raise the first one where the file is strict, or has no row left."""
        # A message may take a pass over the file: only those that are told are made.
        self._told += islice(errors, _TOLD - len(self._told))
        if self._told and (self._strict or not left):
            raise self._told[0]
        self._rows += rows

    def counts(self) -> Counts:
        """Return the number of the rows by a reason that tells the first faults; nothing where there are none."""
        told = "; ".join(str(fault).removeprefix(f"{self._path}: ") for fault in self._told)
        more = "; ..." if self._rows > len(self._told) else ""
        return ((f"damaged ({told}{more})", self._rows),) if self._rows else ()


class TraceFormat(ABC):
    """A format of workload files, plain or compressed (``.gz``); `allocopt.traces.reading` knows it by its ending."""

    keeps: ClassVar[frozenset[str]] = frozenset()
    """What the format holds of what most do not, in the words of `losses`."""

    @abstractmethod
    def read(self, path: Path, damage: Damage) -> Workload:
        """Read a workload, without damaged rows and jobs that cannot be run, which are counted.

        Raises `BadFileError` if the file cannot be read, is not in the format, or no job is left; it names the place.
        """

    @abstractmethod
    def write(self, path: Path, workload: Workload) -> None:
        """Write a workload; raise `BadFileError` if that is not possible, or it would not be read again."""

    def losses(self, workload: Workload) -> list[str]:
        """Return what of a workload the format cannot hold, one line each."""
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
    """Return the jobs of rows that can be run, on a machine of so many processors if the trace says.

    The columns are those of a `Workload`, None where the trace does not say; a preceding job need not be there. A row
    is damaged whose job is given before, is submitted before time 0 or has to end before it starts. ``error`` names the
    place of a row, of ``job``, ``submit`` or ``preceding``, and a fault; ``repairs`` tell by reason in which rows a
    missing value was filled in. Raises `BadFileError` if no job is left.
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

    # Those that cannot be run may have the id of another job.
    _, first = np.unique(ids[rows], return_index=True)
    if len(first) < len(rows):
        again = np.setdiff1d(np.arange(len(rows)), first)
        rows = without(again, "job", lambda row: f"{ids[row]}, a job that is given before")
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
    """A job as plain numbers; whole seconds are integers, so that no ``.0`` is written."""

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
"""Columns of a workload in the order of `Row`, with what each holds."""


def rows_of(path: Path, workload: Workload) -> Iterator[Row]:
    """Return the jobs of a workload as rows, in its order; raise `BadFileError` if one could not be read again."""
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
    """Return numbers of Python, integers where they are whole."""
    return [int(value) if float(value).is_integer() else value for value in values.tolist()]
