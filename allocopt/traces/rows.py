"""The jobs of a workload as rows of plain numbers, as every text format writes them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.files.faults import bad_file
from allocopt.traces.table import LARGEST
from allocopt.traces.workload import NO_JOB, UNKNOWN_USER, Workload

Number = int | float


@dataclass(frozen=True, slots=True)
class Writer:
    """How a format is written; ``losses`` tells what of a workload it cannot hold, one line each.

    ``write`` raises `BadFileError` if the file cannot be written, or would not be read again.
    """

    write: Callable[[Path, Workload], None]
    losses: Callable[[Workload], list[str]]


class Row(NamedTuple):
    """A job; times in seconds, whole ones as integers, so that no ``.0`` is written."""

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
    """Return the jobs of a workload as rows, in its order.

    Raises `BadFileError`, which names the file that they are for, if there are no jobs, or one could not be read again.
    """
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
    """Return numbers of Python, integers where they are whole."""
    return [int(value) if value.is_integer() else value for value in seconds.tolist()]


def swf_only_losses(workload: Workload) -> list[str]:
    """Return how many jobs lose their user or preceding job in formats other than SWF, one line each."""
    counts = {
        "users": int((workload.users != UNKNOWN_USER).sum()),
        "preceding jobs and think times": int((workload.preceding != NO_JOB).sum()),
    }
    return [f"{what} lost, the format has none: {jobs}" for what, jobs in counts.items() if jobs]
