"""Fields of specifications: further declarations of each, values given as text, and errors that name the field."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import ValidationError

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, first_fault
from allocopt.files.reading import read_toml

MachineKind = Literal["processors", "nodes", "multicore"]
"""A pool of processors, whole nodes with a topology, or the platform of a multicore machine."""


class FieldError(UsageError):
    """A field of a specification is wrong; the error has its name, what is wrong, and what would be right."""

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field}: {fault}")
        self.field, self.fault = field, fault


@dataclass(frozen=True, slots=True)
class About:
    """Declaration of a field in addition to its type, range and description."""

    machines: Sequence[MachineKind] = ("processors", "nodes", "multicore")  # Kinds of machines that support it
    is_file: bool = False  # Whether it names files, relative to the file that holds the specification
    names: str = ""  # Registry of its values, for shell completion


class Specification(FileModel):
    """Fields of a run; the constructor raises `FieldError` for a wrong value."""

    # Hidden from type checkers, so that they see a constructor with the fields.
    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise FieldError(*first_fault(error, values)) from None
            self.check()

    def check(self) -> None:
        """Raise `FieldError` if fields cannot be combined."""

    @classmethod
    def about(cls, name: str) -> About:
        """Return the declaration of a field."""
        return next((part for part in cls.model_fields[name].metadata if isinstance(part, About)), About())

    @classmethod
    def assembled(cls, file: Path | None, values: Mapping[str, Any], texts: Sequence[str] = ()) -> Self:
        """Make a specification from a file, values that override it, and ``FIELD=VALUE`` texts, which override both."""
        held = {} if file is None else read_toml(file)
        kept = {} if file is None else cls.seen_from_here(held, file.parent)
        merged: dict[str, Any] = {**kept, **values}

        def meant(name: str) -> str:
            close = () if name in cls.model_fields else get_close_matches(name, cls.model_fields, n=1)
            return f"; did you mean {close[0]!r}?" if close else ""

        for text in texts:
            path, equals, value = text.partition("=")
            name, dot, key = (part.strip().replace("-", "_") for part in path.partition("."))
            if not equals or not name:
                raise UsageError(f"--set {text!r} must look like FIELD=VALUE")
            if name not in cls.model_fields:
                raise FieldError(name, f"is an unknown field{meant(name)}")
            merged[name] = (
                {**(merged.get(name) or {}), key: cls.plain_value(value)} if dot else cls.value_of(name, value)
            )
        try:
            return cls(**merged)
        except FieldError as error:
            name = error.field.partition(".")[0].partition("[")[0]
            if file is not None and name in held and merged[name] == kept[name]:
                raise bad_file(file, error.field, f"{error.fault}{meant(name)}") from None
            raise

    @classmethod
    def seen_from_here(cls, values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return values of fields in which paths relative to ``folder`` are made relative to the current folder."""
        return cls._with_files(values, lambda name: str(folder / name))

    def seen_from(self, folder: Path) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as JSON, with paths relative to ``folder``."""
        fields = self.model_dump(mode="json", exclude_defaults=True)
        return self._with_files(fields, lambda name: self.path_seen_from(name, folder))

    @staticmethod
    def path_seen_from(name: str, folder: Path) -> str:
        """Return a path made relative to ``folder``; return a name that is no path, such as ``@tiny``, unchanged."""
        is_path = _is_path(name) or _file_of(name) is not None
        return os.path.relpath(name, folder) if is_path and not os.path.isabs(name) else name

    @classmethod
    def _with_files(cls, values: Mapping[str, Any], moved: Callable[[str], str]) -> dict[str, Any]:
        def value_with(value: Any) -> Any:
            if isinstance(value, list):
                return [value_with(one) for one in value]
            if not isinstance(value, str):
                return value
            is_path = _is_path(value) or _file_of(value) is not None or _file_of(moved(value)) is not None
            return moved(value) if is_path else value

        files = [name for name in values if name in cls.model_fields and cls.about(name).is_file]
        return {name: value_with(value) if name in files else value for name, value in values.items()}

    def files(self) -> Iterator[tuple[str, str, Path]]:
        """Yield the existing files that are read: their place in the specification, their name in it, their path."""
        from allocopt.traces.fetch import cached_trace

        for name in type(self).model_fields:
            value = getattr(self, name) if self.about(name).is_file else None
            for place, one in enumerate(value) if isinstance(value, list) else [(None, value)]:
                path = None if one is None else _file_of(one) or (cached_trace(one) if name == "trace" else None)
                if one is not None and path is not None:
                    yield name if place is None else f"{name}[{place}]", one, path

    @classmethod
    def value_of(cls, name: str, text: str) -> Any:
        """Read the value of a field from text: commas separate parts of lists, other values are JSON or text."""
        return _value(cls.model_fields[name].annotation, text)

    @staticmethod
    def plain_value(text: str) -> Any:
        """Read a value that is JSON (a number, true, false); return the text if it is not."""
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            # Not JSON, or a number with too many digits, or lists nested too deeply.
            return text


def bare_type(kind: Any) -> Any:
    """Return a declared type without its constraints and without None."""
    while get_origin(kind) in (Annotated, Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return kind


def _value(kind: Any, text: str) -> Any:
    kind = bare_type(kind)
    if get_origin(kind) is list and not text.startswith("["):
        return [_value(get_args(kind)[0], part.strip()) for part in text.split(",")]
    if kind is float:
        with suppress(ValueError):
            return float(text)
    return text if kind is str or get_origin(kind) is Literal else Specification.plain_value(text)


def _file_of(name: str) -> Path | None:
    # None if there is no such file, for example for a fetched trace.
    return next((path for path in (Path(name), Path(name.partition("#")[0])) if path.exists()), None)


def _is_path(name: str) -> bool:
    """Whether a text is a path, and not shipped instances, a list of columns, or a fetched trace."""
    return not (name.startswith("@") or "=" in name or (Path(name).suffix == "" and Path(name).name == name))
