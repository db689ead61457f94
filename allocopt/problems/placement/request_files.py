"""Requests of jobs that share nodes, as instance files hold them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from allocopt.arrays import BoolArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import Topology
from allocopt.errors import InvalidProblemError
from allocopt.files.models import INT64_MAX, FileModel, Positive, Text, plain
from allocopt.problems.topology.files import GivenSegments, segments_object, segments_of
from allocopt.problems.topology.side_constraints import segment_sizes

LARGEST_MASKS = 200_000_000  # most node sets times nodes; each pair takes a byte

Amount = Annotated[int, Field(ge=0, le=INT64_MAX)]


class RequestModel(FileModel):
    """A job and its request."""

    id: Annotated[Text, Field(description="Name of the job, unique in the instance.")]
    tasks: Annotated[Positive, Field(description="Number of its tasks.")]
    least_nodes: Annotated[Positive, Field(description="Least number of nodes.")] = 1
    most_nodes: Annotated[Positive | None, Field(description="Most nodes; the number of tasks if left out.")] = None
    tasks_per_node: Annotated[Positive | None, Field(description="Most tasks on a node; no limit if left out.")] = None
    per_task: Annotated[dict[Text, Amount], Field(default_factory=dict, description="Amounts for each task.")]
    per_node: Annotated[dict[Text, Amount], Field(default_factory=dict, description="Amounts on each node.")]
    exclusive: Annotated[bool, Field(description="Whether it gets its nodes exclusively.")] = False
    only_in: Annotated[
        list[Text],
        Field(default_factory=list, description="Node sets; all its nodes lie in one of them. Empty for any nodes."),
    ]
    most_groups: Annotated[
        list[Amount],
        Field(default_factory=list, description="Groups it may span at each level, from the leaves; 0 for any number."),
    ]
    segments: Annotated[
        GivenSegments | None,
        Field(
            description="Parts into which its nodes are divided. A list begins with the largest; each further entry "
            "divides the parts of the one before it, at a lower level."
        ),
    ] = None


class RequestWriter:
    """Converts requests to objects of a file, and collects their node sets by name in `node_sets`."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._resources = resources
        self._names: dict[bytes, str] = {}
        self.node_sets: dict[str, list[int]] = {}

    def keys_of(self, asked: ClusterRequest) -> dict[str, object]:
        """Return the keys and values that follow the id in a job's object."""
        only_in = []
        for mask in asked.masks if not asked.masks.all(axis=1).any() else ():
            name = self._names.setdefault(mask.tobytes(), f"set-{len(self._names)}")
            self.node_sets[name] = np.flatnonzero(mask).tolist()
            only_in.append(name)
        numbers: dict[str, object] = plain(
            {
                "tasks": asked.tasks,
                "least_nodes": asked.least_nodes,
                "most_nodes": asked.most_nodes,
                "tasks_per_node": asked.most_tasks,
            }
        )
        per_task, per_node = (
            {name: amount for name, amount in zip(self._resources, of.tolist(), strict=True) if amount}
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
        return {**numbers, **{key: value for key, value in optional.items() if value}}


def amounts_of(place: str, given: Mapping[str, list[int]], size: int) -> IntArray:
    """Return the amounts as an array, shape ``(nodes, resources)``.

    Raises `InvalidProblemError` if a list does not have one amount per node.
    """
    for name, amounts in given.items():
        if len(amounts) != size:
            fault = f"has {len(amounts)} amounts, must have one for each of {size} nodes"
            raise InvalidProblemError(f"{place}.{name}", fault)
    return np.array(list(given.values()), dtype=np.int64).T


def node_sets(named: Mapping[str, list[int]], size: int) -> dict[str, BoolArray]:
    """Return each named node set as a mask of nodes; raise `InvalidProblemError` if the sets are too large."""
    if len(named) * size > LARGEST_MASKS:
        fault = f"are {len(named):,} sets on {size:,} nodes, at most {LARGEST_MASKS:,} pairs are supported"
        raise InvalidProblemError("node_sets", fault)
    return {name: marked(f"node_sets.{name}", nodes, size) for name, nodes in named.items()}


def requests_of(
    place: str,
    models: Sequence[RequestModel],
    sets: Mapping[str, BoolArray],
    resources: tuple[str, ...],
    topology: Topology,
) -> list[ClusterRequest]:
    """Return the requests of a list of jobs; raise `InvalidProblemError`, which names ``place``, if one is wrong."""
    masks = _masks(place, models, sets, topology.size)
    return [_request(f"{place}[{index}]", one, resources, masks, topology) for index, one in enumerate(models)]


def _masks(
    place: str, models: Sequence[RequestModel], sets: Mapping[str, BoolArray], size: int
) -> dict[tuple[str, ...], BoolArray]:
    """Return the masks of node sets, one per row, by the names in ``only_in``; jobs with the same names share them."""
    found: dict[tuple[str, ...], BoolArray] = {}
    n_rows = 0
    for index, names in enumerate(tuple(one.only_in) for one in models):
        if names in found:
            continue
        for name in names:
            if name not in sets:
                raise InvalidProblemError(
                    f"{place}[{index}].only_in", f"holds {name!r}, which is not one of the node sets"
                )
        n_rows += max(1, len(names))
        if n_rows * size > LARGEST_MASKS:
            fault = (
                f"makes {n_rows:,} sets in all lists on {size:,} nodes, at most {LARGEST_MASKS:,} pairs are supported"
            )
            raise InvalidProblemError(f"{place}[{index}].only_in", fault)
        found[names] = np.stack([sets[name] for name in names] or [np.ones(size, dtype=np.bool_)])
    return found


def _request(
    place: str,
    model: RequestModel,
    resources: tuple[str, ...],
    masks: Mapping[tuple[str, ...], BoolArray],
    topology: Topology,
) -> ClusterRequest:
    for key, given in (("per_task", model.per_task), ("per_node", model.per_node)):
        for name in given:
            if name not in resources:
                raise InvalidProblemError(f"{place}.{key}", f"holds {name!r}, must be one of {', '.join(resources)}")
    segments = segments_of(model.segments)
    return ClusterRequest(
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


def _segments_object(sizes: Sequence[int]) -> object:
    entries: list[dict[str, object]] = [{"nodes": size, "level": level} for level, size in enumerate(sizes, 1) if size]
    return segments_object(entries[::-1])


def marked(place: str, nodes: list[int], size: int) -> BoolArray:
    """Return whether each of ``size`` nodes is in a list; raise `InvalidProblemError` for a node out of range."""
    found = np.zeros(size, dtype=np.bool_)
    for node in nodes:
        if node >= size:
            raise InvalidProblemError(place, f"holds node {node}, must be within 0 .. {size - 1}")
        found[node] = True
    return found
