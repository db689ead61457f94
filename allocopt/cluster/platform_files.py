"""Files of multicore platforms: our own as TOML or JSON, those of IRMaSim as JSON, those of Batsim as XML."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from allocopt.cluster.multicore import (
    Cluster,
    ContentionConstants,
    Machine,
    Node,
    PowerConstants,
    Processor,
    check_count,
)
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, Text

PLATFORM_FORMAT = "allocopt-platform"
MOST = 1_000_000
"""Cores of a processor, and nodes of a kind, beyond which a file is refused."""

Count = Annotated[int, Field(ge=1, le=MOST)]
PositiveNumber = Annotated[float, Field(gt=0)]
Watts = Annotated[float, Field(ge=0)]


class ContentionModel(FileModel):
    """Constants of the memory slowdown of a processor, rates in MB/s (IRMaSim, Eq. 2 and 3)."""

    b: Annotated[float, Field(lt=0, description="Speed factor lost per MB/s.")]
    c: Annotated[PositiveNumber, Field(description="Rate of all tasks beyond which they slow each other down.")]
    da: float
    db: Annotated[float, Field(ge=0)]
    dc: PositiveNumber
    dd: Annotated[float, Field(ge=0)]


class PowerModel(FileModel):
    """Power of a processor (IRMaSim, Eq. 5)."""

    core_w: Annotated[Watts, Field(description="Watts of an active core (pa).")]
    processor_w: Annotated[Watts, Field(description="Watts of what its cores share, while one is active (pb).")]
    idle_w: Annotated[Watts, Field(description="Watts while no core is active.")] = 0.0
    stalled: Annotated[
        float, Field(ge=0, le=1, description="Share of core_w that a core draws while it waits for memory.")
    ] = 1.0


class ProcessorModel(FileModel):
    """A type of processor."""

    cores: Count
    clock_ghz: PositiveNumber
    operations_per_cycle: PositiveNumber = 1.0
    bandwidth_mb_s: Annotated[
        PositiveNumber | None, Field(description="Bandwidth of the memory channels; contention.c if left out.")
    ] = None
    contention: ContentionModel | None = None
    power: PowerModel | None = None


class NodeTypeModel(FileModel):
    """A type of node."""

    processors: Annotated[list[Text], Field(min_length=1, description="Types of its processors; one may come twice.")]
    memory_mb: Annotated[PositiveNumber | None, Field(description="Memory; if left out, it limits no job.")] = None


class NodesModel(FileModel):
    """Nodes of one type."""

    type: Text
    count: Count = 1
    names: Annotated[list[Text] | None, Field(description="One for each; TYPE-1, TYPE-2, ... if left out.")] = None


class ClusterModel(FileModel):
    """A cluster."""

    name: Text
    nodes: Annotated[list[NodesModel], Field(min_length=1)]


class PlatformFile(FileModel):
    """A multicore platform."""

    format: Literal["allocopt-platform"]
    version: Literal[1]
    name: Text
    processors: Annotated[dict[Text, ProcessorModel], Field(min_length=1, description="Types of processors by name.")]
    nodes: Annotated[dict[Text, NodeTypeModel], Field(min_length=1, description="Types of nodes by name.")]
    clusters: Annotated[list[ClusterModel], Field(min_length=1)]


def numbered(name: str, count: int) -> list[str]:
    """Return names of nodes of one type: the type's own where there is only one."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]


def machine_of(model: PlatformFile, where: Path) -> Machine:
    """Make the machine of a platform file; raises `BadFileError` where its values contradict each other."""
    place = "top level"
    try:
        processors = {}
        for name, made in model.processors.items():
            place = f"processors.{name}"
            processors[name] = _processor(name, made)
        place = "clusters"
        groups = [group for cluster in model.clusters for group in cluster.nodes]
        kinds = {name: len(kind.processors) for name, kind in model.nodes.items()}
        processors_in = sum(group.count * kinds.get(group.type, 0) for group in groups)
        check_count(sum(group.count for group in groups), processors_in)
        clusters = []
        for number, cluster in enumerate(model.clusters):
            place = f"clusters[{number}]"
            nodes = [node for group in cluster.nodes for node in _nodes(group, model.nodes, processors)]
            clusters.append(Cluster(cluster.name, tuple(nodes)))
        place = "clusters"
        return Machine(model.name, tuple(clusters))
    except InvalidProblemError as error:
        raise bad_file(where, place, str(error)) from None


def _processor(name: str, model: ProcessorModel) -> Processor:
    numbers = model.model_dump(exclude={"contention", "power"})
    contention, power = model.contention, model.power
    return Processor(
        name,
        **numbers,
        contention=None if contention is None else ContentionConstants(**contention.model_dump()),
        power=None if power is None else PowerConstants(**power.model_dump()),
    )


def _nodes(group: NodesModel, types: dict[str, NodeTypeModel], processors: dict[str, Processor]) -> Iterator[Node]:
    if group.type not in types:
        known = ", ".join(types)
        raise InvalidProblemError("nodes", f"type {shown(group.type)} is not among the types of nodes: {known}")
    kind = types[group.type]
    for name in kind.processors:
        if name not in processors:
            fault = f"has processor {shown(name)}, there is none; there are {', '.join(processors)}"
            raise InvalidProblemError(f"nodes.{group.type}", fault)
    if group.names is not None and len(group.names) != group.count:
        fault = f"has {len(group.names)} names for {group.count} nodes"
        raise InvalidProblemError(f"nodes of type {shown(group.type)}", fault)
    parts = tuple(processors[name] for name in kind.processors)
    return (Node(name, parts, kind.memory_mb) for name in group.names or numbered(group.type, group.count))
