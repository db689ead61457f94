"""Formats of rows of numbers: SWF, and the NSA authors' text. Errors name the line.

In the Standard Workload Format, version 2.2, of the Parallel Workloads Archive, a line has 18 columns; further columns
are ignored. Lines that begin with ``;`` are comments; lines of the form ``; Key: value`` are the header. A missing
value is -1. The NSA authors' workloads have one line per job: id, arrival in seconds, run time in seconds, nodes.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.request import Request
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, printable, shown
from allocopt.files.reading import read_text
from allocopt.files.writing import write_text
from allocopt.traces.records import Damage, Number, Row, TraceFormat, plain, rows_of, runnable_jobs
from allocopt.traces.workload import NO_JOB, UNKNOWN_EXECUTABLE, UNKNOWN_USER, Workload

# Keys of columns that hold integers.
_INTEGERS = frozenset(("job", "allocated", "requested", "user", "executable", "preceding", "nodes"))
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    path: Path
    # All lines of the file; those of damaged rows are emptied. Blank lines and comments (``;``) have no jobs.
    lines: list[str]
    # For each key, the number of the column, counted from 1, and its name.
    columns: Mapping[str, tuple[int, str]]
    values: FloatArray  # these columns, in this order, shape ``(rows, columns)``

    @classmethod
    def read(
        cls, path: Path, columns: Mapping[str, tuple[int, str]], fewest: int, damage: Damage, *, has_more: bool = True
    ) -> "_Table":
        text = read_text(path)
        # Split at line ends of any system; str.splitlines would also split at other characters.
        lines = (text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text).split("\n")
        if not any(map(_holds_numbers, lines)):
            raise bad_file(path, "holds no jobs")
        # NumPy's reader is fast, but reports only that there is a fault; the slow check then finds all faults.
        values = _loaded(lines, columns) if has_more else None
        if values is None:
            faults: dict[int, BadFileError] = {}
            most, least = max(column for column, _ in columns.values()), "at least " if has_more else ""
            for number, line in enumerate(lines, 1):
                fields = line.partition(";")[0].split()
                if fields and (len(fields) < most or not (has_more or len(fields) == fewest)):
                    fault = f"has {len(fields)} columns, must have {least}{fewest}"
                    faults[number] = bad_file(path, f"line {number}", fault)
                    continue
                for key, (column, name) in columns.items() if fields else ():
                    cell = fields[column - 1]
                    if not (_NUMBER.fullmatch(cell) and abs(float(cell)) <= LARGEST):
                        fault = f"is {shown(cell)}, must be a number of at most 2^53"
                    elif key in _INTEGERS and not float(cell).is_integer():
                        fault = f"is {float(cell):g}, must be an integer"
                    else:
                        continue
                    faults[number] = bad_file(path, f"line {number}", f"column {column} ({name}) {fault}")
                    break
            lines = ["" if number in faults else line for number, line in enumerate(lines, 1)]
            damage.drop(len(faults), faults.values(), left=sum(map(_holds_numbers, lines)))
            values = _loaded(lines, columns)
            if values is None:
                raise bad_file(path, "is not a table of numbers")
        return cls(path, lines, columns, values)

    def numbers(self, column: str) -> FloatArray:
        return self.values[:, list(self.columns).index(column)]

    def integers(self, column: str) -> IntArray:
        return self.numbers(column).astype(np.int64)

    def texts(self, column: int) -> list[str] | None:
        # Cells of a text column after the columns of numbers; ``column`` counts from 1. None if the first row lacks it.
        if len(next(filter(_holds_numbers, self.lines)).split()) < column:
            return None
        return ["".join(line.split()[column - 1 : column]) for line in filter(_holds_numbers, self.lines)]

    def error(self, row: int, column: str, fault: str) -> BadFileError:
        # Lines are counted only here, so that reading a file without faults stays fast.
        line = [number for number, line in enumerate(self.lines, 1) if _holds_numbers(line)][row]
        number, name = self.columns[column]
        return bad_file(self.path, f"line {line}", f"column {number} ({name}) {fault}")


def _holds_numbers(line: str) -> bool:
    return line[:1].isdigit() or bool(line.partition(";")[0].strip())


def _loaded(lines: list[str], columns: Mapping[str, tuple[int, str]]) -> FloatArray | None:
    used = [number - 1 for number, _ in columns.values()]
    # Try integers first: they take a fifth of the time. Let NumPy raise an error for other numbers, which it would
    # otherwise truncate with a warning.
    for kind in (np.int64, np.float64):
        with suppress(ValueError), catch_warnings():
            simplefilter("error", DeprecationWarning)
            values = np.loadtxt(lines, comments=";", usecols=used, ndmin=2, dtype=kind).astype(np.float64)
            whole = values[:, [place for place, column in enumerate(columns) if column in _INTEGERS]]
            return values if (np.abs(values) <= LARGEST).all() and (whole == np.rint(whole)).all() else None
    return None


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
# After the 18 columns, MetaCentrum's traces have the nodes of every processor, the queue, and the request.
_NODES = re.compile(r"\{(\d+(?:,\d+)*)\}", re.ASCII)
_SHAPE = re.compile(r"([1-9]\d{0,6}):ppn=([1-9]\d{0,6})(:[^+#]*)?(#excl)?", re.ASCII)

FEATURES_LOST = "requested node features (column 21) not read"
ALLOCATED_USED = "no requested processors, allocated ones used"
RUN_USED = "no requested time, run time used"


class Swf(TraceFormat):
    """The Standard Workload Format.

    A job's processors are those it requested (column 8), or else those it was allocated (column 5). Its estimate is
    the requested time (column 9), or else its run time (column 4). A preceding job (column 17) that is not in the trace
    is ignored and counted as repaired. The machine's size is the header's ``MaxProcs``. The recorded start is known if
    the wait (column 3) is. Columns 17 and 18 are read only with ``dependencies``.
    """

    keeps = frozenset(("users", "preceding jobs and think times", "recorded starts"))

    def __init__(self, *, dependencies: bool = True) -> None:
        self._dependencies = dependencies

    def read(self, path: Path, damage: Damage) -> Workload:
        columns = {**_COLUMNS, **(_PRECEDENCE if self._dependencies else {})}
        table = _Table.read(path, columns, 18, damage)
        run = table.numbers("run")
        requested, requested_time = table.integers("requested"), table.numbers("requested_time")
        asks, estimates = requested > 0, requested_time > 0
        submit, wait = table.numbers("submit"), table.numbers("wait")
        preceding = think = None
        if self._dependencies:
            preceding = table.integers("preceding")
            think = np.where(preceding == NO_JOB, 0.0, np.maximum(table.numbers("think"), 0.0))
        processors = np.where(asks, requested, table.integers("allocated"))
        requests = nodes = None
        features = np.zeros(len(run), dtype=np.bool_)
        listed, shapes = table.texts(19), table.texts(21)
        if listed is not None and shapes is not None:
            requests, nodes = np.full(len(listed), None), np.full(len(listed), "", dtype=np.object_)
            for row, (text, shape) in enumerate(zip(listed, shapes, strict=True)):
                if on := _NODES.fullmatch(text):
                    nodes[row] = ",".join(dict.fromkeys(on[1].split(",")))
                if asked := _SHAPE.fullmatch(shape):
                    count, of_node, alone = int(asked[1]), int(asked[2]), asked[4] is not None
                    features[row] = asked[3] is not None
                    requests[row] = Request(int(processors[row]), count, count, of_node, is_exclusive=alone)
        # Real headers have more text after the number, such as the batch partition's share, or no number at all.
        found = re.match(r"\d+(?=\s|$)", swf_header(table.lines).get("MaxProcs", ""), re.ASCII)
        if found and float(found.group()) > LARGEST:
            raise bad_file(path, "MaxProcs", f"is {shown(found.group())}, must be at most 2^53")
        return runnable_jobs(
            path,
            table.error,
            damage,
            {ALLOCATED_USED: ~asks, RUN_USED: ~estimates, FEATURES_LOST: features},
            int(found.group()) or None if found else None,
            ids=table.integers("job"),
            submit=submit,
            run=run,
            processors=processors,
            estimate=np.where(estimates, requested_time, run),
            # Some archive files have negative numbers other than -1 for unknown values.
            users=np.maximum(table.integers("user"), UNKNOWN_USER),
            executables=np.maximum(table.integers("executable"), UNKNOWN_EXECUTABLE),
            preceding=preceding,
            think_s=think,
            requests=requests,
            recorded_start=np.where(wait >= 0, submit + wait, np.nan),
            recorded_nodes=nodes,
        )

    def write(self, path: Path, workload: Workload) -> None:
        notes = (f"workload {workload.name}, times in seconds, unknown values -1", *workload.remarks())
        waits = plain(np.nan_to_num(workload.recorded_start - workload.submit, nan=-1.0))
        rows = ((row, wait, -1) for row, wait in zip(rows_of(path, workload), waits, strict=True))
        write_swf(path, rows, workload.machine_processors, notes)


def write_swf(
    path: Path, jobs: Iterable[tuple[Row, Number, int]], processors: int | None, notes: Iterable[str]
) -> None:
    """Write jobs with their waits (column 3) and statuses (column 11), and the machine's processors if known."""
    # Processors are written both as requested and as allocated.
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
    """Return the header by key, in the order of its lines; a repeated key adds a line to its value."""
    header: dict[str, str] = {}
    for line in lines:
        # A cheap test first: only a few of hundreds of thousands of lines are header lines.
        if line[:1] == ";" and ":" in line:
            key, _, value = line.partition(":")
            key, value = key.strip("; \t"), value.strip()
            header[key] = f"{header[key]}\n{value}" if key in header else value
    return header


_NSA_COLUMNS = {"job": (1, "job id"), "submit": (2, "arrival time"), "run": (3, "run time"), "nodes": (4, "nodes")}


class Nsa(TraceFormat):
    """The text format of the NSA paper's authors: whole nodes and no estimates; run times serve as estimates."""

    def read(self, path: Path, damage: Damage) -> Workload:
        table = _Table.read(path, _NSA_COLUMNS, 4, damage, has_more=False)
        submit, run = table.numbers("submit"), table.numbers("run")
        ids, nodes = table.integers("job"), table.integers("nodes")
        return runnable_jobs(
            path, table.error, damage, {}, ids=ids, submit=submit, run=run, processors=nodes, estimate=run
        )

    def write(self, path: Path, workload: Workload) -> None:
        lines = (f"{row.job}  {row.submit}  {row.run}  {row.processors}\n" for row in rows_of(path, workload))
        write_text(path, "".join(lines))

    def losses(self, workload: Workload) -> list[str]:
        losses = []
        if differ := int((workload.estimate != workload.run).sum()):
            losses.append(f"estimates lost, the format has none: {differ}")
        if workload.machine_processors is not None:
            losses.append(f"size of the machine lost, the format has none: {workload.machine_processors}")
        return losses + super().losses(workload)
