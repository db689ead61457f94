"""Solvers by name, found through the entry points ``allocopt.solvers`` of every installed package."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Any, cast

from allocopt.errors import MissingPackageError, UsageError
from allocopt.kernels.cache import use_writable_cache
from allocopt.solving.protocol import Solver

GROUP = "allocopt.solvers"
LARGEST_INTEGER = 2**62


def solver_names() -> list[str]:
    """Names of all solvers that are installed, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def get_solver(name: str, options: Mapping[str, Any] | None = None) -> Solver:
    """Make the solver of that name.

    Parameters
    ----------
    name
        One of `solver_names`.
    options
        Values for the solver's own parameters.

    Raises
    ------
    UsageError
        If there is no such solver or parameter, or the solver refuses a value.
    MissingPackageError
        If the solver needs a package that is not installed.
    """
    found = [entry for entry in entry_points(group=GROUP) if entry.name == name]
    if not found:
        close = get_close_matches(name, solver_names(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "."
        raise UsageError(f"there is no solver {name!r}{hint} Installed: {', '.join(solver_names())}")
    use_writable_cache()
    try:
        factory = found[0].load()
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"solver {name!r} needs the package {error.name!r}, which is not installed") from None
    except (ImportError, AttributeError) as error:
        raise UsageError(f"solver {name!r}: its entry point {found[0].value!r} cannot be loaded: {error}") from None
    return _make(name, factory, dict(options or {}))


def _make(name: str, factory: Any, options: dict[str, Any]) -> Solver:
    """Call the factory with options that it knows."""
    known = {field.name: field.type for field in fields(factory) if field.init} if is_dataclass(factory) else {}
    for option, value in options.items():
        if option not in known:
            raise UsageError(f"solver {name!r} has no option {option!r}; it has: {', '.join(known) or 'none'}")
        if not _fits(value, known[option]):
            kind = getattr(known[option], "__name__", known[option])
            raise UsageError(f"option {option!r} of solver {name!r} is {value!r}, must be of type {kind}")
    return cast(Solver, factory(**options))


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value may be given to an option of that type; types other than numbers and bools are not checked."""
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and abs(value) <= LARGEST_INTEGER
    return isinstance(value, int | float) if kind is float else True
