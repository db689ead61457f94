"""Solution files: what a solver answered to one instance, and the check of such a file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocopt.errors import InvalidSolutionError
from allocopt.files.faults import bad_file
from allocopt.files.kinds import KINDS
from allocopt.files.models import SOLUTION_FORMAT
from allocopt.files.reading import parse_json, read_text
from allocopt.files.validation import VERSION, check_header, validated
from allocopt.files.writing import json_by_line, write_text
from allocopt.problems.base import Problem, Strategy
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem
from allocopt.problems.knapsack import KnapsackProblem, Selection
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
        Which node sets were allowed; None where the kind of the instance has no strategies.
    solver
        Name of the solver.
    status
        What is known of the solution.
    objective
        Objective of the solution; None without one.
    bound
        Proven bound (for the strategy); None where there is none.
    allocation
        Of a topology problem: node numbers of every job by its id; None where no allocation was found.
    seed
        Seed that the solver was given, if the file says it.
    solver_version
        Version of what did the work, if the file says it.
    order
        Job ids in an order in which every job is contiguous when it is placed, if the file says one.
    kind
        Kind of the problem.
    selected
        Of a knapsack: ids of the selected jobs; None where no selection was found.
    slots
        Slot of every selected job by its id, where the instance has slots.
    placements
        Of a co-allocation: guest, host and quota of every guest that is placed; None where no answer was found.
    """

    instance: str
    strategy: Strategy | None
    solver: str
    status: Status
    objective: float | None
    bound: float | None
    allocation: Mapping[str, Sequence[int]] | None = None
    seed: int | None = None
    solver_version: str | None = None
    order: tuple[str, ...] | None = None
    kind: str = TopologyProblem.kind
    selected: tuple[str, ...] | None = None
    slots: Mapping[str, int] | None = None
    placements: tuple[tuple[str, str, float], ...] | None = None

    @property
    def answer(self) -> Any:
        """The solution of its kind, as the file holds it."""
        return getattr(self, KINDS[self.kind].answer)


def read_solution(path: Path | str) -> StoredSolution:
    """Read a solution file.

    Raises
    ------
    BadFileError
        If the file cannot be read or is not in the format; whether the solution is right, `check_solution` says.
    """
    path = Path(path)
    held = check_header(parse_json(read_text(path), path), path, SOLUTION_FORMAT)
    kind = next((name for name, kind in KINDS.items() if kind.answer in held), TopologyProblem.kind)
    if KINDS[kind].answer not in held and held.get("strategy") is None:
        raise bad_file(path, "top level", f"has none of {', '.join(one.answer for one in KINDS.values())}")
    fields: dict[str, Any] = dict(validated(KINDS[kind].solution, held, path))
    del fields["format"], fields["version"]
    fields["status"] = Status(fields["status"])
    if fields["strategy"] is not None:
        fields["strategy"] = Strategy(fields["strategy"])
    for name in ("order", "selected"):
        if fields.get(name) is not None:
            fields[name] = tuple(fields[name])
    if fields.get("placements") is not None:
        fields["placements"] = tuple((place.guest, place.host, place.quota) for place in fields["placements"])
    return StoredSolution(kind=kind, **fields)


def write_solution(path: Path | str, problem: Problem, result: Result) -> None:
    """Write a solver's answer. It holds no times: equal answers give equal files.

    Parameters
    ----------
    path
        The file; ``.gz`` is compressed.
    problem
        What was solved, under the strategy it was solved under.
    result
        The answer; without a solution the key of its kind is null.

    Raises
    ------
    BadFileError
        If the file cannot be written, or would not be read again.
    """
    path = Path(path)
    solution = object_from_solution(stored_solution(problem, result))
    validated(KINDS[problem.kind].solution, solution, f"{path}: cannot be written")
    write_text(path, json_by_line(solution))


def stored_solution(problem: Problem, result: Result) -> StoredSolution:
    """Bring a result into the form of its file; what is not finite is nothing."""
    solution = result.solution
    answer: dict[str, Any] = {}
    if isinstance(problem, TopologyProblem):
        allocation = None if solution is None else solution.as_dict(problem)
        answer = {"allocation": allocation, "order": _order(problem, result)}
    elif isinstance(problem, KnapsackProblem) and solution is not None:
        answer = {"selected": tuple(solution.ids(problem)), "slots": solution.slot_of(problem) or None}
    elif isinstance(problem, CoallocationProblem) and solution is not None:
        answer = {"placements": tuple(solution.as_list(problem))}
    return StoredSolution(
        instance=problem.name,
        strategy=getattr(problem, "strategy", None),
        solver=result.solver,
        status=result.status,
        objective=_finite(result.objective),
        bound=_finite(result.bound),
        seed=int(result.seed),
        solver_version=result.version or None,
        kind=problem.kind,
        **answer,
    )


