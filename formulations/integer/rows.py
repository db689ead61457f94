"""Rows of a program that are written one after the other, and the matrix that they make."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array

from allocopt.arrays import FloatArray, IntArray
from formulations.integer.program import BinaryProgram, NameGrid


class Block(NamedTuple):
    """Rows at once: the row, the column and the value of every entry, and the upper side of each row."""

    row_of: IntArray
    columns: IntArray
    values: FloatArray
    uppers: FloatArray


def spans(starts: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers ``start .. start + length - 1`` of every span one after the other, and the span of each."""
    span_of = np.repeat(np.arange(len(starts)), lengths)
    before = np.cumsum(lengths) - lengths
    return np.arange(len(span_of)) - before[span_of] + starts[span_of], span_of


@dataclass
class Rows:
    """Rows without lower sides, in the order in which they were added."""

    blocks: list[Block] = field(default_factory=list)

    def at_most(self, upper: float, *terms: tuple[IntArray, IntArray | FloatArray | float]) -> None:
        """Add ``sum of values @ x[columns] <= upper``; a single value stands for all columns of its term."""
        columns = np.concatenate([columns for columns, _ in terms])
        values = np.concatenate([np.broadcast_to(value, len(columns)) for columns, value in terms])
        self.add(np.zeros(len(columns), dtype=np.int64), columns, values, np.array([upper]))

    def add(
        self, row_of: IntArray, columns: IntArray, values: IntArray | FloatArray, uppers: IntArray | FloatArray
    ) -> None:
        """Add rows ``sum of values @ x[columns] <= upper``; ``row_of`` counts from 0 in each call."""
        self.blocks.append(Block(row_of, columns, values.astype(np.float64), uppers.astype(np.float64)))

    def program(self, costs: FloatArray, names: Sequence[NameGrid]) -> BinaryProgram:
        """Make the program of these rows."""
        counts = np.array([len(block.uppers) for block in self.blocks])
        first = np.cumsum(counts) - counts
        row_of = np.concatenate([block.row_of + start for block, start in zip(self.blocks, first, strict=True)])
        places = row_of, np.concatenate([block.columns for block in self.blocks])
        data, n_rows = np.concatenate([block.values for block in self.blocks]), int(counts.sum())
        return BinaryProgram(
            costs,
            csc_array(coo_array((data, places), shape=(n_rows, len(costs)))),
            np.full(n_rows, -np.inf),
            np.concatenate([block.uppers for block in self.blocks]),
            tuple(names),
            (NameGrid("row", (np.arange(n_rows),)),),
        )
