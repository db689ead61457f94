"""``allocopt calibrate contention``: how much tasks slow each other down that share memory channels."""

from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.calibrate_options import Out, Plot, show_fit
from allocopt.cli.options import Json

COLUMNS = ("rate_mb_s", "others_rate_mb_s", "others", "factor")

Source = Annotated[
    Path,
    typer.Argument(
        readable=False,
        metavar="FILE.csv",
        help="Measured tasks, one a line, with the columns rate_mb_s (access rate when alone), others_rate_mb_s (sum "
        "of those of the other tasks on the processor), others (their number) and factor (time alone over time "
        "together).",
    ),
]
Sharing = Annotated[float, typer.Option(help="What the number of others is multiplied with in the floor.")]


def command(source: Source, sharing: Sharing = 1.0, out: Out = None, plot: Plot = None, as_json: Json = False) -> None:
    """Fit the constants of the speed factor: piecewise linear in the rate of all, with a floor by number and rate."""
    from allocopt.cli.outputs import check_files_differ
    from allocopt.errors import InvalidProblemError
    from allocopt.files.csv_rows import read_columns
    from allocopt.files.faults import bad_file
    from allocopt.simulator.multicore.fitting import Slowdowns

    check_files_differ(source, out, plot)
    columns = read_columns(source, COLUMNS)
    try:
        fit = Slowdowns(*(columns[name] for name in COLUMNS)).fit(sharing)
    except InvalidProblemError as error:
        raise bad_file(source, str(error)) from None
    show_fit("contention", fit, out, plot, "speed factor", as_json)
