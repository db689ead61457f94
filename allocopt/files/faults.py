"""Error messages for files: one line that names the file, the place, the fault and what would be right."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from allocopt.errors import AllocoptError, BadFileError, InvalidProblemError

LONGEST_VALUE, LONGEST_PART = 60, 500
"""Largest lengths in a message, in characters: of a faulty value, and of a place or a fault."""


def bad_file(where: Path | str, *parts: str) -> BadFileError:
    """Return the error ``where: place: fault`` as one printable line; long parts are shortened in the middle."""
    half = LONGEST_PART // 2
    short = (part if len(part) <= LONGEST_PART else f"{part[:half]} ... {part[-half:]}" for part in parts if part)
    return BadFileError(printable(": ".join((str(where), *short))))


def printable(text: str) -> str:
    """Return a text with line breaks and non-printable characters escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def shown(value: object) -> str:
    """Return a JSON value for a message: short, and as JSON writes it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    try:
        text = repr(value)
    except (ValueError, RecursionError):
        # A number with thousands of digits.
        return f"a {type(value).__name__} that is too long to be shown"
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."


def os_fault(error: OSError) -> str:
    """Return why the operating system refused a file."""
    return error.strerror or str(error) or type(error).__name__


_Reader = TypeVar("_Reader", bound=Callable[..., Any])


def memory_faults_named(read: _Reader) -> _Reader:
    """Decorate a reader so that its `MemoryError` names the file, which is the reader's first argument, ``path``."""

    @wraps(read)
    def reading(*args: Any, **kwargs: Any) -> Any:
        try:
            return read(*args, **kwargs)
        except MemoryError as error:
            error.add_note(f"while {args[0] if args else kwargs['path']} was read")
            raise

    return cast(_Reader, reading)


@contextmanager
def problem_faults_named(where: Path | str, *places: str) -> Iterator[None]:
    """Turn an `InvalidProblemError` about the content of a file into a `BadFileError` that names the file."""
    try:
        yield
    except InvalidProblemError as error:
        raise bad_file(where, *places, error.place, error.fault) from None


@contextmanager
def write_faults_named(path: Path) -> Iterator[None]:
    """Turn errors while a file is written into a `BadFileError` that names the file."""
    try:
        yield
    except AllocoptError:
        raise
    except OSError as error:
        raise bad_file(path, f"cannot be written: {os_fault(error)}") from None
    except ValueError as error:
        raise bad_file(path, f"cannot be written: {error}") from None
