"""Models of co-allocation files, and their conversion to problems and solutions."""

from functools import cache
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from allocopt.errors import InvalidProblemError
from allocopt.files.models import FileModel, InstanceModel, Positive, SolutionModel, Text, plain
from allocopt.problems.coallocation.interference import RESOURCES, Interference, Sharing
from allocopt.problems.coallocation.problem import Coallocation, CoallocationObjective, CoallocationProblem
from allocopt.problems.kind import Codec
from allocopt.traces.applications import ShareOfOne
from allocopt.traces.job_profile import ProfiledJob

_Number = Annotated[float, Field(ge=0)]

# Fields with the same name and value in files and problems.
_SAME_NAMES = {"name", "quotas", "max_slowdown", "max_guest_slowdown", "max_guests", "degradation_weight"}


class _StageModel(FileModel):
    """A stage that a job has still to run."""

    share: Annotated[ShareOfOne, Field(description="Share of the job's remaining time; the shares of a job sum to 1.")]
    cpu: Annotated[ShareOfOne, Field(description="Busy share of the job's cores without sharing, above 0.")]
    memory: Annotated[ShareOfOne, Field(description="Share of the memory that belongs to the job's cores.")] = 0.0
    io: Annotated[ShareOfOne, Field(description="Share of the time with I/O, without sharing.")] = 0.0
    kind: Annotated[Literal["sequential", "parallel"], Field(description="Whether it uses one core or all.")] = (
        "parallel"
    )


class _ProfiledJobModel(FileModel):
    """A running or waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique among hosts or guests.")]
    cores: Annotated[Positive, Field(description="Cores that it has, or asks for.")]
    profile: Annotated[list[_StageModel], Field(min_length=1, description="The stages it has still to run, in order.")]
    remaining_s: Annotated[_Number, Field(description="Remaining run time without sharing, in seconds, positive.")]
    walltime_s: Annotated[
        _Number, Field(description="Seconds to its time limit: from now if it runs, from its start if it waits.")
    ]


class _GuestModel(_ProfiledJobModel):
    """A waiting job."""

    wait_s: Annotated[
        _Number | None,
        Field(description="Seconds it would still wait for its own cores; objective 'response' needs it."),
    ] = None


class _InterferenceModel(FileModel):
    """Coefficients of contention: extra seconds per second of work if demand and pressure are both 1."""

    cpu: _Number = Interference().cpu
    memory: _Number = Interference().memory
    io: _Number = Interference().io


class _MeasuredPairModel(FileModel):
    """Measured slowdowns of a host and a guest."""

    host: Annotated[Text, Field(description="Id of the host.")]
    guest: Annotated[Text, Field(description="Id of the guest.")]
    host_slowdown: Annotated[float, Field(ge=1, description="Run time of the host over that without sharing.")]
    guest_slowdown: Annotated[float, Field(ge=1, description="Run time of the guest over that without sharing.")]


class CoallocationInstanceModel(InstanceModel):
    """Running jobs, and waiting jobs that they may host."""

    kind: Literal["coallocation"]
    hosts: Annotated[list[_ProfiledJobModel], Field(min_length=1, description="The running jobs.")]
    guests: Annotated[list[_GuestModel], Field(min_length=1, description="The waiting jobs.")]
    quotas: Annotated[
        list[ShareOfOne], Field(min_length=1, description="Shares of a host's cores for a guest, increasing.")
    ]
    max_slowdown: Annotated[float, Field(ge=1, description="Largest slowdown of a job.")]
    max_guest_slowdown: Annotated[
        float | None, Field(ge=1, description="Largest slowdown of a guest; max_slowdown if left out.")
    ] = None
    max_guests: Annotated[Positive, Field(description="Most guests on a host.")] = 1
    objective: Annotated[
        Literal["capacity", "response", "throughput"],
        Field(description="Maximize used cores, saved response time or work done, less weighted delays."),
    ] = "capacity"
    degradation_weight: Annotated[_Number, Field(description="Weight of the delays.")] = 1.0
    sharing: Annotated[
        Literal["caps", "shares"],
        Field(description="caps: a job uses at most its quota; shares: it may use idle cores as well."),
    ] = "caps"
    interference: Annotated[_InterferenceModel, Field(description="Coefficients of contention.")] = _InterferenceModel()
    pairs: Annotated[
        list[_MeasuredPairModel] | None,
        Field(description="Measured slowdowns, used instead of profiles; pairs not listed do not share."),
    ] = None


class _PlacementModel(FileModel):
    """A placed guest."""

    guest: Annotated[Text, Field(description="Id of the guest.")]
    host: Annotated[Text, Field(description="Id of its host.")]
    quota: Annotated[ShareOfOne, Field(description="Share of the host's cores that it gets.")]


class CoallocationSolutionModel(SolutionModel):
    """A solver's answer to one co-allocation instance."""

    kind = "coallocation"
    answer_key = "placements"

    placements: Annotated[
        list[_PlacementModel] | None, Field(description="The placed guests; null if no solution was found.")
    ]


