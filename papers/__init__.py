"""The tables and figures of the papers, done again: a folder for each paper, whose ``ARTIFACTS`` are what is found.

They come with a checkout, not with the distribution, and may import all of it.
"""

from importlib import import_module
from pathlib import Path

from papers.artifact import Artifact


def artifacts() -> dict[str, Artifact]:
    """Return every table and figure by name, a paper after the other."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))
    return {made.name: made for folder in folders for made in import_module(f"papers.{folder}").ARTIFACTS}
