"""Parts by name, found through the entry points of every installed package."""

import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import Any

from allocopt.errors import MissingPackageError, UsageError

LARGEST_INTEGER = 2**62


def plugin_names(group: str) -> list[str]:
    """Names of all parts of a group that are installed, sorted."""
    return sorted({entry.name for entry in _entries(group, tuple(sys.path))})


def make_plugin(group: str, kind: str, name: str, options: Mapping[str, Any] | None = None) -> Any:
    """Make the part of that name.

    Parameters
    ----------
    group
        The group of entry points.
    kind
        What its parts are called, for messages.
    name
        One of `plugin_names`.
    options
        Values for the part's own parameters.

    Raises
    ------
    UsageError
        If there is no such part or parameter, or the part refuses a value.
    MissingPackageError
        If the part needs a package that is not installed.
    """
    found = [entry for entry in _entries(group, tuple(sys.path)) if entry.name == name]
    if not found:
        close = get_close_matches(name, plugin_names(group), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"there is no {kind} {name!r}{hint} Installed: {', '.join(plugin_names(group))}")
    try:
        factory = found[0].load()
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"{kind} {name!r} needs the package {error.name!r}, which is not installed") from None
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{kind} {name!r}: its entry point {found[0].value!r} cannot be loaded: {error}") from None
    if not callable(factory):
        raise UsageError(f"{kind} {name!r}: its entry point {found[0].value!r} is {factory!r}, must be a class")
    return _make(f"{kind} {name!r}", factory, dict(options or {}))


@cache
def _entries(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Entry points of a group along a module path; kept, for looking them up takes milliseconds."""
    return entry_points(group=group)


def _make(what: str, factory: Any, options: dict[str, Any]) -> Any:
    """Call the factory with options that it knows."""
    known = {field.name: field.type for field in fields(factory) if field.init} if is_dataclass(factory) else {}
    for option, value in options.items():
        if option not in known:
            raise UsageError(f"{what} has no option {option!r}; it has: {', '.join(known) or 'none'}")
        if not _fits(value, known[option]):
            kind = getattr(known[option], "__name__", known[option])
            raise UsageError(f"option {option!r} of {what} is {value!r}, must be of type {kind}")
    return factory(**options)


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value may be given to an option of that type; only numbers, texts and bools are checked."""
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and abs(value) <= LARGEST_INTEGER
    if kind is str:
        return isinstance(value, str)
    return isinstance(value, int | float) if kind is float else True