@cache
def _jobs() -> TypeAdapter[ProfiledJob]:
    return TypeAdapter(ProfiledJob)


class CoallocationCodec(Codec[CoallocationProblem, Coallocation]):
    """Conversion of co-allocation files."""

    instance_model, solution_model = CoallocationInstanceModel, CoallocationSolutionModel

    def problem_of(self, model: InstanceModel) -> CoallocationProblem:
        assert isinstance(model, CoallocationInstanceModel)
        measured: dict[tuple[str, str], tuple[float, float]] = {}
        for index, pair in enumerate(model.pairs or ()):
            if (pair.host, pair.guest) in measured:
                fault = f"repeats host {pair.host!r} and guest {pair.guest!r}; each pair must be listed once"
                raise InvalidProblemError(f"pairs[{index}]", fault)
            measured[pair.host, pair.guest] = pair.host_slowdown, pair.guest_slowdown
        jobs = _jobs()
        return CoallocationProblem(
            hosts=tuple(jobs.validate_python(job.model_dump()) for job in model.hosts),
            guests=tuple(jobs.validate_python(job.model_dump()) for job in model.guests),
            objective_name=CoallocationObjective(model.objective),
            sharing=Sharing(model.sharing),
            interference=Interference(**model.interference.model_dump()),
            measured=None if model.pairs is None else measured,
            **model.model_dump(include=_SAME_NAMES),
        )

    def keys_of(self, problem: CoallocationProblem) -> dict[str, object]:
        held: dict[str, object] = plain(
            {
                "hosts": problem.hosts,
                "guests": problem.guests,
                "quotas": problem.quotas,
                "max_slowdown": problem.max_slowdown,
                "max_guests": problem.max_guests,
                "objective": problem.objective_name,
                "degradation_weight": problem.degradation_weight,
                "sharing": problem.sharing,
                "interference": {name: getattr(problem.interference, name) for name in RESOURCES},
                "max_guest_slowdown": problem.max_guest_slowdown,
            }
        )
        if problem.measured is not None:
            held["pairs"] = [
                {"host": host, "guest": guest, "host_slowdown": own, "guest_slowdown": other}
                for (host, guest), (own, other) in problem.measured.items()
            ]
        return held

    def solution_of(self, problem: CoallocationProblem, model: SolutionModel) -> Coallocation:
        assert isinstance(model, CoallocationSolutionModel)
        return Coallocation.from_list(problem, [(one.guest, one.host, one.quota) for one in model.placements or ()])

    def answer_of(self, problem: CoallocationProblem, solution: Coallocation) -> dict[str, object]:
        places = solution.as_list(problem)
        return {"placements": [{"guest": guest, "host": host, "quota": quota} for guest, host, quota in places]}
