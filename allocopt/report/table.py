"""One aligned table, as Markdown: the same text reads well on a terminal and on a result page."""

from collections.abc import Sequence

Cell = str | float | int | None


def aligned_table(header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: Sequence[int | None]) -> str:
    """Format rows under a header.

    Parameters
    ----------
    header
        Titles of the columns.
    rows
        Cells; None is printed as a dash.
    digits
        Per column the digits behind the point of its numbers, or None for a column of text, which stands left.
    """
    texts = [[cell_text(cell, places) for cell, places in zip(row, digits, strict=True)] for row in rows]
    widths = [max(2, *(len(line[i]) for line in [header, *texts])) for i in range(len(header))]
    rule = [
        ("-" * width if places is None else "-" * (width - 1) + ":")
        for width, places in zip(widths, digits, strict=True)
    ]
    return "\n".join(_line(cells, widths, digits) for cells in [list(header), rule, *texts])


def cell_text(cell: Cell, places: int | None) -> str:
    """Format one cell."""
    if cell is None:
        return "-"
    if isinstance(cell, str) or places is None:
        return str(cell)
    # What is rounded to zero has no sign.
    return f"{round(cell, places) + 0:,.{places}f}"


def _line(cells: Sequence[str], widths: Sequence[int], digits: Sequence[int | None]) -> str:
    """Pad and join the cells of a line."""
    padded = [
        cell.ljust(width) if places is None else cell.rjust(width)
        for cell, width, places in zip(cells, widths, digits, strict=True)
    ]
    return "| " + " | ".join(padded) + " |"
