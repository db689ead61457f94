"""Models of knapsack files, and their conversion to problems and solutions."""

from typing import Annotated, Literal

from pydantic import Field

from allocopt.files.models import FileModel, InstanceModel, Node, Positive, SolutionModel, Text, plain
from allocopt.problems.kind import Codec
from allocopt.problems.knapsack.problem import EQUAL_WEIGHTS, KnapsackJob, KnapsackProblem, Reward, Selection

_Units = dict[Text, Node]
_Seconds = Annotated[float | None, Field(ge=0)]


class _KnapsackJobModel(FileModel):
    """A waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    request: Annotated[_Units, Field(min_length=1, description="Units that it asks for, by resource.")]
    wait_s: Annotated[_Seconds, Field(description="Seconds it has waited; objective 'capability' needs it.")] = None
    estimate_s: Annotated[
        _Seconds, Field(description="Requested run time in seconds; objective 'capacity' needs it.")
    ] = None
    value: Annotated[float | None, Field(description="Value of selecting it; objective 'linear' needs it.")] = None


class KnapsackInstanceModel(InstanceModel):
    """Waiting jobs, and the free units for those that are selected to start."""

    kind: Literal["knapsack"]
    capacity: Annotated[
        _Units, Field(min_length=1, description="Free units by resource; objectives count the first resource.")
    ]
    jobs: Annotated[list[_KnapsackJobModel], Field(min_length=1, description="The waiting jobs.")]
    objective: Annotated[
        Literal["capability", "capacity", "linear"],
        Field(description="Maximize Eq. 1 or Eq. 2 of the DRAS paper, or the sum of the values."),
    ] = "capability"
    weights: Annotated[
        list[Annotated[float, Field(ge=0)]],
        Field(
            default_factory=lambda: list(EQUAL_WEIGHTS),
            description="w1, w2, w3 of Eq. 1; 1/3 each if left out.",
            json_schema_extra={"minItems": 3, "maxItems": 3},
        ),
    ]
    total: Annotated[
        _Units, Field(default_factory=dict, description="Units of the machine; used + capacity if left out.")
    ]
    used: Annotated[
        _Units,
        Field(default_factory=dict, description="Units in use; if left out, total - capacity, or 0 without total."),
    ]
    slots: Annotated[
        list[Positive] | None,
        Field(description="Sizes of the slots that divide the free units of the first resource; a job gets one slot."),
    ] = None


class KnapsackSolutionModel(SolutionModel):
    """A solver's answer to one knapsack instance."""

    kind = "knapsack"
    answer_key = "selected"

    selected: Annotated[list[Text] | None, Field(description="Ids of the selected jobs; null without a solution.")]
    slots: Annotated[
        dict[Text, Node] | None,
        Field(description="Slot of every selected job by its id, numbered from 0, if the instance has slots."),
    ] = None


class KnapsackCodec(Codec[KnapsackProblem, Selection]):
    """Conversion of knapsack files."""

    instance_model, solution_model = KnapsackInstanceModel, KnapsackSolutionModel

    def problem_of(self, model: InstanceModel) -> KnapsackProblem:
        assert isinstance(model, KnapsackInstanceModel)
        return KnapsackProblem(
            capacity=model.capacity,
            jobs=tuple(KnapsackJob(**job.model_dump()) for job in model.jobs),
            reward=Reward(model.objective),
            weights=tuple(model.weights),  # type: ignore[arg-type]
            total=model.total,
            used=model.used,
            slots=None if model.slots is None else tuple(model.slots),
            name=model.name,
        )

    def keys_of(self, problem: KnapsackProblem) -> dict[str, object]:
        held: dict[str, object] = plain(
            {
                "capacity": problem.capacity,
                "total": problem.total,
                "used": problem.used,
                "jobs": problem.jobs,
                "objective": problem.reward,
                "weights": problem.weights if problem.reward is Reward.CAPABILITY else None,
                "slots": problem.slots,
            }
        )
        return held

    def solution_of(self, problem: KnapsackProblem, model: SolutionModel) -> Selection:
        assert isinstance(model, KnapsackSolutionModel)
        return Selection.from_ids(problem, model.selected or (), model.slots)

    def answer_of(self, problem: KnapsackProblem, solution: Selection) -> dict[str, object]:
        slots = solution.slot_of(problem)
        return {**({"slots": slots} if slots else {}), "selected": solution.ids(problem)}
