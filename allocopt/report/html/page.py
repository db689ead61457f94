"""The page of a report: one file that needs nothing but itself, and the files of its figures."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from itertools import chain, count
from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.report.html.document import Column, Section, Table
from allocopt.report.palette import DARK, LIGHT
from allocopt.report.plot import WIDTH, Figure, Key, Panel, part_of_plot
from allocopt.report.table import Cell, cell_text
from allocopt.report.words import EN_DASH, number, printable, slug
from allocopt.version import __version__

# Units at the end of a title are not to stand alone in a line.
_UNIT = re.compile(r" (s|ms|%|J|J s)$")


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell of a table on the page: its text, by what it is sorted, and the series that it names."""

    text: str
    key: str
    is_text: bool
    series: Key | None = None


@dataclass(frozen=True, slots=True)
class _Drawing:
    svg: str
    title: str
    is_wide: bool
    axes: str


def write_report(path: Path, title: str, sections: Sequence[Section], figures: Path | None = None) -> None:
    """Write a page, and if asked for every figure as SVG and PDF into a folder.

    Raises
    ------
    BadFileError
        If a file cannot be written.
    MissingPackageError
        If vl-convert or Jinja is not installed.
    """
    text = _page(title, sections)
    taken: set[str] = set()
    for section in sections if figures is not None else ():
        for figure in section.figures():
            name = slug(figure.name if len(sections) == 1 else f"{section.title}-{figure.name}")
            # Two sections may have the same title.
            free = next(each for each in chain((name,), (f"{name}-{n}" for n in count(2))) if each not in taken)
            taken.add(free)
            for ending in ("pdf", "svg"):
                assert figures is not None, "there are files only where there is a folder"
                figure.write(figures / f"{free}.{ending}")
    write_text(path, text)


def _page(title: str, sections: Sequence[Section]) -> str:
    """Return a page that needs nothing but itself: no other file, no network."""
    environment = part_of_plot("jinja2", "Jinja").Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    markup = import_module("markupsafe").Markup
    script = _data("report.js")
    light, dark = ("".join(f"--{role}: {value};" for role, value in colours.items()) for colours in (LIGHT, DARK))
    style = _data("report.css").replace("/*light*/", light).replace("/*dark*/", dark)
    # Autoescape makes texts of all names; only our own style, script and drawings are markup.
    text: str = environment.from_string(_data("report.html.j2")).render(
        title=title,
        sections=sections,
        version=__version__,
        style=markup(style),
        script=markup(script),
        # The page lets no script run but this one, whatever a name in it says.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        is_figure=lambda part: isinstance(part, Figure),
        drawings=lambda figure: [_drawing(figure, panel, markup(svg)) for panel, svg in figure.svgs()],
        key=Key,
        cells=_cells,
        printable=printable,
        is_text=lambda column: column.digits is None,
        heading=lambda column: _UNIT.sub("\u00a0\\1", column.title),
    )
    return text


def _drawing(figure: Figure, panel: Panel, svg: str) -> _Drawing:
    axes = json.dumps({"x": panel.x.about(), "y": panel.y.about()}, separators=(",", ":"))
    return _Drawing(
        svg, printable(f"{figure.title}: {panel.title}" if panel.title else figure.title), panel.width > WIDTH, axes
    )


def _cells(table: Table) -> list[list[_Cell]]:
    keys: Sequence[Key | None] = [Key(key) for key in table.keys] or [None] * len(table.rows)
    rows = []
    for row, key in zip(table.rows, keys, strict=True):
        cells = [_cell(cell, column) for cell, column in zip(row, table.columns, strict=True)]
        cells[0] = _Cell(cells[0].text, cells[0].key, cells[0].is_text, key)
        rows.append(cells)
    return rows


def _cell(cell: Cell, column: Column) -> _Cell:
    is_text = column.digits is None
    if cell is None:
        return _Cell(EN_DASH, "", is_text)
    if is_text or isinstance(cell, str):
        return _Cell(str(cell), str(cell), is_text)
    text = number(cell) if column.is_mixed else cell_text(cell, column.digits)
    # A hyphen is narrower than a digit.
    return _Cell(text.replace("-", "\u2212"), str(cell), is_text)


def _data(name: str) -> str:
    return files("allocopt.data").joinpath(name).read_text(encoding="utf-8")
