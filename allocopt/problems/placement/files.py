"""Placement problems and their solutions as files hold them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from allocopt.arrays import BoolArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError
from allocopt.files.models import INT64_MAX, FileModel, InstanceModel, Node, Positive, SolutionModel, Text, plain
from allocopt.problems.kind import Codec
from allocopt.problems.placement.problem import LARGEST_LEFT_OUT_COST, PlacementJob, PlacementProblem, Placements
from allocopt.problems.topology.files import (
    GivenSegments,
    HopCost,
    TopologyModel,
    segments_object,
    segments_of,
    topology_object,
    topology_of,
)
from allocopt.problems.topology.side_constraints import segment_sizes

LARGEST_MASKS = 200_000_000  # sets of nodes times nodes, each a byte

Amount = Annotated[int, Field(ge=0, le=INT64_MAX)]


class _JobModel(FileModel):
    """A waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    tasks: Annotated[Positive, Field(description="Number of its tasks.")]
    least_nodes: Annotated[Positive, Field(description="Least number of nodes that it may have.")] = 1
    most_nodes: Annotated[Positive | None, Field(description="Most of them; as many as tasks if left out.")] = None
    tasks_per_node: Annotated[
        Positive | None, Field(description="Most tasks on a node; if left out, so many that the others get one each.")
    ] = None
    per_task: Annotated[dict[Text, Amount], Field(default_factory=dict, description="Amounts for each task.")]
    per_node: Annotated[dict[Text, Amount], Field(default_factory=dict, description="Amounts on each node.")]
    exclusive: Annotated[bool, Field(description="Whether it has its nodes alone.")] = False
    only_in: Annotated[
        list[Text],
        Field(default_factory=list, description="Sets of nodes, all of one of which it takes; empty for any nodes."),
    ]
    most_groups: Annotated[
        list[Amount],
        Field(default_factory=list, description="Groups that it may span by level, from the leaves; 0 for any number."),
    ]
    segments: Annotated[
        GivenSegments | None,
        Field(
            description="Parts into which its nodes are divided. In a list, the largest come first: each entry divides "
            "the parts of the one before it, at a lower level."
        ),
    ] = None


class PlacementInstanceModel(InstanceModel):
    """A window of waiting jobs, and what is free on the nodes of a cluster."""

    kind: Literal["placement"]
    topology: TopologyModel
    free: Annotated[
        dict[Text, list[Amount]],
        Field(min_length=1, description="Amounts of each resource that are free, by node: thousandths of cores, ..."),
    ]
    in_use: Annotated[list[Node], Field(default_factory=list, description="Nodes on which a job runs already.")]
    node_sets: Annotated[dict[Text, list[Node]], Field(default_factory=dict, description="Nodes by name of a set.")]
    jobs: Annotated[list[_JobModel], Field(min_length=1, description="The window.")]
    hop_cost: HopCost = 1000.0
    left_out_cost: Annotated[
        float | None,
        Field(
            ge=0,
            le=LARGEST_LEFT_OUT_COST,
            description="Cost of a job that is left out; more than all hops can cost if not given.",
        ),
    ] = None


class PlacementSolutionModel(SolutionModel):
    """A solver's answer to one placement instance."""

    kind = "placement"
    answer_key = "placed"

    placed: Annotated[
        dict[Text, dict[Text, Positive]] | None,
        Field(description="Tasks by node, by job id; jobs that are left out are missing; null without an answer."),
    ]


