"""Standard Workload Format, version 2.2, of the Parallel Workloads Archive.

A line has 18 columns; further ones are ignored. Lines that begin with ``;`` are comments, those of the form ``; Key:
value`` a header. A missing value is -1.
"""

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import IntArray
from allocopt.cluster.request import Request
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, printable, shown
from allocopt.files.writing import write_text
from allocopt.traces.records import Damage, Number, Records, Row, TraceFormat, plain, rows_of
from allocopt.traces.table import Table
from allocopt.traces.workload import NO_JOB, UNKNOWN_EXECUTABLE, UNKNOWN_USER, Workload

_COLUMNS = {
    "job": (1, "job number"),
    "submit": (2, "submit time"),
    "wait": (3, "wait"),
    "run": (4, "run time"),
    "allocated": (5, "allocated processors"),
    "requested": (8, "requested processors"),
    "requested_time": (9, "requested time"),
    "user": (12, "user"),
    "executable": (14, "executable"),
}
_PRECEDENCE = {"preceding": (17, "preceding job"), "think": (18, "think time")}
_INTEGERS = frozenset(("job", "allocated", "requested", "user", "executable", "preceding"))
# Behind the 18 columns, the traces of MetaCentrum have the nodes of every processor, the queue, and what was asked for.
_NODES = re.compile(r"\{(\d+(?:,\d+)*)\}", re.ASCII)
_SHAPE = re.compile(r"([1-9]\d{0,6}):ppn=([1-9]\d{0,6})(?::[^+#]*)?(#excl)?", re.ASCII)

ALLOCATED_USED = "no requested processors, allocated ones used"
RUN_USED = "no requested time, run time used"


class Swf(TraceFormat):
    """The Standard Workload Format, which holds all that a workload has.

    A job's processors are those it requested (column 8), or else those it was allocated (column 5); its estimate is
    the requested time (column 9), or else its run time (column 4). Repaired and counted are jobs whose preceding job
    (column 17) is not there. The machine's size is the header's ``MaxProcs``. A start is recorded where a wait is.

    Parameters
    ----------
    dependencies
        Whether columns 17 and 18 are read.
    """

    keeps = frozenset(("users", "preceding jobs and think times", "recorded starts"))

    def __init__(self, *, dependencies: bool = True) -> None:
        self._dependencies = dependencies

    def read(self, path: Path, damage: Damage) -> Workload:
        columns = {**_COLUMNS, **(_PRECEDENCE if self._dependencies else {})}
        table = Table.read(path, columns, _INTEGERS & columns.keys(), 18, damage)
        run = table.numbers("run")
        requested, requested_time = table.integers("requested"), table.numbers("requested_time")
        asks, estimates = requested > 0, requested_time > 0
        submit, wait = table.numbers("submit"), table.numbers("wait")
        preceding = think = None
        if self._dependencies:
            preceding = table.integers("preceding")
            think = np.where(preceding == NO_JOB, 0.0, np.maximum(table.numbers("think"), 0.0))
        processors = np.where(asks, requested, table.integers("allocated"))
        requests, nodes = _of_metacentrum(table, processors)
        records = Records(
            path,
            table.error,
            table.integers("job"),
            submit,
            run,
            processors,
            np.where(estimates, requested_time, run),
            {ALLOCATED_USED: ~asks, RUN_USED: ~estimates},
            # Archive files have other negative numbers than -1 where nothing is known.
            np.maximum(table.integers("user"), UNKNOWN_USER),
            preceding,
            think,
            np.maximum(table.integers("executable"), UNKNOWN_EXECUTABLE),
            requests=requests,
            recorded_start=np.where(wait >= 0, submit + wait, np.nan),
            recorded_nodes=nodes,
        )
        # Real headers say more behind the number, such as the batch partition's share, or something else altogether.
        found = re.match(r"\d+(?=\s|$)", swf_header(table.lines).get("MaxProcs", ""), re.ASCII)
        if found and float(found.group()) > LARGEST:
            raise bad_file(path, "MaxProcs", f"is {shown(found.group())}, must be at most 2^53")
        return records.workload(damage, int(found.group()) or None if found else None)

    def write(self, path: Path, workload: Workload) -> None:
        notes = (f"workload {workload.name}, times in seconds, unknown values -1", *workload.remarks())
        waits = plain(np.nan_to_num(workload.recorded_start - workload.submit, nan=-1.0))
        rows = ((row, wait, -1) for row, wait in zip(rows_of(path, workload), waits, strict=True))
        write_swf(path, rows, workload.machine_processors, notes)


def _of_metacentrum(
    table: Table, processors: IntArray
) -> tuple[NDArray[np.object_], NDArray[np.object_]] | tuple[None, None]:
    """Return requests and nodes of traces that have them behind the 18 columns."""
    listed, asked = table.texts(19), table.texts(21)
    if listed is None or asked is None:
        return None, None
    requests, nodes = np.full(len(listed), None), np.full(len(listed), "", dtype=np.object_)
    for row, (text, shape) in enumerate(zip(listed, asked, strict=True)):
        if found := _NODES.fullmatch(text):
            nodes[row] = ",".join(dict.fromkeys(found[1].split(",")))
        if nodes_and := _SHAPE.fullmatch(shape):
            count, of_node, alone = int(nodes_and[1]), int(nodes_and[2]), nodes_and[3] is not None
            requests[row] = Request(int(processors[row]), count, count, of_node, is_exclusive=alone)
    return requests, nodes


def write_swf(
    path: Path, jobs: Iterable[tuple[Row, Number, int]], processors: int | None, notes: Iterable[str]
) -> None:
    """Write jobs with their waits (column 3) and statuses (11), on a machine of so many processors if known."""
    # Processors are written as requested and as allocated.
    lines = [
        f"{row.job} {row.submit} {wait} {row.run} {row.processors} -1 -1 {row.processors} {row.estimate} -1 {status} "
        f"{row.user} -1 {row.executable} -1 -1 {row.preceding} {-1 if row.preceding == NO_JOB else row.think}"
        for row, wait, status in jobs
    ]
    fields = [("Version", "2.2"), ("MaxJobs", str(len(lines))), ("MaxRecords", str(len(lines)))]
    if processors:
        fields.append(("MaxProcs", str(processors)))
    fields += [("Note", printable(note)) for note in notes]
    write_text(path, "\n".join((*(f"; {key}: {value}" for key, value in fields), *lines, "")))


def swf_header(lines: list[str]) -> dict[str, str]:
    """Return the header by key, in the order of its lines; a key that comes again adds a line to its value."""
    header: dict[str, str] = {}
    for line in lines:
        # Of hundreds of thousands of lines few are the header's.
        if line[:1] == ";" and ":" in line:
            key, _, value = line.partition(":")
            key, value = key.strip("; \t"), value.strip()
            header[key] = f"{header[key]}\n{value}" if key in header else value
    return header
