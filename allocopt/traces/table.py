"""Tables of numbers in text files, read at once; a fault is named with its line."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.cells import LARGEST
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text
from allocopt.traces.records import Damage

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of numbers of a file."""

    path: Path
    # All lines of the file, those of damaged rows empty; lines that are blank or begin with ``;`` hold no numbers.
    lines: list[str]
    # By key, the number of each column that is read, counted from 1, and its name.
    columns: Mapping[str, tuple[int, str]]
    # These columns, in this order, shape ``(rows, columns)``.
    values: FloatArray

    @classmethod
    def read(
        cls,
        path: Path,
        columns: Mapping[str, tuple[int, str]],
        integers: Collection[str],
        fewest: int,
        damage: Damage,
        *,
        may_have_more: bool = True,
    ) -> "Table":
        """Read a file, plain or compressed (``.gz``), of at least so many columns, of which some hold integers.

        Lines that do not hold what they should are dropped. Raises `BadFileError`, which names line and column, if
        there are no others.
        """
        text = read_text(path)
        # Split at line ends of any system, and nowhere else.
        lines = (text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text).split("\n")
        if not any(_holds_numbers(line) for line in lines):
            raise bad_file(path, "holds no jobs")
        # NumPy's reader is fast and tells of one fault that there is one; the slow check then finds where.
        values = _loaded(lines, columns) if may_have_more else None
        if values is None:
            faults = dict(_line_faults(path, lines, columns, fewest, may_have_more))
            damage.drop(list(faults), faults.__getitem__)
            lines = ["" if number in faults else line for number, line in enumerate(lines, 1)]
            if damage.first is not None and not any(map(_holds_numbers, lines)):
                raise damage.first
            values = _loaded(lines, columns)
            if values is None:
                raise bad_file(path, "holds what is no table of numbers")
        table = cls(path, lines, columns, values)
        broken = {name: column != np.rint(column) for name in integers for column in (table.numbers(name),)}
        if not any(rows.any() for rows in broken.values()):
            return table
        damaged = np.logical_or.reduce(list(broken.values()))

        def error(row: int) -> BadFileError:
            name = next(name for name, rows in broken.items() if rows[row])
            return table.error(row, name, f"is {table.numbers(name)[row]:g}, must be an integer")

        damage.drop(np.flatnonzero(damaged).tolist(), error)
        if damage.first is not None and damaged.all():
            raise damage.first
        numbers = table._line_numbers()
        for row in np.flatnonzero(damaged).tolist():
            lines[numbers[row] - 1] = ""
        return cls(path, lines, columns, values[~damaged])

    def numbers(self, column: str) -> FloatArray:
        """Return the values of a column, shape ``(rows,)``."""
        return self.values[:, list(self.columns).index(column)]

    def integers(self, column: str) -> IntArray:
        """Return the values of a column of integers, shape ``(rows,)``."""
        return self.numbers(column).astype(np.int64)

    def texts(self, column: int) -> list[str] | None:
        """Return the texts of a column behind those of numbers, counted from 1; None where the first row has none.

        Rows that end before it have an empty one.
        """
        rows = filter(_holds_numbers, self.lines)
        if len(next(rows).split()) < column:
            return None
        return ["".join(line.split()[column - 1 : column]) for line in filter(_holds_numbers, self.lines)]

    def _line_numbers(self) -> list[int]:
        return [number for number, line in enumerate(self.lines, 1) if _holds_numbers(line)]

    def error(self, row: int, column: str, fault: str) -> BadFileError:
        """Return an error that names the file, the line of a row, and the column."""
        # Lines are counted only now: a long file that is right pays nothing for it.
        number, name = self.columns[column]
        return bad_file(self.path, f"line {self._line_numbers()[row]}", f"column {number} ({name}) {fault}")


def _holds_numbers(line: str) -> bool:
    return line[:1].isdigit() or bool(line.partition(";")[0].strip())


def _loaded(lines: list[str], columns: Mapping[str, tuple[int, str]]) -> FloatArray | None:
    used = [number - 1 for number, _ in columns.values()]
    # Whole numbers are read in a fifth of the time; of others NumPy would take the whole part, and only warn.
    for kind in (np.int64, np.float64):
        with suppress(ValueError), catch_warnings():
            simplefilter("error", DeprecationWarning)
            values = np.loadtxt(lines, comments=";", usecols=used, ndmin=2, dtype=kind).astype(np.float64)
            return values if (np.abs(values) <= LARGEST).all() else None
    return None


def _line_faults(
    path: Path, lines: list[str], columns: Mapping[str, tuple[int, str]], fewest: int, may_have_more: bool
) -> Iterator[tuple[int, BadFileError]]:
    for number, line in enumerate(lines, 1):
        fields = line.partition(";")[0].split()
        most = max(column for column, _ in columns.values())
        if fields and (len(fields) < most or not (may_have_more or len(fields) == fewest)):
            least = "at least " if may_have_more else ""
            yield number, bad_file(path, f"line {number}", f"has {len(fields)} columns, must have {least}{fewest}")
            continue
        for column, name in columns.values() if fields else ():
            cell = fields[column - 1]
            if not (_NUMBER.fullmatch(cell) and abs(float(cell)) <= LARGEST):
                fault = f"column {column} ({name}) is {shown(cell)}, must be a number of at most 2^53"
                yield number, bad_file(path, f"line {number}", fault)
                break
