"""The shape of every JSON file, as pydantic models: the file boundary only, no part of the package computes with them.

They say what a file looks like; whether its values fit together is for the problem made of them to say.
"""

# ruff: noqa: RUF012 - pydantic copies defaults.

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, RootModel, Tag, WithJsonSchema

from allocopt.files.faults import shown
from allocopt.files.validation import FileModel, Text, printable_text
from allocopt.problems.side import LARGEST_PENALTY
from allocopt.problems.topology import LARGEST_FRAGMENTATION_WEIGHT, LARGEST_HOP_COST, LEAST_HOP_COST

INT64_MAX = 2**63 - 1
LONGEST_NAME = 200
"""Bytes of an instance name, which becomes a file name."""

INSTANCE_FORMAT = "allocopt-instance"
SOLUTION_FORMAT = "allocopt-solution"


def _file_stem(name: str) -> str:
    """Refuse an instance name that could not be the name of its solution file."""
    for separator in "/\\":
        if separator in name:
            raise ValueError(f"holds {separator!r}, must be usable as a file name")
    if name in (".", ".."):
        raise ValueError(f"is {name!r}, must be usable as a file name")
    if len(name.encode()) > LONGEST_NAME:
        raise ValueError(f"is {len(name.encode())} bytes long, must be at most {LONGEST_NAME}")
    return name


InstanceName = Annotated[
    Text, AfterValidator(_file_stem), Field(description="Name of the instance; usable as a file name.")
]
Positive = Annotated[int, Field(ge=1, le=INT64_MAX)]
Node = Annotated[int, Field(ge=0, le=INT64_MAX)]
Hops = Annotated[list[Annotated[int, Field(ge=0, le=INT64_MAX)]], Field(min_length=1)]
Pairs = Literal["ordered", "unordered"]
StrategyName = Literal["scas", "dcas", "free"]

_HOPS = "Hops between two nodes that meet at level 1 (leaf), ..., L (top); strictly rising."
_PAIRS = "Whether a pair of nodes counts twice (ordered) or once."


class FatTreeModel(FileModel):
    """A pruned k-ary fat tree; nodes are numbered from left to right, from 0."""

    kind: Literal["fat-tree"]
    pods: Annotated[Positive, Field(description="Number of pods.")]
    leaves_per_pod: Annotated[Positive, Field(description="Number of leaf switches in a pod.")]
    nodes_per_leaf: Annotated[Positive, Field(description="Number of nodes at a leaf switch.")]
    hops: Annotated[Hops, Field(description=_HOPS)] = [2, 4, 6]
    pairs: Annotated[Pairs, Field(description=_PAIRS)] = "ordered"


def _members_tag(members: object) -> str:
    """Tell groups of names from groups of nodes by the first member, so that a fault names one member."""
    return "names" if isinstance(members, list) and members and isinstance(members[0], str) else "nodes"


Members = Annotated[
    Annotated[list[Node], Field(min_length=1), Tag("nodes")] | Annotated[list[Text], Field(min_length=1), Tag("names")],
    Discriminator(_members_tag),
]
Level = Annotated[dict[Text, Members], Field(min_length=1)]


class TreeModel(FileModel):
    """A tree of any number of levels, given by named groups per level."""

    kind: Literal["tree"]
    levels: Annotated[
        list[Level],
        Field(
            min_length=1,
            description="From the leaf level upwards: groups of node numbers (0 .. n - 1, each once), then groups of "
            "names of the level below. The top level, a single group, may be left out unless it is the only one.",
        ),
    ]
    hops: Annotated[Hops | None, Field(description=f"{_HOPS} 2, 4, 6, ... if left out.")] = None
    pairs: Annotated[Pairs, Field(description=_PAIRS)] = "ordered"


