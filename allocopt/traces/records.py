"""The records of a trace become a workload: what cannot be run is dropped and counted, what contradicts is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file
from allocopt.traces.workload import PRECEDING_LOST, Counts, Workload, row_on_a_cycle, without_lost

NO_RUN_TIME = "run time not positive"
NO_PROCESSORS = "number of processors not positive"

_NO_INTEGERS = np.empty(0, dtype=np.int64)


def trace_name(path: Path) -> str:
    """Return the name of a file without the endings of its format."""
    name = path.name
    for ending in (".gz", ".swf", ".json", ".txt", ".csv", ".tsv", ".psv"):
        name = name.removesuffix(ending)
    return name or path.name


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """The rows of a trace, one per job, runnable or not; arrays of shape ``(rows,)``, times in seconds."""

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

    def workload(self, machine: int | None = None) -> Workload:
        """Return the jobs that can be run, on a machine of so many processors if the trace says.

        Raises `BadFileError` if a job is given twice, is submitted before time 0, waits for its own end, or no job can
        be run.
        """
        runs, asks = self.run > 0, self.processors > 0
        keep = runs & asks
        rows = np.flatnonzero(keep)
        if not len(rows):
            raise bad_file(self.path, f"none of its {len(keep)} jobs has a positive run time and size")
        # Those that cannot be run may have the id of another job.
        ids = self.ids[rows]
        _, first = np.unique(ids, return_index=True)
        if len(first) < len(ids):
            again = int(np.setdiff1d(np.arange(len(ids)), first)[0])
            raise self.error(int(rows[again]), "job", f"is {ids[again]}, a job that is given before")
        early = self.submit[rows] < 0
        if early.any():
            row = int(rows[np.argmax(early)])
            raise self.error(row, "submit", f"is {self.submit[row]:g}, must not be negative")
        preceding, think_s, lost = _NO_INTEGERS, np.empty(0), 0
        if self.preceding is not None and self.think_s is not None:
            preceding, think_s, lost = without_lost(ids, self.preceding[rows], self.think_s[rows])
            circular = row_on_a_cycle(ids, preceding)
            if circular is not None:
                fault = f"is {preceding[circular]}, so that job {ids[circular]} would have to end before it starts"
                raise self.error(int(rows[circular]), "preceding", fault)
        repaired = _counts({reason: repaired & keep for reason, repaired in self.repairs.items()})
        return Workload(
            trace_name(self.path),
            ids,
            self.submit[rows],
            self.run[rows],
            self.processors[rows],
            self.estimate[rows],
            machine,
            _counts({NO_RUN_TIME: ~runs, NO_PROCESSORS: runs & ~asks}),
            (*repaired, (PRECEDING_LOST, lost)) if lost else repaired,
            _NO_INTEGERS if self.users is None else self.users[rows],
            preceding,
            think_s,
            _NO_INTEGERS if self.executables is None else self.executables[rows],
        )


def _counts(flags: Mapping[str, BoolArray]) -> Counts:
    return tuple((reason, int(flagged.sum())) for reason, flagged in flags.items() if flagged.any())
