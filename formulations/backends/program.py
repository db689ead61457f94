"""Binary programs, the formats of their files for other solvers, and the requests and answers of back ends.

========  ============================================================================================
suffix    format
========  ============================================================================================
.mps      free MPS
.lp       CPLEX LP
.pb       binary protocol buffer ``MPModelProto`` of OR-Tools, as ``ModelBuilder`` imports it
.json     ``{"format": "allocopt-program", "version": 1, "sense": "min", "columns": [{"name", "cost"}],
          "rows": [{"name", "lower", "upper", "columns": [index], "values": [..]}]}``; all columns are
          binary; null stands for a missing side of a row
========  ============================================================================================
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.sparse import coo_array, csc_array

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.files.writing import write_bytes

TERMS_PER_LINE = 8  # terms per line of an LP file, whose lines must be short

Numbers = IntArray | FloatArray
Term = tuple[IntArray, Numbers | float]  # columns, and their values or one value for all of them
# A stem and axes. Names are ``stem_a_b_..`` for every combination of values, where the last axis changes fastest.
Names = tuple[str, *tuple[IntArray, ...]]


class _Row(NamedTuple):
    lower: float
    upper: float
    columns: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True, eq=False)
class BinaryProgram:
    """Minimize ``costs @ x`` over binary x with ``row_lower <= matrix @ x <= row_upper``.

    A missing side of a row is infinite. Names are generated only when they are needed.
    """

    costs: FloatArray
    matrix: csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    columns_named: Sequence[Names]
    rows_named: Sequence[Names]

    def __post_init__(self) -> None:
        rows = (len(self.row_lower), len(self.row_upper))
        if rows != (self.matrix.shape[0],) * 2 or len(self.costs) != self.matrix.shape[1]:
            raise ValueError(f"the matrix is {self.matrix.shape}, but has {len(self.costs)} costs and {rows} row sides")

    def column_names(self) -> list[str]:
        """Return the name of every variable."""
        return _written_out(self.columns_named)

    def row_names(self) -> list[str]:
        """Return the name of every row."""
        return _written_out(self.rows_named)

    def rows(self) -> Iterator[_Row]:
        """Yield the sides and entries of every row."""
        matrix = self.matrix.tocsr()
        matrix.sort_indices()
        columns, values, ends = matrix.indices.tolist(), matrix.data.tolist(), matrix.indptr.tolist()
        sides = zip(self.row_lower.tolist(), self.row_upper.tolist(), strict=True)
        for (lower, upper), (first, last) in zip(sides, itertools.pairwise(ends), strict=True):
            yield _Row(lower, upper, columns[first:last], values[first:last])

    def cost_of(self, chosen: IntArray) -> float:
        """Return the objective of the point in which exactly the columns ``chosen`` are 1."""
        return float(self.costs[chosen].sum())

    def priced(self, row_prices: FloatArray) -> tuple[float, FloatArray]:
        """Return the bound that row prices prove by weak duality, and the reduced cost of each column."""
        prices = np.where(np.isinf(self.row_lower), np.minimum(row_prices, 0.0), row_prices)
        prices = np.where(np.isinf(self.row_upper), np.maximum(prices, 0.0), prices)
        side = np.where(prices > 0, self.row_lower, self.row_upper)
        reduced = self.costs - self.matrix.T @ prices
        # If a price is zero, its side may be infinite, and zero times infinity is NaN.
        priced = prices != 0
        return float(prices[priced] @ side[priced] + np.minimum(reduced, 0.0).sum()), reduced

    def export(self, path: Path | str) -> None:
        """Write the program in the format of the path's suffix.

        The file is written under a temporary name and then renamed. Raises `UsageError` if the suffix is unknown,
        `BadFileError` if the file cannot be written.
        """
        path = Path(path)
        if path.suffix not in _WRITERS:
            raise UsageError(f"cannot export to {path.name!r}: the name must end in one of {', '.join(_WRITERS)}")
        write_bytes(path, _WRITERS[path.suffix](self))


def names_of(stem: str, table: IntArray) -> list[Names]:
    """Return names for the rows of a table; consecutive rows that differ only in the last column share an entry."""
    changes = np.flatnonzero((table[1:, :-1] != table[:-1, :-1]).any(axis=1)) + 1
    return [(stem, *part[:1, :-1].T, part[:, -1]) for part in np.split(table, changes) if len(part)]


def column_numbers(**tables: IntArray) -> dict[tuple[str | int, ...], int]:
    """Return a column number for every row of the tables, by table name and row; numbers go on from table to table."""
    keys: list[tuple[str | int, ...]] = [(stem, *row) for stem, table in tables.items() for row in table.tolist()]
    return {key: number for number, key in enumerate(keys)}


def _written_out(named: Sequence[Names]) -> list[str]:
    return [
        "_".join([stem, *map(str, values)])
        for stem, *axes in named
        for values in itertools.product(*(axis.tolist() for axis in axes))
    ]


class Rows:
    """Rows of a program, in the order in which they are added; a row is a sum of terms between two sides."""

    def __init__(self) -> None:
        self._blocks: list[tuple[IntArray, IntArray, Numbers, Numbers, Numbers]] = []

    def at_most(self, upper: float, *terms: Term, lower: float = -np.inf) -> None:
        """Add the row ``lower <= sum of values @ x[columns] <= upper``."""
        columns = np.concatenate([columns for columns, _ in terms])
        values = np.concatenate([np.broadcast_to(value, len(columns)) for columns, value in terms])
        self._blocks.append((np.zeros_like(columns), columns, values, np.array([lower]), np.array([upper])))

    def add(
        self, row_of: IntArray, columns: IntArray, values: Numbers, uppers: Numbers, lowers: Numbers | None = None
    ) -> None:
        """Add rows ``lower <= sum of values @ x[columns] <= upper``.

        ``row_of`` has the row of each entry, numbered from 0 in each call.
        """
        lower = np.full(len(uppers), -np.inf) if lowers is None else lowers
        self._blocks.append((row_of, columns, values, lower, uppers))

    def program(
        self, costs: FloatArray, names: Sequence[Names], row_names: Sequence[Names] | None = None
    ) -> BinaryProgram:
        """Return the program of these rows; rows without names are numbered."""
        row_of, columns, values, lower, upper = zip(*self._blocks, strict=True)
        counts = np.array([len(sides) for sides in upper])
        first = np.cumsum(counts) - counts
        rows = np.concatenate([part + start for part, start in zip(row_of, first, strict=True)])
        places, n_rows = (rows, np.concatenate(columns)), int(counts.sum())
        return BinaryProgram(
            costs,
            csc_array(coo_array((np.concatenate(values, dtype=np.float64), places), shape=(n_rows, len(costs)))),
            np.concatenate(lower, dtype=np.float64),
            np.concatenate(upper, dtype=np.float64),
            names,
            [("row", np.arange(n_rows))] if row_names is None else row_names,
        )


class Formulation(Protocol):
    """A problem written as a binary program, and the conversion of solutions in both directions."""

    def is_empty(self) -> bool:
        """Return whether nothing is left to decide, so that there is no program; by default False."""
        return False

    def program(self) -> BinaryProgram:
        """Return the program."""

    def decode(self, chosen: IntArray) -> Any:
        """Return the solution that a feasible point stands for, given its columns that are 1; None if there is none."""

    def encode(self, solution: Any, /) -> IntArray | None:
        """Return the columns that are 1 for a solution, sorted; None if the program leaves the solution out."""

    def is_whole(self) -> bool:
        """Return whether the program has every solution of the problem; by default True.

        Only then does an infeasible program prove that the problem is infeasible.
        """
        return True

    def bound_of(self, bound: float) -> float:
        """Return the bound on the problem's objective that a bound on the program's gives; by default the same."""
        return bound


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a back end to solve a program.

    The costs of the program are scaled so that the largest lies in 2**15 .. 2**16, which suits the absolute tolerances
    of back ends.
    """

    program: BinaryProgram
    seconds: float  # wall clock time; infinity for no limit
    seed: int = 0  # at least 0; a back end without randomness ignores it
    steps: int | None = None  # most branch-and-bound nodes, or conflicts for CP-SAT; None for no limit
    warm: IntArray | None = None  # columns that are 1 in a feasible solution to start from; may be ignored


