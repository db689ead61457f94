"""The shape of platform files, as pydantic models: the file boundary only (see `allocopt.files.models`)."""

from typing import Annotated, Literal

from pydantic import Field

from allocopt.files.validation import FileModel, Text

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
