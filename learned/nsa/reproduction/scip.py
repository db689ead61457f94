"""SCIP on the paper's model with a time limit, and which jobs its own last solution leaves out."""

from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import IntArray
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.problems.topology.tables import Blocks
from allocopt.solving.budget import Budget
from allocopt.solving.result import Status
from formulations.topology.scip_paper import Paper, ScipPaper


@dataclass(frozen=True, slots=True)
class WatchedPaper(Paper):
    """The paper's model with cancelled jobs; keeps the columns of every solution that SCIP shows."""

    shown: list[IntArray] = field(default_factory=list)

    def decode(self, chosen: IntArray) -> Allocation | None:
        """Keep a solution; see `Paper.decode`."""
        self.shown.append(chosen)
        return Paper.decode(self, chosen)

    def started(self) -> tuple[IntArray, float]:
        """Jobs that the last solution allocates, and what they cost together."""
        n_jobs, m = len(self.problem.jobs), len(self.problem.idle_nodes)
        if not self.shown:
            return np.zeros(0, dtype=np.int64), 0.0
        chosen = self.shown[-1]
        jobs, starts = np.divmod(chosen[chosen < n_jobs * m], m)
        rows = np.searchsorted(self.blocks.sizes, self.problem.sizes[jobs])
        return jobs, float(self.blocks.costs[rows, starts].sum())


@dataclass(frozen=True)
class WatchedScip(ScipPaper):
    """SCIP on that model; ``models`` are those it was given, the last one last."""

    cancel: bool = True
    models: list[WatchedPaper] = field(default_factory=list, repr=False, compare=False)

    def formulate(self, problem: TopologyProblem, blocks: Blocks) -> WatchedPaper:
        """Write the problem as the paper's model, and keep it."""
        self.models.append(WatchedPaper(problem, blocks, self.cancel))
        return self.models[-1]


@dataclass(frozen=True, slots=True)
class Limited:
    """How SCIP fares with a window under a time limit.

    Parameters
    ----------
    cost
        Of the jobs that it allocates.
    jobs, cancelled
        Number of jobs of the window, and of those that it leaves out.
    is_proved
        Whether it finished.
    seconds
        Wall clock.
    """

    cost: float
    jobs: int
    cancelled: int
    is_proved: bool
    seconds: float


def solve_limited(problem: TopologyProblem, seconds: float) -> Limited:
    """Let SCIP solve the paper's model of a window."""
    solver, n_jobs = WatchedScip(), len(problem.jobs)
    window = problem.with_strategy("scas")
    if solver.refusal(window) is not None:
        # Too large to be written down: nothing is allocated within the limit.
        return Limited(0.0, n_jobs, n_jobs, False, seconds)
    result = solver.solve(window, Budget(seconds), 0).unless_interrupted()
    is_proved = result.status is Status.OPTIMAL
    if is_proved:
        # A window whose optimum is the cheapest block of every job is solved without SCIP.
        return Limited(float(result.objective or 0.0), n_jobs, 0, True, result.runtime_s)
    jobs, cost = solver.models[-1].started()
    return Limited(cost, n_jobs, n_jobs - len(jobs), False, result.runtime_s)