def object_from_solution(stored: StoredSolution) -> dict[str, object]:
    """Turn a solution into the object that stands in its file."""
    order = None if stored.order is None else list(stored.order)
    slots = None if stored.slots is None else dict(stored.slots)
    optional = {"seed": stored.seed, "solver_version": stored.solver_version, "order": order, "slots": slots}
    return {
        "format": SOLUTION_FORMAT,
        "version": VERSION,
        "instance": stored.instance,
        "strategy": None if stored.strategy is None else str(stored.strategy),
        "solver": stored.solver,
        "status": str(stored.status),
        "objective": stored.objective,
        "bound": stored.bound,
        **{key: value for key, value in optional.items() if value is not None},
        KINDS[stored.kind].answer: None if stored.answer is None else _answer_object(stored),
    }


def _answer_object(stored: StoredSolution) -> object:
    """Turn the solution itself into what stands in its file."""
    if stored.kind == CoallocationProblem.kind:
        return [{"guest": guest, "host": host, "quota": quota} for guest, host, quota in stored.answer]
    return dict(stored.answer) if stored.kind == TopologyProblem.kind else list(stored.answer)


def check_solution(problem: Problem, stored: StoredSolution) -> float:
    """Verify a stored solution against its instance and return its objective.

    Raises
    ------
    InvalidSolutionError
        If it is of another instance or kind, has no solution, breaks a rule of its problem, or states
        an objective, bound, optimality or order that does not hold.
    """
    if stored.instance != problem.name:
        raise InvalidSolutionError(f"the solution is of instance {stored.instance!r}, not of {problem.name!r}")
    _check_kind(problem, stored)
    what = {"topology": "an allocation", "knapsack": "a selection", "coallocation": "a co-allocation"}[stored.kind]
    if stored.answer is None:
        raise InvalidSolutionError(f"the solution holds no {what.split()[-1]}, its status is {stored.status}")
    if stored.status not in (Status.OPTIMAL, Status.FEASIBLE, Status.INTERRUPTED):
        raise InvalidSolutionError(f"the status is {stored.status}, but there is {what}")
    posed = _posed(problem, stored)
    solution = solution_of(posed, stored)
    objective = verify(posed, solution)
    if stored.order is not None and isinstance(posed, TopologyProblem):
        check_order(posed, solution, stored.order)
    check_stated(objective, stored.objective, stored.bound, 1.0 if problem.sense == "min" else -1.0)
    gap = gap_between(objective, stored.bound)
    if stored.status is Status.OPTIMAL and gap is not None and gap > EQUAL_RELATIVE:
        side = "below" if problem.sense == "min" else "above"
        raise InvalidSolutionError(f"the status is OPTIMAL, but the bound {stored.bound} is {side} {objective:.12g}")
    return objective


def solution_of(problem: Problem, stored: StoredSolution) -> Any:
    """Return a stored solution as its problem has it; nothing is checked but the ids of the jobs.

    Raises
    ------
    InvalidSolutionError
        If it is of another kind, names jobs that the problem does not have, or leaves out what must be there.
    """
    _check_kind(problem, stored)
    if isinstance(problem, TopologyProblem):
        return Allocation.from_dict(problem, stored.allocation or {})
    if isinstance(problem, CoallocationProblem):
        return Coallocation.from_list(problem, stored.placements or ())
    assert isinstance(problem, KnapsackProblem), "no other kind has solution files"
    return Selection.from_ids(problem, stored.selected or (), stored.slots)


def _check_kind(problem: Problem, stored: StoredSolution) -> None:
    """Raise `InvalidSolutionError` if a solution is of another kind than a problem."""
    if stored.kind != problem.kind:
        raise InvalidSolutionError(f"the solution is of a {stored.kind} problem, {problem.name!r} is a {problem.kind}")


def _posed(problem: Problem, stored: StoredSolution) -> Problem:
    """Return the problem under the strategy of a solution."""
    if not isinstance(problem, TopologyProblem) or stored.strategy is None:
        return problem
    return problem.with_strategy(stored.strategy)


def _order(problem: TopologyProblem, result: Result) -> tuple[str, ...] | None:
    """Job ids in an order of placement, where the strategy asks for one."""
    if result.solution is None or problem.strategy is not Strategy.DCAS:
        return None
    return tuple(problem.jobs[job].id for job in allocation_order(problem, result.solution))


def _finite(value: float | None) -> float | None:
    """Return the number as JSON can hold it."""
    return None if value is None or not math.isfinite(value) else float(value)
