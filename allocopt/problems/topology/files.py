"""Topology problems and their solutions as files hold them."""

from functools import cache, partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Discriminator, Field, Tag, TypeAdapter, WithJsonSchema

from allocopt.cluster.topology import FatTree, Topology, Tree
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import shown
from allocopt.files.models import (
    INT64_MAX,
    FileModel,
    InstanceModel,
    Node,
    Positive,
    SolutionModel,
    Text,
    plain,
    printable_text,
)
from allocopt.problems.base import Strategy
from allocopt.problems.kind import Codec
from allocopt.problems.topology.problem import (
    LARGEST_FRAGMENTATION_WEIGHT,
    LARGEST_HOP_COST,
    LEAST_HOP_COST,
    Allocation,
    Job,
    TopologyProblem,
    allocation_order,
    check_order,
)
from allocopt.problems.topology.side_constraints import LARGEST_PENALTY, Segments, SideConstraints

HopCost = Annotated[
    float, Field(ge=LEAST_HOP_COST, le=LARGEST_HOP_COST, description="Cost of one hop, in the unit of the objective.")
]
_Hops = Annotated[list[Node], Field(min_length=1)]
_Pairs = Annotated[
    Literal["ordered", "unordered"], Field(description="Whether a pair of nodes counts twice (ordered) or once.")
]
_HOPS = "Hops between two nodes that meet at level 1 (leaf), ..., L (top); strictly increasing."


class _FatTreeModel(FileModel):
    """A pruned k-ary fat tree; nodes are numbered from left to right, from 0."""

    kind: Literal["fat-tree"]
    pods: Annotated[Positive, Field(description="Number of pods.")]
    leaves_per_pod: Annotated[Positive, Field(description="Number of leaf switches in a pod.")]
    nodes_per_leaf: Annotated[Positive, Field(description="Number of nodes at a leaf switch.")]
    hops: Annotated[_Hops, Field(default_factory=lambda: [2, 4, 6], description=_HOPS)]
    pairs: _Pairs = "ordered"


def _members_tag(members: object) -> str:
    # The first member decides, so that an error names a single member.
    return "names" if isinstance(members, list) and members and isinstance(members[0], str) else "nodes"


_Members = Annotated[
    Annotated[list[Node], Field(min_length=1), Tag("nodes")] | Annotated[list[Text], Field(min_length=1), Tag("names")],
    Discriminator(_members_tag),
]


class _TreeModel(FileModel):
    """A tree of any number of levels, given by named groups per level."""

    kind: Literal["tree"]
    levels: Annotated[
        list[Annotated[dict[Text, _Members], Field(min_length=1)]],
        Field(
            min_length=1,
            description="From the leaf level upwards: groups of node numbers (0 .. n - 1, each once), then groups of "
            "names of the level below. The top level, a single group, may be left out unless it is the only one.",
        ),
    ]
    hops: Annotated[_Hops | None, Field(description=f"{_HOPS} 2, 4, 6, ... if left out.")] = None
    pairs: _Pairs = "ordered"


TopologyModel = Annotated[_FatTreeModel | _TreeModel, Field(discriminator="kind")]
"""The topology of an instance."""


def topology_of(model: TopologyModel) -> Topology:
    """Return the topology of an instance file; raise `InvalidProblemError` if its values contradict each other."""
    if isinstance(model, _TreeModel):
        return Tree.from_levels(model.levels, model.hops, model.pairs)
    return FatTree(model.pods, model.leaves_per_pod, model.nodes_per_leaf, tuple(model.hops), model.pairs)


