"""The interface of solvers, and solvers by kind and name from the entry points of all installed packages.

Solvers of a kind are in the group ``allocopt.solvers.KIND``. Solvers for all kinds, which are made with the name of a
kind, are in ``allocopt.solvers``.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from typing_extensions import TypeVar

from allocopt.errors import UsageError
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_names
from allocopt.solving.budget import Budget
from allocopt.solving.result import Incumbent, Result

IncumbentCallback = Callable[[Incumbent], None]

P_contra = TypeVar("P_contra", bound=Problem, contravariant=True, default=Any)
S = TypeVar("S", default=Any)


class Promise(StrEnum):
    """Promise that a solver can make."""

    EXACT = "exact"
    """Given time, it ends with a proven optimum."""
    ANYTIME = "anytime"
    """It improves its answer while it runs, and can be stopped."""
    BOUND = "bound"
    """It returns a proven bound."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Problems that a solver takes, and its promises."""

    strategies: frozenset[str]  # that it takes; empty if its kind has none
    promises: frozenset[Promise]
    largest: str  # the largest size that it takes, in words
    side_constraints: bool = False  # whether it honours rules of single jobs and the weight of fragmentation


class Solver(Protocol[P_contra, S]):
    """A solver of one kind of problems: ``P`` are its problems, ``S`` its solutions."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the solver."""

    @property
    def kind(self) -> str:
        """Name of the kind of its problems."""

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Problems that it takes, and its promises."""

    @property
    def version(self) -> str:
        """Version of the back end or, without one, of the package of the solver."""

    def is_available(self) -> bool:
        """Return whether it can run here; this must be fast."""

    def takes(self, problem: P_contra) -> bool:
        """Return whether it takes problems like this one, regardless of the size."""

    def refusal(self, problem: P_contra) -> str | None:
        """Return why the problem is too large, with the largest size that the solver takes; None if it is not."""

    def kernels(self, problem: P_contra) -> Iterable[Callable[..., object]]:
        """Return the kernel entries that a solve of the problem may call; they are loaded before its clock starts."""

    def solve(
        self,
        problem: P_contra,
        budget: Budget,
        seed: int,
        warm_start: S | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result[S]:
        """Solve a problem that the solver takes, within the budget.

        The seed determines all random choices. The warm start is a feasible solution, and the answer is never worse.
        ``on_incumbent`` is called with every better solution, and may be called with tighter bounds between them.
        """


@runtime_checkable
class Exporter(Protocol[P_contra]):
    """A solver whose model can be written to a file."""

    def export(self, problem: P_contra, path: Path) -> None:
        """Write the problem's model to a .mps, .lp, .pb or .json file."""


GROUP = "allocopt.solvers"
DEFAULT_KIND = "topology"
"""The kind of problems if none is given."""

NEEDS = ("name", "kind", "capabilities", "version", "is_available", "takes", "refusal", "kernels", "solve")


def solver_names(kind: str | None = None) -> list[str]:
    """Return the sorted names of all installed solvers, of one kind or of all kinds."""
    kinds = kind_names() if kind is None else [kind]
    return sorted({*plugin_names(GROUP), *(name for each in kinds for name in plugin_names(f"{GROUP}.{each}"))})


def kinds_of_solver(name: str) -> list[str]:
    """Return the sorted kinds that have a solver of this name."""
    return [kind for kind in kind_names() if name in (*plugin_names(GROUP), *plugin_names(f"{GROUP}.{kind}"))]


def get_solver(name: str, options: Mapping[str, Any] | None = None, kind: str | None = None) -> Solver:
    """Return the solver of a name, made with options for its own parameters.

    Without a kind, it is the solver of that name for topology problems or, if there is none, for the first kind that
    has one.

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
