"""Solution files: what a solver answered to one instance, and the check of such a file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocopt.errors import InvalidSolutionError
from allocopt.files.models import SOLUTION_FORMAT, VERSION, SolutionModel
from allocopt.files.reading import parse_json, read_text
from allocopt.files.validation import check_header, validated
from allocopt.files.writing import json_by_line, write_text
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.continuity import allocation_order, check_order
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status, gap_between
from allocopt.solving.verify import check_stated, verify


@dataclass(frozen=True, slots=True)
class StoredSolution:
    """What a solution file holds.

    Parameters
    ----------
    instance
        Name of the instance.
    strategy
        Which node sets were allowed.
    solver
        Name of the solver.
    status
        What is known of the allocation.
    objective
        Total hop cost; None without an allocation.
    bound
        Proven lower bound for the strategy; None where there is none.
    allocation
        Node numbers of every job by its id; None where no allocation was found.
    seed
        Seed that the solver was given, if the file says it.
    solver_version
        Version of what did the work, if the file says it.
    order
        Job ids in an order in which every job is contiguous when it is placed, if the file says one.
    """

    instance: str
    strategy: Strategy
    solver: str
    status: Status
    objective: float | None
    bound: float | None
    allocation: Mapping[str, Sequence[int]] | None
    seed: int | None = None
    solver_version: str | None = None
    order: tuple[str, ...] | None = None


def read_solution(path: Path | str) -> StoredSolution:
    """Read a solution file.

    Raises
    ------
    BadFileError
        If the file cannot be read or is not in the format; whether the solution is right, `check_solution` says.
    """
    path = Path(path)
    model = validated(SolutionModel, check_header(parse_json(read_text(path), path), path, SOLUTION_FORMAT), path)
    return StoredSolution(
        instance=model.instance,
        strategy=Strategy(model.strategy),
        solver=model.solver,
        status=Status(model.status),
        objective=model.objective,
        bound=model.bound,
        allocation=model.allocation,
        seed=model.seed,
        solver_version=model.solver_version,
        order=None if model.order is None else tuple(model.order),
    )


def write_solution(path: Path | str, problem: TopologyProblem, result: Result) -> None:
    """Write a solver's answer. It holds no times: equal answers give equal files.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    problem
        What was solved, under the strategy it was solved under.
    result
        The answer; without a solution the allocation is null.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    path = Path(path)
    solution = object_from_solution(stored_solution(problem, result))
    validated(SolutionModel, solution, f"{path}: cannot be written")
    write_text(path, json_by_line(solution))


def stored_solution(problem: TopologyProblem, result: Result) -> StoredSolution:
    """Bring a result into the form of its file; what is not finite is nothing."""
    return StoredSolution(
        instance=problem.name,
        strategy=problem.strategy,
        solver=result.solver,
        status=result.status,
        objective=_finite(result.objective),
        bound=_finite(result.bound),
        allocation=None if result.solution is None else result.solution.as_dict(problem),
        seed=int(result.seed),
        solver_version=result.version or None,
        order=_order(problem, result),
    )


def object_from_solution(stored: StoredSolution) -> dict[str, object]:
    """Turn a solution into the object that stands in its file."""
    order = None if stored.order is None else list(stored.order)
    optional = {"seed": stored.seed, "solver_version": stored.solver_version, "order": order}
    return {
        "format": SOLUTION_FORMAT,
        "version": VERSION,
        "instance": stored.instance,
        "strategy": str(stored.strategy),
        "solver": stored.solver,
        "status": str(stored.status),
        "objective": stored.objective,
        "bound": stored.bound,
        **{key: value for key, value in optional.items() if value is not None},
        "allocation": None if stored.allocation is None else dict(stored.allocation),
    }


def check_solution(problem: TopologyProblem, stored: StoredSolution) -> float:
    """Verify a stored solution against its instance and return its objective.

    Raises
    ------
    InvalidSolutionError
        If it is of another instance, has no allocation, breaks a rule of its strategy, or states an objective,
        bound, optimality or order that does not hold.
    """
    if stored.instance != problem.name:
        raise InvalidSolutionError(f"the solution is of instance {stored.instance!r}, not of {problem.name!r}")
    if stored.allocation is None:
        raise InvalidSolutionError(f"the solution holds no allocation, its status is {stored.status}")
    if stored.status not in (Status.OPTIMAL, Status.FEASIBLE, Status.INTERRUPTED):
        raise InvalidSolutionError(f"the status is {stored.status}, but there is an allocation")
    posed = problem.with_strategy(stored.strategy)
    allocation = Allocation.from_dict(posed, stored.allocation)
    objective = verify(posed, allocation)
    if stored.order is not None:
        check_order(posed, allocation, stored.order)
    check_stated(objective, stored.objective, stored.bound)
    gap = gap_between(objective, stored.bound)
    if stored.status is Status.OPTIMAL and gap is not None and gap > EQUAL_RELATIVE:
        raise InvalidSolutionError(f"the status is OPTIMAL, but the bound {stored.bound} is below {objective:.6f}")
    return objective


def _order(problem: TopologyProblem, result: Result) -> tuple[str, ...] | None:
    """Job ids in an order of placement, where the strategy asks for one."""
    if result.solution is None or problem.strategy is not Strategy.DCAS:
        return None
    return tuple(problem.jobs[job].id for job in allocation_order(problem, result.solution))


def _finite(value: float | None) -> float | None:
    """Return the number as JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)
