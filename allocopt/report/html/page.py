"""The page of a report, and the files of its figures."""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from itertools import chain, count
from pathlib import Path
from typing import Any

from allocopt.errors import MissingPackageError
from allocopt.files.writing import write_bytes, write_text
from allocopt.report.html.canvas import drawn, matplotlib, pdf_bytes, svg_text
from allocopt.report.html.document import Column, Figure, Section, Table
from allocopt.report.html.palette import DARK, LIGHT, variables
from allocopt.report.html.svg import file_text, page_element
from allocopt.report.html.words import EN_DASH, number, slug
from allocopt.report.table import Cell, cell_text
from allocopt.version import __version__

UNIT = re.compile(r" (s|ms|%|J|J s)$")
"""Units at the end of a title, which are not to stand alone in a line."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell of a table on the page: its text, by what it is sorted, and the role of its swatch."""

    text: str
    key: str
    is_text: bool
    swatch: str = ""


def check_installed() -> None:
    """Raise `MissingPackageError` unless what draws pages is installed."""
    matplotlib()
    _jinja()


def write_report(path: Path, title: str, sections: Sequence[Section], figures: Path | None = None) -> None:
    """Write a page, and if asked for every figure as SVG and PDF.

    Parameters
    ----------
    path
        The page.
    title
        Its title.
    sections
        What it holds.
    figures
        Folder of the figures; None for none.

    Raises
    ------
    BadFileError
        If a file cannot be written.
    MissingPackageError
        If matplotlib or Jinja is not installed.
    """
    text = page(title, sections)
    for name, content in _figure_files(sections) if figures is not None else ():
        assert figures is not None, "there are files only where there is a folder"
        write_bytes(figures / name, content)
    write_text(path, text)


def page(title: str, sections: Sequence[Section]) -> str:
    """Return a page that needs nothing but itself: no other file, no network."""
    environment = _jinja().Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    markup = import_module("markupsafe").Markup
    script = _data("report.js")
    style = _data("report.css").replace("/*light*/", variables(LIGHT)).replace("/*dark*/", variables(DARK))
    # The template draws them in the same order.
    names = iter([name for name, _ in _named(sections)])
    text: str = environment.from_string(_data("report.html.j2")).render(
        title=title,
        sections=sections,
        version=__version__,
        style=markup(style),
        script=markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        is_figure=lambda part: isinstance(part, Figure),
        drawings=lambda figure: [markup(each) for each in _drawings(figure, next(names))],
        cells=_cells,
        is_text=lambda column: column.digits is None,
        heading=lambda column: UNIT.sub("\u00a0\\1", column.title),
    )
    return text


def _drawings(figure: Figure, name: str) -> list[str]:
    """Draw a figure for wide and for narrow pages."""
    elements = []
    for is_narrow, css_class in ((False, "wide"), (True, "narrow")):
        canvas = drawn(figure.draw, is_narrow)
        text = svg_text(canvas)
        said = figure.title, figure.description
        elements.append(page_element(text, f"{name}-{css_class}", css_class, said, canvas.titles))
    return elements


def _figure_files(sections: Sequence[Section]) -> Iterator[tuple[str, bytes]]:
    """Draw every figure for a file of its own."""
    for name, figure in _named(sections):
        canvas = drawn(figure.draw, is_narrow=False)
        yield f"{name}.pdf", pdf_bytes(canvas)
        yield f"{name}.svg", file_text(svg_text(canvas), figure.title, figure.description, canvas.titles).encode()


def _named(sections: Sequence[Section]) -> list[tuple[str, Figure]]:
    """Give every figure a name that is unique on the page."""
    taken: set[str] = set()
    named = []
    for section in sections:
        for figure in section.figures():
            name = slug(figure.name if len(sections) == 1 else f"{section.title}-{figure.name}")
            free = next(each for each in chain((name,), (f"{name}-{n}" for n in count(2))) if each not in taken)
            taken.add(free)
            named.append((free, figure))
    return named


def _cells(table: Table) -> list[list[_Cell]]:
    """Return the cells of a table as the page has them."""
    swatches = table.swatches or ("",) * len(table.rows)
    rows = []
    for row, swatch in zip(table.rows, swatches, strict=True):
        cells = [_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        cells[0] = _Cell(cells[0].text, cells[0].key, cells[0].is_text, swatch)
        rows.append(cells)
    return rows


def _cell(cell: Cell, column: Column) -> _Cell:
    """Return a cell; numbers have a minus sign of their own."""
    is_text = column.digits is None
    if cell is None:
        return _Cell(EN_DASH, "", is_text)
    if is_text or isinstance(cell, str):
        return _Cell(str(cell), str(cell), is_text)
    text = number(cell) if column.is_mixed else cell_text(cell, column.digits)
    return _Cell(text.replace("-", "\u2212"), str(cell), is_text)


def _data(name: str) -> str:
    """Read a file that comes with the package."""
    return files("allocopt.data").joinpath(name).read_text(encoding="utf-8")


def _jinja() -> Any:
    """Return Jinja."""
    try:
        return import_module("jinja2")
    except ModuleNotFoundError:
        raise MissingPackageError("reports need Jinja: pip install 'allocopt[plot]'") from None
