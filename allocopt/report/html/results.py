"""Files of results, told apart by what they hold."""

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
from allocopt.report.rows import SimulateRow, SolveRow, TrajectoryRow
from allocopt.report.schedule_files import ENERGY_COLUMNS, SCHEDULE_COLUMNS
from allocopt.report.what_if import WhatIfRow
from allocopt.reproduction import ReproductionRow
from allocopt.simulator.multicore.simulation import COLUMNS as PLACED_COLUMNS

EXPECTED = (
    "is no result that is known: expected a solution, rows of solve, bench, simulate, what-if or reproduce (--json, "
    "--out), a schedule (--jobs-csv), placed jobs (job_id,node,start_s,duration_s), or the curve.csv of a training"
)
ERROR = "error"
"""Column in which a sweep says why a run failed."""
LARGEST = 1e300
"""Largest magnitude of a number: what is drawn must not overflow."""
_RESULT_FORMAT = "allocopt-result"
OTHER_DELIMITERS = ";\t|"


class Kind(StrEnum):
    """What a file holds."""

    SOLUTION = "solution"
    INSTANCE = "instance"
    SOLVES = "solves"
    TRAJECTORIES = "trajectories"
    SIMULATIONS = "simulations"
    WHAT_IF = "what-if"
    REPRODUCTION = "reproduction"
    SCHEDULE = "schedule"
    PLACED = "placed jobs"
    ENERGY = "energy"
    CURVE = "learning curve"


@dataclass(frozen=True, slots=True)
class SolveRecord(SolveRow):
    """A solve, and the best values known of its instance, as `bench` writes them."""

    best_known: float | None = None
    best_known_scas: float | None = None


@dataclass(frozen=True, slots=True)
class SimulationRecord(SimulateRow):
    """A simulation, and what a sweep says of it; None for what is not said."""

    trace: str | None = None
    policy: str | None = None
    backfill: str | None = None
    allocator: str | None = None
    seed: int | None = None


_ROW_TYPES: Mapping[Kind, type[Any]] = {
    Kind.SOLVES: SolveRecord,
    Kind.TRAJECTORIES: TrajectoryRow,
    Kind.WHAT_IF: WhatIfRow,
    Kind.REPRODUCTION: ReproductionRow,
    # The order matters: rows of a simulation need the fewest columns.
    Kind.SIMULATIONS: SimulationRecord,
}
_CSV_COLUMNS = {Kind.SCHEDULE: SCHEDULE_COLUMNS, Kind.PLACED: PLACED_COLUMNS, Kind.ENERGY: ENERGY_COLUMNS}
_WORDS = {float: "a number", int: "a whole number", str: "a text", NoneType: "null"}

Row = TypeVar("Row")


class _Record(NamedTuple):
    """A row as it stands in a file, and where."""

    place: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResultFile:
    """A file of results: its rows as they stand there, and sentences on what was run, as far as it says so."""

    path: Path
    kind: Kind
    records: Sequence[_Record] = ()
    made_by: Sequence[str] = ()

    @classmethod
    def read(cls, path: Path) -> "ResultFile":
        """Read a file and tell what it holds; raise `BadFileError` if it cannot be read or is no result."""
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
            return cls(path, _kind_of(path, records), records, _origins(records))
        return _with_specification(path, records)

    @staticmethod
    def labels(files: "Sequence[ResultFile]") -> list[str]:
        """Name files by what tells them apart: their stems, or with the folders before them."""
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
        """Turn the records into rows; those of runs that failed are left out.

        Raises
        ------
        BadFileError
            If a value is missing or not of its type; it names row and column.
        """
        hints = get_type_hints(row_type)
        needed = [name for name in sorted(hints) if name in _required(row_type)]
        rows = []
        for place, record in self.records:
            if record.get(ERROR):
                continue
            for name in needed:
                if name not in record:
                    raise bad_file(self.path, place, f"has no {name}")
            values = {name: _converted(record[name], hints[name]) for name in hints if name in record}
            for name, value in values.items():
                if not _is_of(value, hints[name]):
                    is_too_large = isinstance(value, int | float) and LARGEST < abs(value) < float("inf")
                    kinds = (
                        "a list of numbers" if get_origin(one) is tuple else _WORDS[one] for one in _kinds(hints[name])
                    )
                    right = f"at most {LARGEST:g}" if is_too_large else " or ".join(kinds)
                    raise bad_file(self.path, place, f"{name} is {shown(value)}, must be {right}")
            rows.append(
                row_type(**{name: tuple(each) if isinstance(each, list) else each for name, each in values.items()})
            )
        return rows

    def numbers(self, name: str) -> FloatArray:
        """Return a column of finite numbers; raise `BadFileError`, with the line, if one is none."""
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
        return sum(bool(record.values.get(ERROR)) for record in self.records)


