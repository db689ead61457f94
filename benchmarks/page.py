"""Result pages: what was run, where, at which commit, and the table that came out."""

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from allocopt.files.writing import write_text
from allocopt.report.provenance import package_versions, provenance
from allocopt.report.table import aligned_table

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"


def claims_section(paper: str) -> str:
    """Return the section that says which claims of a paper came out, from ``claims.toml``."""
    claims = tomllib.loads((Path(__file__).parent / "claims.toml").read_text(encoding="utf-8"))[paper]
    header = ("of the paper", "claim", "as the paper claims", "here")
    text = "Diagrams and settings claim nothing and are left out."
    return f"## What the paper claims\n\n{text}\n\n" + aligned_table(header, claims, (None,) * len(header))


def write_page(name: str, title: str, intent: str, sections: Sequence[str]) -> None:
    """Write ``docs/results/NAME.md``, and print it.

    Parameters
    ----------
    name
        Name of the page and of the script.
    title
        Its heading.
    intent
        What was measured, and how.
    sections
        Tables and findings, in order.
    """
    facts = provenance()
    versions = ", ".join(f"{package} {version}" for package, version in package_versions().items())
    header = [
        f"# {title}",
        intent,
        f"`python benchmarks/{' '.join([name + '.py', *map(_shown, sys.argv[1:])])}`, allocopt {facts.version}, commit "
        f"{facts.commit}, {facts.machine}, Python {facts.python}; {versions}.",
    ]
    text = "\n\n".join([*header, *sections]) + "\n"
    write_text(RESULTS / f"{name}.md", text)
    print(text)


def _shown(argument: str) -> str:
    """Return an argument as a page shows it: of a path only the name, for folders differ from machine to machine."""
    return Path(argument).name if Path(argument).is_absolute() else argument
