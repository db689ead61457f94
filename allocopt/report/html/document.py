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

    ``keys`` are the numbers of the rows' series in the figures; empty if the rows are not in a figure. ``remarks`` are
    shown below the table, a line for each.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: tuple[int, ...] = ()
    note: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a page on one result; the fields are in the order of the page.

    ``verdict`` is the conclusion in at most two sentences. ``facts`` are names with values. ``parts`` are the main
    table, tables of groups, figures, and detailed tables, in this order. ``notes`` explain and qualify the numbers.
    ``made_by`` are sentences on the run, its assumptions and the version that made it; ``source`` names its files.
    """

    title: str
    verdict: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    parts: tuple[Figure | Table, ...] = ()
    notes: tuple[str, ...] = ()
    made_by: tuple[str, ...] = ()
    source: str = ""
