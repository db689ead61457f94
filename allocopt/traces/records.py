"""The records of a trace become a workload: what cannot be run is dropped and counted, what contradicts is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file
from allocopt.traces.precedence import row_on_a_cycle, without_lost
from allocopt.traces.workload import PRECEDING_LOST, Counts, Workload, no_integers, no_seconds

NO_RUN_TIME = "run time not positive"
NO_PROCESSORS = "number of processors not positive"


class Source(Protocol):
    """Where records come from: the rows of a file, one per job, and its columns by number."""

    @property
    def path(self) -> Path:
        """The file, for error messages."""

    def integers(self, column: int) -> IntArray:
        """Values of a column of integers, shape ``(rows,)``."""

    def error(self, row: int, column: int, fault: str) -> BadFileError:
        """Return an error that names the file and the place in it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Numbers of the columns in which a trace has its job ids, submit times and, if it has them, preceding jobs."""

    job: int
    submit: int
    preceding: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The rows of a trace, one per job, runnable or not.

    Parameters
    ----------
    submit, run, estimate
        Times in seconds, shape ``(rows,)`` as all arrays here.
    processors
        Processors of each job.
    repairs
        By reason, which rows had a missing value filled in.
    users, preceding, think_s
        As in a `Workload`: a row's user, its preceding job, which need not be there, and the seconds after its end;
        empty where the trace does not say.
    executables
        Number of each job's application; empty where the trace does not say.
    """

    submit: FloatArray
    run: FloatArray
    processors: IntArray
    estimate: FloatArray
    repairs: Mapping[str, NDArray[np.bool_]]
    users: IntArray = field(default_factory=no_integers)
    preceding: IntArray = field(default_factory=no_integers)
    think_s: FloatArray = field(default_factory=no_seconds)
    executables: IntArray = field(default_factory=no_integers)


def workload_of(source: Source, places: Places, records: Records, name: str, machine: int | None = None) -> Workload:
    """Make a workload of the records that can be run.

    Parameters
    ----------
    source
        Where the records come from.
    places
        Where job ids and submit times stand in it.
    records
        Its rows.
    name
        Name of the trace.
    machine
        Processors of the machine, if the trace says.

    Raises
    ------
    BadFileError
        If a job is given twice, is submitted before time 0, waits for its own end, or no job can be run.
    """
    runs, asks = records.run > 0, records.processors > 0
    keep = runs & asks
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise bad_file(source.path, f"none of its {len(keep)} jobs has a positive run time and size")
    ids = _checked_ids(source, places, rows)
    early = records.submit[rows] < 0
    if early.any():
        row = int(rows[np.argmax(early)])
        raise source.error(row, places.submit, f"is {records.submit[row]:g}, must not be negative")
    preceding, think_s, lost = _checked_precedence(source, places, records, ids, rows)
    repaired = _counts({reason: repaired & keep for reason, repaired in records.repairs.items()})
    dropped = {NO_RUN_TIME: ~runs, NO_PROCESSORS: runs & ~asks}
    return Workload(
        name,
        ids,
        records.submit[rows],
        records.run[rows],
        records.processors[rows],
        records.estimate[rows],
        machine,
        _counts(dropped),
        (*repaired, (PRECEDING_LOST, lost)) if lost else repaired,
        records.users[rows] if len(records.users) else records.users,
        preceding,
        think_s,
        records.executables[rows] if len(records.executables) else records.executables,
    )


def _checked_ids(source: Source, places: Places, rows: IntArray) -> IntArray:
    """Return the job ids of some rows, shape ``(len(rows),)``; they must be distinct."""
    ids = source.integers(places.job)[rows]
    _, first = np.unique(ids, return_index=True)
    if len(first) < len(ids):
        again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
        raise source.error(int(rows[again]), places.job, f"is {ids[again]}, a job that is given before")
    return ids


def _checked_precedence(
    source: Source, places: Places, records: Records, ids: IntArray, rows: IntArray
) -> tuple[IntArray, FloatArray, int]:
    """Return preceding jobs and think times of some rows without those of lost jobs, and the number of these."""
    if places.preceding is None:
        return records.preceding, records.think_s, 0
    preceding, think_s, lost = without_lost(ids, records.preceding[rows], records.think_s[rows])
    circular = row_on_a_cycle(ids, preceding)
    if circular is not None:
        fault = f"is {preceding[circular]}, so that job {ids[circular]} would have to end before it starts"
        raise source.error(int(rows[circular]), places.preceding, fault)
    return preceding, think_s, lost


def _counts(flags: Mapping[str, NDArray[np.bool_]]) -> Counts:
    """Count the flagged jobs per reason; a reason without jobs is not listed."""
    return tuple((reason, int(flagged.sum())) for reason, flagged in flags.items() if flagged.any())