@dataclass(frozen=True, slots=True)
class Progress:
    """A better solution (its columns that are 1, sorted), a better lower bound, or both, reported during a search."""

    chosen: IntArray | None
    bound: float | None


@dataclass(frozen=True, slots=True)
class Outcome(Progress):
    """The end of a solve."""

    is_proved: bool  # whether the best solution is proved optimal or, without a solution, infeasibility is proved


Report = Callable[[Progress], None]


def _json(program: BinaryProgram) -> bytes:
    columns = zip(program.column_names(), program.costs.tolist(), strict=True)
    rows = []
    for name, row in zip(program.row_names(), program.rows(), strict=True):
        # JSON has no infinity.
        lower, upper = (side if math.isfinite(side) else None for side in (row.lower, row.upper))
        rows.append({"name": name} | row._asdict() | {"lower": lower, "upper": upper})
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
    for row_name, row in zip(program.row_names(), program.rows(), strict=True):
        terms = _terms(row.values, [names[column] for column in row.columns])
        sides = [("_lower", ">=", row.lower), ("_upper", "<=", row.upper)]
        if row.lower == row.upper:
            sides = [("", "=", row.upper)]
        present = [side for side in sides if math.isfinite(side[2])]
        # The format has no ranges, so a row with two sides becomes two rows whose names differ by a suffix.
        for suffix, relation, side in present:
            lines += [f" {row_name}{suffix if len(present) > 1 else ''}:", *terms, f"  {relation} {side:.17g}"]
    lines += ["Binaries", *(f" {name}" for name in names), "End"]
    return ("\n".join(lines) + "\n").encode()


