"""``allocopt reproduce``."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from allocopt.cli.options import Json
from allocopt.cli.screen import listed, screen_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allocopt.report.journal import Journal
    from allocopt.reproduction import Reproduction, ReproductionRequest, ReproductionRow

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Table or figure; if not given, the list of all.")]
Quick = Annotated[bool, typer.Option("--quick", help="A part that takes about a minute.")]
Seeds = Annotated[str, typer.Option(help="Seeds, comma-separated.")]
Data = Annotated[
    Path, typer.Option(readable=False, envvar="ALLOCOPT_DATA", help="Folder with the papers' data, tjap/ in it.")
]
Out = Annotated[
    Path | None,
    typer.Option(readable=False, help="Write the rows to this .json file; if not given, reproduced/NAME[-quick].json."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", help="NAME=VALUE, an option of the reproduction, such as trained=FOLDER of dras-figure7."),
]


def command(
    name: Name = None,
    quick: Quick = False,
    seeds: Seeds = "0",
    data: Data = Path("../shared/data"),
    out: Out = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Do a table or figure of a paper again: every number beside the published one.

    A run that was cut off goes on where it was when it is called again.
    """
    from allocopt.cli.solver_options import parse_options
    from allocopt.files.writing import write_text
    from allocopt.report.journal import Journal
    from allocopt.report.provenance import provenance
    from allocopt.reproduction import ReproductionRequest, get_reproduction

    if name is None:
        _list_all()
        return
    options = parse_options(option or [])
    reproduction = get_reproduction(name, options)
    request = ReproductionRequest(data, quick, _numbers(seeds))
    path = out or Path("reproduced") / f"{name}{'-quick' if quick else ''}.json"
    facts = provenance().as_dict()
    setting = {**request.as_dict(), **({"options": options} if options else {}), **facts}
    with closing(Journal(path, setting)) as journal:
        try:
            rows = _measured(reproduction, request, journal)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the same command goes on from here") from None
        records = [{**row.as_dict(), **facts} for row in rows]
        write_text(path, "[\n" + ",\n".join(json.dumps(record, allow_nan=False) for record in records) + "\n]\n")
        journal.remove()
    if as_json:
        print("\n".join(json.dumps(row.as_dict(), allow_nan=False) for row in rows))
    else:
        print(_table(rows))


def _list_all() -> None:
    """Print names and titles."""
    from allocopt.reproduction import reproduction_names

    print(listed({name: _title(name) for name in reproduction_names()}))


def _title(name: str) -> str:
    """Return the title of a reproduction, or what is wrong with it."""
    from allocopt.errors import AllocoptError
    from allocopt.reproduction import get_reproduction

    try:
        return get_reproduction(name).title
    except AllocoptError as error:
        return f"broken: {error}"


def _numbers(text: str) -> tuple[int, ...]:
    """Turn comma-separated seeds into numbers, each once."""
    from allocopt.errors import UsageError

    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"--seeds must be whole numbers with commas between them, not {text!r}") from None
    if min(numbers) < 0:
        raise UsageError(f"--seeds must not be negative: {text}")
    return numbers


def _measured(
    reproduction: "Reproduction", request: "ReproductionRequest", journal: "Journal"
) -> "list[ReproductionRow]":
    """Measure the pieces that the journal does not hold yet, and return the rows of all."""
    from allocopt.cli.streams import prints_on_stderr

    pieces = reproduction.pieces(request)
    for number, piece in enumerate(pieces, 1):
        if piece not in journal.records:
            with prints_on_stderr():
                journal.add(piece, reproduction.measure(request, piece))
        print(f"allocopt: {100 * number / len(pieces):5.1f} % {piece}", file=sys.stderr, flush=True)
    return reproduction.rows(request, {piece: journal.records[piece] for piece in pieces})


def _table(rows: "Sequence[ReproductionRow]") -> str:
    """Format the rows."""
    from allocopt.report.table import aligned_table

    header = ("row", "column", "published", "ours", "spread", "n")
    cells = [[row.row, row.column, row.published, row.ours, row.spread, row.n] for row in rows]
    return aligned_table(header, cells, (None, None, 2, 2, 2, 0), screen_width())
