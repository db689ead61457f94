"""Description of a kind of problem. Kinds are found through the entry points ``allocopt.kinds``."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.topology import Topology
from allocopt.errors import MissingPackageError, PluginError, PluginWarning, UsageError
from allocopt.files.faults import shown
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.base import Problem, Sense
from allocopt.problems.picture import Holder, Picture, Racks, State

if TYPE_CHECKING:
    # Only files need pydantic.
    from allocopt.files.models import InstanceModel, SolutionModel
    from allocopt.problems.certificate import Certificate

GROUP = "allocopt.kinds"
DATA = Path(str(files("allocopt.data")))  # directory of files that come with the package

P = TypeVar("P", bound="Problem")
S = TypeVar("S")

# Draws a problem. Its arguments are ``name``, ``rng`` and its own parameters, each annotated with its ``typer.Option``.
Generator = Callable[..., P]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of solver ``auto``."""

    solvers: tuple[str, ...]  # names; the first that is installed and takes the problem runs
    strategy: str | None = None  # strategy under which it solves the problem; None for the problem's own
    share: float = 1.0  # share of the remaining time that it may use, in (0, 1]
    iterations: int | None = None  # most iterations if the budget sets none; None for the solver's default
    # Least useful time in seconds. A stage that would leave less than this to each later stage uses all remaining time.
    least_s: float = 0.005


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A solution as a report shows it: one row per job; columns that hold only None are left out."""

    title: str
    columns: tuple[tuple[str, int | None], ...]  # title, and decimals of its numbers, or None for texts
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeMap:
    """Nodes of a cluster and the jobs that have them, as a report draws them."""

    topology: Topology
    idle: IntArray  # nodes that jobs may get
    names: tuple[str, ...]  # name of each job
    sizes: tuple[int, ...]  # number of nodes of each job
    held: tuple[IntArray, ...] | None = None  # nodes of each job; None without a solution
    costs: tuple[float, ...] = ()  # cost of each job; empty without a solution

    def picture(self) -> Picture:
        """Return the nodes by leaf switch, coloured by job."""
        is_closed = np.ones(self.topology.size, dtype=np.bool_)
        is_closed[self.idle] = False
        return Picture(
            unit="node",
            racks=Racks.of(self.topology),
            is_closed=is_closed,
            closed="in use or drained",
            holders=tuple(Holder(Holder.name("job", name)) for name in self.names),
            states=(State.of_whole_units(self.held or ()),),
        )


class Codec(ABC, Generic[P, S]):
    """The files of a kind: their models, and the conversion to problems and solutions and back."""

    instance_model: "type[InstanceModel]"
    solution_model: "type[SolutionModel]"

    @abstractmethod
    def problem_of(self, model: "InstanceModel") -> P:
        """Return the problem of an instance file; raise `InvalidProblemError` if its values contradict each other."""

    @abstractmethod
    def keys_of(self, problem: P) -> dict[str, object]:
        """Return the keys and values that follow ``name`` in a problem's instance file."""

    @abstractmethod
    def solution_of(self, problem: P, model: "SolutionModel") -> S:
        """Return the solution of a file; raise `InvalidSolutionError` if it does not match the problem."""

    @abstractmethod
    def answer_of(self, problem: P, solution: S) -> dict[str, object]:
        """Return the keys and values of a solution file that hold the solution, ``answer_key`` last."""

    def check(self, problem: P, solution: S, model: "SolutionModel") -> None:
        """Check the other values of a file with a valid solution; raise `InvalidSolutionError` if one is wrong."""


