"""Writes the instances that a command has made."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allocopt.problems.base import Problem


def file_name(name: str) -> str:
    """Return a name that files can have."""
    from allocopt.errors import UsageError

    if not name or "/" in name or "\\" in name or name.startswith(".") or not name.isprintable():
        raise UsageError(f"{name!r} cannot name instances and their files: give another name without slashes")
    return name


def write_instances(out: Path, problems: "Sequence[Problem]", asked: int) -> None:
    """Write instances to one file or to a folder, and say how many there are."""
    from allocopt.errors import UsageError
    from allocopt.files.instance import write_problems

    if not problems:
        raise UsageError("no such window came out of the workload: allow other numbers of jobs, skip fewer windows")
    if out.name.removesuffix(".gz").endswith((".json", ".jsonl")):
        write_problems(out, problems)
    elif out.suffix and not out.is_dir():
        raise UsageError(
            f"--out {out} must end in .jsonl, .json or these with .gz, or be a folder's name without a dot"
        )
    else:
        for problem in problems:
            write_problems(out / f"{problem.name}.json", [problem])
    fewer = "" if len(problems) == asked else f", fewer than the {asked} asked for: the workload has no more"
    typer.echo(f"{out}: instances written: {len(problems)}{fewer}", err=True)
