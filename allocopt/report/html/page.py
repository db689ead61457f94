"""The page of a report, which is one self-contained file, and the files of its figures."""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from itertools import chain, count
from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.report.html.document import Section, Table
from allocopt.report.palette import DARK, LIGHT
from allocopt.report.plot import WIDTH, Figure, Key, check_installed
from allocopt.report.words import EN_DASH, cell_text, number, printable
from allocopt.version import __version__

# A unit at the end of a title must not be wrapped into a line of its own.
_UNIT = re.compile(r" (s|ms|%|J|J s)$")


def write_report(path: Path, title: str, sections: Sequence[Section], figures: Path | None = None) -> None:
    """Write a page and, if a folder is given, every figure as SVG and PDF to it."""
    text = page_text(title, sections)
    if figures is not None:
        taken: set[str] = set()
        drawn = ((section, part) for section in sections for part in section.parts if isinstance(part, Figure))
        for section, figure in drawn:
            title = figure.name if len(sections) == 1 else f"{section.title}-{figure.name}"
            # Lower-case letters, digits and hyphens are valid in file names everywhere.
            name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "unnamed"
            # Two sections may have the same title.
            free = next(each for each in chain((name,), (f"{name}-{n}" for n in count(2))) if each not in taken)
            taken.add(free)
            for ending in ("pdf", "svg"):
                figure.write(figures / f"{free}.{ending}")
    write_text(path, text)


def page_text(title: str, sections: Sequence[Section], *, is_renewed: bool = False) -> str:
    """Return a page that needs no other file and no network; with ``is_renewed`` it reloads every few seconds."""
    check_installed()
    environment = import_module("jinja2").Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    markup = import_module("markupsafe").Markup

    def drawings(figure: Figure) -> list[dict[str, object]]:
        drawn: list[dict[str, object]] = []
        for panel, svg in figure.svgs():
            axes = json.dumps({"x": panel.x.about(), "y": panel.y.about()}, separators=(",", ":"))
            title = printable(f"{figure.title}: {panel.title}" if panel.title else figure.title)
            drawn.append({"svg": markup(svg), "title": title, "is_wide": panel.width > WIDTH, "axes": axes})
        return drawn

    script = _data("report.js") + (_data("live.js") if is_renewed else "")
    light, dark = ("".join(f"--{role}: {value};" for role, value in colours.items()) for colours in (LIGHT, DARK))
    style = _data("report.css").replace("/*light*/", light).replace("/*dark*/", dark)
    # Autoescape turns names into text; only our own style, script and drawings are markup.
    text: str = environment.from_string(_data("report.html.j2")).render(
        title=title,
        sections=sections,
        version=__version__,
        style=markup(style),
        script=markup(script),
        # The page permits only the script with this hash, whatever a name in it contains.
        is_renewed=is_renewed,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        is_figure=lambda part: isinstance(part, Figure),
        drawings=drawings,
        key=Key,
        cells=_cells,
        printable=printable,
        is_text=lambda column: column.digits is None,
        heading=lambda column: _UNIT.sub("\u00a0\\1", column.title),
    )
    return text


def _cells(table: Table) -> list[list[dict[str, object]]]:
    """Return the cells of a table: text, sort key, and for the first cell of a row its series."""
    rows = []
    for number_of_row, row in enumerate(table.rows):
        cells: list[dict[str, object]] = []
        for cell, column in zip(row, table.columns, strict=True):
            text = EN_DASH if cell is None else str(cell)
            if isinstance(cell, int | float) and column.digits is not None:
                written = number(cell) if column.is_mixed else cell_text(cell, column.digits)
                # A minus sign is as wide as a digit, a hyphen is not.
                text = written.replace("-", "\u2212")
            cells.append({"text": text, "key": "" if cell is None else str(cell), "is_text": column.digits is None})
        if table.keys:
            cells[0]["series"] = Key(table.keys[number_of_row])
        rows.append(cells)
    return rows


def _data(name: str) -> str:
    return files("allocopt.data").joinpath(name).read_text(encoding="utf-8")
