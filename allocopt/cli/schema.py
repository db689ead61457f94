"""``allocopt schema``."""

import json
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import typer

SchemaName = Literal["instance", "solution", "best-known", "platform", "simulation", "solve", "result"]


def command(
    what: Annotated[
        SchemaName, typer.Argument(help="Format of a file; simulation and solve are the formats of --spec.")
    ] = "instance",
) -> None:
    """Print the JSON Schema of a file format."""
    print(json.dumps(_json_schema(what), indent=2))


def _json_schema(what: SchemaName) -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of a file format.

    It describes only the structure. That nodes exist, are distinct and suffice is checked when a problem is read.
    """
    from pydantic import TypeAdapter

    from allocopt.cluster.platform_files import PlatformFile
    from allocopt.experiments.results import ResultModel
    from allocopt.experiments.specs import SimulationSpec, SolveSpec
    from allocopt.problems.kind import working_kinds
    from allocopt.solving.solution_files import BestKnownFile

    # These include the kinds of plug-ins, whose files have a schema, too.
    kinds = working_kinds()
    codecs = [kind.codec for kind in kinds]
    names = ", ".join(kind.name for kind in kinds)
    shapes: dict[str, Any] = {
        "instance": reduce(or_, (codec.instance_model for codec in codecs)),
        "solution": reduce(or_, (codec.solution_model for codec in codecs)),
        "best-known": BestKnownFile,
        "platform": PlatformFile,
        "simulation": SimulationSpec,
        "solve": SolveSpec,
        "result": ResultModel,
    }
    descriptions = {
        "instance": f"One problem of a kind: {names}.",
        "solution": f"A solver's answer to one instance of a kind: {names}.",
    }
    schema = TypeAdapter(shapes[what]).json_schema()
    if what in descriptions:
        schema["description"] = descriptions[what]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": f"allocopt {what} file"}
