"""Models of files, and their validation, which reports the first fault with its place in one line.

Models check only the form of a file. Whether its values fit together is checked when the problem is made.
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from allocopt.files.faults import bad_file, shown
from allocopt.interruption import interrupted_after

INSTANCE_FORMAT, SOLUTION_FORMAT, VERSION = "allocopt-instance", "allocopt-solution", 1
INT64_MAX = 2**63 - 1
LONGEST_NAME = 200  # largest length in bytes of an instance name, which becomes a file name

Model = TypeVar("Model", bound=BaseModel)


class FileModel(BaseModel):
    """Base of models: exact types, no unknown keys, no NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


def printable_text(text: str) -> str:
    """Return the text; raise `ValueError` if it holds control characters or line breaks, which would break output."""
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise ValueError(f"holds the control character U+{ord(character):04X}, must be printable text")
    return text


def _file_stem(name: str) -> str:
    for separator in "/\\":
        if separator in name:
            raise ValueError(f"holds {separator!r}, must be usable as a file name")
    if name in (".", ".."):
        raise ValueError(f"is {name!r}, must be usable as a file name")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"is {len(name.encode())} bytes long, must be at most {LONGEST_NAME}")
    return name


Text = Annotated[str, Field(min_length=1), AfterValidator(printable_text)]
InstanceName = Annotated[
    Text, AfterValidator(_file_stem), Field(description="Name of the instance; usable as a file name.")
]
Positive = Annotated[int, Field(ge=1, le=INT64_MAX)]
Node = Annotated[int, Field(ge=0, le=INT64_MAX)]


def short_number(value: float) -> float:
    """Return a whole number below 1e15 as an integer, any other number unchanged."""
    if isinstance(value, Integral):
        return int(value)
    value = float(value)
    return int(value) if value.is_integer() and value < 1e15 else value


def plain(value: Any) -> Any:
    """Return a value as JSON holds it: dataclasses and mappings as objects, without fields that are None."""
    if is_dataclass(value):
        return plain({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return {name: plain(held) for name, held in value.items() if held is not None}
    if isinstance(value, str):
        return str(value)
    return [plain(held) for held in value] if isinstance(value, tuple | list) else short_number(value)


class InstanceModel(FileModel):
    """Keys that all instance files have; a kind of problem narrows ``kind`` and adds its own keys."""

    format: Literal["allocopt-instance"]
    version: Literal[1]
    kind: str
    name: InstanceName


class SolutionModel(FileModel):
    """A solver's answer to one instance; a kind of problem adds its ``strategy`` and the key of its solution."""

    kind: ClassVar[str]
    answer_key: ClassVar[str]

    format: Literal["allocopt-solution"]
    version: Literal[1]
    instance: InstanceName
    strategy: Annotated[None, Field(description="The kind has no strategies.")] = None
    solver: Annotated[Text, Field(description="Name of the solver.")]
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN", "INTERRUPTED"]
    objective: Annotated[float | None, Field(description="Objective of the solution; null without one.")]
    bound: Annotated[float | None, Field(description="Proven bound; null without one.")]
    seed: Annotated[int | None, Field(description="Seed that the solver was given.")] = None
    solver_version: Annotated[Text | None, Field(description="Version of the solver.")] = None
    certificate: Annotated[
        dict[str, Any] | None, Field(description="Certificate that proves the bound; see `allocopt verify --bound`.")
    ] = None

    @classmethod
    def has_strategy(cls) -> bool:
        """Return whether solutions of the kind have a strategy."""
        return cls.model_fields["strategy"].is_required()

    @property
    def answer(self) -> Any:
        """The solution as the file holds it; None if none was found."""
        return getattr(self, self.answer_key)


def check_header(obj: object, where: Path | str, file_format: str) -> dict[str, object]:
    """Return a parsed value if it is an object of this file format and version; raise `BadFileError` otherwise."""
    if not isinstance(obj, dict):
        raise bad_file(where, "top level", f"is {shown(obj)}, must be an object")
    for key, right in (("format", file_format), ("version", VERSION)):
        if key not in obj:
            raise bad_file(where, key, f"is missing, must be {right!r}")
    if obj["format"] != file_format:
        raise bad_file(where, "format", f"is {shown(obj['format'])}, must be {file_format!r}")
    if type(obj["version"]) is not int or obj["version"] != VERSION:
        raise bad_file(where, "version", f"is {shown(obj['version'])}, this program reads version {VERSION}")
    return obj


def validated(model: type[Model], obj: object, where: Path | str) -> Model:
    """Return a parsed value as a model; raise `BadFileError` with the first fault and the number of others."""
    # Models are built in native code, where Ctrl-C would become an error of the model.
    with interrupted_after():
        model.model_rebuild()
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        raise bad_file(where, *first_fault(error, obj)) from None


def first_fault(error: ValidationError, obj: object) -> tuple[str, str]:
    """Return the place and the text of the first fault of a value; the text ends with the number of other faults."""
    faults = error.errors(include_url=False)
    # A misspelt key is both unknown and missing under its right name: report the unknown key.
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    is_of_key = first["loc"][-1:] == ("[key]",)
    place = ""
    for part in first["loc"][:-2] if is_of_key else first["loc"]:
        # A part that does not occur in the value names a branch of a union: skip it.
        if isinstance(obj, dict) and part in obj:
            obj = obj[part]
            place += f".{part}"
        elif isinstance(obj, list) and isinstance(part, int):
            obj = obj[part]
            place += f"[{part}]"
    match first["type"]:
        case "missing":
            place, fault = f"{place}.{first['loc'][-1]}", "is missing"
        case "extra_forbidden":
            fault = "is an unknown key"
        case "value_error":
            fault = str(first["ctx"]["error"])
        case _:
            message = first["msg"].replace("Input should be", "must be").partition(" or instance of ")[0]
            fault = f"is {shown(first['input'])}, {message[0].lower()}{message[1:]}"
    return place.removeprefix(".") or "top level", "a key " * is_of_key + fault + more
