"""Models of relocation files, and their conversion to problems and solutions."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.files.faults import shown
from allocopt.files.models import FileModel, InstanceModel, Node, Positive, SolutionModel, Text, plain
from allocopt.problems.kind import Codec
from allocopt.problems.placement.problem import NodeTasks
from allocopt.problems.placement.request_files import (
    Amount,
    RequestModel,
    RequestWriter,
    amounts_of,
    marked,
    node_sets,
    requests_of,
)
from allocopt.problems.relocation.problem import (
    LARGEST_COST,
    Action,
    PlacedJob,
    Places,
    Relocation,
    RelocationProblem,
    Step,
    WaitingGang,
)
from allocopt.problems.topology.files import TopologyModel, topology_object, topology_of

_Cost = Annotated[float | None, Field(ge=0, le=LARGEST_COST)]
_PlacesModel = dict[Text, Positive]  # tasks by the number of their node


class PlacedJobModel(RequestModel):
    """A running job with its nodes, and the costs of stopping and moving it."""

    places: Annotated[_PlacesModel, Field(min_length=1, description="Its present tasks, by node.")]
    stop_cost: Annotated[_Cost, Field(description="Cost of stopping it; left out if it must not be stopped.")] = None
    move_cost: Annotated[_Cost, Field(description="Cost of moving it; left out if it must not be moved.")] = None
    node_cost: Annotated[
        float, Field(ge=0, le=LARGEST_COST, description="Cost of each node that it gives up when it moves.")
    ] = 0.0


class WaitingGangModel(RequestModel):
    """A waiting job."""

    wait_cost: Annotated[_Cost, Field(description="Cost if it keeps waiting; left out if it must start.")] = None


class StepModel(FileModel):
    """One step of a relocation."""

    action: Annotated[Literal["stop", "park", "move", "start"], Field(description="Action of the step.")]
    job: Annotated[Text, Field(description="Id of the job.")]


class RelocationInstanceModel(InstanceModel):
    """Jobs that run on a cluster, gangs that wait for room, and nodes that have to be emptied."""

    kind: Literal["relocation"]
    topology: TopologyModel
    capacity: Annotated[
        dict[Text, list[Amount]],
        Field(min_length=1, description="Amounts of each resource, by node: thousandths of cores and GPUs, ..."),
    ]
    emptied: Annotated[list[Node], Field(default_factory=list, description="Nodes that have to be empty at the end.")]
    node_sets: Annotated[dict[Text, list[Node]], Field(default_factory=dict, description="Nodes of each named set.")]
    running: Annotated[list[PlacedJobModel], Field(default_factory=list, description="The running jobs.")]
    waiting: Annotated[list[WaitingGangModel], Field(default_factory=list, description="The waiting gangs.")]


class RelocationSolutionModel(SolutionModel):
    """A solver's answer to one relocation instance."""

    kind = "relocation"
    answer_key = "steps"

    stopped: Annotated[list[Text], Field(default_factory=list, description="Ids of the jobs that stop.")]
    moved: Annotated[
        dict[Text, _PlacesModel], Field(default_factory=dict, description="New nodes of each moved job: tasks by node.")
    ]
    started: Annotated[
        dict[Text, _PlacesModel], Field(default_factory=dict, description="Nodes of each started gang: tasks by node.")
    ]
    steps: Annotated[list[StepModel] | None, Field(description="All steps in order; null if no solution was found.")]


