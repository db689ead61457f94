"""What a page holds: sections of facts, figures and tables."""

from dataclasses import dataclass

from allocopt.report.plot import Figure
from allocopt.report.words import Cell


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title with the unit, and the digits behind the point, None for a column of text.

    Numbers that are so unlike that each needs its own digits are mixed.
    """

    title: str
    digits: int | None = None
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table that readers can sort, with a note; None is shown as a dash.

    ``keys`` are the numbers of the series that the rows are in the figures, empty where they are none.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """What is shown of one result, in the order of the page.

    Facts, names with values, stand above sentences on what it comes to, ``verdict``; sentences on what was run, and by
    which version, ``made_by``, stand below figures and tables.
    """

    title: str
    source: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdict: tuple[str, ...] = ()
    parts: tuple[Figure | Table, ...] = ()
    made_by: tuple[str, ...] = ()
