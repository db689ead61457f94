"""Solvers of relocation problems: the program of ``scip``, ``highs`` and ``cp-sat``, and ``leave-first``."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import ClassVar

import numpy as np

from allocopt.arrays import BoolArray
from allocopt.formulations.backends.program import Formulation
from allocopt.formulations.backends.solver import HIGHS, BackEnd, BackEndSolver
from allocopt.formulations.relocation.cells import Cells, placeable
from allocopt.formulations.relocation.prices import Prices
from allocopt.formulations.relocation.program import RelocationModel
from allocopt.problems.certificate import Stated
from allocopt.problems.kind import get_kind
from allocopt.problems.relocation.problem import Relocation, RelocationProblem
from allocopt.relocation import RelocationSolver
from allocopt.solving import Capabilities, Promise, Run, StopReason
from allocopt.solving.budget import Budget

LARGEST_NONZEROS = 4_000_000
LARGEST_RATIO = 1e6  # largest ratio of two costs
# The program is first solved for a part of the pairs of a gang and a leaf group, unless it has more than the share
# LARGEST_PART of them. If it still has at most SMALL_PART after MORE_GROUPS groups are added, this part is tried next.
MORE_GROUPS, SMALL_PART, LARGEST_PART = 24, 0.125, 0.5
NONZEROS = 2  # estimate per node and job that may get it; low, because the nodes of a cell share columns


def _range(problem: RelocationProblem) -> str | None:
    """Return a reason if costs differ too much for solvers that work with tolerances, otherwise None."""
    costs = [cost for job in problem.running for cost in (job.stop_cost, job.move_cost, job.node_cost) if cost]
    costs += [gang.wait_cost for gang in problem.waiting if gang.wait_cost]
    if not costs or max(costs) <= LARGEST_RATIO * min(costs):
        return None
    return f"its costs lie between {min(costs):g} and {max(costs):g}, which differ by more than {LARGEST_RATIO:g}"


def _solved(
    back_end: BackEnd, problem: RelocationProblem, leaves_moves_open: bool, run: Run, budget: Budget, seed: int
) -> StopReason:
    """Solve the program within promising leaf groups, then the whole program if the answer is not proved."""
    trivial = get_kind(problem.kind).trivial(problem)
    if trivial is not None:
        run.offer(trivial)
    if not problem.waiting and not problem.leaving:
        run.prove(0.0, Stated("the problem: no gang waits, and no job has to leave"))
        return StopReason.PROVED
    if any(not problem.running[number].may_leave for number in problem.leaving):
        run.prove_infeasible()
        return StopReason.PROVED
    cells = Cells.of(problem)
    prices = Prices.of(problem, cells)
    if prices is not None:
        run.prove(prices.bound, Stated("prices of nodes, by allocopt"))
        for within in _parts(prices, run):
            least_beyond = float(prices.least_cost[~within].min(initial=np.inf))
            model = RelocationModel(problem, leaves_moves_open, cells, within, least_beyond)
            reason = back_end.solve(problem, run, model, budget, seed, run.solution)
            if run.is_proved() or run.clock.expired():
                return reason
    model = RelocationModel(problem, leaves_moves_open, cells)
    return back_end.solve(problem, run, model, budget, seed, run.solution)


def _parts(prices: Prices, run: Run) -> Iterator[BoolArray]:
    """Yield growing sets of leaf groups by gang: those that prices use, some more, then all that may improve."""
    least_cost, is_used = prices.least_cost, prices.is_used.copy()
    within = np.broadcast_to(is_used, least_cost.shape)
    if within.mean() > LARGEST_PART:
        return
    yield within.copy()
    is_used[np.argsort(least_cost.min(axis=0), kind="stable")[:MORE_GROUPS]] = True
    if within.mean() <= SMALL_PART:
        yield within.copy()
    if run.objective is not None:
        better = within | (least_cost < run.objective)
        if not better.all():
            yield better


class IntegerRelocation(BackEndSolver[RelocationProblem, RelocationModel], RelocationSolver):
    """Solver of the program `RelocationModel`."""

    largest_nonzeros: ClassVar[int] = LARGEST_NONZEROS
    no_model = "no gang waits, and no job is on a node to be emptied"

    def refusal(self, problem: RelocationProblem) -> str | None:
        return (
            super().refusal(problem)
            or _range(problem)
            or self.too_many(NONZEROS * len(placeable(problem)) * problem.size)
        )

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        return _solved(self.back_end, problem, False, run, budget, seed)

    def tables(self, problem: RelocationProblem) -> RelocationModel:
        return RelocationModel(problem)

    def prepare(self, problem: RelocationProblem, tables: RelocationModel, run: Run) -> Relocation | None:
        return None

    def formulate(self, problem: RelocationProblem, tables: RelocationModel, known: float | None = None) -> Formulation:
        return tables


class LeaveFirst(RelocationSolver):
    """Decide which jobs leave by a program without new nodes for moving jobs, then find nodes for these jobs.

    This solver is for problems in which too many jobs may move for the whole program. The bound is that of the smaller
    program. If all moving jobs find nodes, the answer is optimal.
    """

    name: ClassVar[str] = "leave-first"
    capabilities: ClassVar[Capabilities] = Capabilities(
        frozenset(), frozenset({Promise.ANYTIME, Promise.BOUND}), f"{LARGEST_NONZEROS:,} nonzeros of the model"
    )

    def is_available(self) -> bool:
        return find_spec(HIGHS.package) is not None

    def refusal(self, problem: RelocationProblem) -> str | None:
        nonzeros = NONZEROS * len(problem.waiting) * problem.size
        if nonzeros > LARGEST_NONZEROS:
            return f"its model would have {nonzeros:,} nonzeros, at most {LARGEST_NONZEROS:,} are supported"
        return super().refusal(problem) or _range(problem)

    def search(self, problem: RelocationProblem, run: Run, budget: Budget, seed: int) -> StopReason:
        return _solved(HIGHS, problem, True, run, budget, seed)
