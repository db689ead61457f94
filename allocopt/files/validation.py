"""Checks parsed JSON against the models, and says the first fault in plain words."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import VERSION

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]

_RELATIONS = {
    "greater_than": "more than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}
_NOUNS = {
    "int": "an integer",
    "float": "a number",
    "finite_number": "a finite number",
    "string": "a string",
    "string_unicode": "valid Unicode text",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
    "model_attributes": "an object",
}


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
    """Validate an object against a model.

    Raises
    ------
    BadFileError
        If it does not fit; it names the first fault and counts the others.
    """
    try:
        return model.model_validate(obj)
    except ValidationError as error:
        raise _first_fault(error, where, model) from None


def _first_fault(error: ValidationError, where: Path | str, model: type[BaseModel]) -> BadFileError:
    """Word the first fault; unknown keys come first, as a misspelt key is also missing under its right name."""
    details = error.errors(include_url=False)
    first = next((detail for detail in details if detail["type"] == "extra_forbidden"), details[0])
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    place, fault = _place_and_fault(first, model)
    return bad_file(where, place, fault + more)


def _place_and_fault(detail: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    """Say where the fault is and what it is."""
    location = detail["loc"]
    if detail["type"] == "extra_forbidden":
        return _place(location[:-1]), _unknown_key(model, location)
    if detail["type"].startswith("union_tag"):
        return f"{_place(location)}.kind", _wrong_kind(detail)
    if location[-1:] == ("[key]",):
        return _place(location[:-2]), f"a key {_fault(detail)}"
    return _place(location), _fault(detail)


def _wrong_kind(detail: ErrorDetails) -> str:
    """Say which kinds there are."""
    if detail["type"] == "union_tag_not_found":
        return "is missing"
    kinds = detail["ctx"]["expected_tags"].replace(", ", " or ")
    return f"is {shown(detail['input']['kind'])}, must be {kinds}"


def _unknown_key(model: type[BaseModel], location: Location) -> str:
    """Say that the last key of a location is unknown, and which one may be meant."""
    key, known = str(location[-1]), _known_keys(model, location[:-1])
    close = get_close_matches(key, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"
    return f"unknown key {shown(key)}; {hint}"


def _known_keys(model: type[BaseModel], parent: Location) -> list[str]:
    """Keys that the object at a location may have."""
    models = [model]
    for part in ("root", *parent):
        inside = [found for one in models if part in one.model_fields for found in _models_in(one, str(part))]
        tagged = [one for one in models if "kind" in one.model_fields and part in _literals(one)]
        models = inside or tagged or models
    return [key for one in models for key in one.model_fields]


def _models_in(model: type[BaseModel], field: str) -> Iterator[type[BaseModel]]:
    """Models that a field is made of."""
    pending: list[object] = [model.model_fields[field].annotation]
    while pending:
        annotation = pending.pop(0)
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield annotation
        pending.extend(get_args(annotation))


def _literals(model: type[BaseModel]) -> tuple[object, ...]:
    """Kinds that a model describes."""
    return get_args(model.model_fields["kind"].annotation)


def _place(location: Location) -> str:
    """Name a location as in ``jobs[2].nodes``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in _without_tags(location))
    return "".join(parts).removeprefix(".") or "top level"


def _without_tags(location: Location) -> Location:
    """Leave out what pydantic adds to a location to tell the branch of a union: the file does not have it."""
    if location[:1] != ("topology",) or len(location) < 2:
        return location
    return (location[0], *location[2:5], *location[6:])


def _fault(detail: ErrorDetails) -> str:
    """Say what is wrong with a value and what would be right."""
    kind, value = detail["type"], detail["input"]
    if kind == "missing":
        return "is missing"
    if kind == "too_short":
        return "is empty, must hold at least one"
    if kind == "string_too_short":
        return "is empty, must hold at least one character"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    return f"is {shown(value)}, must be {_right(kind, value, detail.get('ctx', {}))}"


def _right(kind: str, value: object, context: Mapping[str, object]) -> str:
    """Say what a value must be."""
    if kind == "string_type" and type(value) is int:
        return f'a string: "{value}"'
    for prefix, noun in _NOUNS.items():
        if kind in (prefix, f"{prefix}_type", f"{prefix}_from_float"):
            return noun
    for relation, words in _RELATIONS.items():
        if kind == relation:
            return f"{words} {next(iter(context.values()))}"
    return str(context.get("expected", kind))
