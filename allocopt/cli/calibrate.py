"""``allocopt calibrate``: fit the coefficients of execution models to a user's own measurements."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import Json, check_files_differ, file_argument, file_option
from allocopt.cli.terminal import screen_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from allocopt.arrays import FloatArray
    from allocopt.cluster.multicore import ContentionConstants, PowerConstants
    from allocopt.simulator.fitting import Fit

    Constants = ContentionConstants | PowerConstants
    Columns = Mapping[str, FloatArray]

app = typer.Typer(no_args_is_help=True, help="Fit the coefficients of an execution model to your own measurements.")

Out = Annotated[Path | None, file_option("Write the constants to this file, as JSON for a platform file.")]
Plot = Annotated[Path | None, file_option("Draw measured and fitted values and residuals (.svg, .png or .pdf).")]
_SLOWDOWNS = ("rate_mb_s", "others_rate_mb_s", "others", "factor")
_POWERS, _STALLED = ("active_cores", "power_w"), "stalled_cores"
_QUANTITIES = {"contention": "speed factor", "power": "watts"}


@app.command("contention")
def _contention(
    source: Annotated[
        Path,
        file_argument(
            "Measured tasks, one per line, with the columns rate_mb_s (access rate of the task without others), "
            "others_rate_mb_s (sum of the rates of the other tasks on the processor), others (number of these tasks) "
            "and factor (time without others / time with them).",
            metavar="FILE.csv",
        ),
    ],
    sharing: Annotated[
        float, typer.Option(help="Multiply the number of other tasks by this in the floor of the speed factor.")
    ] = 1.0,
    out: Out = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit the speed factor: piecewise linear in the total rate, with a floor that depends on rates and other tasks."""
    from allocopt.simulator.fitting import fit_contention

    def fit(columns: "Columns") -> "Fit[Constants]":
        rate, others_rate, others, factor = (columns[name] for name in _SLOWDOWNS)
        return fit_contention(rate, others_rate, others, factor, sharing)

    _fit("contention", fit, source, _SLOWDOWNS, out, plot, as_json)


@app.command("locality")
def _locality(
    source: Annotated[
        Path,
        file_argument(
            "Measured jobs, one per line, with the columns workload (compute, network or unknown), policy "
            "(depth-first or breadth-first), gpus, requested_s and service_s (both in seconds).",
            metavar="FILE.csv",
        ),
    ],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Fit the locality penalty: service time - requested time = base + GPUs x slope, by workload type and policy."""
    from allocopt.files.faults import problem_faults_named
    from allocopt.report.words import aligned_table
    from allocopt.simulator.fitting import fit_locality
    from allocopt.simulator.locality import Measured, PenaltyTable

    check_files_differ(source, out)
    jobs = Measured.read(source)
    with problem_faults_named(source):
        fitted = fit_locality(jobs)
    if out is not None:
        PenaltyTable({(one.workload, one.policy): one.fit.constants for one in fitted}).write(out)
    rows = [
        {
            "workload": one.workload.label,
            "policy": one.policy.label,
            "base_s": one.fit.constants.base,
            "per_gpu_s": one.fit.constants.per_gpu,
            "jobs": len(one.fit.measured),
            "residual_s": one.fit.residual,
            "largest_residual_s": one.fit.largest_residual,
            "explained": one.fit.explained,
        }
        for one in fitted
    ]
    if as_json:
        print("\n".join(json.dumps(row, allow_nan=False) for row in rows))
    else:
        digits = (None, None, 4, 6, 0, 4, 4, 4)
        print(aligned_table(tuple(rows[0]), [tuple(row.values()) for row in rows], digits, screen_width()))


@app.command("power")
def _power(
    source: Annotated[
        Path,
        file_argument(
            "Measured power of a processor, one value per line, with the columns active_cores (0 if idle), power_w "
            "and, if known, stalled_cores: the sum of 1 - speed factor over its tasks.",
            metavar="FILE.csv",
        ),
    ],
    out: Out = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit a processor's power: processor_w + core_w x active cores, less if these wait for memory."""
    import numpy as np

    from allocopt.simulator.fitting import fit_power

    def fit(columns: "Columns") -> "Fit[Constants]":
        active, power = (columns[name] for name in _POWERS)
        return fit_power(active, columns.get(_STALLED, np.zeros(len(active))), power)

    _fit("power", fit, source, _POWERS, out, plot, as_json)


def _fit(
    model: str,
    fit_to: "Callable[[Columns], Fit[Constants]]",
    source: Path,
    needed: "Sequence[str]",
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Fit constants to columns of numbers, write them under the key of the model, and print the residuals."""
    import numpy as np

    from allocopt.files.csv_rows import csv_rows, number_at_least_0
    from allocopt.files.faults import problem_faults_named
    from allocopt.files.writing import json_by_line, write_text

    check_files_differ(source, out, plot)
    columns: dict[str, list[float]] = {}
    for place, row in csv_rows(source, needed, "measurements"):
        for name in (*needed, *({_STALLED} & row.keys())):
            columns.setdefault(name, []).append(number_at_least_0(source, place, row, name, "a number"))
    # The model knows only the names of columns; this adds the name of the file to its errors.
    with problem_faults_named(source):
        fit = fit_to({name: np.array(values) for name, values in columns.items()})
    # The plot comes first: if its format is refused, no constants must have been written.
    if plot is not None:
        from allocopt.report.plot import write_residual_plot

        write_residual_plot(plot, f"{model}: measured and fitted", _QUANTITIES[model], fit.measured, fit.predicted)
    constants = asdict(fit.constants)
    if out is not None:
        write_text(out, json_by_line({model: constants}))
    found: dict[str, str | float | int | None] = {
        "model": model,
        **constants,
        "measurements": len(fit.measured),
        "residual": fit.residual,
        "largest_residual": fit.largest_residual,
        "explained": fit.explained,
    }
    if as_json:
        print(json.dumps(found, allow_nan=False))
        return
    for name, value in found.items():
        print(f"{name:18}{value:.6g}" if isinstance(value, float) else f"{name:18}{value}")
