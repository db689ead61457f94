"""Rows of a program that are written one after the other, and the matrix that they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array

from allocopt.arrays import FloatArray, IntArray
from formulations.integer.program import BinaryProgram, NameGrid


class Row(NamedTuple):
    """A row: its columns and values, and its sides."""

    columns: IntArray
    values: FloatArray
    lower: float
    upper: float


@dataclass
class Rows:
    """Rows, in the order in which they were added."""

    rows: list[Row] = field(default_factory=list)

    def at_most(self, upper: float, *terms: tuple[IntArray, IntArray | FloatArray | float]) -> None:
        """Add ``sum of values @ x[columns] <= upper``; a single value stands for all columns of its term."""
        columns = np.concatenate([columns for columns, _ in terms])
        values = np.concatenate([np.broadcast_to(value, len(columns)) for columns, value in terms])
        self.rows.append(Row(columns, values.astype(np.float64), -np.inf, float(upper)))

    def program(self, costs: FloatArray, names: Sequence[NameGrid]) -> BinaryProgram:
        """Make the program of these rows."""
        lengths = [len(row.columns) for row in self.rows]
        data = np.concatenate([row.values for row in self.rows])
        places = (np.repeat(np.arange(len(self.rows)), lengths), np.concatenate([row.columns for row in self.rows]))
        return BinaryProgram(
            costs,
            csc_array(coo_array((data, places), shape=(len(self.rows), len(costs)))),
            np.array([row.lower for row in self.rows]),
            np.array([row.upper for row in self.rows]),
            tuple(names),
            (NameGrid("row", (np.arange(len(self.rows)),)),),
        )
