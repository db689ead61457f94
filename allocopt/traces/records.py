"""What formats of traces share: records become a workload, whose jobs become rows of plain numbers again."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file
from allocopt.traces.workload import NO_JOB, PRECEDING_LOST, UNKNOWN_USER, Counts, Precedence, Workload

NO_RUN_TIME = "run time not positive"
NO_PROCESSORS = "number of processors not positive"

# Columns of a workload that a trace need not have, but for those of its precedence.
_OPTIONAL = ("users", "executables", "names", "requests", "recorded_start", "recorded_nodes")

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
        }
        counts = {what: int(jobs.sum()) for what, jobs in known.items() if what not in self.keeps}
        return [f"{what} lost, the format has none: {jobs}" for what, jobs in counts.items() if jobs]


def trace_name(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = path.name
    for ending in (".gz", ".swf", ".json", ".txt", ".csv", ".tsv", ".psv", ".events", ".parquet"):
        name = name.removesuffix(ending)
    return name or path.name


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Rows of a trace, one per job, runnable or not; arrays of shape ``(rows,)``, times in seconds."""

    path: Path
    # Makes an error that names the place in the file, of a row, of ``job``, ``submit`` or ``preceding``, and a fault.
    error: Callable[[int, str, str], BadFileError]
    ids: IntArray
    submit: FloatArray
    run: FloatArray
    processors: IntArray
    estimate: FloatArray
    # By reason, which rows had a missing value filled in.
    repairs: Mapping[str, BoolArray]
    # As in a `Workload`, None where the trace does not say; a preceding job need not be there.
    users: IntArray | None = None
    preceding: IntArray | None = None
    think_s: FloatArray | None = None
    executables: IntArray | None = None
    names: NDArray[np.object_] | None = None
    requests: NDArray[np.object_] | None = None
    recorded_start: FloatArray | None = None
    recorded_nodes: NDArray[np.object_] | None = None

    def workload(self, damage: Damage, machine: int | None = None) -> Workload:
        """Return the jobs that can be run, on a machine of so many processors if the trace says.

        A row is damaged whose job is given before, is submitted before time 0 or has to end before it starts. Raises
        `BadFileError` if no job is left.
        """
        runs, asks = self.run > 0, self.processors > 0
        keep = runs & asks
        rows = np.flatnonzero(keep)
        if not len(rows):
            raise damage.first or bad_file(self.path, f"none of its {len(keep)} jobs has a positive run time and size")
        # Those that cannot be run may have the id of another job.
        _, first = np.unique(self.ids[rows], return_index=True)
        if len(first) < len(rows):
            again = np.setdiff1d(np.arange(len(rows)), first)
            rows = self._without(rows, again, damage, "job", lambda row: f"{self.ids[row]}, a job that is given before")
        early = np.flatnonzero(self.submit[rows] < 0)
        rows = self._without(rows, early, damage, "submit", lambda row: f"{self.submit[row]:g}, must not be negative")
        columns: dict[str, NDArray[Any]] = {}
        lost = 0
        if self.preceding is not None and self.think_s is not None:
            precedence = Precedence(self.ids, self.preceding, self.think_s)
            circular, before = precedence.of(rows).rows_on_cycles(), self.preceding

            def endless(row: int) -> str:
                return f"{before[row]}, so that job {self.ids[row]} would have to end before it starts"

            rows = self._without(rows, circular, damage, "preceding", endless)
            found, lost = precedence.of(rows).without_lost()
            columns = {"preceding": found.preceding, "think_s": found.think_s}
        columns |= {name: values[rows] for name in _OPTIONAL if (values := getattr(self, name)) is not None}
        kept = np.zeros(len(keep), dtype=np.bool_)
        kept[rows] = True
        repaired = _counts({reason: filled & kept for reason, filled in self.repairs.items()})
        return Workload(
            trace_name(self.path),
            self.ids[rows],
            self.submit[rows],
            self.run[rows],
            self.processors[rows],
            self.estimate[rows],
            machine,
            (*damage.counts(), *_counts({NO_RUN_TIME: ~runs, NO_PROCESSORS: runs & ~asks})),
            (*repaired, (PRECEDING_LOST, lost)) if lost else repaired,
            **columns,
        )

    def _without(
        self, rows: IntArray, damaged: IntArray, damage: Damage, place: str, fault: Callable[[int], str]
    ) -> IntArray:
        left = np.delete(rows, damaged)
        errors = (self.error(row, place, f"is {fault(row)}") for row in rows[damaged].tolist())
        damage.drop(len(damaged), errors, left=len(left))
        return left


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


def rows_of(path: Path, workload: Workload) -> Iterator[Row]:
    """Return the jobs of a workload as rows, in its order; raise `BadFileError` if one could not be read again."""
    if not len(workload):
        raise bad_file(path, "cannot be written: the workload holds no jobs")
    # An integer: as floats, 2^53 and 2^53 + 1 would be the same.
    most = int(LARGEST)
    columns: dict[str, IntArray | FloatArray] = {
        "id": workload.ids,
        "submit time": workload.submit,
        "run time": workload.run,
        "number of processors": workload.processors,
        "estimate": workload.estimate,
        "user": workload.users,
        "think time": workload.think_s,
        "executable": workload.executables,
    }
    for what, values in columns.items():
        wrong = (values < -most) | (values > most)
        if wrong.any():
            job = int(np.argmax(wrong))
            fault = f"its {what} is {values[job]}, must be within 2^53 of 0"
            raise bad_file(path, f"cannot be written: job {workload.ids[job]}", fault)
    integers = (workload.ids, workload.processors, workload.users, workload.preceding, workload.executables)
    ids, processors, users, preceding, executables = (values.tolist() for values in integers)
    seconds = (workload.submit, workload.run, workload.estimate, workload.think_s)
    submit, run, estimate, think = map(plain, seconds)
    return map(Row, ids, submit, run, processors, estimate, users, preceding, think, executables)


def plain(seconds: FloatArray) -> list[Number]:
    """Return seconds as numbers of Python, integers where they are whole."""
    return [int(value) if value.is_integer() else value for value in seconds.tolist()]
