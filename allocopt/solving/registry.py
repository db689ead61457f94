"""Solvers by kind and name, found through entry points of every installed package.

Those of a kind stand in the group ``allocopt.solvers.KIND``; those of every kind, which are made for one by its name,
in ``allocopt.solvers``.
"""

from collections.abc import Mapping
from typing import Any, cast

from allocopt.errors import UsageError
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.kind import kind_names
from allocopt.solving.protocol import Solver

GROUP = "allocopt.solvers"
DEFAULT_KIND = "topology"
"""The kind that is meant where a name says none."""

NEEDS = ("name", "kind", "capabilities", "version", "is_available", "takes", "refusal", "kernels", "solve")


def solver_names(kind: str | None = None) -> list[str]:
    """Return the names of all solvers that are installed, sorted: those of a kind, or of any."""
    kinds = kind_names() if kind is None else [kind]
    return sorted({*plugin_names(GROUP), *(name for each in kinds for name in plugin_names(f"{GROUP}.{each}"))})


def kinds_of_solver(name: str) -> list[str]:
    """Return the kinds that have a solver of that name, sorted."""
    return [kind for kind in kind_names() if name in (*plugin_names(GROUP), *plugin_names(f"{GROUP}.{kind}"))]


def get_solver(name: str, options: Mapping[str, Any] | None = None, kind: str | None = None) -> Solver:
    """Make the solver of that name with these values of its own parameters.

    Without a kind it is that of ``topology`` problems, or else of the first kind that has one of that name.

    Raises
    ------
    UsageError
        If there is no such solver or parameter, or the solver refuses a value.
    MissingPackageError
        If the solver needs a package that is not installed.
    PluginError
        If the solver is broken.
    """
    kinds = kinds_of_solver(name)
    if kind is None:
        kind = DEFAULT_KIND if DEFAULT_KIND in kinds or not kinds else kinds[0]
    if name in plugin_names(GROUP):
        return cast(Solver, make_plugin(GROUP, "solver", name, {**(options or {}), "kind": kind}, NEEDS))
    group = f"{GROUP}.{kind}"
    if kinds and kind not in kinds:
        able = ", ".join(solver_names(kind))
        raise UsageError(f"solver {name!r} does not take {kind} problems; solvers that do: {able}")
    return cast(Solver, make_plugin(group, "solver", name, options, NEEDS))
