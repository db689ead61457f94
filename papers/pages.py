"""Result pages: what was run, where, at which commit, and the tables and plots that came out."""

import json
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allocopt.files.writing import write_text
from allocopt.report.provenance import package_versions, provenance
from allocopt.report.table import aligned_table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"

Row = dict[str, Any]
"""A row that ``allocopt reproduce`` wrote."""


def read_rows(folder: Path, name: str) -> list[Row]:
    """Read the rows of a reproduction; none where it was not run."""
    path = folder / f"{name}.json"
    rows: list[Row] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return rows


def by_place(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """Return rows by their names and columns."""
    return {(row["row"], row["column"]): row for row in rows}


def measured_at(rows: Sequence[Row]) -> str:
    """Return the line that says at which commits some rows were measured."""
    return f"Rows measured at commit {', '.join(sorted({row['commit'] for row in rows}))}."


def rows_table(rows: Sequence[Row], decimals: int = 2) -> str:
    """Return rows as they are; ``decimals`` of ours and of the spread."""
    keys = ("row", "column", "published", "ours", "spread", "n")
    return aligned_table(keys, [[row[key] for key in keys] for row in rows], (None, None, 2, decimals, decimals, 0))


def claims_section(paper: str) -> str:
    """Return the section that says which claims of a paper came out, from its ``claims.toml``."""
    claims = tomllib.loads((Path(__file__).parent / paper / "claims.toml").read_text(encoding="utf-8"))["claims"]
    header = ("of the paper", "claim", "as the paper claims", "here")
    text = "Diagrams and settings claim nothing and are left out."
    return f"## What the paper claims\n\n{text}\n\n" + aligned_table(header, claims, (None,) * len(header))


def pyplot(salt: str) -> Any:
    """Return pyplot, set so that plots are the same whenever the figures are: text as text, names not at random."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 9})
    from matplotlib import pyplot as plt

    return plt


def saved(figure: Any, name: str, title: str) -> str:
    """Write a plot as ``docs/results/NAME.svg``, and return what shows it on a page."""
    figure.savefig(RESULTS / f"{name}.svg", metadata={"Date": None})
    return f"![{title}]({name}.svg)"


def write_page(name: str, title: str, intent: str, sections: Sequence[str]) -> None:
    """Write ``docs/results/NAME.md``, and print it.

    Parameters
    ----------
    name
        Name of the page.
    title
        Its heading.
    intent
        What was measured, and how.
    sections
        Tables and findings, in order.
    """
    facts = provenance()
    versions = ", ".join(f"{package} {version}" for package, version in package_versions().items())
    spec = sys.modules["__main__"].__spec__
    script = f"benchmarks/{Path(sys.argv[0]).name}" if spec is None else f"-m {spec.name}"
    header = [
        f"# {title}",
        intent,
        f"`python {' '.join([script, *map(_shown, sys.argv[1:])])}`, allocopt {facts.version}, commit {facts.commit}, "
        f"{facts.machine}, Python {facts.python}; {versions}.",
    ]
    text = "\n\n".join([*header, *sections]) + "\n"
    write_text(RESULTS / f"{name}.md", text)
    print(text)


def _shown(argument: str) -> str:
    """Return an argument as a page shows it: of a path only the name, for folders differ from machine to machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument
