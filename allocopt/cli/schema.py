"""``allocopt schema``."""

import json
from typing import Annotated, Literal

import typer


def command(
    what: Annotated[
        Literal["instance", "solution", "best-known", "platform"], typer.Argument(help="Which format.")
    ] = "instance",
) -> None:
    """Print the JSON Schema of a file format."""
    from allocopt.files.schema import json_schema

    print(json.dumps(json_schema(what), indent=2))