class RelocationCodec(Codec[RelocationProblem, Relocation]):
    """Conversion of relocation files."""

    instance_model, solution_model = RelocationInstanceModel, RelocationSolutionModel

    def problem_of(self, model: InstanceModel) -> RelocationProblem:
        assert isinstance(model, RelocationInstanceModel)
        topology, resources = topology_of(model.topology), tuple(model.capacity)
        capacity = amounts_of("capacity", model.capacity, topology.size)
        sets = node_sets(model.node_sets, topology.size)
        running_requests = requests_of("running", model.running, sets, resources, topology)
        waiting_requests = requests_of("waiting", model.waiting, sets, resources, topology)
        running = [
            PlacedJob(
                id=one.id,
                request=request,
                places=_places_of(f"running[{index}].places", one.places, topology.size),
                stop_cost=one.stop_cost,
                move_cost=one.move_cost,
                node_cost=one.node_cost,
            )
            for index, (one, request) in enumerate(zip(model.running, running_requests, strict=True))
        ]
        waiting = [
            WaitingGang(one.id, request, one.wait_cost)
            for one, request in zip(model.waiting, waiting_requests, strict=True)
        ]
        return RelocationProblem(
            topology=topology,
            resources=resources,
            capacity=capacity,
            running=tuple(running),
            waiting=tuple(waiting),
            emptied=marked("emptied", model.emptied, topology.size),
            name=model.name,
        )

    def keys_of(self, problem: RelocationProblem) -> dict[str, object]:
        written = RequestWriter(problem.resources)
        running, waiting = [], []
        for job in problem.running:
            costs: dict[str, object] = plain(
                {"stop_cost": job.stop_cost, "move_cost": job.move_cost, "node_cost": job.node_cost or None}
            )
            keys = written.keys_of(job.request)
            running.append({"id": job.id, **keys, "places": _places_object(job.places), **costs})
        for gang in problem.waiting:
            cost: dict[str, object] = plain({"wait_cost": gang.wait_cost})
            waiting.append({"id": gang.id, **written.keys_of(gang.request), **cost})
        return {
            "topology": topology_object(problem.topology),
            "capacity": dict(zip(problem.resources, problem.capacity.T.tolist(), strict=True)),
            "emptied": np.flatnonzero(problem.emptied).tolist(),
            "node_sets": written.node_sets,
            "running": running,
            "waiting": waiting,
        }

    def solution_of(self, problem: RelocationProblem, model: SolutionModel) -> Relocation:
        assert isinstance(model, RelocationSolutionModel)
        running, waiting = {job.id for job in problem.running}, {gang.id for gang in problem.waiting}
        for what, ids, known in (
            ("stopped", model.stopped, running),
            ("moved", model.moved, running),
            ("started", model.started, waiting),
        ):
            for job in ids:
                if job not in known:
                    raise InvalidSolutionError(f"{what} names job {job!r}, which is not in the instance")
        for job in model.stopped:
            if job in model.moved:
                raise InvalidSolutionError(f"job {job!r} is stopped and moved")
        moved, started = (
            {job: _solution_places(job, places) for job, places in given.items()}
            for given in (model.moved, model.started)
        )
        stopped = set(model.stopped)
        return Relocation(
            running=tuple(None if job.id in stopped else moved.get(job.id, job.places) for job in problem.running),
            waiting=tuple(started.get(gang.id, ()) for gang in problem.waiting),
            steps=tuple(Step(Action(step.action), step.job) for step in model.steps or ()),
        )

    def answer_of(self, problem: RelocationProblem, solution: Relocation) -> dict[str, object]:
        ends = {job: _places_object(places) for job, places in problem.ends(solution).items()}
        return {
            "stopped": [job.id for job in solution.stopped(problem)],
            "moved": {job.id: ends[job.id] for job in solution.moved(problem)},
            "started": {gang.id: ends[gang.id] for gang in problem.waiting if gang.id in ends},
            "steps": [{"action": str(step.action), "job": step.job} for step in solution.steps],
        }


def _is_number(node: str) -> bool:
    return node.isascii() and node.isdigit() and len(node) < 12


def _places_object(places: Places) -> dict[str, int]:
    return {str(node): tasks for node, tasks in places}


def _places_of(place: str, given: dict[str, int], size: int) -> Places:
    for node in given:
        if not (_is_number(node) and int(node) < size):
            raise InvalidProblemError(place, f"names node {shown(node)}, must be within 0 .. {size - 1}")
    return tuple(NodeTasks(int(node), tasks) for node, tasks in given.items())


def _solution_places(job: str, given: dict[str, int]) -> Places:
    for node in given:
        if not _is_number(node):
            raise InvalidSolutionError(f"job {job!r} gets {shown(node)}, which is not the number of a node")
    return tuple(NodeTasks(int(node), tasks) for node, tasks in given.items())
