"""Options and output that the fits of a processor's models share."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from allocopt.simulator.multicore.fitting import Fit

Out = Annotated[
    Path | None, typer.Option(readable=False, help="Write the constants there, as JSON that a platform file takes.")
]
Plot = Annotated[
    Path | None,
    typer.Option(readable=False, help="Draw measured and fitted values and residuals (.svg, .png or .pdf)."),
]


def show_fit(model: str, fit: "Fit", out: Path | None, plot: Path | None, quantity: str, as_json: bool) -> None:
    """Write the files that are asked for, and print the constants with the residuals.

    Parameters
    ----------
    model
        Key of the constants in a platform file.
    fit
        What came out.
    out, plot
        Files to write, if any.
    quantity
        What was measured, with its unit.
    as_json
        Whether to print JSON.
    """
    from allocopt.files.writing import json_by_line, write_text

    if plot is not None:
        from allocopt.report.residual_plot import write_residual_plot

        write_residual_plot(plot, f"{model}: measured and fitted", quantity, fit.measured, fit.predicted)
    constants = asdict(fit.constants)
    if out is not None:
        write_text(out, json_by_line({model: constants}))
    row: dict[str, str | float | int | None] = {
        "model": model,
        **constants,
        "measurements": len(fit.measured),
        "residual": fit.residual,
        "largest_residual": fit.largest_residual,
        "explained": fit.explained,
    }
    if as_json:
        print(json.dumps(row, allow_nan=False))
        return
    for name, value in row.items():
        print(f"{name:18}{value:.6g}" if isinstance(value, float) else f"{name:18}{value}")
