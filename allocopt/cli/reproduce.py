"""``allocopt reproduce``."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from allocopt.cli.grids import Workers
from allocopt.cli.options import Json, file_option
from allocopt.cli.parameters import names_of
from allocopt.cli.terminal import listed, screen_width

if TYPE_CHECKING:
    from allocopt.experiments.cells import Cell, Row


def command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Name of a table or figure; if not given, list all.",
            autocompletion=names_of("artifacts"),
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Reproduce a part in about a minute.")] = False,
    seeds: Annotated[str, typer.Option(help="Run with each of these seeds, comma-separated.")] = "0",
    data: Annotated[
        Path,
        typer.Option(
            readable=False, envvar="ALLOCOPT_DATA", help="Read the papers' data from this folder, with tjap/ in it."
        ),
    ] = Path("../shared/data"),
    workers: Workers = None,
    out: Annotated[
        Path | None, file_option("Write the rows to this .json file; if not given, reproduced/NAME[-quick].json.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            help="Set an option of the reproduction: NAME=VALUE; dras-figure7 has the option trained=FOLDER.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of a paper: every number beside the published one.

    An interrupted run continues when the same command is started again.
    """
    from allocopt.cli.grids import finished_rows, whole_numbers
    from allocopt.cli.spec_options import parse_options
    from allocopt.errors import AllocoptError
    from allocopt.experiments.grids import reproduction_grid
    from allocopt.files.writing import write_text
    from allocopt.report.provenance import provenance
    from allocopt.report.words import aligned_table
    from allocopt.reproduction import ReproductionRequest, get_reproduction, reproduction_names

    if name is None:
        titles = {}
        for known in reproduction_names():
            try:
                titles[known] = get_reproduction(known).title
            except AllocoptError as error:
                titles[known] = f"broken: {error}"
        print(listed(titles))
        return
    options = parse_options(option or [])
    request = ReproductionRequest(data, quick, whole_numbers(seeds))
    grid = reproduction_grid(name, options, request)
    path = out or Path("reproduced") / f"{name}{'-quick' if quick else ''}.json"
    records: dict[str, dict[str, Any]] = {}

    def take(cell: "Cell", row: "Row") -> None:
        piece = cell.identity["piece"]
        records[piece] = row["record"]
        share = 100 * len(records) / len(grid.cells)
        print(f"allocopt: {share:5.1f} % {piece}", file=sys.stderr, flush=True)

    setting = {**request.as_dict(), "options": options}
    # Fresh processes: one piece must not leave settings, such as those of torch, for the next one.
    with finished_rows(path, grid, setting, workers, take, "pieces", fresh=True):
        rows = get_reproduction(name, options).rows(request, records)
        # In every row, so that rows of several runs stay distinguishable after they are merged.
        facts = provenance()
        lines = [json.dumps({**asdict(row), **facts}, allow_nan=False) for row in rows]
        write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")
    if as_json:
        print("\n".join(json.dumps(asdict(row), allow_nan=False) for row in rows))
        return
    header = ("row", "column", "published", "ours", "spread", "n")
    cells = [[row.row, row.column, row.published, row.ours, row.spread, row.n] for row in rows]
    print(aligned_table(header, cells, (None, None, 2, 2, 2, 0), screen_width()))