def _with_specification(path: Path, records: Sequence[_Record]) -> ResultFile:
    if len(records) > 1:
        raise bad_file(path, records[1].place, "is a second result, must be the only one in its file")
    whole = records[0].values
    for name, shape in (("specification", dict), ("made_by", dict), ("remarks", list), ("rows", list)):
        if not isinstance(whole.get(name), shape):
            raise bad_file(path, name, f"is {shown(whole.get(name))}, must be as allocopt writes it")
    rows = [_Record(f"row {number}", row) for number, row in enumerate(whole["rows"], 1)]
    if not rows or not all(isinstance(row.values, dict) for row in rows):
        raise bad_file(path, "rows", "must hold objects, at least one")
    try:
        sentences = assumptions(whole["specification"], whole["made_by"], whole["remarks"])
    except (KeyError, TypeError, ValueError):
        raise bad_file(path, "specification", "must be as allocopt writes it") from None
    return ResultFile(path, _kind_of(path, rows), rows, sentences)


def _origins(records: Sequence[_Record]) -> list[str]:
    """Say which versions made rows that hold their provenance, as those of `bench` do."""
    names = ("version", "commit", "python", "machine")
    found = dict.fromkeys(
        tuple(str(row.values[name]) for name in names) for row in records if set(names) <= set(row.values)
    )
    return [origin(dict(zip(names, each, strict=True))) for each in found]


def _json_records(path: Path, text: str) -> list[_Record]:
    # Splitting at "\n" alone: names may hold what Python takes for the end of a line.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        # Where the first line is a whole object, more may follow.
        is_by_line = isinstance(json.loads(lines[0][1]), dict)
    except (ValueError, RecursionError):
        is_by_line = False
    if is_by_line:
        parsed = [(f"line {number}", parse_json(line, path, first_line=number)) for number, line in lines]
    else:
        whole = parse_json(text, path)
        rows = enumerate(whole, 1) if isinstance(whole, list) else ()
        parsed = (
            [(f"row {number}", each) for number, each in rows] if isinstance(whole, list) else [("top level", whole)]
        )
    if not parsed:
        raise bad_file(path, "holds no rows")
    for place, each in parsed:
        if not isinstance(each, dict):
            raise bad_file(path, place, f"is {shown(each)}, must be an object")
    return [_Record(place, each) for place, each in parsed if isinstance(each, dict)]


def _csv_records(path: Path, text: str) -> tuple[Kind, list[_Record]]:
    reader = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    try:
        header = tuple(reader.fieldnames or ())
        kinds = [kind for kind, columns in _CSV_COLUMNS.items() if set(columns) <= set(header)]
        kind = (*kinds, *_kinds_of_rows(header), Kind.CURVE)[0]
        if kind is Kind.CURVE:
            # Spreadsheets of some countries write other delimiters.
            if len(header) == 1 and max(map(header[0].count, OTHER_DELIMITERS)) > 0:
                raise bad_file(path, "line 1", "has no comma: the cells of a result have commas between them")
            if len(header) < 2 or len(set(header)) < len(header) or not all(header):
                raise bad_file(path, EXPECTED)
        records = [
            _Record(
                f"line {reader.line_num}",
                {name: read_cell(cell) if isinstance(cell, str) else cell for name, cell in row.items()},
            )
            for row in reader
        ]
    except csv.Error:
        raise bad_file(path, EXPECTED) from None
    if not records:
        raise bad_file(path, "holds no rows")
    for place, row in records:
        # `csv` puts what is too much under None, and None where there is too little.
        if None in row or None in row.values():
            cells = {name: cell for name, cell in row.items() if isinstance(cell, str)}
            # Prose has commas too.
            if kind is Kind.CURVE and not _is_curve([_Record(place, cells)]):
                raise bad_file(path, EXPECTED)
            raise bad_file(path, place, f"does not have {len(header)} columns as line 1")
    if kind is Kind.CURVE and not _is_curve(records):
        raise bad_file(path, EXPECTED)
    return kind, records


def _kinds_of_rows(names: Iterable[str]) -> list[Kind]:
    return [kind for kind, row_type in _ROW_TYPES.items() if _required(row_type) <= set(names)]


def _kind_of(path: Path, records: Sequence[_Record]) -> Kind:
    for kind in _kinds_of_rows(records[0].values):
        return kind
    raise bad_file(path, EXPECTED)


def _required(row_type: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(row_type) if field.default is dataclasses.MISSING}


def _is_curve(records: Sequence[_Record]) -> bool:
    """Whether all cells are numbers, or empty, and the first column rises."""
    try:
        cells = [[float(cell or "nan") for cell in record.values.values()] for record in records]
    except ValueError:
        return False
    return all(before[0] < after[0] for before, after in pairwise(cells))


def _kinds(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if isinstance(wanted, UnionType) else (wanted,)


def _converted(value: object, wanted: Any) -> object:
    """Return a cell of a CSV file as a number or null where its column holds these, all else as it is."""
    if not isinstance(value, str):
        return value
    if not value and NoneType in _kinds(wanted):
        return None
    for kind in (int, float):
        if kind in _kinds(wanted):
            with suppress(ValueError):
                return kind(value)
    return value


def _is_of(value: object, wanted: Any) -> bool:
    for kind in _kinds(wanted):
        if get_origin(kind) is tuple:
            if isinstance(value, list | tuple) and all(_is_of(each, get_args(kind)[0]) for each in value):
                return True
        elif kind in (float, int):
            is_number = isinstance(value, int) or (isinstance(value, float) and kind is float)
            # Python takes True for 1.
            if isinstance(value, int | float) and is_number and not isinstance(value, bool) and abs(value) <= LARGEST:
                return True
        elif isinstance(value, kind):
            return True
    return False
