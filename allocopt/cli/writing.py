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


def instance_names(name: str, count: int) -> list[str]:
    """Name instances that are made together: NAME, or NAME-000 and so on where there are several."""
    names = [name] if count == 1 else [f"{name}-{number:03d}" for number in range(count)]
    return [file_name(each) for each in names]


def write_instances(out: Path, problems: "Sequence[Problem]", asked: int, inputs: "Sequence[Path | None]" = ()) -> None:
    """Write instances to one file or to a folder, and say how many there are.

    Raises
    ------
    UsageError
        If the name of the file is wrong, or an input of the command, None for none, would be overwritten.
    """
    from allocopt.cli.outputs import check_files_differ
    from allocopt.errors import UsageError
    from allocopt.problems.instances import write_problems

    if not problems:
        raise UsageError("no such window came out of the workload: allow other numbers of jobs, skip fewer windows")
    if out.name.removesuffix(".gz").endswith((".json", ".jsonl")):
        check_files_differ(out, read=inputs)
        write_problems(out, problems)
    elif out.suffix and not out.is_dir():
        raise UsageError(
            f"--out {out} must end in .jsonl, .json or these with .gz, or be a folder's name without a dot"
        )
    else:
        paths = [out / f"{problem.name}.json" for problem in problems]
        check_files_differ(*paths, read=inputs)
        for path, problem in zip(paths, problems, strict=True):
            write_problems(path, [problem])
    fewer = "" if len(problems) == asked else f", fewer than the {asked} asked for: the workload has no more"
    typer.echo(f"{out}: instances written: {len(problems)}{fewer}", err=True)
