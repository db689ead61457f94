"""The record of one running solve, from which its `Result` is made."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from allocopt.problems.base import Problem
from allocopt.problems.certificate import Certificate
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.protocol import IncumbentCallback, Solver
from allocopt.solving.result import Incumbent, Result, Status, StopReason, gap_between, sign_of, tolerance_of

AnyCertificate = Certificate[Any] | Callable[[], Certificate[Any]] | None


class Run:
    """Record of one solve: its clock, which starts now, its incumbent, at first the warm start, and its bound."""

    def __init__(
        self,
        solver: Solver,
        problem: Problem,
        budget: Budget,
        seed: int,
        warm_start: Any = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> None:
        self.clock: Clock = budget.start()
        self.solution: Any = None
        self.objective: float | None = None
        self.bound: float | None = None
        self.certificate: AnyCertificate = None
        self.interrupted = False
        self.infeasible = False
        self._solver = solver
        self._problem = problem
        self._seed = seed
        self._gap = budget.gap
        self._sign = sign_of(problem)
        self._on_incumbent = on_incumbent
        self._incumbents: list[Incumbent] = []
        if warm_start is not None:
            self.offer(warm_start)

    def offer(self, solution: Any, objective: float | None = None) -> bool:
        """Take a feasible solution if it is better than the incumbent, and return whether it was."""
        if objective is None:
            objective = self._problem.objective(solution)
        if self.objective is not None and self._sign * objective >= self._sign * self.objective:
            return False
        # Before anybody is told: the callback may raise Ctrl-C, and the answer is kept.
        self.solution, self.objective = solution, objective
        self._stop_if_close()
        self.foresee(objective)
        return True

    def foresee(self, objective: float) -> None:
        """Add an objective to the trajectory if it is better than the last: its solution is known, or yet to come.

        A solver that runs inside another one shows its objectives at once, and its solution at its end.
        """
        if self._incumbents and self._sign * objective >= self._sign * self._incumbents[-1].objective:
            return
        incumbent = Incumbent(self.clock.elapsed(), objective, self.bound)
        self._incumbents.append(incumbent)
        if self._on_incumbent is not None:
            self._on_incumbent(incumbent)

    def prove(self, bound: float, certificate: AnyCertificate = None) -> None:
        """Take a valid bound if it is tighter than the one known.

        The certificate is what proves it, or a function that makes it, which is called at the end if no tighter bound
        comes.
        """
        if math.isfinite(bound) and (self.bound is None or self._sign * bound > self._sign * self.bound):
            self.bound, self.certificate = bound, certificate
            self._stop_if_close()

    def prove_infeasible(self) -> None:
        """Record that there is no solution; does nothing where one is known."""
        self.infeasible = self.solution is None

    def is_proved(self) -> bool:
        """Whether incumbent and bound are equal within the tolerance of the package, or there is no solution."""
        if self.infeasible:
            return True
        if self.objective is None or self.bound is None:
            return False
        return self._sign * (self.objective - self.bound) <= tolerance_of(self.objective)

    def _stop_if_close(self) -> None:
        gap = gap_between(self.objective, self.bound)
        if self._gap > 0.0 and (self.is_proved() or (gap is not None and gap <= self._gap)):
            # Its solver watches the clock, wherever it is.
            self.clock.stopped = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Turn Ctrl-C inside the block into the end of the search, keeping what was found."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True

    def result(self, stopped_by: StopReason = StopReason.COMPLETED) -> Result:
        """Return the result; an interruption, a proof or a gap goes before the reason that the method gives."""
        status = Status.UNKNOWN if self.solution is None else Status.FEASIBLE
        if self.infeasible:
            self.bound = self.certificate = None
            status, stopped_by = Status.INFEASIBLE, StopReason.PROVED
        elif self.is_proved():
            # A bound may pass its own optimum by rounding; what is printed never does.
            self.bound = self.objective
            status, stopped_by = Status.OPTIMAL, StopReason.PROVED
        elif self.clock.cancelled:
            stopped_by = StopReason.CANCELLED
        elif self.clock.stopped:
            stopped_by = StopReason.GAP
        if self.interrupted:
            stopped_by = StopReason.INTERRUPTED
            status = status if status in (Status.OPTIMAL, Status.INFEASIBLE) else Status.INTERRUPTED
        return Result(
            status=status,
            stopped_by=stopped_by,
            objective=self.objective,
            bound=self.bound,
            runtime_s=self.clock.elapsed(),
            solution=self.solution,
            seed=self._seed,
            solver=self._solver.name,
            version=self._solver.version,
            incumbents=tuple(self._incumbents),
            certificate=self.certificate() if callable(self.certificate) else self.certificate,
        )
