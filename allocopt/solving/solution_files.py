"""Solution files, which hold a solver's answer to one instance, and their check; files of best-known values."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, RootModel

from allocopt.errors import InvalidSolutionError
from allocopt.files.faults import bad_file
from allocopt.files.models import (
    SOLUTION_FORMAT,
    VERSION,
    FileModel,
    InstanceName,
    SolutionModel,
    check_header,
    validated,
)
from allocopt.files.reading import parse_json, read_text
from allocopt.files.writing import json_by_line, write_text
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of, working_kinds
from allocopt.solving.certify import certificate_from_object, check_bound
from allocopt.solving.result import EQUAL_RELATIVE, Result, Status, gap_between, sign_of
from allocopt.solving.verify import check_stated, verify


def read_solution(path: Path | str) -> SolutionModel:
    """Read a solution file without verifying it; raise `BadFileError` if it cannot be read or has another format."""
    path = Path(path)
    return solution_from_object(parse_json(read_text(path), path), path)


def solution_from_object(obj: object, path: Path) -> SolutionModel:
    """Return the solution of a parsed file; raise `BadFileError` if it is wrong."""
    held = check_header(obj, path, SOLUTION_FORMAT)
    # A solution file does not state its kind; the key of its answer identifies it.
    models = [kind.codec.solution_model for kind in working_kinds()]
    for model in models:
        # If the file lacks that key, a strategy identifies the kind.
        if model.answer_key in held or (held.get("strategy") is not None and model.has_strategy()):
            return validated(model, held, path)
    raise bad_file(path, "top level", f"has none of the keys {', '.join(model.answer_key for model in models)}")


def write_solution(path: Path | str, problem: Problem, result: Result) -> None:
    """Write a solver's answer, compressed if the name ends in ``.gz``.

    Times are left out, so that equal answers give equal files. Raises `BadFileError` if the file cannot be written or
    could not be read again.
    """
    path = Path(path)
    held = object_from_result(problem, result)
    if result.certificate is not None and result.bound is not None:
        # The solution stays last, because it is long.
        last = kind_of(problem).codec.solution_model.answer_key
        held = {**held, "certificate": result.certificate.as_object(), last: held.pop(last)}
    validated(kind_of(problem).codec.solution_model, held, f"{path}: cannot be written")
    write_text(path, json_by_line(held))


def object_from_result(problem: Problem, result: Result) -> dict[str, object]:
    """Return the object of a result's file; a value that is not finite or was not found is null."""
    kind = kind_of(problem)
    nothing = {kind.codec.solution_model.answer_key: None}
    return {
        "format": SOLUTION_FORMAT,
        "version": VERSION,
        "instance": problem.name,
        "strategy": kind.strategy_of(problem),
        "solver": result.solver,
        "status": str(result.status),
        "objective": _finite(result.objective),
        "bound": _finite(result.bound),
        "seed": int(result.seed),
        **({"solver_version": result.version} if result.version else {}),
        **(nothing if result.solution is None else kind.codec.answer_of(problem, result.solution)),
    }


def check_solution(problem: Problem, stored: SolutionModel) -> float:
    """Verify a stored solution against its instance; return its objective.

    Raises `InvalidSolutionError` if it is for another instance or kind, has no solution, breaks a rule of the problem,
    or states a wrong objective, bound, optimality or order.
    """
    if stored.instance != problem.name:
        raise InvalidSolutionError(f"the solution is for instance {stored.instance!r}, not for {problem.name!r}")
    kind, solution = kind_of(problem), solution_of(problem, stored)
    if solution is None:
        raise InvalidSolutionError(f"the solution holds no {kind.answer}, its status is {stored.status}")
    if stored.status not in (Status.OPTIMAL, Status.FEASIBLE, Status.INTERRUPTED):
        article = "an" if kind.answer[0] in "aeiou" else "a"
        raise InvalidSolutionError(f"the status is {stored.status}, but there is {article} {kind.answer}")
    posed = kind.posed(problem, stored.strategy)
    objective = verify(posed, solution)
    kind.codec.check(posed, solution, stored)
    check_stated(objective, stored.objective, stored.bound, sign_of(problem))
    gap = gap_between(objective, stored.bound)
    if stored.status == Status.OPTIMAL and gap is not None and gap > EQUAL_RELATIVE:
        side = "below" if problem.sense == "min" else "above"
        raise InvalidSolutionError(f"the status is OPTIMAL, but the bound {stored.bound} is {side} {objective:.12g}")
    return objective


