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
    """Repeat the run of a result file, and compare the rows, except for computing times.

    Nothing is written, even if an option of the policy asks for it.
    The exit code is 0 if the rows are equal, 1 if they differ, 3 if an input file has changed.
    """
    from allocopt.cli import simulate, solve
    from allocopt.errors import BadFileError
    from allocopt.experiments.results import ResultModel
    from allocopt.experiments.specs import SimulationSpec, SolveSpec
    from allocopt.report.provenance import provenance

    stored, spec, changed = ResultModel.read(result)
    if changed:
        raise BadFileError(f"{result}: inputs changed since then, or cannot be found: {', '.join(changed)}")
    # Another version may give the same rows, so this is only a remark.
    was, now = stored.made_by, provenance()
    for name in ("version", "commit"):
        if was.get(name) != now[name]:
            print(f"allocopt: {result}: made by {name} {was.get(name)}, now {now[name]}", file=sys.stderr)
    if isinstance(spec, SimulationSpec):
        # A result file from somebody else must not choose which files are written here.
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
        print(f"allocopt: {result}: rows differ in {', '.join(sorted(columns)) or 'their number'}", file=sys.stderr)
        raise typer.Exit(1)
    print(f"allocopt: {result}: rows are equal", file=sys.stderr)