def _number_or_name(least: int) -> Callable[[Any], Any]:
    """Make the check of a value that is a whole number from ``least`` on, or a name."""

    def checked(value: Any) -> Any:
        if isinstance(value, str) and value:
            return printable_text(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= INT64_MAX:
            return value
        raise ValueError(f"is {shown(value)}, must be an integer from {least} on or a name")

    return checked


def _number_or_name_schema(least: int) -> WithJsonSchema:
    """Describe such a value."""
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": least}, {"type": "string", "minLength": 1}]})


LevelOfTree = Annotated[Any, AfterValidator(_number_or_name(1)), _number_or_name_schema(1)]
Group = Annotated[Any, AfterValidator(_number_or_name(0)), _number_or_name_schema(0)]
_LEVEL = "Level below the top: its number from 1 on, or leaf (1) or pod (2)."


class GroupsModel(FileModel):
    """Groups of one level."""

    level: Annotated[LevelOfTree, Field(description=_LEVEL)]
    groups: Annotated[
        list[Group], Field(min_length=1, description="Numbers of groups from 0 on or, in a tree, their names.")
    ]


class PreferModel(FileModel):
    """A level that a job would rather stay within one group of."""

    level: Annotated[LevelOfTree, Field(description=_LEVEL)]
    penalty: Annotated[
        float, Field(ge=0, le=LARGEST_PENALTY, description="Cost if it does not, in the unit of the objective.")
    ]


class SegmentsModel(FileModel):
    """Pieces in which a job comes, each within one group of a level."""

    nodes: Annotated[Positive, Field(description="Nodes of a segment; divides those of the job.")]
    level: Annotated[LevelOfTree, Field(description=_LEVEL)]


class JobModel(FileModel):
    """A waiting job."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    nodes: Annotated[Positive, Field(description="Number of nodes it asks for.")]
    only_in: Annotated[
        list[GroupsModel], Field(description="Every node of the job lies in one of these groups; empty for anywhere.")
    ] = []
    not_in: Annotated[list[GroupsModel], Field(description="No node of the job lies in one of these groups.")] = []
    within: Annotated[
        LevelOfTree | None, Field(description=f"All nodes of the job lie in one group of this level. {_LEVEL}")
    ] = None
    prefer: Annotated[PreferModel | None, Field(description="A level that the job would rather stay within.")] = None
    segments: Annotated[SegmentsModel | None, Field(description="Pieces in which the job comes.")] = None


class InstanceModel(FileModel):
    """A window of waiting jobs, the nodes that are idle, and the cluster they belong to."""

    format: Literal["allocopt-instance"]
    version: Literal[1]
    kind: Literal["topology"]
    name: InstanceName
    topology: Annotated[FatTreeModel | TreeModel, Field(discriminator="kind")]
    idle_nodes: Annotated[
        list[Node], Field(min_length=1, description="Distinct numbers of the nodes that may be given away, any order.")
    ]
    jobs: Annotated[
        list[JobModel], Field(min_length=1, description="The window; together no more nodes than are idle.")
    ]
    hop_cost: Annotated[
        float,
        Field(ge=LEAST_HOP_COST, le=LARGEST_HOP_COST, description="Cost of one hop, in the unit of the objective."),
    ] = 1000.0
    fragmentation_weight: Annotated[
        float,
        Field(
            ge=0,
            le=LARGEST_FRAGMENTATION_WEIGHT,
            description="How much the hops of the leftover nodes count, as if they were one job.",
        ),
    ] = 0.0


class SolutionModel(FileModel):
    """A solver's answer to one instance."""

    format: Literal["allocopt-solution"]
    version: Literal[1]
    instance: InstanceName
    strategy: Annotated[StrategyName, Field(description="Which node sets were allowed.")]
    solver: Annotated[Text, Field(description="Name of the solver.")]
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN", "INTERRUPTED"]
    objective: Annotated[float | None, Field(description="Total hop cost; null without an allocation.")]
    bound: Annotated[float | None, Field(description="Proven lower bound for the strategy; null where there is none.")]
    allocation: Annotated[
        dict[Text, list[Node]] | None,
        Field(description="Numbers of the nodes of every job, by job id; null where no allocation was found."),
    ]
    seed: Annotated[int | None, Field(description="Seed that the solver was given.")] = None
    solver_version: Annotated[Text | None, Field(description="Version of what did the work.")] = None
    order: Annotated[
        list[Text] | None,
        Field(
            description="All job ids, in an order of placement in which the nodes of every job are consecutive in the "
            "circular sequence of the nodes that are still idle; dcas."
        ),
    ] = None


class BestKnownModel(FileModel):
    """The best objective known of one instance (under one strategy)."""

    objective: Annotated[float, Field(description="Total hop cost, or what the selection is worth.")]
    proved: Annotated[bool, Field(description="Whether it is proved to be the optimum.")]


NO_STRATEGY = ""
"""The key that stands for the strategy of problems of a kind without strategies."""


class BestKnownFile(RootModel[dict[InstanceName, dict[Literal["scas", "dcas", "free", ""], BestKnownModel]]]):
    """The best objectives known, by instance name and strategy; an empty one where the kind has no strategies."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)
