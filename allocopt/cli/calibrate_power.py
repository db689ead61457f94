"""``allocopt calibrate power``: what a processor draws with so many active cores."""

from pathlib import Path
from typing import Annotated

import typer

from allocopt.cli.calibrate_options import Out, Plot, show_fit
from allocopt.cli.options import Json

COLUMNS = ("active_cores", "power_w")
STALLED = "stalled_cores"

Source = Annotated[
    Path,
    typer.Argument(
        readable=False,
        metavar="FILE.csv",
        help="Measured powers of a processor, one a line, with the columns active_cores (0 for idle), power_w and, if "
        "known, stalled_cores: the sum over its tasks of 1 - speed factor.",
    ),
]


def command(source: Source, out: Out = None, plot: Plot = None, as_json: Json = False) -> None:
    """Fit a processor's power: processor_w + core_w x active cores, less where these wait for memory."""
    import numpy as np

    from allocopt.cli.outputs import check_files_differ
    from allocopt.errors import InvalidProblemError
    from allocopt.files.csv_rows import read_columns
    from allocopt.files.faults import bad_file
    from allocopt.simulator.multicore.fitting import Powers

    check_files_differ(source, out, plot)
    columns = read_columns(source, COLUMNS, (STALLED,))
    active, power = (columns[name] for name in COLUMNS)
    try:
        fit = Powers(active, columns.get(STALLED, np.zeros(len(active))), power).fit()
    except InvalidProblemError as error:
        raise bad_file(source, str(error)) from None
    show_fit("power", fit, out, plot, "watts", as_json)