def _number_or_name(least: int, value: Any) -> Any:
    if isinstance(value, str) and value:
        return printable_text(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= INT64_MAX:
        return value
    raise ValueError(f"is {shown(value)}, must be an integer from {least} on or a name")


def _number_or_name_schema(least: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": least}, {"type": "string", "minLength": 1}]})


_Group = Annotated[Any, AfterValidator(partial(_number_or_name, 0)), _number_or_name_schema(0)]
_LEVEL = "Level below the top: its number from 1 on, or leaf (1) or pod (2)."
_Level = Annotated[
    Any, AfterValidator(partial(_number_or_name, 1)), _number_or_name_schema(1), Field(description=_LEVEL)
]


class _GroupsModel(FileModel):
    """Groups of one level."""

    level: _Level
    groups: Annotated[
        list[_Group], Field(min_length=1, description="Numbers of groups from 0 on or, in a tree, their names.")
    ]


class _PreferModel(FileModel):
    """A level of which the job should stay within one group."""

    level: _Level
    penalty: Annotated[
        float, Field(ge=0, le=LARGEST_PENALTY, description="Cost if it does not, in the unit of the objective.")
    ]


class _SegmentsModel(FileModel):
    """Parts into which a job is divided, each within one group of a level."""

    nodes: Annotated[
        Positive,
        Field(description="Nodes of a segment; must divide the nodes of the job or, in a list, of the entry before."),
    ]
    level: _Level


GivenSegments = Annotated[
    Annotated[_SegmentsModel, Tag("one")] | Annotated[list[_SegmentsModel], Field(min_length=1), Tag("several")],
    Discriminator(lambda given: "several" if isinstance(given, list) else "one"),
]


def segments_of(given: GivenSegments | None) -> tuple[Segments, ...]:
    """Return the segments of a job, largest first; an instance file has one object, a list or null."""
    entries = given if isinstance(given, list) else [] if given is None else [given]
    return tuple(Segments(one.nodes, one.level) for one in entries)


def segments_object(entries: list[dict[str, object]]) -> object:
    """Return segments as instance files hold them: a single entry as an object."""
    return entries[0] if len(entries) == 1 else entries


class _JobModel(FileModel):
    """A waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    nodes: Annotated[Positive, Field(description="Number of nodes it asks for.")]
    only_in: Annotated[
        list[_GroupsModel],
        Field(
            default_factory=list, description="Every node of the job lies in one of these groups; empty for anywhere."
        ),
    ]
    not_in: Annotated[
        list[_GroupsModel],
        Field(default_factory=list, description="No node of the job lies in one of these groups."),
    ]
    within: Annotated[
        _Level | None, Field(description=f"All nodes of the job lie in one group of this level. {_LEVEL}")
    ] = None
    prefer: Annotated[
        _PreferModel | None, Field(description="A level of which the job should stay within one group.")
    ] = None
    segments: Annotated[
        GivenSegments | None,
        Field(
            description="Parts into which the job is divided. A list begins with the largest; each further entry "
            "divides the parts of the one before it, at a lower level."
        ),
    ] = None


class TopologyInstanceModel(InstanceModel):
    """A window of waiting jobs, the idle nodes, and the topology of the cluster."""

    kind: Literal["topology"]
    topology: TopologyModel
    idle_nodes: Annotated[
        list[Node], Field(min_length=1, description="Distinct numbers of the nodes that jobs may get, in any order.")
    ]
    jobs: Annotated[
        list[_JobModel], Field(min_length=1, description="Jobs of the window; they ask for at most all idle nodes.")
    ]
    hop_cost: HopCost = 1000.0
    fragmentation_weight: Annotated[
        float,
        Field(
            ge=0,
            le=LARGEST_FRAGMENTATION_WEIGHT,
            description="Weight of the hop cost of the leftover nodes, as if they were one job.",
        ),
    ] = 0.0


class TopologySolutionModel(SolutionModel):
    """A solver's answer to one topology instance."""

    kind = "topology"
    answer_key = "allocation"

    strategy: Annotated[  # type: ignore[assignment]
        Literal["scas", "dcas", "free"], Field(description="Strategy, which defines the allowed node sets.")
    ]
    allocation: Annotated[
        dict[Text, list[Node]] | None,
        Field(description="Numbers of the nodes of every job, by job id; null if no allocation was found."),
    ]
    order: Annotated[
        list[Text] | None,
        Field(
            description="Only for dcas: all job ids, in an order of placement. When a job is placed, its nodes are "
            "consecutive in the circular sequence of the nodes that are still idle."
        ),
    ] = None


class TopologyCodec(Codec[TopologyProblem, Allocation]):
    """Conversion of window files."""

    instance_model, solution_model = TopologyInstanceModel, TopologySolutionModel

    def problem_of(self, model: InstanceModel) -> TopologyProblem:
        assert isinstance(model, TopologyInstanceModel)
        return TopologyProblem(
            topology=topology_of(model.topology),
            idle_nodes=np.array(model.idle_nodes, dtype=np.int64),
            jobs=tuple(Job(job.id, job.nodes, _rules_of(job)) for job in model.jobs),
            hop_cost=model.hop_cost,
            name=model.name,
            fragmentation_weight=model.fragmentation_weight,
        )

    def keys_of(self, problem: TopologyProblem) -> dict[str, object]:
        optional = {"fragmentation_weight": float(problem.fragmentation_weight)} if problem.fragmentation_weight else {}
        jobs = []
        for job in problem.jobs:
            rules = {key: rule for key, rule in plain(job.placement or SideConstraints()).items() if rule}
            if "segments" in rules:
                rules["segments"] = segments_object(rules["segments"])
            jobs.append({"id": job.id, "nodes": int(job.nodes), **rules})
        return {
            "topology": topology_object(problem.topology),
            "idle_nodes": problem.idle_nodes.tolist(),
            "jobs": jobs,
            "hop_cost": plain(problem.hop_cost),
            **optional,
        }

    def solution_of(self, problem: TopologyProblem, model: SolutionModel) -> Allocation:
        assert isinstance(model, TopologySolutionModel)
        return Allocation.from_dict(problem, model.allocation or {})

    def answer_of(self, problem: TopologyProblem, solution: Allocation) -> dict[str, object]:
        keys: dict[str, object] = {"allocation": solution.as_dict(problem)}
        if problem.strategy is not Strategy.DCAS:
            return keys
        return {"order": [problem.jobs[job].id for job in allocation_order(problem, solution)], **keys}

    def check(self, problem: TopologyProblem, solution: Allocation, model: SolutionModel) -> None:
        assert isinstance(model, TopologySolutionModel)
        if model.order is not None:
            check_order(problem, solution, model.order)


def topology_object(topology: Topology) -> dict[str, object]:
    """Return a topology as instance files hold it; raise `InvalidProblemError` for a type that they cannot hold."""
    options: dict[str, object] = {} if topology.pairs == "ordered" else {"pairs": topology.pairs}
    hops = [int(hop) for hop in topology.hops]
    if isinstance(topology, Tree):
        return {"kind": "tree", "levels": topology.to_levels(), "hops": hops, **options}
    if isinstance(topology, FatTree):
        shape = {field: int(getattr(topology, field)) for field in ("pods", "leaves_per_pod", "nodes_per_leaf")}
        if hops != [2, 4, 6]:
            options = {"hops": hops, **options}
        return {"kind": "fat-tree", **shape, **options}
    raise InvalidProblemError("topology", f"is a {type(topology).__name__}, which instance files cannot hold")


@cache
def _placements() -> TypeAdapter[SideConstraints]:
    return TypeAdapter(SideConstraints)


def _rules_of(job: _JobModel) -> SideConstraints | None:
    rules = job.model_dump(exclude={"id", "nodes", "segments"})
    placement = _placements().validate_python(rules | {"segments": segments_of(job.segments)})
    return None if placement == SideConstraints() else placement
