"""Models of placement files, and their conversion to problems and solutions."""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from allocopt.files.models import InstanceModel, Node, Positive, SolutionModel, Text, plain
from allocopt.problems.kind import Codec
from allocopt.problems.placement.problem import LARGEST_LEFT_OUT_COST, PlacementJob, PlacementProblem, Placements
from allocopt.problems.placement.request_files import (
    Amount,
    RequestModel,
    RequestWriter,
    amounts_of,
    marked,
    node_sets,
    requests_of,
)
from allocopt.problems.topology.files import HopCost, TopologyModel, topology_object, topology_of


class PlacementInstanceModel(InstanceModel):
    """A window of waiting jobs, and the free resources of the nodes of a cluster."""

    kind: Literal["placement"]
    topology: TopologyModel
    free: Annotated[
        dict[Text, list[Amount]],
        Field(min_length=1, description="Free amounts of each resource, by node: thousandths of cores, ..."),
    ]
    in_use: Annotated[list[Node], Field(default_factory=list, description="Nodes on which a job runs already.")]
    node_sets: Annotated[dict[Text, list[Node]], Field(default_factory=dict, description="Nodes of each named set.")]
    jobs: Annotated[list[RequestModel], Field(min_length=1, description="The waiting jobs.")]
    hop_cost: HopCost = 1000.0
    left_out_cost: Annotated[
        float | None,
        Field(
            ge=0,
            le=LARGEST_LEFT_OUT_COST,
            description="Cost of a job that is left out; by default more than all hops can cost.",
        ),
    ] = None


class PlacementSolutionModel(SolutionModel):
    """A solver's answer to one placement instance."""

    kind = "placement"
    answer_key = "placed"

    placed: Annotated[
        dict[Text, dict[Text, Positive]] | None,
        Field(description="For each job that is not left out: its tasks by node; null without a solution."),
    ]


class PlacementCodec(Codec[PlacementProblem, Placements]):
    """Conversion of placement files."""

    instance_model, solution_model = PlacementInstanceModel, PlacementSolutionModel

    def problem_of(self, model: InstanceModel) -> PlacementProblem:
        assert isinstance(model, PlacementInstanceModel)
        topology, resources = topology_of(model.topology), tuple(model.free)
        free = amounts_of("free", model.free, topology.size)
        sets = node_sets(model.node_sets, topology.size)
        requests = requests_of("jobs", model.jobs, sets, resources, topology)
        jobs = [PlacementJob(one.id, request) for one, request in zip(model.jobs, requests, strict=True)]
        in_use = marked("in_use", model.in_use, topology.size)
        return PlacementProblem(
            topology, resources, free, in_use, tuple(jobs), model.hop_cost, model.left_out_cost, model.name
        )

    def keys_of(self, problem: PlacementProblem) -> dict[str, object]:
        written = RequestWriter(problem.resources)
        jobs = [{"id": job.id, **written.keys_of(job.request)} for job in problem.jobs]
        return {
            "topology": topology_object(problem.topology),
            "free": dict(zip(problem.resources, problem.free.T.tolist(), strict=True)),
            "in_use": np.flatnonzero(problem.in_use).tolist(),
            "node_sets": written.node_sets,
            "jobs": jobs,
            "hop_cost": plain(problem.hop_cost),
            "left_out_cost": plain(problem.left_out_cost or 0.0),
        }

    def solution_of(self, problem: PlacementProblem, model: SolutionModel) -> Placements:
        assert isinstance(model, PlacementSolutionModel)
        return Placements.from_dict(problem, model.placed or {})

    def answer_of(self, problem: PlacementProblem, solution: Placements) -> dict[str, object]:
        return {"placed": solution.as_dict(problem)}
