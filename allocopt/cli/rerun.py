"""``allocopt rerun``."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.options import Json, file_argument

_TIMES = ("runtime_s", "jobs_per_s")


def command(
    result: Annotated[Path, file_argument("File that solve or simulate wrote with --out.")], as_json: Json = False
) -> None:
    """Run again what a result file holds, and compare the rows, their times of computing left out.

    Nothing is written, whatever options of the policy say.
    Exit code 0 when they are the same, 1 when they differ, 3 when an input has changed since.
    """
    from allocopt.cli import simulate, solve
    from allocopt.errors import BadFileError
    from allocopt.experiments.results import ResultModel
    from allocopt.experiments.specs import SimulationSpec, SolveSpec
    from allocopt.report.provenance import provenance

    stored, spec, changed = ResultModel.read(result)
    if changed:
        raise BadFileError(f"{result}: inputs: {', '.join(changed)} changed since, or cannot be found")
    # Another version may well give the same rows: it is remarked, and the rows decide.
    was, now = stored.made_by, provenance()
    for name in ("version", "commit"):
        if was.get(name) != now[name]:
            print(f"allocopt: {result}: made by {name} {was.get(name)}, this is {now[name]}", file=sys.stderr)
    if isinstance(spec, SimulationSpec):
        # A file from elsewhere must not choose what is written here.
        rows = simulate.run(spec, simulate.SimulateOptions(as_json=as_json), remembers=False)
    else:
        assert isinstance(spec, SolveSpec)
        rows = solve.run(spec, solve.SolveOptions(as_json=as_json))
    columns = {
        name
        for before, after in zip(stored.rows, rows, strict=False)
        for name in before.keys() | after.keys()
        if name not in _TIMES and before.get(name) != after.get(name)
    }
    if columns or len(stored.rows) != len(rows):
        print(
            f"allocopt: {result}: other rows than before, in {', '.join(sorted(columns)) or 'number'}", file=sys.stderr
        )
        raise typer.Exit(1)
    print(f"allocopt: {result}: the same rows as before", file=sys.stderr)
