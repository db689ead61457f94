"""Solvers by kind and name, found through entry points of every installed package.

Those of a kind stand in the group ``allocopt.solvers.KIND``; those of every kind, which are made for one by its name,
in ``allocopt.solvers``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from allocopt.errors import MissingPackageError, UsageError
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_names
from allocopt.solving.protocol import Solver

GROUP = "allocopt.solvers"
DEFAULT_KIND = "topology"
"""The kind that is meant where a name says none."""

NEEDS = ("name", "kind", "capabilities", "version", "is_available", "takes", "refusal", "kernels", "solve")
"""What every solver has."""


def solver_names(kind: str | None = None) -> list[str]:
    """Return the names of all solvers that are installed, sorted: those of a kind, or of any."""
    kinds = kind_names() if kind is None else [kind]
    return sorted({*plugin_names(GROUP), *(name for each in kinds for name in plugin_names(f"{GROUP}.{each}"))})


def kinds_of_solver(name: str) -> list[str]:
    """Return the kinds that have a solver of that name, sorted."""
    return [kind for kind in kind_names() if name in (*plugin_names(GROUP), *plugin_names(f"{GROUP}.{kind}"))]


def get_solver(name: str, options: Mapping[str, Any] | None = None, kind: str | None = None) -> Solver:
    """Make the solver of that name.

    Parameters
    ----------
    name
        One of `solver_names` of the kind.
    options
        Values for the solver's own parameters.
    kind
        The kind of its problems; None for `DEFAULT_KIND`, or else the first that has a solver of that name.

    Raises
    ------
    UsageError
        If there is no such solver or parameter, or the solver refuses a value.
    MissingPackageError
        If the solver needs a package that is not installed.
    PluginError
        If the solver is broken.
    """
    if kind is None:
        kind = DEFAULT_KIND if name in solver_names(DEFAULT_KIND) else next(iter(kinds_of_solver(name)), DEFAULT_KIND)
    if name in plugin_names(GROUP):
        return cast(Solver, make_plugin(GROUP, "solver", name, {**(options or {}), "kind": kind}, NEEDS))
    group = f"{GROUP}.{kind}"
    if name not in plugin_names(group) and kinds_of_solver(name):
        able = ", ".join(solver_names(kind))
        raise UsageError(f"solver {name!r} does not take {kind} problems; solvers that do: {able}")
    return cast(Solver, make_plugin(group, "solver", name, options, NEEDS))


class Shortlist:
    """Solvers of a kind, each made once, when it is first asked for; those that cannot run here are left out."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._solvers: dict[str, Solver | None] = {}

    def load(self, name: str) -> Solver | None:
        """Return the solver of a name; None where what it needs is not installed."""
        if name not in self._solvers:
            try:
                solver = get_solver(name, None, self._kind)
            except MissingPackageError:
                self._solvers[name] = None
            else:
                self._solvers[name] = solver if solver.is_available() else None
        return self._solvers[name]

    def first_that_takes(self, names: Iterable[str], problem: Problem) -> Solver | None:
        """Return the first of these solvers that is there and takes a problem of this size."""
        there = (solver for name in names if (solver := self.load(name)) is not None)
        return next((solver for solver in there if solver.takes(problem) and solver.refusal(problem) is None), None)
