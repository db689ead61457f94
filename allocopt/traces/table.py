"""Numbers in columns: the text files in which traces come, read at once, with every fault found in its line."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown

LARGEST = 2.0**53
"""Numbers beyond this are refused: the integers among them could not be told apart."""

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Layout:
    """What stands in a line.

    Parameters
    ----------
    columns
        Name of each column that is read, by its number, counted from 1.
    fewest, most
        Number of columns that a line has; None where more may follow, which are ignored.
    """

    columns: Mapping[int, str]
    fewest: int
    most: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The numbers of a file.

    Parameters
    ----------
    path
        The file, for error messages.
    lines
        All its lines; those that are blank or begin with ``;`` hold no numbers.
    layout
        What stands in a line.
    values
        The columns that are read, in the layout's order, shape ``(rows, columns)``.
    """

    path: Path
    lines: list[str]
    layout: Layout
    values: FloatArray

    def numbers(self, column: int) -> FloatArray:
        """Values of a column, shape ``(rows,)``."""
        return self.values[:, list(self.layout.columns).index(column)]

    def integers(self, column: int) -> IntArray:
        """Values of a column of integers, shape ``(rows,)``.

        Raises
        ------
        BadFileError
            If one is not an integer; it names the line.
        """
        values = self.numbers(column)
        broken = values != np.rint(values)
        if broken.any():
            row = int(np.argmax(broken))
            raise self.error(row, column, f"is {values[row]:g}, must be an integer")
        return values.astype(np.int64)

    def error(self, row: int, column: int, fault: str) -> BadFileError:
        """Return an error that names the file, the line of a row, and the column."""
        numbers = (number for number, line in enumerate(self.lines, 1) if _holds_numbers(line))
        line = next(itertools.islice(numbers, row, None))
        return _error(self.path, line, f"column {column} ({self.layout.columns[column]}) {fault}")


def lines_of(text: str) -> list[str]:
    """Split a text at line ends of any system, and nowhere else."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def read_table(path: Path, lines: list[str], layout: Layout) -> Table:
    """Read the numbers of a file.

    Parameters
    ----------
    path
        The file, for error messages.
    lines
        Its lines.
    layout
        What stands in a line.

    Raises
    ------
    BadFileError
        If there are no numbers, or a line does not hold what it should; it names the line and the column.
    """
    if not any(_holds_numbers(line) for line in lines):
        raise bad_file(path, "holds no jobs")
    if layout.most is not None:
        _check_widths(path, lines, layout)
    try:
        values = np.loadtxt(lines, comments=";", usecols=[column - 1 for column in layout.columns], ndmin=2)
    except ValueError as error:
        _check_lines(path, lines, layout)
        raise bad_file(path, str(error)) from None
    if not (np.abs(values) <= LARGEST).all():
        _check_lines(path, lines, layout)
        raise bad_file(path, "holds a number that is not finite or beyond 2^53")
    return Table(path, lines, layout, values)


def _holds_numbers(line: str) -> bool:
    """Whether a line is neither blank nor a comment."""
    return line[:1].isdigit() or bool(line.partition(";")[0].strip())


def _check_widths(path: Path, lines: list[str], layout: Layout) -> None:
    """Raise `BadFileError` for the first line with too few or too many columns."""
    most = layout.most
    for number, line in enumerate(lines, 1):
        width = len(line.partition(";")[0].split())
        if width and (width < layout.fewest or (most is not None and width > most)):
            expected = f"{layout.fewest}" if most == layout.fewest else f"at least {layout.fewest}"
            raise _error(path, number, f"has {width} columns, must have {expected}")


def _check_lines(path: Path, lines: list[str], layout: Layout) -> None:
    """Raise `BadFileError` for the first line that does not hold what it should: slow, and exact about the place."""
    for number, line in enumerate(lines, 1):
        fields = line.partition(";")[0].split()
        for column, name in layout.columns.items():
            if fields and column > len(fields):
                raise _error(path, number, f"has {len(fields)} columns, must have at least {layout.fewest}")
            if fields and not _is_number(fields[column - 1]):
                raise _error(
                    path,
                    number,
                    f"column {column} ({name}) is {shown(fields[column - 1])}, must be a number of at most 2^53",
                )


def _is_number(text: str) -> bool:
    """Whether a text is a finite decimal number of a sane size."""
    return bool(_NUMBER.fullmatch(text)) and abs(float(text)) <= LARGEST


def _error(path: Path, line: int, fault: str) -> BadFileError:
    """Return an error that names the file and the line."""
    return bad_file(path, f"line {line}", fault)
