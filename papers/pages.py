"""Result pages: the command, machine and commit of a run, and its tables and plots."""

import json
import re
import sys
import tomllib
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.files.writing import write_text
from allocopt.report.plot import WIDTH, Axis, Colours, Figure, Panel
from allocopt.report.provenance import provenance
from allocopt.report.words import Cell, aligned_table, cell_text

_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"

Row = dict[str, Any]
"""A row that ``allocopt reproduce`` wrote."""
ByRow = dict[str, dict[str, Row]]
"""Rows by their names and columns."""
Lines = Mapping[str, tuple[Sequence[float] | FloatArray, Sequence[float] | FloatArray]]
"""Abscissas and ordinates of lines, by name."""

# The list of results states this machine once; pages state only others.
_USUAL_MACHINE = ", AMD EPYC, 2 cores, Python 3.11.7"

# Longer lines are drawn without their points.
_MOST_POINTS = 30


def read_rows(folder: Path, name: str) -> list[Row]:
    """Read the rows of a reproduction; empty if it was not run."""
    path = folder / f"{name}.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def by_row(rows: Sequence[Row]) -> ByRow:
    """Return rows by their names and columns."""
    found: ByRow = {}
    for row in rows:
        found.setdefault(row["row"], {})[row["column"]] = row
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows of a reproduction that are shown on a page, because they decide a claim.

    Parameters
    ----------
    artifact
        Name of the reproduction.
    rows
        Regular expression that matches the whole name of a row; its first group is the name on the page.
    columns
        Digits after the decimal point, by column. A column that no row has is left out. If only one row matches, each
        column becomes a line.
    has_spread
        Whether numbers are shown with their spread, as `ours ± spread`.
    """

    artifact: str
    rows: str
    columns: Mapping[str, int]
    has_spread: bool = False

    def table(self, rows: Sequence[Row]) -> str | None:
        """Return the table, with the paper's values in brackets; None if nothing was measured."""
        matches = {name: (re.fullmatch(self.rows, name), found) for name, found in by_row(rows).items()}
        lines = {match[1]: found for match, found in matches.values() if match}
        columns = [column for column in self.columns if any(column in found for found in lines.values())]
        cells = {
            name: [self._cell(found.get(column), self.columns[column]) for column in columns]
            for name, found in lines.items()
        }
        if not lines:
            return None
        if len(lines) == 1:
            ((name, values),) = cells.items()
            return aligned_table(("", name), list(zip(columns, values, strict=True)), (None, 0))
        return aligned_table(("", *columns), [[name, *of] for name, of in cells.items()], (None, *(0 for _ in columns)))

    def _cell(self, row: Row | None, digits: int) -> Cell:
        if row is None or row["ours"] is None:
            return None
        ours, spread, published = (cell_text(row[key], digits) for key in ("ours", "spread", "published"))
        shown = f"{ours} ± {spread}" if self.has_spread and row["spread"] is not None else ours
        return shown if row["published"] is None else f"{shown} ({published})"


def listed_commits(commits: Iterable[str]) -> str:
    """Return the different commits of rows as a list in words."""
    return ", ".join(sorted(set(commits)))


def selected_tables(folder: Path, selections: Mapping[str, Selection]) -> dict[str, Any]:
    """Return the tables of a page by place, and a remark on their rows under ``measured``."""
    names = dict.fromkeys(selection.artifact for selection in selections.values())
    rows = {name: read_rows(folder, name) for name in names}
    commits = listed_commits(row["commit"] for found in rows.values() for row in found)
    commands = ", ".join(f"`{name}`" for name in names)
    measured = (
        f"Published numbers stand in brackets. `allocopt reproduce NAME` prints all rows: {commands}; measured at "
        "commit "
        f"{commits}."
    )
    return {"measured": measured, **{place: of.table(rows[of.artifact]) for place, of in selections.items()}}


def text_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table without columns of numbers."""
    return aligned_table(header, rows, (None,) * len(header))


def claims_section(paper: str) -> str:
    """Return the beginning of a paper's page: its main claim and the table of all claims, from its ``claims.toml``."""
    found = tomllib.loads((Path(__file__).parent / paper / "claims.toml").read_text(encoding="utf-8"))
    table = text_table(("of the paper", "claim", "as the paper claims", "here"), found["claims"])
    return f"{found['claim']}\n\n{table}"


def write_figure(name: str, title: str, draw: Callable[[Colours], Sequence[Panel]], series: Sequence[str] = ()) -> None:
    """Write ``docs/results/NAME.svg``; ``series`` are the names of the legend."""
    Figure(name, title, title, draw, series=tuple(series)).write(RESULTS / f"{name}.svg")


