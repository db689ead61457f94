"""JSON Schema of the file formats, published from the models that the readers use."""

from functools import reduce
from operator import or_
from typing import Any, Literal

from pydantic import TypeAdapter

from allocopt.cluster.platform_files import PlatformFile
from allocopt.files.kinds import KINDS
from allocopt.files.models import BestKnownFile

SchemaName = Literal["instance", "solution", "best-known", "platform"]

_MODELS: dict[SchemaName, Any] = {
    "instance": reduce(or_, (kind.instance for kind in KINDS.values())),
    "solution": reduce(or_, (kind.solution for kind in KINDS.values())),
    "best-known": BestKnownFile,
    "platform": PlatformFile,
}
_DESCRIPTIONS: dict[SchemaName, str] = {
    "instance": f"One problem of a kind: {', '.join(KINDS)}.",
    "solution": f"A solver's answer to one instance of a kind: {', '.join(KINDS)}.",
}


def json_schema(what: SchemaName) -> dict[str, object]:
    """JSON Schema (draft 2020-12) of a file format.

    It describes the structure; that nodes exist, are distinct and suffice is checked when a problem is made.
    """
    schema = TypeAdapter(_MODELS[what]).json_schema()
    if what in _DESCRIPTIONS:
        schema["description"] = _DESCRIPTIONS[what]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"allocopt {what} file",
    }
