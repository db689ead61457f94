"""Reproductions of tables and figures of papers: each paper has a folder, whose ``ARTIFACTS`` are found by name.

They are part of a checkout, not of the distribution, and may import all other packages.
"""

from importlib import import_module
from pathlib import Path

from papers.artifact import Artifact


def artifacts() -> dict[str, Artifact]:
    """Return every table and figure by name, one paper after the other."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))
    return {made.name: made for folder in folders for made in import_module(f"papers.{folder}").ARTIFACTS}
