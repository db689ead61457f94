"""Instances of several files, which have names of their own."""

from collections.abc import Sequence
from pathlib import Path

from allocopt.errors import BadFileError
from allocopt.files.instance import read_problems
from allocopt.files.shipped import instance_path
from allocopt.problems.base import Problem


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
