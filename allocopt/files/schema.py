"""JSON Schema of the file formats, published from the models that the readers use."""

from typing import Literal

from pydantic import BaseModel

from allocopt.files.models import BestKnownFile, InstanceModel, SolutionModel

SchemaName = Literal["instance", "solution", "best-known"]

_MODELS: dict[SchemaName, type[BaseModel]] = {
    "instance": InstanceModel,
    "solution": SolutionModel,
    "best-known": BestKnownFile,
}


def json_schema(what: SchemaName) -> dict[str, object]:
    """JSON Schema (draft 2020-12) of a file format.

    It describes the structure; that nodes exist, are distinct and suffice is checked when a problem is made.
    """
    schema = _MODELS[what].model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": f"allocopt {what} file",
    }
