"""The kinds of problems that files hold, and how each is told and made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from allocopt.files.coallocation import (
    CoallocationInstanceModel,
    CoallocationSolutionModel,
    coallocation_keys,
    coallocation_problem,
)
from allocopt.files.knapsack import KnapsackInstanceModel, KnapsackSolutionModel, knapsack_keys, knapsack_problem
from allocopt.files.models import InstanceModel, SolutionModel
from allocopt.files.topology import topology_keys, topology_problem
from allocopt.problems.base import Problem


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem in files.

    Parameters
    ----------
    instance, solution
        What its files look like.
    answer
        The key under which its solution stands.
    problem
        Makes the problem of an instance; raises `InvalidProblemError` if its values contradict each other.
    keys
        Turns a problem into the keys of its instance, behind format, version, kind and name.
    """

    instance: type[BaseModel]
    solution: type[BaseModel]
    answer: str
    problem: Callable[[Any], Problem]
    keys: Callable[[Any], dict[str, object]]


KINDS = {
    "topology": Kind(InstanceModel, SolutionModel, "allocation", topology_problem, topology_keys),
    "knapsack": Kind(KnapsackInstanceModel, KnapsackSolutionModel, "selected", knapsack_problem, knapsack_keys),
    "coallocation": Kind(
        CoallocationInstanceModel, CoallocationSolutionModel, "placements", coallocation_problem, coallocation_keys
    ),
}
"""All kinds that are read and written, by their names in the files."""
