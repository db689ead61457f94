"""Files of results; the kind of a file is recognized by its content."""

import csv
import dataclasses
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.csv_rows import read_cell
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import INSTANCE_FORMAT, SOLUTION_FORMAT
from allocopt.files.reading import parse_json, read_text
from allocopt.report.assumptions import assumptions, origin
from allocopt.report.rows import SimulateGroupRow, SimulateRow, SolveRow, TrajectoryRow
from allocopt.report.schedule_files import ENERGY_COLUMNS, SCHEDULE_COLUMNS
from allocopt.report.what_if import WhatIfRow
from allocopt.report.what_if_groups import GroupRow
from allocopt.reproduction import ReproductionRow
from allocopt.simulator.multicore.simulation import COLUMNS as PLACED_COLUMNS

_EXPECTED = (
    "is not a known result: expected a solution, rows of solve, bench, simulate, what-if or reproduce (--json, "
    "--out), a schedule (--jobs-csv), placed jobs (job_id,node,start_s,duration_s), or the curve.csv of a training"
)
_ERROR = "error"  # Column of a sweep that states why a run failed
_LARGEST = 1e300  # Largest magnitude of a number, so that figures do not overflow
_RESULT_FORMAT = "allocopt-result"
_OTHER_DELIMITERS = ";\t|"


class Kind(StrEnum):
    """Kind of a result file."""

    SOLUTION = "solution"
    INSTANCE = "instance"
    SOLVES = "solves"
    TRAJECTORIES = "trajectories"
    SIMULATIONS = "simulations"
    WHAT_IF = "what-if"
    WHAT_IF_GROUPS = "what-if by groups"
    SIMULATION_GROUPS = "simulations by groups"
    REPRODUCTION = "reproduction"
    SCHEDULE = "schedule"
    PLACED = "placed jobs"
    ENERGY = "energy"
    CURVE = "learning curve"


@dataclass(frozen=True, slots=True)
class SolveRecord(SolveRow):
    """A solve with the best known values of its instance, as `bench` writes them."""

    best_known: float | None = None
    best_known_scas: float | None = None


@dataclass(frozen=True, slots=True)
class SimulationRecord(SimulateRow):
    """A simulation with the columns that a sweep adds; None if they are missing."""

    trace: str | None = None
    policy: str | None = None
    backfill: str | None = None
    allocator: str | None = None
    seed: int | None = None


_ROW_TYPES: Mapping[Kind, type[Any]] = {
    Kind.SOLVES: SolveRecord,
    Kind.TRAJECTORIES: TrajectoryRow,
    Kind.WHAT_IF: WhatIfRow,
    Kind.WHAT_IF_GROUPS: GroupRow,
    Kind.SIMULATION_GROUPS: SimulateGroupRow,
    Kind.REPRODUCTION: ReproductionRow,
    # The last one, because rows of a simulation need the fewest columns.
    Kind.SIMULATIONS: SimulationRecord,
}
_GROUPS = (Kind.WHAT_IF_GROUPS, Kind.SIMULATION_GROUPS)
_CSV_COLUMNS = {Kind.SCHEDULE: SCHEDULE_COLUMNS, Kind.PLACED: PLACED_COLUMNS, Kind.ENERGY: ENERGY_COLUMNS}
_WORDS = {float: "a number", int: "a whole number", str: "a text", bool: "true or false", NoneType: "null"}

Row = TypeVar("Row")


