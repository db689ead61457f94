"""Solvers as the allocators that a replay advances with."""

import numpy as np

from allocopt.errors import NoSolutionError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve
from allocopt.traces.windows import Allocate

LARGEST_SEED = 2**31


def solver_allocator(name: str, strategy: str, iterations: int, rng: np.random.Generator) -> Allocate:
    """Make an allocator of an installed solver.

    Parameters
    ----------
    name
        Name of the solver.
    strategy
        Strategy under which it allocates: ``scas``, ``dcas`` or ``free``.
    iterations
        Its budget per window. There is no time limit, so that the same generator state gives the same windows.
    rng
        Source of the seed of each window.

    Raises
    ------
    UsageError
        If there is no such solver, or it does not take the strategy; when called, if it does not take the window.
    MissingPackageError
        If the solver needs a package that is not installed.
    """
    solver = get_solver(name)
    if strategy not in solver.capabilities.strategies:
        able = ", ".join(sorted(solver.capabilities.strategies))
        raise UsageError(f"solver {name!r} does not take {strategy}; it takes {able}")

    def allocate(problem: TopologyProblem) -> Allocation:
        seed = int(rng.integers(LARGEST_SEED))
        result = solve(problem, strategy, solver, None, seed, iterations=iterations)
        allocation = result.solution
        if not isinstance(allocation, Allocation):
            raise NoSolutionError(f"solver {name!r} found no allocation of window {problem.name!r}")
        return allocation

    return allocate
