"""The jobs of a workload as rows of plain numbers, as every text format writes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.files.faults import bad_file
from allocopt.traces.table import LARGEST
from allocopt.traces.workload import Workload

Number = int | float


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

    Parameters
    ----------
    path
        The file that they are for, for error messages.
    workload
        The jobs.

    Raises
    ------
    BadFileError
        If there are no jobs, or one could not be read again; it names the job.
    """
    if not len(workload):
        raise bad_file(path, "cannot be written: the workload holds no jobs")
    _check_sizes(path, workload)
    integers = (workload.ids, workload.processors, workload.users, workload.preceding, workload.executables)
    ids, processors, users, preceding, executables = (values.tolist() for values in integers)
    seconds = (workload.submit, workload.run, workload.estimate, workload.think_s)
    submit, run, estimate, think = map(plain, seconds)
    return map(Row, ids, submit, run, processors, estimate, users, preceding, think, executables)


def _check_sizes(path: Path, workload: Workload) -> None:
    """Raise `BadFileError` for the first number that readers refuse."""
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


def plain(seconds: FloatArray) -> list[Number]:
    """Return numbers of Python, integers where they are whole."""
    return [int(value) if value.is_integer() else value for value in seconds.tolist()]