class PlacementCodec(Codec[PlacementProblem, Placements]):
    """Files of placements."""

    instance_model, solution_model = PlacementInstanceModel, PlacementSolutionModel

    def problem_of(self, model: InstanceModel) -> PlacementProblem:
        assert isinstance(model, PlacementInstanceModel)
        topology, resources = topology_of(model.topology), tuple(model.free)
        for name, amounts in model.free.items():
            if len(amounts) != topology.size:
                fault = f"has {len(amounts)} amounts, must have one for each of {topology.size} nodes"
                raise InvalidProblemError(f"free.{name}", fault)
        if len(model.node_sets) * topology.size > LARGEST_MASKS:
            fault = (
                f"are {len(model.node_sets):,} on {topology.size:,} nodes, at most {LARGEST_MASKS:,} pairs are taken"
            )
            raise InvalidProblemError("node_sets", fault)
        sets = {name: _marked(f"node_sets.{name}", nodes, topology.size) for name, nodes in model.node_sets.items()}
        masks = _masks(model.jobs, sets, topology.size)
        jobs = [_job(f"jobs[{index}]", job, resources, masks, topology) for index, job in enumerate(model.jobs)]
        free = np.array(list(model.free.values()), dtype=np.int64).T
        in_use = _marked("in_use", model.in_use, topology.size)
        return PlacementProblem(
            topology, resources, free, in_use, tuple(jobs), model.hop_cost, model.left_out_cost, model.name
        )

    def keys_of(self, problem: PlacementProblem) -> dict[str, object]:
        sets: dict[bytes, str] = {}
        nodes: dict[str, list[int]] = {}
        jobs = []
        for job in problem.jobs:
            asked, only_in = job.request, []
            for mask in asked.masks if not asked.masks.all(axis=1).any() else ():
                name = sets.setdefault(mask.tobytes(), f"set-{len(sets)}")
                nodes[name] = np.flatnonzero(mask).tolist()
                only_in.append(name)
            numbers = plain(
                {
                    "tasks": asked.tasks,
                    "least_nodes": asked.least_nodes,
                    "most_nodes": asked.most_nodes,
                    "tasks_per_node": asked.most_tasks,
                }
            )
            per_task, per_node = (
                {name: amount for name, amount in zip(problem.resources, of.tolist(), strict=True) if amount}
                for of in (asked.per_task, asked.per_node)
            )
            optional = {
                "per_task": per_task,
                "per_node": per_node,
                "exclusive": bool(asked.is_exclusive),
                "only_in": only_in,
                "most_groups": plain(asked.most_groups) if any(asked.most_groups) else None,
                "segments": _segments_object(asked.segments) if any(asked.segments) else None,
            }
            jobs.append({"id": job.id, **numbers, **{key: value for key, value in optional.items() if value}})
        return {
            "topology": topology_object(problem.topology),
            "free": dict(zip(problem.resources, problem.free.T.tolist(), strict=True)),
            "in_use": np.flatnonzero(problem.in_use).tolist(),
            "node_sets": nodes,
            "jobs": jobs,
            "hop_cost": plain(problem.hop_cost),
            "left_out_cost": plain(problem.left_out_cost or 0.0),
        }

    def solution_of(self, problem: PlacementProblem, model: SolutionModel) -> Placements:
        assert isinstance(model, PlacementSolutionModel)
        return Placements.from_dict(problem, model.placed or {})

    def answer_of(self, problem: PlacementProblem, solution: Placements) -> dict[str, object]:
        return {"placed": solution.as_dict(problem)}


def _masks(jobs: Sequence[_JobModel], sets: Mapping[str, BoolArray], size: int) -> dict[tuple[str, ...], BoolArray]:
    """Return the sets of nodes that jobs may have, as rows, by their names; jobs with the same names share them."""
    found: dict[tuple[str, ...], BoolArray] = {}
    n_rows = 0
    for index, names in enumerate(tuple(job.only_in) for job in jobs):
        if names in found:
            continue
        for name in names:
            if name not in sets:
                raise InvalidProblemError(f"jobs[{index}].only_in", f"holds {name!r}, which is none of the node sets")
        n_rows += max(1, len(names))
        if n_rows * size > LARGEST_MASKS:
            fault = f"makes {n_rows:,} lists of sets on {size:,} nodes, at most {LARGEST_MASKS:,} pairs are taken"
            raise InvalidProblemError(f"jobs[{index}].only_in", fault)
        found[names] = np.stack([sets[name] for name in names] or [np.ones(size, dtype=np.bool_)])
    return found


def _job(
    place: str,
    model: _JobModel,
    resources: tuple[str, ...],
    masks: Mapping[tuple[str, ...], BoolArray],
    topology: Topology,
) -> PlacementJob:
    for key, given in (("per_task", model.per_task), ("per_node", model.per_node)):
        for name in given:
            if name not in resources:
                raise InvalidProblemError(f"{place}.{key}", f"holds {name!r}, which is none of {', '.join(resources)}")
    segments = segments_of(model.segments)
    request = ClusterRequest(
        tasks=model.tasks,
        least_nodes=model.least_nodes,
        most_nodes=model.most_nodes or model.tasks,
        most_tasks=min(model.tasks_per_node or model.tasks, max(1, model.tasks - model.least_nodes + 1)),
        is_exclusive=model.exclusive,
        per_task=np.array([model.per_task.get(name, 0) for name in resources], dtype=np.int64),
        per_node=np.array([model.per_node.get(name, 0) for name in resources], dtype=np.int64),
        masks=masks[tuple(model.only_in)],
        most_groups=tuple(model.most_groups) or (0,) * (len(topology.hops) - 1),
        partition=0,
        segments=segment_sizes(segments, topology, f"{place}.segments") if segments else (),
    )
    return PlacementJob(model.id, request)


def _segments_object(sizes: Sequence[int]) -> object:
    entries: list[dict[str, object]] = [{"nodes": size, "level": level} for level, size in enumerate(sizes, 1) if size]
    return segments_object(entries[::-1])


def _marked(place: str, nodes: list[int], size: int) -> BoolArray:
    marked = np.zeros(size, dtype=np.bool_)
    for node in nodes:
        if node >= size:
            raise InvalidProblemError(place, f"holds node {node}, nodes are 0 .. {size - 1}")
        marked[node] = True
    return marked
