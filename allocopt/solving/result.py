"""The result of a solve."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic

from typing_extensions import TypeVar

from allocopt.errors import NoSolutionError
from allocopt.notebook import html_table
from allocopt.problems.base import Problem
from allocopt.problems.certificate import Certificate, Stated

EQUAL_RELATIVE = 1e-6  # relative distance within which objectives and bounds are equal

S = TypeVar("S", default=Any)


class Status(StrEnum):
    """Status of the solution."""

    OPTIMAL = "OPTIMAL"
    FEASIBLE = "FEASIBLE"
    INFEASIBLE = "INFEASIBLE"
    UNKNOWN = "UNKNOWN"
    INTERRUPTED = "INTERRUPTED"


class StopReason(StrEnum):
    """Why a solve ended."""

    PROVED = "proved"
    """The answer is proved."""
    COMPLETED = "completed"
    """The method has finished."""
    GAP = "gap"
    """The gap between incumbent and bound is at most the gap of the budget."""
    ITERATIONS = "iterations"
    TIME_LIMIT = "time limit"
    CANCELLED = "cancelled"
    """The caller's `Budget.is_cancelled` returned True."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Incumbent:
    """A point of the trajectory: the best objective ``time_s`` seconds after the start, and the bound at that time.

    ``solver`` names the one that found the objective, or proved a tighter bound of the same objective; inside ``auto``
    and other solvers that run several, it is the inner one. It is ``warm start`` for a given solution.
    """

    time_s: float
    objective: float
    bound: float | None
    solver: str = ""


@dataclass(frozen=True, slots=True)
class Result(Generic[S]):
    """The answer of a solver."""

    status: Status
    stopped_by: StopReason
    objective: float | None  # of the solution; None without one
    bound: float | None  # proved bound on the optimum under the problem's strategy; None if there is none
    runtime_s: float  # wall-clock seconds of the solve
    solution: S | None  # the best one found, of the type of the problem's kind
    seed: int
    solver: str
    version: str  # of the solver
    incumbents: tuple[Incumbent, ...] = ()  # trajectory of better solutions, and of tighter bounds between them
    certificate: Certificate[Any] | None = None  # proof of the bound; None if the solver gives none
    is_certified: bool = False  # whether the bound was computed again from the certificate, outside the solver

    @property
    def gap(self) -> float | None:
        """``|objective - bound| / max(1e-9, |objective|)``, or None if one of them is missing."""
        return gap_between(self.objective, self.bound)

    @property
    def proof(self) -> str:
        """How the bound or the infeasibility was checked; empty if neither is stated.

        It is ``certified``, ``stated by`` with the name of another program, or ``not checked``.
        """
        if self.bound is None and self.status is not Status.INFEASIBLE:
            return ""
        if self.is_certified:
            return "certified"
        return f"stated by {self.certificate.by}" if isinstance(self.certificate, Stated) else "not checked"

    def found(self) -> S:
        """Return the solution; raise `NoSolutionError` if there is none."""
        if self.solution is None:
            raise NoSolutionError(f"solver {self.solver!r} found no solution: {self.status}")
        return self.solution

    def _repr_html_(self) -> str:
        facts = (
            ("status", str(self.status)),
            ("stopped by", str(self.stopped_by)),
            ("objective", self.objective),
            ("bound", self.bound),
            ("gap", None if self.gap is None else f"{100 * self.gap:.3f} %"),
            ("time", f"{self.runtime_s:.3f} s"),
            ("seed", self.seed),
        )
        return html_table(f"Result of {self.solver}", facts)

    def unless_interrupted(self) -> "Result[S]":
        """Return this result; raise `SolveInterrupted` if Ctrl-C ended the solve, so that loops over problems end."""
        if self.stopped_by is StopReason.INTERRUPTED:
            raise SolveInterrupted(self)
        return self


class SolveInterrupted(KeyboardInterrupt):
    """Raised after Ctrl-C during a solve; ``result`` is the answer so far."""

    def __init__(self, result: Result[Any]) -> None:
        super().__init__()
        self.result = result


def sign_of(problem: Problem) -> float:
    """Return 1 if the objective is minimized, -1 if it is maximized."""
    return 1.0 if problem.sense == "min" else -1.0


def tolerance_of(objective: float) -> float:
    """Return the distance from an objective within which other objectives count as equal."""
    return EQUAL_RELATIVE * max(1e-9, abs(objective))


def gap_between(objective: float | None, bound: float | None) -> float | None:
    """Return the relative distance of an objective from a bound, or None if one of them is missing."""
    if objective is None or bound is None:
        return None
    return abs(objective - bound) / max(1e-9, abs(objective))
