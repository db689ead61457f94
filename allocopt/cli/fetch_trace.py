"""``allocopt fetch-trace``: fetch traces by name and keep them for the user."""

import json
import sys
from typing import Annotated

import typer

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed


def command(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a trace; if not given, list all traces.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Fetch the file from this http or https address, not from the known one.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="Expect this checksum of the decompressed file, not the known one.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch a trace, check it, keep it in the user's cache folder, and print its path.

    Other commands take the NAME of a fetched trace wherever they take a file of jobs.
    """
    from allocopt.errors import UsageError
    from allocopt.traces.fetch import SOURCES, TraceSource, cached_trace

    if name is None:
        if url is not None or sha256 is not None:
            raise UsageError("--url and --sha256 need the name of a trace: allocopt fetch-trace NAME")
        paths = {key: cached_trace(key) for key in SOURCES}
        for key, known in SOURCES.items() if as_json else ():
            there = {"name": key, "path": paths[key] and str(paths[key]), "url": known.url, "sha256": known.sha256}
            print(json.dumps(there))
        if not as_json:
            print(listed({key: known.about + "; fetched" * bool(paths[key]) for key, known in SOURCES.items()}))
        return
    source = TraceSource.known(name, url, sha256)
    path = source.fetch()
    # The archive makes this a condition of use.
    print("allocopt: acknowledge the archive of this trace and the people named in its header", file=sys.stderr)
    row = {"name": source.name, "path": str(path), "url": source.url, "sha256": source.sha256}
    print(json.dumps(row) if as_json else path)
