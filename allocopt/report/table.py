"""One aligned table, as Markdown: the same text reads well on a terminal and on a result page."""

from collections.abc import Sequence

Cell = str | float | int | None


def aligned_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: Sequence[int | None], width: int | None = None
) -> str:
    """Format rows under a header.

    Parameters
    ----------
    header
        Titles of the columns.
    rows
        Cells; None is printed as a dash.
    digits
        Per column the digits behind the point of its numbers, or None for a column of text, which stands left.
    width
        Most characters in a line; columns beyond stand in further tables below, each with the first columns of text.
        None for one table, however wide.
    """
    texts = [[cell_text(cell, places) for cell, places in zip(row, digits, strict=True)] for row in rows]
    widths = [max(2, *(len(line[i]) for line in [header, *texts])) for i in range(len(header))]
    rule = [_dashes(wide, places) for wide, places in zip(widths, digits, strict=True)]
    lines = [list(header), rule, *texts]
    parts = [list(range(len(header)))] if width is None else _parts(widths, digits, width)
    return "\n\n".join("\n".join(_line(cells, widths, digits, part) for cells in lines) for part in parts)


def _dashes(width: int, places: int | None) -> str:
    return "-" * width if places is None else "-" * (width - 1) + ":"


def _parts(widths: Sequence[int], digits: Sequence[int | None], width: int) -> list[list[int]]:
    """Share the columns among tables that fit, the first columns of text in each; a table has at least one more."""
    names = max(1, next((column for column, places in enumerate(digits) if places is not None), 1))
    room = width - 1 - sum(wide + 3 for wide in widths[:names])
    parts, left = [list(range(names))], room
    for column in range(names, len(widths)):
        left -= widths[column] + 3
        if left < 0 and len(parts[-1]) > names:
            parts.append(list(range(names)))
            left = room - widths[column] - 3
        parts[-1].append(column)
    return parts


def cell_text(cell: Cell, places: int | None) -> str:
    """Format one cell."""
    if cell is None:
        return "-"
    if isinstance(cell, str) or places is None:
        return str(cell)
    # What is rounded to zero has no sign.
    return f"{round(cell, places) + 0:,.{places}f}"


def _line(cells: Sequence[str], widths: Sequence[int], digits: Sequence[int | None], part: Sequence[int]) -> str:
    padded = [cells[i].ljust(widths[i]) if digits[i] is None else cells[i].rjust(widths[i]) for i in part]
    return "| " + " | ".join(padded) + " |"
