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
BOUND_EVERY_S = 1.0  # time after which every tighter bound is a point of the trajectory
WARM_START = "warm start"


class Run:
    """Record of one solve: its clock, bound and incumbent.

    The clock starts when the record is made. The warm start, if there is one, is the first incumbent.
    """

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
        self._reported_bound: float | None = None
        if warm_start is not None:
            self.offer(warm_start, solver=WARM_START)

    def offer(self, solution: Any, objective: float | None = None, *, solver: str | None = None) -> bool:
        """Take a feasible solution if it is better than the incumbent; return whether it is.

        ``solver`` names the solver inside this one that found it.
        """
        if objective is None:
            objective = self._problem.objective(solution)
        if self.objective is not None and self._sign * objective >= self._sign * self.objective:
            return False
        # Keep the answer before calling the callback, which may raise Ctrl-C.
        self.solution, self.objective = solution, objective
        self._stop_if_close()
        self.foresee(objective, solver=solver)
        return True

    def foresee(self, objective: float | None = None, bound: float | None = None, *, solver: str | None = None) -> None:
        """Add a better objective or a tighter bound to the trajectory; solution and certificate may come later.

        A solver that runs inside another one reports both immediately, and its solution and certificate at its end. A
        tighter bound alone is added if it halves the distance to the objective, or `BOUND_EVERY_S` seconds after the
        last point.
        """
        if bound is not None and self._is_tighter(bound, self._reported_bound):
            self._reported_bound = bound
        last = self._incumbents[-1] if self._incumbents else None
        if objective is None or (last is not None and self._sign * objective >= self._sign * last.objective):
            if last is None or not self._is_news(last):
                return
            objective = last.objective
        incumbent = Incumbent(self.clock.elapsed(), objective, self._reported_bound, solver or self._solver.name)
        self._incumbents.append(incumbent)
        if self._on_incumbent is not None:
            self._on_incumbent(incumbent)

    def _is_news(self, last: Incumbent) -> bool:
        """Return whether the bound is worth a point after the last one, whose objective is still the best."""
        if self.interrupted or self._reported_bound is None or self._proves(last.objective, last.bound):
            return False
        left = self._sign * (last.objective - self._reported_bound)
        before = math.inf if last.bound is None else self._sign * (last.objective - last.bound)
        return left <= before / 2 or (left < before and self.clock.elapsed() - last.time_s >= BOUND_EVERY_S)

    def prove(self, bound: float, certificate: AnyCertificate = None, *, solver: str | None = None) -> None:
        """Take a valid bound if it is tighter than the current one.

        ``certificate`` proves the bound, or is a function that makes the certificate. The function is called when the
        solve ends, if this bound is still the tightest. ``solver`` names the solver inside this one that
        proved it.
        """
        if self._is_tighter(bound, self.bound):
            self.bound, self.certificate = bound, certificate
            self._stop_if_close()
            self.foresee(None, bound, solver=solver)

    def _is_tighter(self, bound: float, other: float | None) -> bool:
        return math.isfinite(bound) and (other is None or self._sign * bound > self._sign * other)

    def prove_infeasible(self) -> None:
        """Record that there is no solution, unless one has been found."""
        self.infeasible = self.solution is None

    def is_proved(self) -> bool:
        """Return whether incumbent and bound are equal within the tolerance, or the problem is proved infeasible."""
        if self.infeasible:
            return True
        return self._proves(self.objective, self.bound)

    def _proves(self, objective: float | None, bound: float | None) -> bool:
        """Return whether a bound is equal to an objective within the tolerance, or excludes better ones."""
        if objective is None or bound is None:
            return False
        return self._sign * (objective - bound) <= tolerance_of(objective)

    def _stop_if_close(self) -> None:
        gap = gap_between(self.objective, self.bound)
        if self._gap > 0.0 and (self.is_proved() or (gap is not None and gap <= self._gap)):
            # Solvers check the clock, so this ends the search.
            self.clock.stopped = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """End the search at Ctrl-C inside the block; what was found is kept."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True

    def result(self, stopped_by: StopReason = StopReason.COMPLETED) -> Result:
        """Return the result; an interruption, a proof or a gap takes precedence over the method's own stop reason."""
        status = Status.UNKNOWN if self.solution is None else Status.FEASIBLE
        if self.infeasible:
            self.bound = self.certificate = None
            status, stopped_by = Status.INFEASIBLE, StopReason.PROVED
        elif self.is_proved():
            # Through rounding, a bound may lie on the wrong side of the optimum; the reported one must not.
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
