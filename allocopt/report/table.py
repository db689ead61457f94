"""One aligned table, as Markdown: the same text reads well on a terminal and on a result page."""

import math
from collections.abc import Sequence

Cell = str | float | int | None


def aligned_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: Sequence[int | None], width: int | None = None
) -> str:
    """Format rows under a header; None is printed as a dash.

    Numbers of a column have so many digits behind the point, a column with None for them is text and stands left.
    Columns beyond ``width`` characters stand in further tables below, each with the first columns of text.
    """
    texts = [[cell_text(cell, places) for cell, places in zip(row, digits, strict=True)] for row in rows]
    widths = [max(2, *(len(line[i]) for line in [header, *texts])) for i in range(len(header))]
    rule = [
        "-" * wide if places is None else "-" * (wide - 1) + ":" for wide, places in zip(widths, digits, strict=True)
    ]
    columns = list(range(len(header)))
    # The first columns of text stand in each table, which has at least one more.
    n_names = max(1, next((column for column, places in enumerate(digits) if places is not None), 1))
    parts = [columns[:n_names]]
    room = left = math.inf if width is None else width - 1 - sum(wide + 3 for wide in widths[:n_names])
    for column in columns[n_names:]:
        left -= widths[column] + 3
        if left < 0 and len(parts[-1]) > n_names:
            parts.append(columns[:n_names])
            left = room - widths[column] - 3
        parts[-1].append(column)
    aligned = [str.ljust if places is None else str.rjust for places in digits]
    lines = [[aligned[i](cells[i], widths[i]) for i in columns] for cells in (header, rule, *texts)]
    tables = (["| " + " | ".join(cells[i] for i in part) + " |" for cells in lines] for part in parts)
    return "\n\n".join("\n".join(table) for table in tables)


def cell_text(cell: Cell, places: int | None) -> str:
    """Format one cell."""
    if cell is None:
        return "-"
    if isinstance(cell, str) or places is None:
        return str(cell)
    # What is rounded to zero has no sign.
    return f"{round(cell, places) + 0:,.{places}f}"
