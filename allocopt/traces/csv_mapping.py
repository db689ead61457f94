"""Tables of jobs with a header: dumps of ``sacct -P`` and CSV files, with the columns in any order."""

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.cells import duration_s, instant_s, resource_count
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import lines_of, read_text
from allocopt.traces.csv_columns import Columns
from allocopt.traces.damage import Damage
from allocopt.traces.records import Records
from allocopt.traces.table import LARGEST
from allocopt.traces.workload import UNKNOWN_USER, Workload

RUN_USED = "no time limit, run time used"
NUMBERED = "part of an array without a number of its own, numbered"
NOT_ENDED = "not ended"
NO_SUBMIT = "submit time unknown"

# First words of states in which a job's run time is not yet known.
_UNENDED = frozenset(("PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING", "CONFIGURING", "COMPLETING"))

_DELIMITERS = ",;|\t"

_PLAIN = re.compile(r"\d{1,18}", re.ASCII)
_WHOLE_FLOAT = re.compile(r"(\d{1,18})\.0", re.ASCII)
_STEP = re.compile(r"\d+(?:[_+][^.\s]*)?\.\S+", re.ASCII)
_PART = re.compile(r"\d+[_+]\S+", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows of a table."""

    path: Path
    # Number of the line of each row; a cell may hold an end of a line.
    lines: list[int]
    cells: list[list[str]]
    # By role the number of the column and its unit in seconds.
    places: dict[str, tuple[int, float]]
    header: list[str]

    @classmethod
    def read(cls, path: Path, columns: Columns) -> "_Rows":
        """Read a table whose first line names the columns."""
        lines = lines_of(read_text(path))
        if not lines:
            raise bad_file(path, "is empty, must begin with the names of its columns")
        delimiter = columns.delimiter or max(_DELIMITERS, key=lines[0].count)
        # Slurm does not quote.
        is_slurm = delimiter == "|"
        reader = csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE if is_slurm else csv.QUOTE_MINIMAL)
        try:
            header = next(reader)
            rows = cls(path, [], [], columns.find(path, header), header)
            names = [name.strip().lower() for name in header]
            for cells in reader:
                if not any(map(str.strip, cells)):
                    continue
                over = len(cells) - len(header)
                if over > 0 and "jobname" in names:
                    # A delimiter may stand in the name of a job, which Slurm prints as it is.
                    at = names.index("jobname")
                    cells = [*cells[:at], "|".join(cells[at : at + over + 1]), *cells[at + over + 1 :]]
                if len(cells) != len(header):
                    fault = f"has {len(cells)} cells, line 1 names {len(header)} columns"
                    raise bad_file(path, f"line {reader.line_num}", fault)
                rows.cells.append(cells)
                rows.lines.append(reader.line_num)
        except csv.Error as error:
            raise bad_file(path, f"line {reader.line_num}", f"is not a row of cells: {error}") from None
        if not rows.cells:
            raise bad_file(path, "holds no jobs")
        return rows

    def error(self, row: int, role: str, fault: str) -> BadFileError:
        """Return an error that names the file, the line and the column."""
        column = self.places[role][0]
        return bad_file(self.path, f"line {self.lines[row]}", f"{self.header[column].strip()} {fault}")

    def texts(self, role: str) -> list[str]:
        """Return the cells of a role; empty ones where no column has it."""
        if role not in self.places:
            return [""] * len(self.cells)
        column = self.places[role][0]
        return [cells[column].strip() for cells in self.cells]

    def values(self, role: str, read: Callable[[str, float], float]) -> FloatArray:
        """Return the values of a role, shape ``(rows,)``; those of empty cells where no column has it."""
        unit_s = self.places.get(role, (0, 1.0))[1]
        values = np.empty(len(self.cells))
        for row, text in enumerate(self.texts(role)):
            try:
                values[row] = read(text, unit_s)
            except ValueError as error:
                raise self.error(row, role, str(error)) from None
        return values

    def only(self, keep: Sequence[bool]) -> "_Rows":
        """Return the rows that are kept."""
        kept = [row for row, kept in enumerate(keep) if kept]
        return replace(self, lines=[self.lines[row] for row in kept], cells=[self.cells[row] for row in kept])

    def without_steps(self) -> "_Rows":
        """Return the rows without those of job steps, such as ``4711.batch``."""
        jobs = self.texts("job")
        if all(_WHOLE_FLOAT.fullmatch(job) for job in jobs):
            # Numbers that went through a table of floats are no steps.
            column = self.places["job"][0]
            for cells in self.cells:
                cells[column] = cells[column].strip().removesuffix(".0")
            return self
        kept = self.only([not _STEP.fullmatch(job) for job in jobs])
        if not kept.cells:
            raise bad_file(self.path, f"all {len(jobs)} lines are those of job steps")
        return kept

    def ids(self) -> tuple[IntArray, IntArray]:
        """Give every job a number of its own; return all, and the new ones."""
        jobs = self.texts("job")
        first = {job: row for row, job in reversed(list(enumerate(jobs)))}
        owned = [first[job] == row and _PLAIN.fullmatch(job) is not None for row, job in enumerate(jobs)]
        ids = np.array([int(job) if owned[row] else -1 for row, job in enumerate(jobs)], dtype=np.int64)
        if ids.max() > LARGEST:
            raise self.error(int(ids.argmax()), "job", f"is {ids.max()}, must be at most 2^53")
        unnumbered = np.flatnonzero(ids < 0)
        for row in unnumbered.tolist():
            if not (_PART.fullmatch(jobs[row]) or _PLAIN.fullmatch(jobs[row])):
                raise self.error(row, "job", f"is {shown(jobs[row])}, must be a number, or one such as 12_3 or 12+3")
        ids[unnumbered] = max(int(ids.max()), 0) + 1 + np.arange(len(unnumbered))
        return ids, ids[unnumbered]

    def records(self, ids: IntArray) -> Records:
        """Return the jobs under these numbers."""
        submit = self.values("submit", instant_s)
        # A job without a start or an end has no run time: NaN becomes 0, and the job is dropped.
        if "run" in self.places:
            run = np.nan_to_num(self.values("run", duration_s))
        else:
            run = np.nan_to_num(self.values("end", instant_s) - self.values("start", instant_s))
        estimate = np.nan_to_num(self.values("estimate", duration_s))
        limited = estimate > 0
        role, resource = ("nodes", "node") if "nodes" in self.places else ("processors", "cpu")
        names = self.texts("user")
        if all(_PLAIN.fullmatch(name) for name in names):
            users = [int(name) for name in names]
        else:
            # Names of users become numbers in the order in which they come.
            numbers = {name: number for number, name in enumerate(dict.fromkeys(name for name in names if name))}
            users = [numbers.get(name, UNKNOWN_USER) for name in names]
        return Records(
            self.path,
            self.error,
            ids,
            submit - submit.min(),
            run,
            self.values(role, lambda text, _: resource_count(text, resource)).astype(np.int64),
            np.where(limited, estimate, run),
            {RUN_USED: ~limited},
            np.array(users, dtype=np.int64),
        )


def read_csv_workload(path: Path, damage: Damage, columns: Columns | None = None) -> Workload:
    """Read the jobs of a table: a dump of ``sacct -P`` or a CSV file, plain or compressed (``.gz``).

    A job's size is its number of nodes if a column has it, or else that of processors; its run time that column, or
    else end minus start; its estimate the time limit, or else the run time. Submit times count from the first one.
    Steps are skipped; jobs that have not ended, or were never submitted or started, are dropped and counted. Tasks of
    arrays, components, and jobs with the number of an earlier line get numbers behind all others.

    Raises `BadFileError` if the file cannot be read, a column that is needed is not there, a cell is malformed, or no
    job is left; it names the line and the column.
    """
    rows = _Rows.read(path, columns or Columns()).without_steps()
    ended = np.array([text.split(" ")[0].strip("+").upper() not in _UNENDED for text in rows.texts("state")])
    submitted = ~np.isnan(rows.values("submit", instant_s))
    kept = rows.only((submitted & ended).tolist())
    dropped = ((NOT_ENDED, int((~ended).sum())), (NO_SUBMIT, int((ended & ~submitted).sum())))
    if not kept.cells:
        raise bad_file(path, f"none of its {len(rows.cells)} jobs has been submitted and has ended")
    ids, numbered = kept.ids()
    workload = kept.records(ids).workload(damage)
    n_numbered = int(np.isin(workload.ids, numbered).sum())
    counts = (*(count for count in dropped if count[1]), *workload.dropped)
    repaired = (*workload.repaired, (NUMBERED, n_numbered)) if n_numbered else workload.repaired
    return replace(workload, submit=workload.submit - workload.submit.min(), dropped=counts, repaired=repaired)
