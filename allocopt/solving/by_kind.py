"""One name for several solvers, each of which takes its kinds of problem."""

from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

from allocopt.errors import UsageError
from allocopt.problems.base import Problem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Capabilities, Exporter, IncumbentCallback, Solver, kernels_of
from allocopt.solving.result import Result


class SolverByKind:
    """A solver that hands every problem to the one of its parts that takes problems of that kind.

    A subclass sets ``name`` and ``makers``: what makes the parts, which have that name too.
    """

    name: ClassVar[str]
    makers: ClassVar[tuple[Callable[[], Solver], ...]]

    def __init__(self) -> None:
        parts = [make() for make in type(self).makers]
        self._parts = {kind: part for part in parts for kind in part.capabilities.kinds}
        self._capabilities = reduce(_joined, (part.capabilities for part in parts))

    @property
    def capabilities(self) -> Capabilities:
        """What the parts take together, and what every one of them promises."""
        return self._capabilities

    @property
    def version(self) -> str:
        """Version of what does the work of the first part; a result names its own."""
        return next(iter(self._parts.values())).version

    def is_available(self) -> bool:
        """Whether all parts can run here."""
        return all(part.is_available() for part in self._parts.values())

    def part(self, problem: Problem) -> Solver:
        """Return the part for the problem's kind.

        Raises
        ------
        UsageError
            If there is none.
        """
        if problem.kind not in self._parts:
            kinds = ", ".join(sorted(self._parts))
            raise UsageError(f"solver {self.name!r} does not take {problem.kind} problems; it takes {kinds}")
        return self._parts[problem.kind]

    def refusal(self, problem: Any) -> str | None:
        """Why the problem is too large for its part; None if it is not."""
        return self.part(problem).refusal(problem)

    def kernels(self, problem: Any) -> Iterable[Callable[..., Any]]:
        """Compiled entries that the part of the problem's kind may call."""
        return kernels_of(self.part(problem), problem)

    def solve(
        self,
        problem: Any,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result:
        """Let the part of the problem's kind solve it; see `allocopt.solving.protocol.Solver.solve`."""
        return self.part(problem).solve(problem, budget, seed, warm_start, on_incumbent)


class ExporterByKind(SolverByKind):
    """A `SolverByKind` whose parts all have a model that can be written to a file."""

    def export(self, problem: Any, path: Path) -> None:
        """Write the problem's model; see `allocopt.solving.protocol.Exporter`."""
        part = self.part(problem)
        assert isinstance(part, Exporter), "every part of an exporter is one"
        part.export(problem, path)


def _joined(first: Capabilities, second: Capabilities) -> Capabilities:
    """Join what two parts take; only what both promise is promised."""
    return Capabilities(
        first.strategies | second.strategies,
        first.promises & second.promises,
        f"{first.largest}; {' and '.join(sorted(second.kinds))}: {second.largest}",
        first.kinds | second.kinds,
        first.side_constraints or second.side_constraints,
    )
