"""``allocopt fetch-trace``: traces by name, kept for the user."""

import json
import sys
from typing import Annotated

import typer

from allocopt.cli.options import Json
from allocopt.cli.terminal import listed

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Name of a trace; without one, all are listed.")]
Url = Annotated[str | None, typer.Option(help="Where the file is, if not where it is known to be: http or https.")]
Sha256 = Annotated[
    str | None, typer.Option(help="Checksum of the file when it is decompressed, if not the one that is known.")
]


def command(name: Name = None, url: Url = None, sha256: Sha256 = None, as_json: Json = False) -> None:
    """Fetch a trace, check it, keep it in the user's cache folder, and print where it is.

    Other commands take the NAME of a trace that has been fetched wherever they take a file of jobs.
    """
    from allocopt.errors import UsageError
    from allocopt.traces.fetch import known_source

    if name is None:
        if url is not None or sha256 is not None:
            raise UsageError("--url and --sha256 are those of a trace: give it a name")
        return _list(as_json)
    source = known_source(name, url, sha256)
    path = source.fetch()
    # The archive lets its traces be used on this condition.
    print("allocopt: acknowledge the archive it is from and those whom its header names", file=sys.stderr)
    row = {"name": source.name, "path": str(path), "url": source.url, "sha256": source.sha256}
    print(json.dumps(row) if as_json else path)


def _list(as_json: bool) -> None:
    """List the traces that are known by name."""
    from allocopt.traces.fetch import SOURCES, cached_trace

    paths = {name: cached_trace(name) for name in SOURCES}
    if not as_json:
        print(listed({name: f"{source.about}{'; fetched' if paths[name] else ''}" for name, source in SOURCES.items()}))
        return
    for name, source in SOURCES.items():
        row = {"name": name, "path": None if paths[name] is None else str(paths[name]), "url": source.url}
        print(json.dumps({**row, "sha256": source.sha256}))
