"""Parts by name, found through the entry points of every installed package, and the fence around what they do."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from types import TracebackType
from typing import Any, ClassVar, cast, get_type_hints

from allocopt.errors import AllocoptError, MissingPackageError, PluginError, PluginWarning, UsageError
from allocopt.files.faults import printable
from allocopt.values import converted

_DISTRIBUTION = "allocopt"
# Finding the types that a factory declares takes longer than making most parts.
_types = cache(get_type_hints)


class Fence:
    """A context in which an exception that is not one of ours becomes a `PluginError` that names the culprit.

    All that parts do runs inside one, for they may come from other packages: loading, construction and work. What
    ends the whole program, such as Ctrl-C and want of memory, goes on; ``sys.exit`` of a part does not end it.

    The culprit is named in words; the time is that of a simulation in seconds, None outside of one.
    """

    __slots__ = ("_culprit", "_when")

    error: ClassVar[type[PluginError]] = PluginError

    def __init__(self, culprit: str, when: float | None = None) -> None:
        self._culprit = culprit
        self._when = when

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Name the culprit of an error."""
        if isinstance(error, Exception | SystemExit) and not isinstance(error, AllocoptError | MemoryError):
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            when = "" if self._when is None else f" at time {self._when:g} s"
            raise self.error(printable(f"{self._culprit} raised {what}{when}")) from error


def plugin_names(group: str) -> list[str]:
    """Names of all parts of a group that are installed, sorted."""
    return sorted({entry.name for entry in _entries(group, tuple(sys.path))})


def make_plugin(
    group: str, kind: str, name: str, options: Mapping[str, Any] | None = None, needs: Sequence[str] = ()
) -> Any:
    """Make a part of a group of entry points, ``kind`` in messages, with all that it ``needs``; prints go to stderr."""
    entry = _entry(group, kind, name)
    what = f"{kind} {name!r}"
    with redirect_stdout(sys.stderr), Fence(f"{what}, which is {entry.value},"):
        try:
            factory = entry.load()
        except ModuleNotFoundError as error:
            if error.name is None:
                raise
            raise MissingPackageError(f"{what} needs the package {error.name!r}, which is not installed") from None
        if not callable(factory):
            raise PluginError(f"{what}: its entry point {entry.value!r} is {factory!r}, must be a class")
        values: dict[str, Any] = {}
        if options:
            known = [field.name for field in fields(factory) if field.init] if is_dataclass(factory) else []
            types = _types(factory) if known else {}
            renamed = getattr(factory, "renamed_options", {})
            given = {renamed.get(option, option): value for option, value in options.items()}
            values = option_values(what, {name: types[name] for name in known}, given)
        part = factory(**values)
        lacks = [attribute for attribute in needs if not hasattr(part, attribute)]
    if lacks:
        raise PluginError(f"{what}: its entry point {entry.value!r} makes no {kind}: it has no {lacks[0]}")
    return part


@cache
def _entries(group: str, path: tuple[str, ...]) -> EntryPoints:
    # Looking them up takes milliseconds; the module path is a key, for what is installed depends on it.
    return _all_entries(path).select(group=group)


@cache
def _all_entries(path: tuple[str, ...]) -> EntryPoints:
    # Under Python 3.11 it is another class, which selects in the same way.
    return cast(EntryPoints, entry_points())


def no_such_part(kind: str, name: str, known: Sequence[str]) -> UsageError:
    """Return the error for a name that is not among those that are known."""
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return UsageError(f"there is no {kind} {name!r}{hint} Installed: {', '.join(known)}")


def _entry(group: str, kind: str, name: str) -> EntryPoint:
    # This package's own goes before: installing another one must not change what ours is.
    found = {entry.value: entry for entry in _entries(group, tuple(sys.path)) if entry.name == name}
    if not found:
        raise no_such_part(kind, name, plugin_names(group))
    if len(found) == 1:
        return next(iter(found.values()))
    packages = {entry.dist.name if entry.dist else entry.value: entry for entry in found.values()}
    others = " and ".join(sorted(packages.keys() - {_DISTRIBUTION}))
    if _DISTRIBUTION not in packages:
        raise PluginError(f"{others} both have a {kind} {name!r}: uninstall one of them")
    warnings.warn(
        f"{kind} {name!r} is that of {_DISTRIBUTION}; the one of {others} is left out: it needs another name",
        PluginWarning,
        stacklevel=3,
    )
    return packages[_DISTRIBUTION]


def option_values(what: str, types: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a part, named in words, as values of their types; raises `UsageError` for unknown ones."""
    unknown = [option for option in options if option not in types]
    if unknown:
        raise UsageError(f"{what} has no option {unknown[0]!r}; it has: {', '.join(types) or 'none'}")
    return {
        option: converted(f"option {option!r} of {what}", value, types[option]) for option, value in options.items()
    }