def check_stored_bound(problem: Problem, stored: SolutionModel) -> tuple[str, float]:
    """Compute the bound of a solution file again from its certificate; return the method and the time in seconds.

    Raises `InvalidSolutionError` if there is no bound or no certificate, or if it proves less than the stated bound.
    """
    if stored.bound is None:
        raise InvalidSolutionError("it states no bound")
    if stored.certificate is None:
        raise InvalidSolutionError("it holds no certificate of its bound")
    posed = kind_of(problem).posed(problem, stored.strategy)
    certificate = certificate_from_object(problem.kind, stored.certificate)
    return certificate.method, check_bound(posed, certificate, stored.bound)


def solution_of(problem: Problem, stored: SolutionModel) -> object:
    """Return a stored solution as a solution of the problem, or None if there is none.

    Raises `InvalidSolutionError` if it is for another kind or for other jobs.
    """
    if stored.kind != problem.kind:
        raise InvalidSolutionError(f"the solution is for a {stored.kind} problem, {problem.name!r} is a {problem.kind}")
    return None if stored.answer is None else kind_of(problem).codec.solution_of(problem, stored)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


FILE_NAME = "best_known.json"
NO_STRATEGY = ""  # key in place of a strategy if the kind has none


def _strategy(name: str) -> str:
    known = [NO_STRATEGY, *(strategy for kind in working_kinds() for strategy in kind.strategies)]
    if name not in known:
        raise ValueError(f"is {name!r}, must be one of {', '.join(map(repr, known))}")
    return name


class _BestKnownModel(FileModel):
    objective: Annotated[float, Field(description="Objective, such as total hop cost.")]
    proved: Annotated[bool, Field(description="Whether it is proved to be the optimum.")]


class BestKnownFile(RootModel[dict[InstanceName, dict[Annotated[str, AfterValidator(_strategy)], _BestKnownModel]]]):
    """Best-known objectives by instance name and strategy; the strategy is empty if the kind has none."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True)
class BestKnown:
    """Best-known objective, and whether it is proved to be the optimum."""

    objective: float
    proved: bool


BestKnownValues = dict[str, dict[str, BestKnown]]
"""Best-known values by instance name and strategy."""


def read_best_known(path: Path | str) -> BestKnownValues:
    """Read best-known values; raise `BadFileError` if the file cannot be read or is wrong."""
    path = Path(path)
    model = validated(BestKnownFile, parse_json(read_text(path), path), path)
    held = model.model_dump()
    return {name: {strategy: BestKnown(**best) for strategy, best in known.items()} for name, known in held.items()}


def write_best_known(path: Path | str, values: Mapping[str, Mapping[str, BestKnown]]) -> None:
    """Write best-known values, one instance per line; raise `BadFileError` if they cannot be written or read again."""
    path = Path(path)
    obj = {name: {str(strategy): asdict(best) for strategy, best in known.items()} for name, known in values.items()}
    validated(BestKnownFile, obj, f"{path}: cannot be written")
    write_text(path, json_by_line(obj))


def best_known_beside(paths: Iterable[Path | str]) -> BestKnownValues:
    """Return the best-known values in the folders of instance files; raise `BadFileError` if two files disagree."""
    merged: BestKnownValues = {}
    files = (folder / FILE_NAME for folder in dict.fromkeys(Path(path).parent for path in paths))
    for path in filter(Path.exists, files):
        for name, known in read_best_known(path).items():
            for strategy, best in known.items():
                other = merged.setdefault(name, {}).setdefault(strategy, best)
                if other != best:
                    fault = f"is {best.objective:g}, but {other.objective:g} in the folder of another instance file"
                    raise bad_file(path, f"{name}.{strategy}", fault)
    return merged
