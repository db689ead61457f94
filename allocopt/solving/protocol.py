"""The interface that every solver has, built in or plugged in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from allocopt.problems.base import Problem, Strategy
from allocopt.solving.budget import Budget
from allocopt.solving.result import Incumbent, Result

IncumbentCallback = Callable[[Incumbent], None]


class Promise(StrEnum):
    """What a solver can promise."""

    EXACT = "exact"
    """Given time, it ends with a proven optimum."""
    ANYTIME = "anytime"
    """It improves its answer while it runs, and can be stopped."""
    BOUND = "bound"
    """It returns a proven bound."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a solver takes and promises.

    Parameters
    ----------
    strategies
        Strategies of topology problems that it takes.
    promises
        What it can promise for them.
    largest
        The largest size it takes, in words.
    kinds
        Kinds of problem that it takes.
    side_constraints
        Whether it honours rules for the nodes of single jobs, and the weight of fragmentation.
    """

    strategies: frozenset[Strategy]
    promises: frozenset[Promise]
    largest: str
    kinds: frozenset[str] = frozenset({"topology"})
    side_constraints: bool = False


class Solver(Protocol):
    """A way to solve problems."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    @property
    def capabilities(self) -> Capabilities:
        """What it takes and promises."""

    @property
    def version(self) -> str:
        """Version of what does the work: the back end's, or this package's."""

    def is_available(self) -> bool:
        """Whether it can run here; cheap."""

    def refusal(self, problem: Any) -> str | None:
        """Why the problem is too large for this solver, with the size it takes; None if it is not."""

    def solve(
        self,
        problem: Any,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Solve ``problem`` within ``budget``.

        Parameters
        ----------
        problem
            A problem of a kind and strategy that the solver takes.
        budget
            What it may spend.
        seed
            Fixes every random choice.
        warm_start
            A feasible solution; the answer is never worse.
        on_incumbent
            Called with every improvement.
        """


@runtime_checkable
class Exporter(Protocol):
    """A solver whose model can be written to a file."""

    def export(self, problem: Any, path: Path) -> None:
        """Write the problem's model to a .mps, .lp, .pb or .json file."""


def kernels_of(solver: Solver, problem: Any) -> tuple[Callable[..., Any], ...]:
    """Return the compiled entries that a solve of the problem may call, as far as the solver tells them.

    A solver tells them by a method ``kernels`` that takes a problem; they are loaded before its clock starts.
    """
    tell: Callable[[Any], Iterable[Callable[..., Any]]] | None = getattr(solver, "kernels", None)
    return () if tell is None else tuple(tell(problem))


def takes(solver: Solver, problem: Problem) -> bool:
    """Whether the solver takes the problem's kind, strategy and side constraints."""
    strategy = getattr(problem, "strategy", None)
    if getattr(problem, "has_side_constraints", False) and not (
        solver.capabilities.side_constraints and strategy is Strategy.FREE
    ):
        return False
    return problem.kind in solver.capabilities.kinds and (
        strategy is None or strategy in solver.capabilities.strategies
    )
