"""The check of a selection: distinct jobs that fit what is free, and the slots where there are some."""

from collections import Counter

import numpy as np

from allocopt.errors import InvalidSolutionError
from allocopt.problems.knapsack.problem import KnapsackProblem, Selection


def verify_selection(problem: KnapsackProblem, solution: Selection) -> float:
    """Return the objective of a selection; raise `InvalidSolutionError` for a broken rule, with what and how much."""
    for number in solution.jobs:
        if not 0 <= number < len(problem.jobs):
            raise InvalidSolutionError(f"job number {number} is selected, there are 0..{len(problem.jobs) - 1}")
    for number, count in Counter(solution.jobs).items():
        if count > 1:
            raise InvalidSolutionError(f"job {problem.jobs[number].id!r} is selected twice")
    asked = problem.requests[list(solution.jobs)].sum(axis=0)
    for resource, units in zip(problem.resources, asked.tolist(), strict=True):
        free = problem.capacity[resource]
        if units > free:
            raise InvalidSolutionError(f"the selected jobs ask for {units} {resource}, but only {free} are free")
    _check_slots(problem, solution)
    return problem.objective(solution)


def _check_slots(problem: KnapsackProblem, solution: Selection) -> None:
    if problem.slots is None:
        if solution.slots:
            raise InvalidSolutionError("the solution gives slots, but the instance has none")
        return
    if len(solution.slots) != len(solution.jobs):
        raise InvalidSolutionError(f"there are slots for {len(solution.slots)} of {len(solution.jobs)} selected jobs")
    for number, slot in zip(solution.jobs, solution.slots, strict=True):
        if not 0 <= slot < len(problem.slots):
            raise InvalidSolutionError(f"job {problem.jobs[number].id!r} gets slot {slot}, which does not exist")
    held = np.zeros(len(problem.slots), dtype=np.int64)
    np.add.at(held, np.array(solution.slots, dtype=np.int64), problem.sizes[list(solution.jobs)])
    for slot, (units, size) in enumerate(zip(held.tolist(), problem.slots, strict=True)):
        if units > size:
            raise InvalidSolutionError(f"the jobs in slot {slot} ask for {units} units, it has {size}")
