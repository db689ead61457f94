"""Arguments and options that several commands share.

No path has to be ``readable``: whoever opens it says what is wrong, in one line and with the right exit code.
"""

from pathlib import Path
from typing import Annotated

import typer

LARGEST = 1_000_000_000
"""Largest number, size or time that an option takes: beyond any that makes sense, and safe from overflow."""

Instances = Annotated[
    list[Path],
    typer.Argument(
        readable=False,
        metavar="INSTANCE",
        help="Instance files (.json, .json.gz, .jsonl, .jsonl.gz), or instances that come along: @tiny are windows, "
        "@knapsacks knapsacks, @coallocations co-allocations.",
    ),
]
TimeLimit = Annotated[float | None, typer.Option(help="Limit on each solve, in seconds of wall clock.")]
Iterations = Annotated[
    int | None, typer.Option(max=2**63 - 1, help="Limit on the solver's own steps; if not given, its default.")
]
Gap = Annotated[
    float,
    typer.Option(min=0.0, help="Stop once solution and proven bound are this close, as a fraction (0.01 is 1 %)."),
]
Trajectory = Annotated[
    Path | None,
    typer.Option(
        readable=False, help="Write every incumbent and bound over time to this .csv file, which `report` draws."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")]