def write_lines(
    name: str,
    title: str,
    parts: Mapping[str, Lines],
    x: str,
    *,
    logarithmic: str = "",
    ticks: Sequence[tuple[float, str]] = (),
) -> None:
    """Write ``docs/results/NAME.svg`` with a panel of lines for each part.

    ``parts`` has the lines of each panel, by the title of its ordinate; lines of the same name look the same in all
    panels. ``logarithmic`` lists the logarithmic axes, as in ``xy``; without ``ticks`` abscissas have round numbers.
    """
    names = list(dict.fromkeys(line for lines in parts.values() for line in lines))

    def axis(which: str, values: FloatArray, title: str = "") -> Axis:
        known = values[np.isfinite(values)]
        if which in logarithmic:
            return Axis.log(known.min(), known.max(), title)
        return Axis.linear(known, title, is_tight=which == "x")

    def draw(colours: Colours) -> list[Panel]:
        panels = []
        for part, lines in parts.items():
            xs, ys = (np.concatenate([line[place] for line in lines.values()]).astype(float) for place in (0, 1))
            across = axis("x", xs, x)
            across = replace(across, ticks=ticks or across.ticks)
            panel = Panel(colours, across, axis("y", ys), 300, part, WIDTH if len(parts) > 1 else 700)
            for label, points in lines.items():
                series = names.index(label)
                # More points than fit into a panel would only make the file large.
                kept = np.unique(np.linspace(0, len(points[0]) - 1, 500).round().astype(int))
                along, up = (np.asarray(values, dtype=float)[kept] for values in points)
                panel.line(series, along, up, label)
                if len(kept) <= _MOST_POINTS:
                    panel.points(series, along, up)
            panels.append(panel)
        return panels

    write_figure(name, title, draw, names if len(names) > 1 else ())


def page_parser(about: str | None, quick: str = "", data: str = "", *, rows: bool = False) -> ArgumentParser:
    """Return the parser of a program that writes a page.

    It has ``--quick`` and ``--data`` if their descriptions are given, and ``--rows`` if requested.
    """
    parser = ArgumentParser(description=about)
    if quick:
        parser.add_argument("--quick", action="store_true", help=f"{quick}; the page is not written")
    if data:
        # The data is not part of the project.
        parser.add_argument("--data", type=Path, default=_DATA, help=f"read {data} in this folder")
    if rows:
        help_text = "read the files of the reproductions in this folder"
        parser.add_argument("--rows", type=Path, default=Path("reproduced"), help=help_text)
    return parser


def write_page(
    name: str, title: str, claim: str, sections: Sequence[str], assumed: str, *, is_quick: bool = False
) -> None:
    """Write ``docs/results/NAME.md``, and print it; with ``is_quick`` only print the sections.

    ``claim`` states the result with its main number, ``sections`` are the tables and findings that support it, and
    ``assumed`` states how it was measured, and its limits. After every new measurement check the claim again.
    """
    if is_quick:
        _show("\n\n".join(sections), "")
        return
    _show("\n\n".join([f"# {title}", claim, *sections, f"## Assumed\n\n{assumed}", _how()]), name)


def write_template(module: str, name: str, places: Mapping[str, Any], is_quick: bool = False) -> None:
    """Write ``docs/results/NAME.md`` from the template of a module, and print it; with ``is_quick`` only print it.

    The template of ``page.py`` is ``page.md``, with names of ``places`` in braces. The places ``claims`` (see
    `claims_section`) and ``how`` (command and commit) are always defined. A section is left out if it has a place whose
    value is None.
    """
    template = Path(module).with_suffix(".md")
    known = {"how": _how(), "claims": claims_section(template.parent.name), **places}
    sections = re.split("^(?=## )", template.read_text(encoding="utf-8"), flags=re.MULTILINE)
    wanted = {part: [known[place] for _, place, _, _ in Formatter().parse(part) if place] for part in sections}
    text = "".join(part.format_map(known) for part, values in wanted.items() if None not in values).rstrip()
    _show(text, "" if is_quick else name)


def _show(text: str, name: str) -> None:
    if name:
        write_text(RESULTS / f"{name}.md", text + "\n")
    print(text + "\n")


def _how() -> str:
    facts = provenance()
    spec = sys.modules["__main__"].__spec__
    script = f"benchmarks/{Path(sys.argv[0]).name}" if spec is None else f"-m {spec.name}"
    # Show only the name of a path, because folders differ between machines.
    arguments = (Path(one).name if Path(one).is_absolute() else one for one in sys.argv[1:])
    machine = f", {facts['machine']}, Python {facts['python']}"
    elsewhere = "" if machine == _USUAL_MACHINE else machine
    return f"`python {' '.join([script, *arguments])}`, commit {facts['commit']}{elsewhere}."
