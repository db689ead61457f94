"""Platforms of IRMaSim in JSON: platforms, nodes and processors by type, some of them in a library of types."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

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
from allocopt.files.platform import numbered
from allocopt.files.platform_models import MOST
from allocopt.files.reading import parse_json, read_text
from allocopt.files.validation import validated

MODEL = "modelV1"
"""The only platform model of IRMaSim that is the paper's."""
IDLE_SHARE = 0.05
"""Share of the processor's power that it draws when idle, where the file has no ``min_power``: as in their code."""
MB_PER_GB = 1000.0
LIBRARY = {"node": "node_types.json", "processor": "processor_types.json"}
_CONSTANTS = ("b", "c", "da", "db", "dc", "dd")
_LEAST_MB_S = 1000.0
"""Bandwidths below this are in GB/s, as the library says; it holds some in MB/s."""

MOST_SOCKETS = 1_024
"""Processors of one type in a node, beyond which a file is refused."""

Count = Annotated[int, Field(ge=1, le=MOST)]


class _Model(BaseModel):
    """Exact types, no NaN; keys that are not known are ignored, as IRMaSim does."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, frozen=True, defer_build=True)


class _Nodes(_Model):
    id: str | None = None
    type: str
    number: Count = 1


class _Cluster(_Model):
    id: str
    nodes: Annotated[list[_Nodes], Field(min_length=1)]


class _Platform(_Model):
    id: str | None = None
    model_name: str = MODEL
    clusters: Annotated[list[_Cluster], Field(min_length=1)]


class _Processors(_Model):
    type: str
    number: Annotated[int, Field(ge=1, le=MOST_SOCKETS)] = 1


class _Memory(_Model):
    capacity: Annotated[float, Field(gt=0)]


class _Node(_Model):
    processors: Annotated[list[_Processors], Field(min_length=1)]
    memory: _Memory | None = None


class _Processor(_Model):
    cores: Count
    clock_rate: Annotated[float, Field(gt=0)]
    dpflops_per_cycle: Annotated[float, Field(gt=0)] = 1.0
    mem_bw: Annotated[float, Field(gt=0)] | None = None
    profile_version: int = 1
    b: float | None = None
    c: float | None = None
    da: float | None = None
    db: float | None = None
    dc: float | None = None
    dd: float | None = None
    pa: float | None = None
    pb: float | None = None
    dynamic_power: float | None = None
    static_power: float | None = None
    min_power: Annotated[float, Field(ge=0, le=1)] = IDLE_SHARE


Model = TypeVar("Model", bound=_Model)


def irmasim_machine(obj: Mapping[str, Any], where: Path, types: Path | None, chosen: str | None) -> Machine:
    """Make the machine of a platform file of IRMaSim.

    Parameters
    ----------
    obj
        What the file holds.
    where
        The file, for messages.
    types
        Folder of the library of types, if there is one.
    chosen
        Name of one of its platforms; None for the only one.

    Raises
    ------
    BadFileError
        If something in it is wrong, or is of another model than the paper's.
    """
    name, platform = _platform(obj, where, chosen)
    if platform.model_name != MODEL:
        fault = f"is {shown(platform.model_name)}, whose equations are others; must be {MODEL!r}"
        raise bad_file(where, f"platform.{name}.model_name", fault)
    library = _Library(obj, where, types)
    try:
        groups = [
            (group.number, library.find("node", group.type, _Node))
            for cluster in platform.clusters
            for group in cluster.nodes
        ]
        check_count(
            sum(number for number, _ in groups),
            sum(number * sum(entry.number for entry in kind.processors) for number, kind in groups),
        )
        clusters = [Cluster(cluster.id, tuple(_nodes(cluster, library))) for cluster in platform.clusters]
        return Machine(platform.id or name, _distinct(clusters))
    except InvalidProblemError as error:
        raise bad_file(where, str(error)) from None


class _Library:
    """Types of nodes and processors: those of the file, then those of the library."""

    def __init__(self, obj: Mapping[str, Any], where: Path, types: Path | None) -> None:
        self._obj, self._where, self._types = obj, where, types

    def find(self, group: str, name: str, model: type[Model]) -> Model:
        """Return a type of a group."""
        own = self._group(self._obj.get(group, {}), self._where, group)
        if name in own:
            return validated(model, own[name], f"{self._where}: {group}.{name}")
        if self._types is None:
            fault = f"type {shown(name)} is not in the file; --types names the folder of {LIBRARY[group]}"
            raise bad_file(self._where, group, fault)
        file = self._types / LIBRARY[group]
        known = self._group(parse_json(read_text(file), file), file, "top level")
        if name not in known:
            raise bad_file(self._where, group, f"type {shown(name)} is neither in the file nor in {file}")
        return validated(model, known[name], f"{file}: {name}")

    @staticmethod
    def _group(group: object, where: Path, place: str) -> Mapping[str, Any]:
        """Return types by name."""
        if not isinstance(group, dict):
            raise bad_file(where, place, f"is {shown(group)}, must be an object of types by name")
        return group

    def fault(self, place: str, fault: str) -> Exception:
        """Return an error that names the file."""
        return bad_file(self._where, place, fault)


def _platform(obj: Mapping[str, Any], where: Path, chosen: str | None) -> tuple[str, _Platform]:
    """Return one of the platforms of a file with its name."""
    platforms = obj.get("platform")
    if not isinstance(platforms, dict) or not platforms:
        raise bad_file(where, "platform", "is missing, must be an object of platforms by name")
    if chosen is None and len(platforms) > 1:
        raise bad_file(
            where, "platform", f"holds {', '.join(platforms)}; choose one as in {where}#{next(iter(platforms))}"
        )
    name = chosen or next(iter(platforms))
    if name not in platforms:
        raise bad_file(where, "platform", f"has no {shown(name)}; it holds {', '.join(platforms)}")
    return name, validated(_Platform, platforms[name], f"{where}: platform.{name}")


def _nodes(cluster: _Cluster, library: _Library) -> Iterator[Node]:
    """Yield the nodes of a cluster."""
    for group in cluster.nodes:
        kind = library.find("node", group.type, _Node)
        parts = tuple(part for entry in kind.processors for part in [_processor(entry.type, library)] * entry.number)
        memory = None if kind.memory is None else kind.memory.capacity * MB_PER_GB
        for name in numbered(group.id or group.type, group.number):
            yield Node(name, parts, memory)


def _processor(name: str, library: _Library) -> Processor:
    """Make a type of processor."""
    model = library.find("processor", name, _Processor)
    if model.profile_version != 1:
        fault = f"is {model.profile_version}, whose equations are others; must be 1"
        raise library.fault(f"processor.{name}.profile_version", fault)
    bandwidth = model.mem_bw
    if bandwidth is not None and bandwidth < _LEAST_MB_S:
        bandwidth *= MB_PER_GB
    try:
        contention, power = _contention(name, model, library), _power(model)
        return Processor(name, model.cores, model.clock_rate, model.dpflops_per_cycle, bandwidth, contention, power)
    except InvalidProblemError as error:
        raise library.fault(f"processor.{name}", str(error)) from None


def _contention(name: str, model: _Processor, library: _Library) -> ContentionConstants | None:
    """Return the constants of contention, all or none of which are there."""
    constants = {key: value for key in _CONSTANTS if (value := getattr(model, key)) is not None}
    missing = [key for key in _CONSTANTS if key not in constants]
    if not constants:
        return None
    if missing:
        raise library.fault(f"processor.{name}", f"has {', '.join(constants)}, but no {', '.join(missing)}")
    return ContentionConstants(**constants)


def _power(model: _Processor) -> PowerConstants | None:
    """Return the constants of power: ``pa`` and ``pb``, which the examples call dynamic and static power."""
    core = model.dynamic_power if model.pa is None else model.pa
    shared = model.static_power if model.pb is None else model.pb
    if core is None and shared is None:
        return None
    return PowerConstants(core or 0.0, shared or 0.0, model.min_power * (shared or 0.0))


def _distinct(clusters: list[Cluster]) -> tuple[Cluster, ...]:
    """Return clusters whose nodes have different names; where they have not, those of their clusters come before."""
    names = [node.name for cluster in clusters for node in cluster.nodes]
    if len(set(names)) == len(names):
        return tuple(clusters)
    return tuple(
        Cluster(
            cluster.name,
            tuple(
                Node(f"{cluster.name}.{node.name}-{number}", node.processors, node.memory_mb)
                for number, node in enumerate(cluster.nodes, start=1)
            ),
        )
        for cluster in clusters
    )