class _Record(NamedTuple):
    """A row of a file as it was read, and its place there."""

    place: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file of results: its kind, its rows as they were read, and sentences on the run, if the file states that.

    Rows of groups of jobs may be mixed with rows of combinations or simulations; they are kept in ``groups``.
    """

    path: Path
    kind: Kind
    records: Sequence[_Record] = ()
    made_by: Sequence[str] = ()
    groups: Sequence[_Record] = ()

    @classmethod
    def read(cls, path: Path) -> "ResultFile":
        """Read a file and find its kind; raise `BadFileError` if it cannot be read or is not a result."""
        text = read_text(path)
        if not text.strip():
            raise bad_file(path, "is empty, must hold a result")
        if text.lstrip()[:1] not in ("{", "["):
            kind, records = _csv_records(path, text)
            return cls(path, kind, records, _origins(records))
        records = _json_records(path, text)
        formats = {record.values.get("format") for record in records}
        for name, kind in ((SOLUTION_FORMAT, Kind.SOLUTION), (INSTANCE_FORMAT, Kind.INSTANCE)):
            if formats == {name}:
                return cls(path, kind)
        if formats != {_RESULT_FORMAT}:
            is_group = [_is_group(record) for record in records]
            groups = [record for record, is_one in zip(records, is_group, strict=True) if is_one]
            own = [record for record, is_one in zip(records, is_group, strict=True) if not is_one] or groups
            return cls(path, _kind_of(path, own), own, _origins(own), groups)
        return _with_specification(path, records)

    @staticmethod
    def labels(files: "Sequence[ResultFile]") -> list[str]:
        """Return names that distinguish the files: their stems or, if these are equal, also their folders."""
        stems = [file.path.name.removesuffix(".gz").rpartition(".")[0] or file.path.name for file in files]
        if len(set(stems)) == len(stems):
            return stems
        for depth in range(2, 7):
            folders = ["/".join(file.path.resolve().parts[-depth:-1]) for file in files]
            names = folders if len(set(stems)) == 1 else [f"{a}/{b}" for a, b in zip(folders, stems, strict=True)]
            if len(set(names)) == len(names):
                return names
        return [str(file.path) for file in files]

    def rows(self, row_type: type[Row]) -> list[Row]:
        """Return the records as rows, without failed runs; raise `BadFileError` with the row and column of a fault."""
        return self._rows_of(self.records, row_type)

    def group_rows(self, row_type: type[Row]) -> list[Row]:
        """Return the records of groups of jobs as rows; see `rows`."""
        return self._rows_of(self.groups, row_type)

    def _rows_of(self, records: Sequence[_Record], row_type: type[Row]) -> list[Row]:
        hints = get_type_hints(row_type)
        rows = []
        for place, record in records:
            if record.get(_ERROR):
                continue
            if missing := sorted(_required(row_type) - record.keys()):
                raise bad_file(self.path, place, f"has no {missing[0]}")
            try:
                values = {name: _value(name, record[name], hint) for name, hint in hints.items() if name in record}
            except ValueError as error:
                raise bad_file(self.path, place, str(error)) from None
            rows.append(row_type(**values))
        return rows

    def numbers(self, name: str) -> FloatArray:
        """Return a column of finite numbers; raise `BadFileError`, with the line, if a cell is not a finite number."""
        values = np.empty(len(self.records))
        for row, record in enumerate(self.records):
            try:
                values[row] = float(record.values[name])
            except (ValueError, TypeError):
                values[row] = np.nan
            if not np.isfinite(values[row]):
                raise bad_file(self.path, record.place, f"{name} is {shown(record.values[name])}, must be a number")
        return values

    @property
    def failures(self) -> int:
        """Number of runs that failed."""
        return sum(bool(record.values.get(_ERROR)) for record in self.records)


def _with_specification(path: Path, records: Sequence[_Record]) -> ResultFile:
    if len(records) > 1:
        raise bad_file(path, records[1].place, "is a second result; a file must hold only one")
    whole = records[0].values
    for name, shape in (("specification", dict), ("made_by", dict), ("remarks", list), ("rows", list)):
        if not isinstance(whole.get(name), shape):
            raise bad_file(path, name, f"is {shown(whole.get(name))}, not what allocopt writes there")
    rows = [_Record(f"row {number}", row) for number, row in enumerate(whole["rows"], 1)]
    if not rows or not all(isinstance(row.values, dict) for row in rows):
        raise bad_file(path, "rows", "must hold objects, at least one")
    try:
        sentences = assumptions(whole["specification"], whole["made_by"], whole["remarks"])
    except (KeyError, TypeError, ValueError):
        raise bad_file(path, "specification", "is not one that allocopt has written") from None
    return ResultFile(path, _kind_of(path, rows), rows, sentences)


def _origins(records: Sequence[_Record]) -> list[str]:
    """Return sentences on the versions that made the rows, if they hold their provenance, as those of `bench` do."""
    names = {"version", "commit", "python", "machine"}
    told = ({name: str(row.values[name]) for name in names} for row in records if names <= set(row.values))
    return list(dict.fromkeys(map(origin, told)))


def _json_records(path: Path, text: str) -> list[_Record]:
    # Split only at "\n": names may hold other characters that Python takes for ends of lines.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        # If the first line is a whole object, the file has one object per line.
        is_by_line = isinstance(json.loads(lines[0][1]), dict)
    except (ValueError, RecursionError):
        is_by_line = False
    if is_by_line:
        parsed = [(f"line {number}", parse_json(line, path, first_line=number)) for number, line in lines]
    elif isinstance(whole := parse_json(text, path), list):
        parsed = [(f"row {number}", each) for number, each in enumerate(whole, 1)]
    else:
        parsed = [("top level", whole)]
    if not parsed:
        raise bad_file(path, "holds no rows")
    records = []
    for place, each in parsed:
        if not isinstance(each, dict):
            raise bad_file(path, place, f"is {shown(each)}, must be an object")
        records.append(_Record(place, each))
    return records


def _csv_records(path: Path, text: str) -> tuple[Kind, list[_Record]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        header = tuple(reader.fieldnames or ())
        kinds = [kind for kind, columns in _CSV_COLUMNS.items() if set(columns) <= set(header)]
        kind = (*kinds, *_kinds_of_rows(header), Kind.CURVE)[0]
        if kind is Kind.CURVE:
            # Spreadsheets in some countries write other delimiters.
            if len(header) == 1 and max(map(header[0].count, _OTHER_DELIMITERS)) > 0:
                raise bad_file(path, "line 1", "has no comma: the cells of a result must be separated by commas")
            if len(header) < 2 or len(set(header)) < len(header) or not all(header):
                raise bad_file(path, _EXPECTED)
        records = [
            _Record(
                f"line {reader.line_num}",
                {name: read_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()},
            )
            for row in reader
        ]
    except csv.Error:
        raise bad_file(path, _EXPECTED) from None
    if not records:
        raise bad_file(path, "holds no rows")
    for place, row in records:
        # `csv` puts surplus cells under the key None, and the value None into missing cells.
        if None in row or None in row.values():
            cells = {name: cell for name, cell in row.items() if isinstance(cell, str)}
            # A text with commas is not a table.
            if kind is Kind.CURVE and not _is_curve([_Record(place, cells)]):
                raise bad_file(path, _EXPECTED)
            raise bad_file(path, place, f"must have {len(header)} columns, as line 1 has")
    if kind is Kind.CURVE and not _is_curve(records):
        raise bad_file(path, _EXPECTED)
    return kind, records


def _is_group(record: _Record) -> bool:
    return next(iter(_kinds_of_rows(record.values)), None) in _GROUPS


def _kinds_of_rows(names: Iterable[str]) -> list[Kind]:
    return [kind for kind, row_type in _ROW_TYPES.items() if _required(row_type) <= set(names)]


def _kind_of(path: Path, records: Sequence[_Record]) -> Kind:
    for kind in _kinds_of_rows(records[0].values):
        return kind
    raise bad_file(path, _EXPECTED)


def _required(row_type: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(row_type) if field.default is dataclasses.MISSING}


def _is_curve(records: Sequence[_Record]) -> bool:
    """Whether all cells are numbers or empty, and the first column increases."""
    try:
        cells = [[float(cell or "nan") for cell in record.values.values()] for record in records]
    except ValueError:
        return False
    return all(before[0] < after[0] for before, after in pairwise(cells))


def _listed(value: Any) -> Any:
    # In CSV files a cell holds a list as JSON.
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _value(name: str, value: Any, wanted: Any) -> object:
    """Return a cell as a value of its column's type; raise ValueError with the fault if it is not one.

    Cells of CSV files are texts, which are converted to numbers, lists, booleans or None.
    """
    kinds = get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)
    if value == "" and NoneType in kinds:
        return None
    for kind in kinds:
        if get_origin(kind) is tuple:
            value = _listed(value)
            if isinstance(value, list):
                with suppress(ValueError):
                    return tuple(_value(name, each, get_args(kind)[0]) for each in value)
        elif kind in (float, int):
            if isinstance(value, str):
                with suppress(ValueError):
                    value = kind(value)
            # In Python True is an int.
            is_number = isinstance(value, int | kind) and not isinstance(value, bool)
            if is_number and abs(value) <= _LARGEST:
                return value
        elif kind is bool and value in ("True", "False"):
            return value == "True"
        elif isinstance(value, kind):
            return value
    is_too_large = isinstance(value, int | float) and _LARGEST < abs(value) < float("inf")
    words = ("a list of numbers" if get_origin(kind) is tuple else _WORDS[kind] for kind in kinds)
    right = f"at most {_LARGEST:g}" if is_too_large else " or ".join(words)
    raise ValueError(f"{name} is {shown(value)}, must be {right}")
