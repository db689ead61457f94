"""The allocator that asks a topology solver."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import IntArray
from allocopt.cluster.topology import Topology
from allocopt.errors import NoSolutionError, UsageError
from allocopt.problems.topology import Allocation, Job, TopologyProblem
from allocopt.simulator.placement import Share, whole
from allocopt.solving.protocol import Solver
from allocopt.solving.solve import solve


@dataclass(frozen=True, slots=True)
class TopologyAllocator:
    """Whole nodes by a topology solver: the jobs that start together are a window.

    One-node jobs, which have no cost, take the first idle nodes (NSA paper, section III-A).

    Parameters
    ----------
    topology
        How the nodes are connected.
    solver
        The solver.
    strategy
        ``scas``, ``dcas`` or ``free``.
    time_limit, iterations
        What it may spend on a window, in seconds and in steps; None for no limit, and for the solver's default.
    seed
        Fixes every random choice.
    """

    topology: Topology
    solver: Solver
    strategy: str = "free"
    time_limit: float | None = None
    iterations: int | None = None
    seed: int = 0

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Solve the window.

        Raises
        ------
        UsageError
            If nodes are shared, or the solver does not take the window.
        NoSolutionError
            If the solver finds nothing within its limit.
        """
        if free.shape[1] != 1 or free.max(initial=0) > 1:
            raise UsageError("a topology solver gives away whole nodes, this platform shares them")
        idle = np.flatnonzero(free[:, 0])
        sizes = request[:, 0]
        single = sizes == 1
        taken = int(single.sum())
        shares: list[Share | None] = [None] * len(names)
        for job, node in zip(np.flatnonzero(single).tolist(), idle[:taken], strict=True):
            shares[job] = whole(node[None])
        several = np.flatnonzero(~single).tolist()
        if several:
            window = tuple(Job(names[job], int(sizes[job])) for job in several)
            problem = TopologyProblem(self.topology, idle[taken:], window, name=f"job {names[several[0]]} and others")
            for job, nodes in zip(several, self._solve(problem).nodes, strict=True):
                shares[job] = whole(nodes)
        return [share for share in shares if share is not None]

    def _solve(self, problem: TopologyProblem) -> Allocation:
        result = solve(problem, self.strategy, self.solver, self.time_limit, self.seed, iterations=self.iterations)
        allocation = result.solution
        if not isinstance(allocation, Allocation):
            raise NoSolutionError(f"solver {self.solver.name!r} found no allocation of the window of {problem.name}")
        return allocation
