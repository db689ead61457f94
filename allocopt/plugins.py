"""Parts by name, from the entry points of all installed packages, and a fence for their errors."""

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
# Cached, because getting the types that a factory declares takes longer than making most parts.
_types = cache(get_type_hints)


class Fence:
    """A context in which an unexpected exception becomes a `PluginError` that names its culprit.

    Loading, making and running of parts is done inside a fence, because parts may come from other packages. Errors of
    this package pass unchanged. So do errors that end the whole program, such as Ctrl-C and lack of memory, but not
    ``sys.exit``.

    ``culprit`` is a phrase such as ``solver 'lns'``; ``when`` is the time of a simulation in seconds, None outside one.
    """

    __slots__ = ("_culprit", "_when")

    error: ClassVar[type[PluginError]] = PluginError

    def __init__(self, culprit: str, when: float | None = None) -> None:
        self._culprit = culprit
        self._when = when

    def __enter__(self) -> None:
        """Enter the context."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise a `PluginError` that names the culprit if there was an unexpected error."""
        if isinstance(error, Exception | SystemExit) and not isinstance(error, AllocoptError | MemoryError):
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            when = "" if self._when is None else f" at time {self._when:g} s"
            raise self.error(printable(f"{self._culprit} raised {what}{when}")) from error


def plugin_names(group: str) -> list[str]:
    """Return the sorted names of all installed parts of a group."""
    return sorted({entry.name for entry in _entries(group, tuple(sys.path))})


def make_plugin(
    group: str, kind: str, name: str, options: Mapping[str, Any] | None = None, needs: Sequence[str] = ()
) -> Any:
    """Return a part of a group of entry points, made with options; what it prints goes to standard error.

    Messages call it a ``kind``. It must have the attributes ``needs``.
    """
    entry = _entry(group, kind, name)
    what = f"{kind} {name!r}"
    with redirect_stdout(sys.stderr), Fence(f"{what}, which is {entry.value},"):
        try:
            factory = entry.load()
        except ModuleNotFoundError as error:
            if error.name is None:
                raise
            raise MissingPackageError.of(f"{what} needs", error.name) from None
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
    # Cached, because looking them up takes milliseconds. The installed packages depend on the module path.
    return _all_entries(path).select(group=group)


@cache
def _all_entries(path: tuple[str, ...]) -> EntryPoints:
    # In Python 3.11 this is an instance of another class with the same method `select`.
    return cast(EntryPoints, entry_points())


def no_such_part(kind: str, name: str, known: Sequence[str]) -> UsageError:
    """Return the error for an unknown name."""
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return UsageError(f"there is no {kind} {name!r}{hint} Installed: {', '.join(known)}")


def _entry(group: str, kind: str, name: str) -> EntryPoint:
    # Parts of this package come first: another package must not be able to replace them.
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
        f"{kind} {name!r} is that of {_DISTRIBUTION}; the one of {others} is ignored and needs another name",
        PluginWarning,
        stacklevel=3,
    )
    return packages[_DISTRIBUTION]


def option_values(what: str, types: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options converted to their types; raise `UsageError` for unknown ones. Messages name the part ``what``."""
    unknown = [option for option in options if option not in types]
    if unknown:
        raise UsageError(f"{what} has no option {unknown[0]!r}; it has: {', '.join(types) or 'none'}")
    return {
        option: converted(f"option {option!r} of {what}", value, types[option]) for option, value in options.items()
    }
