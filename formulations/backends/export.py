"""Binary programs as files that other solvers read.

========  ============================================================================================
suffix    format
========  ============================================================================================
.mps      free MPS
.lp       CPLEX LP
.pb       binary protocol buffer ``MPModelProto`` of OR-Tools, as ``ModelBuilder`` imports it
.json     ``{"format": "allocopt-program", "version": 1, "sense": "min", "columns": [{"name", "cost"}],
          "rows": [{"name", "lower", "upper", "columns": [index], "values": [..]}]}``; all columns are
          binary, and a row without a side has null there
========  ============================================================================================
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import UsageError
from allocopt.files.writing import write_bytes
from formulations.backends.protocol import BinaryProgram

TERMS_PER_LINE = 8
"""Terms on a line of an LP file, whose lines must stay short."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row, its entries in order of the columns."""

    name: str
    lower: float
    upper: float
    columns: list[int]
    values: list[float]


def export_program(program: BinaryProgram, path: Path | str) -> None:
    """Write a program in the format that the suffix of the path names; written beside and renamed.

    Raises
    ------
    UsageError
        If the suffix is none of ``.mps``, ``.lp``, ``.pb``, ``.json``.
    BadFileError
        If the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in _WRITERS:
        raise UsageError(f"cannot export to {path.name!r}: the name must end in one of {', '.join(_WRITERS)}")
    write_bytes(path, _WRITERS[path.suffix](program))


def rows_of(program: BinaryProgram) -> Iterator[Row]:
    """Yield the rows with their names."""
    matrix = program.matrix.tocsr()
    matrix.sort_indices()
    columns, values, ends = matrix.indices.tolist(), matrix.data.tolist(), matrix.indptr.tolist()
    sides = zip(program.row_names(), program.row_lower.tolist(), program.row_upper.tolist(), strict=True)
    for row, (name, lower, upper) in enumerate(sides):
        entries = slice(ends[row], ends[row + 1])
        yield Row(name, lower, upper, columns[entries], values[entries])


def _json(program: BinaryProgram) -> bytes:
    columns = zip(program.column_names(), program.costs.tolist(), strict=True)
    rows = [
        {
            "name": row.name,
            "lower": row.lower if math.isfinite(row.lower) else None,
            "upper": row.upper if math.isfinite(row.upper) else None,
            "columns": row.columns,
            "values": row.values,
        }
        for row in rows_of(program)
    ]
    document = {
        "format": "allocopt-program",
        "version": 1,
        "sense": "min",
        "columns": [{"name": name, "cost": cost} for name, cost in columns],
        "rows": rows,
    }
    return (json.dumps(document) + "\n").encode()


def _lp(program: BinaryProgram) -> bytes:
    names = program.column_names()
    lines = ["Minimize", " cost:", *_terms(program.costs.tolist(), names), "Subject To"]
    for row in rows_of(program):
        terms = _terms(row.values, [names[column] for column in row.columns])
        for suffix, relation in _relations(row):
            lines += [f" {row.name}{suffix}:", *terms, f"  {relation}"]
    lines += ["Binaries", *(f" {name}" for name in names), "End"]
    return ("\n".join(lines) + "\n").encode()


def _terms(values: list[float], names: list[str]) -> list[str]:
    """Lines of a sum."""
    terms = [f"{value:+.17g} {name}" for value, name in zip(values, names, strict=True)]
    return ["  " + " ".join(terms[k : k + TERMS_PER_LINE]) for k in range(0, len(terms), TERMS_PER_LINE)]


def _relations(row: Row) -> list[tuple[str, str]]:
    """Right-hand sides of a row, two where it has two, each with a suffix for its name."""
    if row.lower == row.upper:
        return [("", f"= {row.upper:.17g}")]
    sides = [("_lower", ">=", row.lower), ("_upper", "<=", row.upper)]
    present = [(suffix, f"{relation} {side:.17g}") for suffix, relation, side in sides if math.isfinite(side)]
    return present if len(present) > 1 else [("", relation) for _, relation in present]


def _mps(program: BinaryProgram) -> bytes:
    rows = list(rows_of(program))
    names, row_names = program.column_names(), [row.name for row in rows]
    lines = ["NAME allocopt", "ROWS", " N cost", *(f" {_mps_kind(row)} {row.name}" for row in rows)]
    lines += ["COLUMNS", " MARKER 'MARKER' 'INTORG'", *_mps_columns(program, names, row_names)]
    lines += [" MARKER 'MARKER' 'INTEND'", "RHS"]
    lines += [f" rhs {row.name} {_mps_side(row):.17g}" for row in rows if _mps_kind(row) != "N"]
    ranged = [row for row in rows if row.lower < row.upper and math.isfinite(row.upper - row.lower)]
    lines += ["RANGES", *(f" range {row.name} {row.upper - row.lower:.17g}" for row in ranged)] if ranged else []
    lines += ["BOUNDS", *(f" BV bound {name}" for name in names), "ENDATA"]
    return ("\n".join(lines) + "\n").encode()


def _mps_kind(row: Row) -> str:
    """Type of a row: equal, at most (with a range where it has two sides), at least, or free."""
    if row.lower == row.upper:
        return "E"
    if math.isfinite(row.upper):
        return "L"
    return "G" if math.isfinite(row.lower) else "N"


def _mps_side(row: Row) -> float:
    """Right-hand side of a row."""
    return row.upper if math.isfinite(row.upper) else row.lower


def _mps_columns(program: BinaryProgram, names: list[str], row_names: list[str]) -> Iterator[str]:
    """Lines of the columns."""
    ends, rows, values = (
        array.tolist() for array in (program.matrix.indptr, program.matrix.indices, program.matrix.data)
    )
    for column, (name, cost) in enumerate(zip(names, program.costs.tolist(), strict=True)):
        yield f" {name} cost {cost:.17g}"
        for entry in range(ends[column], ends[column + 1]):
            yield f" {name} {row_names[rows[entry]]} {values[entry]:.17g}"


def _pb(program: BinaryProgram) -> bytes:
    from ortools.linear_solver.linear_solver_pb2 import MPModelProto

    model = MPModelProto(name="allocopt")
    for name, cost in zip(program.column_names(), program.costs.tolist(), strict=True):
        model.variable.add(name=name, lower_bound=0, upper_bound=1, is_integer=True, objective_coefficient=cost)
    for row in rows_of(program):
        model.constraint.add(
            name=row.name,
            lower_bound=row.lower,
            upper_bound=row.upper,
            var_index=row.columns,
            coefficient=row.values,
        )
    return bytes(model.SerializeToString())


_WRITERS: dict[str, Callable[[BinaryProgram], bytes]] = {".mps": _mps, ".lp": _lp, ".pb": _pb, ".json": _json}
