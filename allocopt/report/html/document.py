"""What a page holds: sections of facts, figures and tables."""

from dataclasses import dataclass

from allocopt.report.plot import Figure
from allocopt.report.table import Cell


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
    """A table that readers can sort.

    Parameters
    ----------
    title
        What it holds.
    columns, rows
        The columns, and a cell for each in every row; None is shown as a dash.
    keys
        Per row the number of the series that it is in the figures; empty where there is none.
    note
        What is to be said about it.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    keys: tuple[int, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """What is shown of one result.

    Parameters
    ----------
    title
        What the result is.
    source
        The file that it comes from; empty where there is none.
    facts
        Names and values that stand above everything.
    verdict
        Sentences that say what it comes to.
    parts
        Figures and tables, in the order of the page.
    made_by
        Sentences on what was run, and by which version.
    """

    title: str
    source: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    verdict: tuple[str, ...] = ()
    parts: tuple[Figure | Table, ...] = ()
    made_by: tuple[str, ...] = ()

    def figures(self) -> list[Figure]:
        """Return its figures."""
        return [part for part in self.parts if isinstance(part, Figure)]
