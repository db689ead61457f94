"""IRMaSim's platforms: its files in JSON, and the clusters on which it was validated.

Platforms, nodes and processors stand in a file by type, some types in a library.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
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
from allocopt.cluster.platform_files import Count, PositiveNumber, numbered
from allocopt.errors import InvalidProblemError, UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import validated
from allocopt.files.reading import parse_json, read_text

CONTENTION = ContentionConstants(b=-1.85e-5, c=32_000.0, da=1.75, db=3_500.0, dc=45_000.0, dd=3_000.0)
"""Table III, for 3.4 GHz; the paper prints none for the other clocks."""
IDLE_SHARE = 0.05
"""Share of the processor's power that it draws when idle: Table III has no such column, IRMaSim's code this number."""
WATTS: Mapping[float, tuple[float, float]] = MappingProxyType({3.4: (6.14, 5.59), 2.5: (3.51, 3.20), 1.7: (2.31, 1.59)})
"""Table III: power of a core and of the processor in watts, by clock in GHz."""
BANDWIDTH_MB_S, MEMORY_MB, CORES = 38_400.0, 8_000.0, 4

MODEL = "modelV1"  # the only platform model of IRMaSim that is the paper's
MB_PER_GB = 1000.0
LIBRARY = {"node": "node_types.json", "processor": "processor_types.json"}
MOST_SOCKETS = 1_024  # processors of one type in a node, beyond which a file is refused
_CONSTANTS = ("b", "c", "da", "db", "dc", "dd")
_LEAST_MB_S = 1000.0  # bandwidths below this are in GB/s, as the library says; it holds some in MB/s


def processor(clock_ghz: float, stalled: float = 1.0) -> Processor:
    """Return a processor of Table III, at 3.4, 2.5 or 1.7 GHz; raise `UsageError` for others.

    ``stalled`` is the share of a core's power that it draws while it waits for memory, 1 in the paper.
    """
    if clock_ghz not in WATTS:
        raise UsageError(f"Table III has no row for {clock_ghz:g} GHz, but for 3.4, 2.5 and 1.7")
    core_w, processor_w = WATTS[clock_ghz]
    power = PowerConstants(core_w, processor_w, IDLE_SHARE * processor_w, stalled)
    return Processor(f"i5-7500 {clock_ghz:g} GHz", CORES, clock_ghz, 1.0, BANDWIDTH_MB_S, CONTENTION, power)


def cluster_of(clocks: Mapping[float, int], stalled: float = 1.0) -> Machine:
    """Return a cluster of so many nodes by clock in GHz, the first ones first; `processor` has the rest."""
    of = [processor(clock, stalled) for clock, count in clocks.items() for _ in range(count)]
    nodes = tuple(Node(f"n{number:02d}", (one,), MEMORY_MB) for number, one in enumerate(of, start=1))
    return Machine("irmasim-testbed", (Cluster("testbed", nodes),))


def homogeneous(nodes: int = 15) -> Machine:
    """Return the homogeneous cluster of section VI: nodes of one 4-core processor at 3.4 GHz."""
    return cluster_of({3.4: nodes})


def heterogeneous() -> Machine:
    """Return the heterogeneous cluster: 8 nodes at 3.4 GHz, 4 at 2.5 and 3 at 1.7."""
    return cluster_of({3.4: 8, 2.5: 4, 1.7: 3})


class _Model(BaseModel):
    # Keys that are not known are ignored, as IRMaSim does.
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
    capacity: PositiveNumber


class _Node(_Model):
    processors: Annotated[list[_Processors], Field(min_length=1)]
    memory: _Memory | None = None


class _Processor(_Model):
    cores: Count
    clock_rate: PositiveNumber
    dpflops_per_cycle: PositiveNumber = 1.0
    mem_bw: PositiveNumber | None = None
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
    """Make the machine of what a platform file ``where`` of IRMaSim holds.

    ``types`` is the folder of the library of types, ``chosen`` the name of one of several platforms. Raises
    `BadFileError` if something is wrong, or of another model than the paper's.
    """
    name, platform = _platform(obj, where, chosen)
    if platform.model_name != MODEL:
        fault = f"is {shown(platform.model_name)}, whose equations are others; must be {MODEL!r}"
        raise bad_file(where, f"platform.{name}.model_name", fault)
    library = _Library(obj, where, types)
    try:
        processors = nodes = 0
        for group in (group for cluster in platform.clusters for group in cluster.nodes):
            kind = library.find("node", group.type, _Node)
            nodes += group.number
            processors += group.number * sum(entry.number for entry in kind.processors)
        check_count(nodes, processors)
        clusters = [Cluster(cluster.id, tuple(_nodes(cluster, library))) for cluster in platform.clusters]
        return Machine(platform.id or name, _distinct(clusters))
    except InvalidProblemError as error:
        raise bad_file(where, str(error)) from None


@dataclass(frozen=True, slots=True)
class _Library:
    obj: Mapping[str, Any]
    where: Path
    types: Path | None

    def find(self, group: str, name: str, model: type[Model]) -> Model:
        own = self._group(self.obj.get(group, {}), self.where, group)
        if name in own:
            return validated(model, own[name], f"{self.where}: {group}.{name}")
        if self.types is None:
            fault = f"type {shown(name)} is not in the file; types = FOLDER names the folder of {LIBRARY[group]}"
            raise bad_file(self.where, group, fault)
        file = self.types / LIBRARY[group]
        known = self._group(parse_json(read_text(file), file), file, "top level")
        if name not in known:
            raise bad_file(self.where, group, f"type {shown(name)} is neither in the file nor in {file}")
        return validated(model, known[name], f"{file}: {name}")

    @staticmethod
    def _group(group: object, where: Path, place: str) -> Mapping[str, Any]:
        if not isinstance(group, dict):
            raise bad_file(where, place, f"is {shown(group)}, must be an object of types by name")
        return group


def _platform(obj: Mapping[str, Any], where: Path, chosen: str | None) -> tuple[str, _Platform]:
    platforms = obj.get("platform")
    if not isinstance(platforms, dict) or not platforms:
        raise bad_file(where, "platform", "is missing, must be an object of platforms by name")
    first, known = next(iter(platforms)), ", ".join(platforms)
    if chosen is None and len(platforms) > 1:
        raise bad_file(where, "platform", f"holds {known}; choose one as in {where}#{first}")
    name = chosen or first
    if name not in platforms:
        raise bad_file(where, "platform", f"has no {shown(name)}; it holds {known}")
    return name, validated(_Platform, platforms[name], f"{where}: platform.{name}")


def _nodes(cluster: _Cluster, library: _Library) -> Iterator[Node]:
    for group in cluster.nodes:
        kind = library.find("node", group.type, _Node)
        parts = tuple(part for entry in kind.processors for part in [_processor(entry.type, library)] * entry.number)
        memory = None if kind.memory is None else kind.memory.capacity * MB_PER_GB
        for name in numbered(group.id or group.type, group.number):
            yield Node(name, parts, memory)


def _processor(name: str, library: _Library) -> Processor:
    model = library.find("processor", name, _Processor)
    place = f"processor.{name}"
    if model.profile_version != 1:
        fault = f"is {model.profile_version}, whose equations are others; must be 1"
        raise bad_file(library.where, f"{place}.profile_version", fault)
    bandwidth = model.mem_bw
    # The library states bandwidths in GB/s, but some of its processors in MB/s: no channel has 1000 GB/s.
    if bandwidth is not None and bandwidth < _LEAST_MB_S:
        bandwidth *= MB_PER_GB
    constants = {key: value for key in _CONSTANTS if (value := getattr(model, key)) is not None}
    missing = [key for key in _CONSTANTS if key not in constants]
    if constants and missing:
        raise bad_file(library.where, place, f"has {', '.join(constants)}, but no {', '.join(missing)}")
    # Files name the two powers pa and pb, or dynamic and static power.
    core = model.dynamic_power if model.pa is None else model.pa
    shared = model.static_power if model.pb is None else model.pb
    try:
        contention = ContentionConstants(**constants) if constants else None
        power = None
        if core is not None or shared is not None:
            power = PowerConstants(core or 0.0, shared or 0.0, model.min_power * (shared or 0.0))
        return Processor(name, model.cores, model.clock_rate, model.dpflops_per_cycle, bandwidth, contention, power)
    except InvalidProblemError as error:
        raise bad_file(library.where, place, str(error)) from None


def _distinct(clusters: list[Cluster]) -> tuple[Cluster, ...]:
    # Types stand in for names where a file gives none, so that clusters may repeat them.
    names = [node.name for cluster in clusters for node in cluster.nodes]
    if len(set(names)) == len(names):
        return tuple(clusters)
    distinct = []
    for cluster in clusters:
        nodes = (replace(node, name=f"{cluster.name}.{node.name}-{at}") for at, node in enumerate(cluster.nodes, 1))
        distinct.append(Cluster(cluster.name, tuple(nodes)))
    return tuple(distinct)