def _terms(values: list[float], names: list[str]) -> list[str]:
    terms = [f"{value:+.17g} {name}" for value, name in zip(values, names, strict=True)]
    return ["  " + " ".join(terms[k : k + TERMS_PER_LINE]) for k in range(0, len(terms), TERMS_PER_LINE)]


def _mps(program: BinaryProgram) -> bytes:
    names, row_names, kinds, sides, ranges = program.column_names(), program.row_names(), [], [], []
    for name, lower, upper in zip(row_names, program.row_lower.tolist(), program.row_upper.tolist(), strict=True):
        # E: equal; L: at most, with a range if the row has two sides; G: at least; N: free.
        kind, side = ("E" if lower == upper else "L", upper) if math.isfinite(upper) else ("G", lower)
        kinds.append(f" {kind if math.isfinite(side) else 'N'} {name}")
        sides += [f" rhs {name} {side:.17g}"] if math.isfinite(side) else []
        ranges += [f" range {name} {upper - lower:.17g}"] if 0 < upper - lower < math.inf else []
    lines = ["NAME allocopt", "ROWS", " N cost", *kinds, "COLUMNS", " MARKER 'MARKER' 'INTORG'"]
    matrix = program.matrix
    ends, entries, values = matrix.indptr.tolist(), matrix.indices.tolist(), matrix.data.tolist()
    for column, (name, cost) in enumerate(zip(names, program.costs.tolist(), strict=True)):
        lines.append(f" {name} cost {cost:.17g}")
        for entry in range(ends[column], ends[column + 1]):
            lines.append(f" {name} {row_names[entries[entry]]} {values[entry]:.17g}")
    lines += [" MARKER 'MARKER' 'INTEND'", "RHS", *sides, *(["RANGES", *ranges] if ranges else [])]
    lines += ["BOUNDS", *(f" BV bound {name}" for name in names), "ENDATA"]
    return ("\n".join(lines) + "\n").encode()


def _pb(program: BinaryProgram) -> bytes:
    from ortools.linear_solver.linear_solver_pb2 import MPModelProto

    model = MPModelProto(name="allocopt")
    for name, cost in zip(program.column_names(), program.costs.tolist(), strict=True):
        model.variable.add(name=name, lower_bound=0, upper_bound=1, is_integer=True, objective_coefficient=cost)
    for name, row in zip(program.row_names(), program.rows(), strict=True):
        sides = {"lower_bound": row.lower, "upper_bound": row.upper}
        model.constraint.add(name=name, **sides, var_index=row.columns, coefficient=row.values)
    return bytes(model.SerializeToString())


_WRITERS: dict[str, Callable[[BinaryProgram], bytes]] = {".mps": _mps, ".lp": _lp, ".pb": _pb, ".json": _json}
