"""Knapsack problems as instance files hold them, and the shape of their files."""

from typing import Annotated, Literal

from pydantic import Field

from allocopt.files.models import InstanceName, Node, Positive
from allocopt.files.placement import short_number
from allocopt.files.validation import FileModel, Text
from allocopt.problems.knapsack import EQUAL_WEIGHTS, KnapsackJob, KnapsackProblem, Reward

Units = dict[Text, Node]
Seconds = Annotated[float | None, Field(ge=0)]


class KnapsackJobModel(FileModel):
    """A waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    request: Annotated[Units, Field(min_length=1, description="Units that it asks for, by resource.")]
    wait_s: Annotated[Seconds, Field(description="Seconds for which it has waited; capability needs it.")] = None
    estimate_s: Annotated[Seconds, Field(description="Run time that it asks for, s; capacity needs it.")] = None
    value: Annotated[float | None, Field(description="What selecting it is worth; linear needs it.")] = None


class KnapsackInstanceModel(FileModel):
    """Waiting jobs, and what is free for those that are selected to start."""

    format: Literal["allocopt-instance"]
    version: Literal[1]
    kind: Literal["knapsack"]
    name: InstanceName
    capacity: Annotated[
        Units, Field(min_length=1, description="Free units by resource; the first one is what objectives count.")
    ]
    jobs: Annotated[list[KnapsackJobModel], Field(min_length=1, description="The waiting jobs.")]
    objective: Annotated[
        Literal["capability", "capacity", "linear"],
        Field(description="What is maximized: Eq. 1 or Eq. 2 of the DRAS paper, or the sum of the values."),
    ] = "capability"
    weights: Annotated[
        list[Annotated[float, Field(ge=0)]],
        Field(
            default_factory=lambda: list(EQUAL_WEIGHTS),
            description="w1, w2, w3 of Eq. 1; a third each if left out.",
            json_schema_extra={"minItems": 3, "maxItems": 3},
        ),
    ]
    total: Annotated[
        Units, Field(default_factory=dict, description="Units of the machine; used + capacity if left out.")
    ]
    used: Annotated[
        Units, Field(default_factory=dict, description="Units in use before; total - capacity, or 0, if left out.")
    ]
    slots: Annotated[
        list[Positive] | None,
        Field(description="Sizes of the slots that the free units of the first resource come in, if a job needs one."),
    ] = None


class KnapsackSolutionModel(FileModel):
    """A solver's answer to one knapsack instance."""

    format: Literal["allocopt-solution"]
    version: Literal[1]
    instance: InstanceName
    strategy: Annotated[None, Field(description="A knapsack has no strategies.")] = None
    solver: Annotated[Text, Field(description="Name of the solver.")]
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN", "INTERRUPTED"]
    objective: Annotated[float | None, Field(description="What the selection is worth; null without one.")]
    bound: Annotated[float | None, Field(description="Proven upper bound; null where there is none.")]
    selected: Annotated[list[Text] | None, Field(description="Ids of the selected jobs; null where none was found.")]
    slots: Annotated[
        dict[Text, Node] | None,
        Field(description="Slot of every selected job by its id, numbered from 0, where the instance has slots."),
    ] = None
    seed: Annotated[int | None, Field(description="Seed that the solver was given.")] = None
    solver_version: Annotated[Text | None, Field(description="Version of what did the work.")] = None


def knapsack_problem(model: KnapsackInstanceModel) -> KnapsackProblem:
    """Make the problem of an instance.

    Raises
    ------
    InvalidProblemError
        If its values contradict each other.
    """
    return KnapsackProblem(
        capacity=model.capacity,
        jobs=tuple(KnapsackJob(job.id, job.request, job.wait_s, job.estimate_s, job.value) for job in model.jobs),
        reward=Reward(model.objective),
        weights=tuple(model.weights),  # type: ignore[arg-type]
        total=model.total,
        used=model.used,
        slots=None if model.slots is None else tuple(model.slots),
        name=model.name,
    )


def knapsack_keys(problem: KnapsackProblem) -> dict[str, object]:
    """Turn a problem into the keys of its instance, behind its name."""
    keys: dict[str, object] = {
        "capacity": dict(problem.capacity),
        "total": dict(problem.total),
        "used": dict(problem.used),
        "jobs": [_job_object(job) for job in problem.jobs],
        "objective": str(problem.reward),
    }
    if problem.reward is Reward.CAPABILITY:
        keys["weights"] = [short_number(weight) for weight in problem.weights]
    if problem.slots is not None:
        keys["slots"] = [int(size) for size in problem.slots]
    return keys


def _job_object(job: KnapsackJob) -> dict[str, object]:
    """Turn a job into the object that stands in an instance file."""
    given = {"wait_s": job.wait_s, "estimate_s": job.estimate_s, "value": job.value}
    numbers = {key: short_number(value) for key, value in given.items() if value is not None}
    return {"id": job.id, "request": {name: int(units) for name, units in job.request.items()}, **numbers}
