"""Base class of solvers that search, and running one solver inside another."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import ClassVar

from typing_extensions import TypeVar

from allocopt.kernels.ready import make_ready, unloaded
from allocopt.problems.base import Problem
from allocopt.problems.certificate import Certificate
from allocopt.problems.kind import get_kind, kind_of
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import IncumbentCallback, Solver
from allocopt.solving.result import Incumbent, Result, Status, StopReason
from allocopt.solving.run import Run
from allocopt.version import __version__


def rounded(number: int) -> str:
    """Return an integer of any size as text, from a million on with three significant digits."""
    if number > 10**300:
        return "more than 1e300"
    return f"{number:,}" if number < 1_000_000 else f"{number:.3g}"


P = TypeVar("P", bound=Problem)
S = TypeVar("S")


class SearchSolver(Solver[P, S]):
    """Base of a `Solver` that searches, and that returns the trivial solution of its kind if it finds no other.

    A subclass defines ``name``, ``kind``, ``capabilities`` and ``search``. By default it takes all problems that its
    kind takes, uses no kernels, and has the version of this package.
    """

    kind: ClassVar[str]

    @property
    def version(self) -> str:
        return __version__

    def is_available(self) -> bool:
        return True

    def takes(self, problem: P) -> bool:
        return True

    def refusal(self, problem: P) -> str | None:
        return get_kind(self.kind).refusal(problem)

    def kernels(self, problem: P) -> Iterable[Callable[..., object]]:
        return ()

    def is_ready(self, problem: P, run: Run) -> bool:
        """Load the kernels; return whether they are loaded within the time limit."""
        missing = unloaded(self.kernels(problem))
        return not missing or make_ready(missing, run.clock.remaining())

    @abstractmethod
    def search(self, problem: P, run: Run, budget: Budget, seed: int) -> StopReason:
        """Offer solutions and prove bounds to the run until done or out of time; return why the search ended.

        If there is a warm start, it is the first incumbent of the run.
        """

    def begin(
        self, problem: P, run: Run, bound: float, certificate: Certificate[P], solutions: Iterable[S]
    ) -> StopReason:
        """Record a bound, offer the trivial solution and, while there is time, the given ones; return why it ended."""
        run.prove(bound, certificate)
        run.offer(get_kind(self.kind).trivial(problem))
        for solution in solutions:
            run.offer(solution)
            if run.clock.expired() or run.is_proved():
                break
        return StopReason.TIME_LIMIT if run.clock.expired() else StopReason.COMPLETED

    def solve(
        self,
        problem: P,
        budget: Budget,
        seed: int,
        warm_start: S | None = None,
        on_incumbent: IncumbentCallback | None = None,
    ) -> Result[S]:
        # Load kernels before the clock starts, even if another solver calls this one.
        missing = unloaded(self.kernels(problem))
        if missing and not budget.includes_compiling:
            make_ready(missing)
        run = Run(self, problem, budget, seed, warm_start, on_incumbent)
        stopped_by = StopReason.TIME_LIMIT
        with run.interruptible():
            if self.is_ready(problem, run):
                stopped_by = self.search(problem, run, budget, seed)
        if run.solution is None and not run.infeasible:
            solution = get_kind(self.kind).trivial(problem)
            if solution is not None:
                run.offer(solution)
        return run.result(stopped_by)


def ask(solver: Solver, asked: Problem, budget: Budget, seed: int, problem: Problem, run: Run) -> StopReason:
    """Run a solver as a part of the solve of ``problem``, add its solution and bound to the run, return why it stopped.

    The solver gets ``asked``: the same problem, possibly under another strategy. If the strategies are equal, it starts
    from the incumbent.
    """
    # Each strategy of a kind includes those before it: solutions under a narrower strategy are solutions under this
    # one, and bounds under a wider strategy are bounds under this one.
    kind = kind_of(problem)
    ranks = {strategy: rank for rank, strategy in enumerate(kind.strategies)}
    wide = ranks.get(kind.strategy_of(asked) or "", 0) - ranks.get(kind.strategy_of(problem) or "", 0)

    def report(incumbent: Incumbent) -> None:
        objective = incumbent.objective if wide <= 0 else None
        bound = incumbent.bound if wide >= 0 else None
        run.foresee(objective, bound, solver=incumbent.solver or solver.name)

    result = solver.solve(asked, budget, seed, run.solution if wide == 0 else None, report)
    run.interrupted = result.status is Status.INTERRUPTED or result.stopped_by is StopReason.INTERRUPTED
    if result.status is Status.INFEASIBLE:
        run.prove_infeasible()
    if result.solution is not None and wide <= 0:
        run.offer(result.solution, result.objective, solver=result.solver)
    if result.bound is not None and wide >= 0:
        run.prove(result.bound, result.certificate, solver=result.solver)
    return result.stopped_by
