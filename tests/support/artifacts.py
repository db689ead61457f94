"""Tables and figures of papers, measured quickly."""

from collections.abc import Mapping

import numpy as np

from allocopt.reproduction import ReproductionRequest, ReproductionRow, get_reproduction

Rows = Mapping[tuple[str, str], ReproductionRow]


def rows_of(name: str, request: ReproductionRequest, only: str = "", **options: str) -> Rows:
    """Measure the pieces that begin with a text; every row is a number of its own."""
    reproduction = get_reproduction(name, options)
    pieces = [piece for piece in reproduction.pieces(request) if piece.startswith(only)]
    rows = reproduction.rows(request, {piece: reproduction.measure(request, piece) for piece in pieces})
    assert all(row.artifact == name and row.n > 0 and np.isfinite(row.ours or 0.0) for row in rows)
    found = {(row.row, row.column): row for row in rows}
    assert len(found) == len(rows)
    return found


def ours(rows: Rows, row: str, column: str) -> float:
    """Return what was measured here."""
    value = rows[row, column].ours
    assert value is not None
    return value
