"""What the package knows of a kind of problem. Kinds are found through the entry points ``allocopt.kinds``."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from allocopt.arrays import IntArray
from allocopt.cluster.topology import Topology
from allocopt.errors import MissingPackageError, PluginError, PluginWarning, UsageError
from allocopt.files.faults import shown
from allocopt.plugins import make_plugin, plugin_names
from allocopt.problems.base import Problem, Sense

if TYPE_CHECKING:
    # pydantic is for files alone.
    from allocopt.files.models import InstanceModel, SolutionModel
    from allocopt.problems.certificate import Certificate

GROUP = "allocopt.kinds"
DATA = Path(str(files("allocopt.data")))  # files that come with the package

P = TypeVar("P", bound="Problem")
S = TypeVar("S")

# Draws a problem from ``name``, ``rng`` and parameters of its own, each annotated with its ``typer.Option``.
Generator = Callable[..., P]


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of solver ``auto``."""

    solvers: tuple[str, ...]  # names; the first that is installed and takes the problem runs
    strategy: str | None = None  # that it is asked for; None for that of the problem
    share: float = 1.0  # share of the time that is left that it may use, in (0, 1]
    iterations: int | None = None  # steps that it may take where the budget sets none; None for its own default
    # Seconds that are worth being left to it: where none that follows would be left so much, a stage uses all.
    least_s: float = 0.005


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """A solution as a report shows it: a line per job, less columns of None alone."""

    title: str
    columns: tuple[tuple[str, int | None], ...]  # title, and digits behind the point of its numbers, None for texts
    rows: tuple[tuple[str | float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class NodeMap:
    """Nodes of a cluster and the jobs that have them, as a report draws them."""

    topology: Topology
    idle: IntArray  # nodes that may be given away
    names: tuple[str, ...]  # of the jobs
    sizes: tuple[int, ...]  # of the jobs
    held: tuple[IntArray, ...] | None = None  # nodes of each job; None without a solution
    costs: tuple[float, ...] = ()  # of the jobs; empty without a solution


class Codec(ABC, Generic[P, S]):
    """The files of a kind: their shapes, and the way to problems and solutions and back."""

    instance_model: "type[InstanceModel]"
    solution_model: "type[SolutionModel]"

    @abstractmethod
    def problem_of(self, model: "InstanceModel") -> P:
        """Make the problem of an instance file; raise `InvalidProblemError` if its values contradict each other."""

    @abstractmethod
    def keys_of(self, problem: P) -> dict[str, object]:
        """Return the keys of a problem's instance file behind its name."""

    @abstractmethod
    def solution_of(self, problem: P, model: "SolutionModel") -> S:
        """Return the solution of a file; raise `InvalidSolutionError` unless it names all that the problem has."""

    @abstractmethod
    def answer_of(self, problem: P, solution: S) -> dict[str, object]:
        """Return the keys of a solution file that hold a solution, the one of ``answer_key`` last."""

    def check(self, problem: P, solution: S, model: "SolutionModel") -> None:
        """Check what a solution file says beside a valid solution; raises `InvalidSolutionError`."""


class ProblemKind(ABC, Generic[P, S]):
    """A kind of problem ``P`` and of solution ``S``: everything that differs from kind to kind.

    Solving, files, commands, contract checks and reports ask it; none of them names a kind.
    """

    name: str  # what its instance files have as ``kind``, and its solvers are registered under
    problem: type[P]
    solution: type[S]
    answer: str  # the word for a solution in messages
    objective: str = "objective"  # what it is called in reports
    decimals: int | None = None  # of objectives as they are shown; None for six digits that count
    strategies: tuple[str, ...] = ()  # under which its problems can be posed, the narrowest first
    largest: str = "any"  # the largest problems that its solvers take, in words
    # Name, which begins with ``@``, and file of its small instances, which contract checks and ``doctor`` solve.
    shipped: tuple[str, Path] | None = None

    @property
    @abstractmethod
    def codec(self) -> "Codec[P, S]":
        """Its files, loaded when they are first asked for."""

    @property
    def certificates(self) -> "Mapping[str, type[Certificate[Any]]]":
        """What may prove a bound, by method; see `allocopt.problems.certificate`."""
        from allocopt.problems.certificate import Stated

        return {Stated.method: Stated}

    @property
    def generators(self) -> Mapping[str, Generator[P]]:
        """What draws problems, by the name of its ``allocopt generate`` command."""
        return {}

    @abstractmethod
    def verify(self, problem: P, solution: S) -> float:
        """Return the objective of a solution; raise `InvalidSolutionError` for a broken rule, with job and amount."""

    @abstractmethod
    def trivial(self, problem: P) -> S | None:
        """Return the solution that needs no search; None where there is none."""

    def refusal(self, problem: P) -> str | None:
        """Return why a problem is too large for any search; None if it is not."""
        return None

    def misposed(self, problem: P) -> str | None:
        """Return why no solver takes a problem under its strategy; None if some may."""
        return None

    def posed(self, problem: P, strategy: str | None) -> P:
        """Return a problem under a strategy of the kind, or its own; raise `UsageError` if there is none such."""
        if strategy is None:
            return problem
        raise UsageError(f"a {self.name} problem has no strategy")

    def strategy_of(self, problem: P) -> str | None:
        """Return the strategy that a problem is posed under; None where the kind has none."""
        return None

    def asked(self, problem: P) -> str:
        """Return in words what a problem asks of its solvers beside its size."""
        return self.strategy_of(problem) or f"{self.name} problems"

    def stages(self, problem: P) -> Sequence[Stage]:
        """Return the stages of solver ``auto``, in turn until the problem is solved to proof."""
        return ()

    def table(self, problem: P, solution: S | None) -> AnswerTable | None:
        """Return a solution as a table; None where a map of nodes tells it."""
        return None

    def remark(self, problem: P, solution: S) -> str:
        """Return what people are told of a solution beside its objective; empty for nothing."""
        return ""

    def node_map(self, problem: P, solution: S | None) -> NodeMap | None:
        """Return the nodes that a problem is about, and the jobs that get them; None where it is not about nodes."""
        return None


def kind_names() -> list[str]:
    """Return the names of all kinds that are installed, sorted."""
    return plugin_names(GROUP)


@cache
def get_kind(name: str) -> ProblemKind[Problem, object]:
    """Return the kind of that name; raise `UsageError` if there is none, `PluginError` if it is broken."""
    return cast("ProblemKind[Problem, object]", make_plugin(GROUP, "kind of problem", name, None, ("name", "verify")))


def working_kinds() -> tuple[ProblemKind[Problem, object], ...]:
    """Return all kinds that are installed, by name; a broken one is left out, with a warning."""
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
    """Return the kind of a problem; raise `UsageError` for what is none."""
    return get_kind(kind_name(problem))


def kind_name(problem: Problem) -> str:
    """Return the name of a problem's kind, installed or not; raise `UsageError` for what is no problem."""
    name = getattr(problem, "kind", None)
    if not isinstance(name, str):
        fault = "must be a problem, such as one of the list that `read_problems(file)` returns"
        raise UsageError(f"the problem is {shown(problem)}, {fault}")
    return name


def is_maximized(kind: str) -> bool:
    """Whether the objective of a kind is maximized; False for one that is not installed, as in a file of rows."""
    return kind in kind_names() and cast(Sense, get_kind(kind).problem.sense) == "max"
