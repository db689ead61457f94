"""What a page holds: sections of facts, figures and tables."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allocopt.report.table import Cell

if TYPE_CHECKING:
    from allocopt.report.html.canvas import Canvas


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure, described once and drawn for the page and for files.

    Parameters
    ----------
    name
        Its name in files, unique in a section; letters, digits and hyphens.
    title
        What it shows, in a line.
    description
        The same in words, for those who do not see it.
    draw
        Draws it.
    caption
        How to read it; empty where that is plain.
    """

    name: str
    title: str
    description: str
    draw: "Callable[[Canvas], None]"
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    title
        Its title, with the unit.
    digits
        Digits behind the point of its numbers; None for a column of text.
    is_mixed
        Whether its numbers are so unlike that each is written with the digits that count in it.
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
    swatches
        Per row the name of the colour that stands for it in a figure; empty where there is none.
    note
        What is to be said about it.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    swatches: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number that matters, with its name."""

    name: str
    value: str


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
        Numbers that stand above everything.
    verdict
        Sentences that say what it comes to.
    parts
        Figures and tables, in the order of the page.
    """

    title: str
    source: str = ""
    facts: tuple[Fact, ...] = ()
    verdict: tuple[str, ...] = ()
    parts: tuple[Figure | Table, ...] = ()

    def figures(self) -> list[Figure]:
        """Return its figures."""
        return [part for part in self.parts if isinstance(part, Figure)]
