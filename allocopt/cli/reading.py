"""Reads the instances that a command line names."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from allocopt.errors import BadFileError, UsageError
from allocopt.files.instance import read_problems
from allocopt.problems.base import Problem

SHIPPED = {"@tiny": "tiny.jsonl", "@knapsacks": "knapsacks.jsonl", "@coallocations": "coallocations.jsonl"}
"""Instances that come with the package, so that an installed wheel has something to solve."""


def instance_path(argument: Path) -> Path:
    """Return the file that an argument names."""
    name = str(argument)
    if not name.startswith("@") or argument.exists():
        return argument
    if name not in SHIPPED:
        raise UsageError(f"there are no shipped instances {name!r}; there are {', '.join(SHIPPED)}")
    return Path(str(files("allocopt.data").joinpath(SHIPPED[name])))


def read_instances(arguments: Sequence[Path]) -> list[Problem]:
    """Read all instances, whose names must differ from file to file as well.

    Raises
    ------
    BadFileError
        If a file is wrong, or two instances have the same name.
    """
    problems: list[Problem] = []
    seen: dict[str, Path] = {}
    for path in map(instance_path, arguments):
        for problem in read_problems(path):
            if problem.name in seen:
                raise BadFileError(
                    f"{path}: name: {problem.name!r} is the name of an instance in {seen[problem.name]} too"
                )
            seen[problem.name] = path
            problems.append(problem)
    return problems
