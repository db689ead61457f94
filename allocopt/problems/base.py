"""The interface that all problems share, and checks that several kinds make."""

from collections.abc import Iterable
from enum import StrEnum
from numbers import Real
from typing import Any, Literal, Protocol, TypeVar

from allocopt.errors import InvalidProblemError

Sense = Literal["min", "max"]

Choice = TypeVar("Choice", bound=StrEnum)


class Strategy(StrEnum):
    """Rule for the node sets that a job may get (NSA paper, section III-B).

    A solution under one strategy is also a solution under the next.
    """

    SCAS = "scas"
    """Consecutive positions of the static circular sequence of idle nodes."""
    DCAS = "dcas"
    """Consecutive positions of the sequence as it shrinks while the jobs are placed one after the other."""
    FREE = "free"
    """Any disjoint node sets."""


class Problem(Protocol):
    """A problem that a solver can solve."""

    @property
    def kind(self) -> str:
        """``topology``, ``knapsack``, ``coallocation``, ``placement``, ``relocation``, or the kind of a plug-in."""

    @property
    def name(self) -> str:
        """Name of the instance."""

    @property
    def sense(self) -> Sense:
        """Whether the objective is minimized or maximized."""

    def objective(self, solution: Any) -> float:
        """Return the objective of a feasible solution."""


def check_range(place: str, value: float | None, least: float, largest: float) -> None:
    """Raise `InvalidProblemError` unless a value, if it is given, is a number within a range."""
    # NaN compares false with everything, so the condition states what is valid, not what is invalid.
    is_number = isinstance(value, Real)
    if value is not None and not (is_number and least <= value <= largest):
        given = value if is_number else repr(value)
        raise InvalidProblemError(place, f"is {given}, must be within {least:g} .. {largest:g}")


def check_distinct(place: str, ids: Iterable[str]) -> None:
    """Raise `InvalidProblemError` if two jobs of a list have the same id."""
    seen: set[str] = set()
    for index, job in enumerate(ids):
        if job in seen:
            raise InvalidProblemError(f"{place}[{index}].id", f"job {job!r} is given twice")
        seen.add(job)


def chosen(place: str, value: str, choices: type[Choice]) -> Choice:
    """Return a value as one of the choices; raise `InvalidProblemError` for any other."""
    if value not in list(choices):
        raise InvalidProblemError(place, f"is {value!r}, must be one of {', '.join(choices)}")
    return choices(value)
