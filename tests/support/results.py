"""What tests say of results."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from allocopt.formulations.backends.program import Formulation
from allocopt.problems.base import Problem
from allocopt.solving.budget import Budget
from allocopt.solving.protocol import Solver
from allocopt.solving.result import Result, Status, StopReason
from allocopt.solving.verify import verify_result


def solved_by(
    solver: Solver,
    problem: Problem,
    budget: Budget = Budget(),  # noqa: B008 (immutable)
    seed: int = 0,
    warm_start: object = None,
) -> Result:
    """Solve a problem, and verify what is said of the answer."""
    result = solver.solve(problem, budget, seed, warm_start)
    verify_result(problem, result)
    return result


def assert_proved(result: Result, expected: float, relative: float = 1e-9) -> None:
    """Assert that a result is proved, and its objective the expected one within a relative distance."""
    assert result.status is Status.OPTIMAL
    assert result.stopped_by is StopReason.PROVED
    assert result.objective == pytest.approx(expected, rel=relative, abs=1e-9)
    assert result.bound == result.objective


def assert_points(
    model: Formulation, solutions: Iterable[tuple[Any, float]], worth: Callable[[float], float], most: int
) -> None:
    """Assert that solutions are points of a program of so many nonzeros at most, at their worth, and come back."""
    program, encoded = model.program(), 0
    assert program.matrix.nnz <= most
    for solution, value in solutions:
        chosen = model.encode(solution)
        if chosen is not None:
            encoded += 1
            rows = program.matrix @ np.isin(np.arange(len(program.costs)), chosen).astype(float)
            assert (program.row_lower <= rows).all()
            assert (rows <= program.row_upper + 1e-9).all()
            assert worth(program.cost_of(chosen)) == pytest.approx(value, rel=1e-9, abs=1e-6)
            assert model.decode(chosen) == solution
    assert encoded
