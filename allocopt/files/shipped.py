"""Instances that come with the package, by name, so that an installed wheel has something to solve."""

from importlib.resources import files
from pathlib import Path

from allocopt.errors import UsageError

SHIPPED = {"@tiny": "tiny.jsonl", "@knapsacks": "knapsacks.jsonl", "@coallocations": "coallocations.jsonl"}


def instance_path(argument: Path) -> Path:
    """Return the file that a path or the name of shipped instances stands for.

    Raises
    ------
    UsageError
        If it begins like such a name and is none.
    """
    name = str(argument)
    if not name.startswith("@") or argument.exists():
        return argument
    if name not in SHIPPED:
        raise UsageError(f"there are no shipped instances {name!r}; there are {', '.join(SHIPPED)}")
    return Path(str(files("allocopt.data").joinpath(SHIPPED[name])))
