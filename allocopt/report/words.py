"""Numbers as readable text, and aligned tables for terminals and result pages."""

import math
import re
from collections.abc import Sequence
from textwrap import fill

EN_DASH = "\u2013"  # Separates the ends of a range, and marks a missing value
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_SPANS = ((259_200.0, 86_400.0, "days"), (10_800.0, 3_600.0, "hours"), (300.0, 60.0, "minutes"))


def duration(seconds: float) -> str:
    """Return a duration in one or two units, such as 3 h 12 min."""
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"
    index = next(index for index, (size, _) in enumerate(_UNITS) if seconds >= size)
    (size, name), (below, small) = _UNITS[index : index + 2]
    whole, part = divmod(round(seconds / below), round(size / below))
    return f"{whole:,} {name} {part} {small}" if part and whole < 100 else f"{whole:,} {name}"


def time_unit(span_s: float) -> tuple[float, str]:
    """Return the seconds and the name of the unit that suits an axis over a span of time."""
    return next(((seconds, name) for least, seconds, name in _SPANS if span_s >= least), (1.0, "seconds"))


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent as text."""
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """Return a number with four significant digits, large ones as integers, huge ones with an exponent."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


def shortened(text: str, longest: int = 24) -> str:
    """Return a text cut to ``longest`` characters, with non-printable characters replaced."""
    seen = printable(text)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"


def filled(line: str, width: int | None) -> str:
    """Return a line broken into lines of at most ``width`` characters, of which all but the first are indented."""
    return line if width is None else fill(line, width, subsequent_indent="  ")


def typographic(text: str) -> str:
    """Return a sentence for terminals as pages write it, with minus signs and the sign for plus or minus."""
    return re.sub(r"(?<=[(\[ ])-(?=\d)", "\N{MINUS SIGN}", text.replace("+/-", "±"))


def printable(text: str) -> str:
    """Return a text with non-printable characters replaced, which files of figures must not contain."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


Cell = str | float | int | None


def aligned_table(
    header: Sequence[str], rows: Sequence[Sequence[Cell]], digits: Sequence[int | None], width: int | None = None
) -> str:
    """Return rows under a header as a Markdown table; None is printed as a dash.

    ``digits`` has the decimals of each column; a column with None is text and aligned to the left. If the table is
    wider than ``width`` characters, further columns are in tables below, each with the first columns of text.
    """
    texts = [[cell_text(cell, places) for cell, places in zip(row, digits, strict=True)] for row in rows]
    widths = [max(2, *(len(line[i]) for line in [header, *texts])) for i in range(len(header))]
    rule = ["-" * wide if digits[i] is None else "-" * (wide - 1) + ":" for i, wide in enumerate(widths)]
    columns = list(range(len(header)))
    # Each table has the first columns of text and at least one more.
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
    """Return the text of one cell."""
    if cell is None:
        return "-"
    if isinstance(cell, str) or places is None:
        return str(cell)
    # Adding 0 removes the sign of a value that is rounded to zero.
    return f"{round(cell, places) + 0:,.{places}f}"
