"""Tables of numbers in text files, read at once; a fault is named with its line."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import read_text

# Numbers beyond this are refused: the integers among them could not be told apart.
LARGEST = 2.0**53

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of numbers of a file."""

    path: Path
    # All lines of the file; those that are blank or begin with ``;`` hold no numbers.
    lines: list[str]
    # By key, the number of each column that is read, counted from 1, and its name.
    columns: Mapping[str, tuple[int, str]]
    # These columns, in this order, shape ``(rows, columns)``.
    values: FloatArray

    @classmethod
    def read(
        cls, path: Path, columns: Mapping[str, tuple[int, str]], fewest: int, *, may_have_more: bool = True
    ) -> "Table":
        """Read a file, plain or compressed (``.gz``), of at least so many columns.

        Raises `BadFileError`, which names line and column, if there are no numbers or a line does not hold what it
        should.
        """
        text = read_text(path)
        # Split at line ends of any system, and nowhere else.
        lines = (text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text).split("\n")
        if not any(_holds_numbers(line) for line in lines):
            raise bad_file(path, "holds no jobs")
        if not may_have_more:
            for number, line in enumerate(lines, 1):
                width = len(line.partition(";")[0].split())
                if width and width != fewest:
                    raise bad_file(path, f"line {number}", f"has {width} columns, must have {fewest}")
        # NumPy's reader is fast and tells of one fault that there is one; the slow check then finds where.
        try:
            values = np.loadtxt(lines, comments=";", usecols=[number - 1 for number, _ in columns.values()], ndmin=2)
        except ValueError as error:
            _check_lines(path, lines, columns, fewest)
            raise bad_file(path, str(error)) from None
        if not (np.abs(values) <= LARGEST).all():
            _check_lines(path, lines, columns, fewest)
            raise bad_file(path, "holds a number that is not finite or beyond 2^53")
        return cls(path, lines, columns, values)

    def numbers(self, column: str) -> FloatArray:
        """Return the values of a column, shape ``(rows,)``."""
        return self.values[:, list(self.columns).index(column)]

    def integers(self, column: str) -> IntArray:
        """Return the values of a column of integers, shape ``(rows,)``; a `BadFileError` names the line of another."""
        values = self.numbers(column)
        broken = values != np.rint(values)
        if broken.any():
            row = int(np.argmax(broken))
            raise self.error(row, column, f"is {values[row]:g}, must be an integer")
        return values.astype(np.int64)

    def error(self, row: int, column: str, fault: str) -> BadFileError:
        """Return an error that names the file, the line of a row, and the column."""
        # Lines are counted only now: a long file that is right pays nothing for it.
        numbers = (number for number, line in enumerate(self.lines, 1) if _holds_numbers(line))
        line = next(itertools.islice(numbers, row, None))
        number, name = self.columns[column]
        return bad_file(self.path, f"line {line}", f"column {number} ({name}) {fault}")


def _holds_numbers(line: str) -> bool:
    return line[:1].isdigit() or bool(line.partition(";")[0].strip())


def _check_lines(path: Path, lines: list[str], columns: Mapping[str, tuple[int, str]], fewest: int) -> None:
    for number, line in enumerate(lines, 1):
        fields = line.partition(";")[0].split()
        for column, name in columns.values():
            if fields and column > len(fields):
                raise bad_file(path, f"line {number}", f"has {len(fields)} columns, must have at least {fewest}")
            if fields and not (_NUMBER.fullmatch(fields[column - 1]) and abs(float(fields[column - 1])) <= LARGEST):
                fault = f"column {column} ({name}) is {shown(fields[column - 1])}, must be a number of at most 2^53"
                raise bad_file(path, f"line {number}", fault)
