"""Solvers by name, found through the entry points ``allocopt.solvers`` of every installed package."""

from collections.abc import Mapping
from typing import Any, cast

from allocopt.plugins import make_plugin, plugin_names
from allocopt.solving.protocol import Solver

GROUP = "allocopt.solvers"
NEEDS = ("name", "capabilities", "is_available", "refusal", "solve")
"""What every solver has."""


def solver_names() -> list[str]:
    """Names of all solvers that are installed, sorted."""
    return plugin_names(GROUP)


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
    PluginError
        If the solver is broken.
    """
    return cast(Solver, make_plugin(GROUP, "solver", name, options, NEEDS))
