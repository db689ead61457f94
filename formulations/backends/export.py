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
from pathlib import Path
from typing import NamedTuple

from allocopt.errors import UsageError
from allocopt.files.writing import write_bytes
from formulations.backends.protocol import BinaryProgram

TERMS_PER_LINE = 8  # in an LP file, whose lines must stay short


class _Row(NamedTuple):
    name: str
    lower: float
    upper: float
    columns: list[int]
    values: list[float]


def export_program(program: BinaryProgram, path: Path | str) -> None:
    """Write a program in the format that the suffix of the path names; written beside and renamed.

    Raises `UsageError` if the suffix names none, `BadFileError` if the file cannot be written.
    """
    path = Path(path)
    if path.suffix not in _WRITERS:
        raise UsageError(f"cannot export to {path.name!r}: the name must end in one of {', '.join(_WRITERS)}")
    write_bytes(path, _WRITERS[path.suffix](program))


def _rows(program: BinaryProgram) -> Iterator[_Row]:
    matrix = program.matrix.tocsr()
    matrix.sort_indices()
    columns, values, ends = matrix.indices.tolist(), matrix.data.tolist(), matrix.indptr.tolist()
    sides = zip(program.row_names(), program.row_lower.tolist(), program.row_upper.tolist(), strict=True)
    for row, (name, lower, upper) in enumerate(sides):
        entries = slice(ends[row], ends[row + 1])
        yield _Row(name, lower, upper, columns[entries], values[entries])


def _json(program: BinaryProgram) -> bytes:
    columns = zip(program.column_names(), program.costs.tolist(), strict=True)
    rows = []
    for row in _rows(program):
        sides = [side if math.isfinite(side) else None for side in (row.lower, row.upper)]
        rows.append(row._asdict() | dict(zip(("lower", "upper"), sides, strict=True)))
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
    for row in _rows(program):
        terms = _terms(row.values, [names[column] for column in row.columns])
        for suffix, relation in _relations(row):
            lines += [f" {row.name}{suffix}:", *terms, f"  {relation}"]
    lines += ["Binaries", *(f" {name}" for name in names), "End"]
    return ("\n".join(lines) + "\n").encode()


def _terms(values: list[float], names: list[str]) -> list[str]:
    terms = [f"{value:+.17g} {name}" for value, name in zip(values, names, strict=True)]
    return ["  " + " ".join(terms[k : k + TERMS_PER_LINE]) for k in range(0, len(terms), TERMS_PER_LINE)]


def _relations(row: _Row) -> list[tuple[str, str]]:
    # A row of two sides is two rows here, whose names differ by a suffix.
    if row.lower == row.upper:
        return [("", f"= {row.upper:.17g}")]
    sides = [("_lower", ">=", row.lower), ("_upper", "<=", row.upper)]
    present = [(suffix, f"{relation} {side:.17g}") for suffix, relation, side in sides if math.isfinite(side)]
    return present if len(present) > 1 else [("", relation) for _, relation in present]


def _mps(program: BinaryProgram) -> bytes:
    rows = list(_rows(program))
    names, kinds = program.column_names(), [_mps_row(row) for row in rows]
    lines = ["NAME allocopt", "ROWS", " N cost"]
    lines += [f" {kind} {row.name}" for row, (kind, _) in zip(rows, kinds, strict=True)]
    lines += ["COLUMNS", " MARKER 'MARKER' 'INTORG'"]
    matrix = program.matrix
    ends, entries, values = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    for column, (name, cost) in enumerate(zip(names, program.costs.tolist(), strict=True)):
        lines.append(f" {name} cost {cost:.17g}")
        for entry in range(ends[column], ends[column + 1]):
            lines.append(f" {name} {rows[entries[entry]].name} {values[entry]:.17g}")
    lines += [" MARKER 'MARKER' 'INTEND'", "RHS"]
    lines += [f" rhs {row.name} {side:.17g}" for row, (kind, side) in zip(rows, kinds, strict=True) if kind != "N"]
    ranged = [row for row in rows if row.lower < row.upper and math.isfinite(row.upper - row.lower)]
    lines += ["RANGES", *(f" range {row.name} {row.upper - row.lower:.17g}" for row in ranged)] if ranged else []
    lines += ["BOUNDS", *(f" BV bound {name}" for name in names), "ENDATA"]
    return ("\n".join(lines) + "\n").encode()


def _mps_row(row: _Row) -> tuple[str, float]:
    """Type and right-hand side: equal, at most (with a range where it has two sides), at least, or free."""
    if row.lower == row.upper:
        return "E", row.upper
    if math.isfinite(row.upper):
        return "L", row.upper
    return "G" if math.isfinite(row.lower) else "N", row.lower


def _pb(program: BinaryProgram) -> bytes:
    from ortools.linear_solver.linear_solver_pb2 import MPModelProto

    model = MPModelProto(name="allocopt")
    for name, cost in zip(program.column_names(), program.costs.tolist(), strict=True):
        model.variable.add(name=name, lower_bound=0, upper_bound=1, is_integer=True, objective_coefficient=cost)
    for row in _rows(program):
        sides = {"lower_bound": row.lower, "upper_bound": row.upper}
        model.constraint.add(name=row.name, **sides, var_index=row.columns, coefficient=row.values)
    return bytes(model.SerializeToString())


_WRITERS: dict[str, Callable[[BinaryProgram], bytes]] = {".mps": _mps, ".lp": _lp, ".pb": _pb, ".json": _json}
