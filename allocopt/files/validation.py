"""The check of parsed values against pydantic models: the first fault in one line that names its place."""

import unicodedata
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from allocopt.files.faults import bad_file, shown

VERSION = 1
"""Version of our file formats."""

Model = TypeVar("Model", bound=BaseModel)


class FileModel(BaseModel):
    """Exact types, no unknown keys, no NaN."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


def printable_text(text: str) -> str:
    """Refuse control characters and line breaks, which would break a line of output, with a `ValueError`."""
    for character in text:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            raise ValueError(f"holds the control character U+{ord(character):04X}, must be printable text")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(printable_text)]


def check_header(obj: object, where: Path | str, file_format: str) -> dict[str, object]:
    """Check that a value is an object of this format and version, before anything else in it is looked at.

    Raises
    ------
    BadFileError
        If it is not.
    """
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
    """Validate a parsed value against a model.

    Raises
    ------
    BadFileError
        If it does not fit; it names the first fault and counts the others.
    """
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        faults = error.errors(include_url=False)
    # A misspelt key is also missing under its right name: the unknown key comes first.
    first = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    is_of_key = first["loc"][-1:] == ("[key]",)
    place = _place(first["loc"][:-2] if is_of_key else first["loc"], obj, first["type"] == "missing")
    raise bad_file(where, place, "a key " * is_of_key + _fault(first) + more)


def _place(location: tuple[int | str, ...], obj: object, is_missing: bool) -> str:
    place = ""
    for part in location:
        # What is not in the file tells the branches of a union.
        if isinstance(obj, dict) and part in obj:
            obj = obj[part]
            place += f".{part}"
        elif isinstance(obj, list) and isinstance(part, int):
            obj = obj[part]
            place += f"[{part}]"
    if is_missing:
        place += f".{location[-1]}"
    return place.removeprefix(".") or "top level"


def _fault(fault: ErrorDetails) -> str:
    match fault["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "is an unknown key"
        case "value_error":
            return str(fault["ctx"]["error"])
    message = fault["msg"].replace("Input should be", "must be").partition(" or instance of ")[0]
    return f"is {shown(fault['input'])}, {message[0].lower()}{message[1:]}"
