"""``allocopt fetch-trace``: traces by name, kept for the user."""

import json
import sys
from typing import Annotated

import typer

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a trace; without one, all are listed.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Where the file is, if not where it is known to be: http or https.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="Checksum of the file when it is decompressed, if not the one that is known.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a trace, check it, keep it in the user's cache folder, and print where it is.

    Other commands take the NAME of a trace that has been fetched wherever they take a file of jobs.
    """
    from allocopt.errors import UsageError
    from allocopt.traces.fetch import SOURCES, TraceSource, cached_trace

    if name is None:
        if url is not None or sha256 is not None:
            raise UsageError("--url and --sha256 are those of a trace: give it a name")
        paths = {key: cached_trace(key) for key in SOURCES}
        for key, known in SOURCES.items() if as_json else ():
            there = {"name": key, "path": paths[key] and str(paths[key]), "url": known.url, "sha256": known.sha256}
            print(json.dumps(there))
        if not as_json:
            print(listed({key: known.about + "; fetched" * bool(paths[key]) for key, known in SOURCES.items()}))
        return
    source = TraceSource.known(name, url, sha256)
    path = source.fetch()
    # The archive lets its traces be used on this condition.
    print("allocopt: acknowledge the archive it is from and those whom its header names", file=sys.stderr)
    row = {"name": source.name, "path": str(path), "url": source.url, "sha256": source.sha256}
    print(json.dumps(row) if as_json else path)
