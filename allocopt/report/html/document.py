"""Parts of a page: sections with facts, figures and tables."""

from dataclasses import dataclass

from allocopt.report.plot import Figure
from allocopt.report.words import Cell


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title with the unit, and its number of decimals, None for a column of text.

    A column is mixed if its numbers differ so much that each gets its own number of decimals.
    """

    title: str
    digits: int | None = None
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table that readers can sort, with a note; None is shown as a dash.

    ``keys`` are the numbers of the rows' series in the figures; empty if the rows are not in a figure.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a page on one result; the fields are in the order of the page.

    ``facts`` are names with values. ``verdict`` are sentences with the conclusion. ``parts`` are figures and tables.
    ``made_by`` are sentences on the run and on the version that made it.
    """

    title: str
    source: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdict: tuple[str, ...] = ()
    parts: tuple[Figure | Table, ...] = ()
    made_by: tuple[str, ...] = ()
