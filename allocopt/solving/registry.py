"""Solvers by name, found through the entry points ``allocopt.solvers`` of every installed package."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from allocopt.errors import MissingPackageError
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.base import Problem
from allocopt.solving.protocol import Solver, takes

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


class Shortlist:
    """Solvers by name, each made once, when it is first asked for; those that cannot run here are left out."""

    def __init__(self) -> None:
        self._solvers: dict[str, Solver | None] = {}

    def load(self, name: str) -> Solver | None:
        """Return the solver of a name; None where what it needs is not installed."""
        if name not in self._solvers:
            try:
                solver = get_solver(name)
            except MissingPackageError:
                self._solvers[name] = None
            else:
                self._solvers[name] = solver if solver.is_available() else None
        return self._solvers[name]

    def first_that_takes(self, names: Iterable[str], problem: Problem) -> Solver | None:
        """Return the first of these solvers that is there and takes a problem of this kind and size."""
        there = (solver for name in names if (solver := self.load(name)) is not None)
        return next((solver for solver in there if takes(solver, problem) and solver.refusal(problem) is None), None)