class ProblemKind(ABC, Generic[P, S]):
    """A kind of problem ``P`` and of solution ``S``: everything that differs from kind to kind.

    Solving, files, commands, contract checks and reports use this interface; none of them names a kind.
    """

    name: str  # ``kind`` in its instance files; its solvers are registered under this name
    problem: type[P]
    solution: type[S]
    answer: str  # the word for a solution in messages
    objective: str = "objective"  # name of the objective in reports
    decimals: int | None = None  # decimals of objectives in reports; None for six significant digits
    strategies: tuple[str, ...] = ()  # strategies of its problems, the most restrictive first
    largest: str = "any"  # the largest problems that its solvers take, in words
    # Name (begins with ``@``) and file of its small instances, which contract checks and ``doctor`` solve.
    shipped: tuple[str, Path] | None = None

    @property
    @abstractmethod
    def codec(self) -> "Codec[P, S]":
        """The codec of its files, imported on first use."""

    @property
    def certificates(self) -> "Mapping[str, type[Certificate[Any]]]":
        """The classes of certificates that may prove a bound, by method; see `allocopt.problems.certificate`."""
        from allocopt.problems.certificate import Stated

        return {Stated.method: Stated}

    @property
    def generators(self) -> Mapping[str, Generator[P]]:
        """The generators of problems, by the name of their ``allocopt generate`` command."""
        return {}

    @abstractmethod
    def verify(self, problem: P, solution: S) -> float:
        """Return the objective of a solution; raise `InvalidSolutionError` if it breaks a rule.

        The error names the job and the amount.
        """

    @abstractmethod
    def trivial(self, problem: P) -> S | None:
        """Return the solution that needs no search; None if there is none."""

    def refusal(self, problem: P) -> str | None:
        """Return why a problem is too large for any search; None if it is not."""
        return None

    def misposed(self, problem: P) -> str | None:
        """Return why no solver takes a problem under its strategy; None if solvers may take it."""
        return None

    def posed(self, problem: P, strategy: str | None) -> P:
        """Return a problem under another strategy, unchanged for None; raise `UsageError` for an unknown strategy."""
        if strategy is None:
            return problem
        raise UsageError(f"a {self.name} problem has no strategy")

    def strategy_of(self, problem: P) -> str | None:
        """Return the strategy of a problem; None if the kind has no strategies."""
        return None

    def size_of(self, problem: P) -> str:
        """Return the size of a problem in words, such as ``6 jobs, 40 nodes``; empty if the kind does not state it."""
        return ""

    def asked(self, problem: P) -> str:
        """Return in words what solvers must support to take a problem, apart from its size."""
        return self.strategy_of(problem) or f"{self.name} problems"

    def stages(self, problem: P) -> Sequence[Stage]:
        """Return the stages of solver ``auto``, which runs them in turn until an answer is proved."""
        return ()

    def table(self, problem: P, solution: S | None) -> AnswerTable | None:
        """Return a solution as a table; None if the map of nodes shows it."""
        return None

    def remark(self, problem: P, solution: S) -> str:
        """Return a remark on a solution that is printed beside its objective; empty if there is none."""
        return ""

    def node_map(self, problem: P, solution: S | None) -> NodeMap | None:
        """Return the nodes of a problem and the jobs that get them; None if the problem has no nodes."""
        return None

    def picture(self, problem: P, solution: S | None) -> Picture | None:
        """Return who holds which share of which node, as `allocopt.plot` draws it; None if nothing can be drawn."""
        nodes = self.node_map(problem, solution)
        return None if nodes is None else nodes.picture()


def kind_names() -> list[str]:
    """Return the names of all installed kinds, sorted."""
    return plugin_names(GROUP)


@cache
def get_kind(name: str) -> ProblemKind[Problem, object]:
    """Return the kind of that name; raise `UsageError` if there is none, `PluginError` if it is broken."""
    return cast("ProblemKind[Problem, object]", make_plugin(GROUP, "kind of problem", name, None, ("name", "verify")))


def working_kinds() -> tuple[ProblemKind[Problem, object], ...]:
    """Return all installed kinds, sorted by name; leave out broken ones with a warning."""
    return _working(tuple(kind_names()))


@cache
def _working(names: tuple[str, ...]) -> tuple[ProblemKind[Problem, object], ...]:
    found = []
    for name in names:
        try:
            found.append(get_kind(name))
        except (MissingPackageError, PluginError) as error:
            warnings.warn(f"{error}; it is left out", PluginWarning, stacklevel=3)
    return tuple(found)


def kind_of(problem: Problem) -> ProblemKind[Problem, object]:
    """Return the kind of a problem; raise `UsageError` if the value is not a problem."""
    return get_kind(kind_name(problem))


def kind_name(problem: Problem) -> str:
    """Return the name of a problem's kind, installed or not; raise `UsageError` if the value is not a problem."""
    name = getattr(problem, "kind", None)
    if not isinstance(name, str):
        fault = "must be a problem, such as one of the list that `read_problems(file)` returns"
        raise UsageError(f"the problem is {shown(problem)}, {fault}")
    return name


def shown_objective(problem: Problem, objective: float) -> str:
    """Return an objective as text, with the decimals of its kind or six significant digits."""
    decimals = kind_of(problem).decimals
    return f"{objective:.6g}" if decimals is None else f"{objective:,.{decimals}f}"


def is_maximized(kind: str) -> bool:
    """Return whether the objective of a kind is maximized.

    The answer is False for a kind that is not installed, because files of result rows may name such kinds.
    """
    return kind in kind_names() and cast(Sense, get_kind(kind).problem.sense) == "max"
