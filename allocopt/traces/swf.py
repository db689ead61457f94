"""Standard Workload Format, version 2.2: the format of the Parallel Workloads Archive.

A line has 18 columns; further ones are ignored. Lines that begin with ``;`` are comments, those of the form
``; Key: value`` a header. A missing value is -1.
"""

import re
from pathlib import Path

import numpy as np

from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.traces.names import trace_name
from allocopt.traces.precedence import NONE
from allocopt.traces.records import Places, Records, workload_of
from allocopt.traces.table import LARGEST, Layout, Table, lines_of, read_table
from allocopt.traces.workload import UNKNOWN_EXECUTABLE, UNKNOWN_USER, Workload

JOB, SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_TIME = 1, 2, 4, 5, 8, 9
USER, EXECUTABLE, PRECEDING, THINK_TIME = 12, 14, 17, 18

SWF_LAYOUT = Layout(
    {
        JOB: "job number",
        SUBMIT: "submit time",
        RUN: "run time",
        ALLOCATED: "allocated processors",
        REQUESTED: "requested processors",
        REQUESTED_TIME: "requested time",
        USER: "user",
        EXECUTABLE: "executable",
        PRECEDING: "preceding job",
        THINK_TIME: "think time",
    },
    fewest=18,
)

ALLOCATED_USED = "no requested processors, allocated ones used"
RUN_USED = "no requested time, run time used"


def read_swf(path: Path) -> Workload:
    """Read a trace in the Standard Workload Format, plain or compressed (``.gz``).

    A job's processors are those it requested (column 8), or else those it was allocated (column 5); its estimate is
    the requested time (column 9), or else its run time (column 4). Jobs without a positive run time and number of
    processors are dropped and counted, and so are repaired those whose preceding job (column 17) is not there. The
    machine's size is the header's ``MaxProcs``.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    BadFileError
        If the file cannot be read, a line or ``MaxProcs`` is malformed, or no job is left; it names the line and the
        column.
    """
    lines = lines_of(read_text(path))
    table = read_table(path, lines, SWF_LAYOUT)
    places = Places(JOB, SUBMIT, PRECEDING)
    return workload_of(table, places, _records(table), trace_name(path), _machine(path, swf_header(lines)))


def swf_header(lines: list[str]) -> dict[str, str]:
    """Values of the header lines by key, in their order; a key that stands there again adds a line to its value."""
    header: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":") if line.startswith(";") else ("", "", "")
        if colon:
            key, value = key.strip("; \t"), value.strip()
            header[key] = f"{header[key]}\n{value}" if key in header else value
    return header


def _machine(path: Path, header: dict[str, str]) -> int | None:
    """Processors of the machine, as the header says, or None where it says no whole number."""
    found = re.match(r"\d+(?=\s|$)", header.get("MaxProcs", ""), re.ASCII)
    if found and float(found.group()) > LARGEST:
        raise bad_file(path, "MaxProcs", f"is {shown(found.group())}, must be at most 2^53")
    return int(found.group()) or None if found else None


def _records(table: Table) -> Records:
    """Apply the rules for missing values."""
    run = table.numbers(RUN)
    requested, requested_time = table.integers(REQUESTED), table.numbers(REQUESTED_TIME)
    asks, estimates = requested > 0, requested_time > 0
    preceding = table.integers(PRECEDING)
    return Records(
        table.numbers(SUBMIT),
        run,
        np.where(asks, requested, table.integers(ALLOCATED)),
        np.where(estimates, requested_time, run),
        {ALLOCATED_USED: ~asks, RUN_USED: ~estimates},
        np.maximum(table.integers(USER), UNKNOWN_USER),
        preceding,
        np.where(preceding == NONE, 0.0, np.maximum(table.numbers(THINK_TIME), 0.0)),
        np.maximum(table.integers(EXECUTABLE), UNKNOWN_EXECUTABLE),
    )
