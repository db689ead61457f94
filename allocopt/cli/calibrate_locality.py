"""``allocopt calibrate locality``: how much longer jobs take where they were put."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import Json
from allocopt.cli.screen import screen_width

if TYPE_CHECKING:
    from allocopt.simulator.locality import FittedLine

Source = Annotated[
    Path,
    typer.Argument(
        readable=False,
        metavar="FILE.csv",
        help="Measured jobs, one a line, with the columns workload (compute, network or unknown), policy (depth-first "
        "or breadth-first), gpus, requested_s and service_s, in seconds.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(readable=False, help="Write the coefficients there, as JSON that the model reads.")
]


def command(source: Source, out: Out = None, as_json: Json = False) -> None:
    """Fit the locality penalty: service time - requested time = base + GPUs x slope, by workload type and policy."""
    from allocopt.cli.outputs import check_files_differ
    from allocopt.errors import InvalidProblemError
    from allocopt.files.faults import bad_file
    from allocopt.simulator.locality import PenaltyTable, fit, read_measured

    check_files_differ(source, out)
    jobs = read_measured(source)
    try:
        fitted = fit(jobs)
    except InvalidProblemError as error:
        raise bad_file(source, str(error)) from None
    if out is not None:
        PenaltyTable({(one.workload, one.policy): one.line for one in fitted}).write(out)
    _print(fitted, as_json)


def _print(fitted: "list[FittedLine]", as_json: bool) -> None:
    """Print a row per workload type and policy."""
    rows = [_row(one) for one in fitted]
    if as_json:
        print("\n".join(json.dumps(row, allow_nan=False) for row in rows))
        return
    from allocopt.report.table import aligned_table

    digits = (None, None, 4, 6, 0, 4, 4, 4)
    print(aligned_table(tuple(rows[0]), [tuple(row.values()) for row in rows], digits, screen_width()))


def _row(one: "FittedLine") -> dict[str, str | float | int | None]:
    """Return a fitted line as ``--json`` prints it."""
    return {
        "workload": one.workload.label,
        "policy": one.policy.label,
        "base_s": one.line.base,
        "per_gpu_s": one.line.per_gpu,
        "jobs": one.jobs,
        "residual_s": one.residual_s,
        "largest_residual_s": one.largest_residual_s,
        "explained": one.explained,
    }
