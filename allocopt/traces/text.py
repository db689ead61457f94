"""Formats of rows of numbers: SWF, and the NSA authors' text; a fault is named with its line.

In the Standard Workload Format, version 2.2, of the Parallel Workloads Archive a line has 18 columns; further ones are
ignored. Lines that begin with ``;`` are comments, those of the form ``; Key: value`` a header. A missing value is -1.
The NSA authors' workloads have a line per job with its id, arrival s, run time s and nodes.
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
    # All lines of the file, those of damaged rows empty; lines that are blank or begin with ``;`` hold no numbers.
    lines: list[str]
    # By key, the number of each column that is read, counted from 1, and its name.
    columns: Mapping[str, tuple[int, str]]
    values: FloatArray  # these columns, in this order, shape ``(rows, columns)``

    @classmethod
    def read(
        cls, path: Path, columns: Mapping[str, tuple[int, str]], fewest: int, damage: Damage, *, has_more: bool = True
    ) -> "_Table":
        text = read_text(path)
        # Split at line ends of any system, and nowhere else.
        lines = (text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text).split("\n")
        if not any(map(_holds_numbers, lines)):
            raise bad_file(path, "holds no jobs")
        # NumPy's reader is fast and tells of one fault that there is one; the slow check then finds where.
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
                raise bad_file(path, "holds what is no table of numbers")
        return cls(path, lines, columns, values)

    def numbers(self, column: str) -> FloatArray:
        return self.values[:, list(self.columns).index(column)]

    def integers(self, column: str) -> IntArray:
        return self.numbers(column).astype(np.int64)

    def texts(self, column: int) -> list[str] | None:
        # Those behind the columns of numbers, counted from 1; none where the first row has none.
        if len(next(filter(_holds_numbers, self.lines)).split()) < column:
            return None
        return ["".join(line.split()[column - 1 : column]) for line in filter(_holds_numbers, self.lines)]

    def error(self, row: int, column: str, fault: str) -> BadFileError:
        # Lines are counted only now: a long file that is right pays nothing for it.
        line = [number for number, line in enumerate(self.lines, 1) if _holds_numbers(line)][row]
        number, name = self.columns[column]
        return bad_file(self.path, f"line {line}", f"column {number} ({name}) {fault}")


def _holds_numbers(line: str) -> bool:
    return line[:1].isdigit() or bool(line.partition(";")[0].strip())


def _loaded(lines: list[str], columns: Mapping[str, tuple[int, str]]) -> FloatArray | None:
    used = [number - 1 for number, _ in columns.values()]
    # Whole numbers are read in a fifth of the time; of others NumPy would take the whole part, and only warn.
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
# Behind the 18 columns, the traces of MetaCentrum have the nodes of every processor, the queue, and what was asked for.
_NODES = re.compile(r"\{(\d+(?:,\d+)*)\}", re.ASCII)
_SHAPE = re.compile(r"([1-9]\d{0,6}):ppn=([1-9]\d{0,6})(:[^+#]*)?(#excl)?", re.ASCII)

FEATURES_LOST = "features asked for behind the columns not read"
ALLOCATED_USED = "no requested processors, allocated ones used"
RUN_USED = "no requested time, run time used"


class Swf(TraceFormat):
    """The Standard Workload Format, which holds all that a workload has.

    A job's processors are those it requested (column 8), or else those it was allocated (column 5); its estimate is
    the requested time (column 9), or else its run time (column 4). Repaired and counted are jobs whose preceding job
    (column 17) is not there. The machine's size is the header's ``MaxProcs``. A start is recorded where a wait is.
    Columns 17 and 18 are read for ``dependencies`` alone.
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
            # Traces of MetaCentrum have the nodes of jobs, and the shapes that these ask for, behind the standard's.
            requests, nodes = np.full(len(listed), None), np.full(len(listed), "", dtype=np.object_)
            for row, (text, shape) in enumerate(zip(listed, shapes, strict=True)):
                if on := _NODES.fullmatch(text):
                    nodes[row] = ",".join(dict.fromkeys(on[1].split(",")))
                if asked := _SHAPE.fullmatch(shape):
                    count, of_node, alone = int(asked[1]), int(asked[2]), asked[4] is not None
                    features[row] = asked[3] is not None
                    requests[row] = Request(int(processors[row]), count, count, of_node, is_exclusive=alone)
        # Real headers say more behind the number, such as the batch partition's share, or something else altogether.
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
            # Archive files have other negative numbers than -1 where nothing is known.
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


_NSA_COLUMNS = {"job": (1, "job id"), "submit": (2, "arrival time"), "run": (3, "run time"), "nodes": (4, "nodes")}


class Nsa(TraceFormat):
    """The text format of the NSA paper's authors: whole nodes, and no estimates, for which the run times stand."""

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
