"""Binary linear programs: what a formulation hands to a back end, and what is exported."""

import itertools
from dataclasses import dataclass

from scipy.sparse import csc_array

from allocopt.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class NameGrid:
    """Names ``stem_a_b_..`` for every combination of the axes' values, the last axis running fastest.

    Parameters
    ----------
    stem
        What all names begin with.
    axes
        Values of each index.
    """

    stem: str
    axes: tuple[IntArray, ...]

    def names(self) -> list[str]:
        """Write the names out."""
        values = (axis.tolist() for axis in self.axes)
        return ["_".join([self.stem, *map(str, combination)]) for combination in itertools.product(*values)]


@dataclass(frozen=True, slots=True, eq=False)
class BinaryProgram:
    """Minimize ``costs @ x`` over binary x with ``row_lower <= matrix @ x <= row_upper``.

    Parameters
    ----------
    costs
        Shape ``(n,)``.
    matrix
        Shape ``(rows, n)``, compressed by columns.
    row_lower, row_upper
        Shape ``(rows,)``; infinite where a row has no such side.
    column_grids, row_grids
        Names of the columns and of the rows, in order; written out only when they are asked for.
    """

    costs: FloatArray
    matrix: csc_array
    row_lower: FloatArray
    row_upper: FloatArray
    column_grids: tuple[NameGrid, ...]
    row_grids: tuple[NameGrid, ...]

    def __post_init__(self) -> None:
        rows = (len(self.row_lower), len(self.row_upper))
        if rows != (self.matrix.shape[0],) * 2 or len(self.costs) != self.matrix.shape[1]:
            raise ValueError(f"the matrix is {self.matrix.shape}, with {len(self.costs)} costs and {rows} row sides")

    def column_names(self) -> list[str]:
        """Name of every variable."""
        return [name for grid in self.column_grids for name in grid.names()]

    def row_names(self) -> list[str]:
        """Name of every row."""
        return [name for grid in self.row_grids for name in grid.names()]

    def cost_of(self, chosen: IntArray) -> float:
        """Objective of the point whose ones are ``chosen``."""
        return float(self.costs[chosen].sum())
