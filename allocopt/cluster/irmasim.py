"""IRMaSim's platforms: its files in JSON, and the clusters on which it was validated.

Platforms, nodes and processors stand in a file by type, some types in a library.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import Field

from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.cluster.platform_files import Count, PositiveNumber, numbered
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, problem_faults_named, shown
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import parse_json, read_text

CONTENTION = ContentionConstants(b=-1.85e-5, c=32_000.0, da=1.75, db=3_500.0, dc=45_000.0, dd=3_000.0)
"""Table III, for 3.4 GHz; the paper prints none for the other clocks."""
IDLE_SHARE = 0.05
"""Share of the processor's power that it draws when idle: Table III has no such column, IRMaSim's code this number."""
WATTS: Mapping[float, tuple[float, float]] = MappingProxyType({3.4: (6.14, 5.59), 2.5: (3.51, 3.20), 1.7: (2.31, 1.59)})
"""Table III: power of a core and of the processor in watts, by clock in GHz."""
HETEROGENEOUS: Mapping[float, int] = MappingProxyType({3.4: 8, 2.5: 4, 1.7: 3})
"""The heterogeneous cluster of section VI, nodes by clock in GHz; the homogeneous one has 15 at 3.4."""
BANDWIDTH_MB_S, MEMORY_MB, CORES = 38_400.0, 8_000.0, 4

MODEL = "modelV1"  # the only platform model of IRMaSim that is the paper's
MB_PER_GB = 1000.0
LIBRARY = {"node": "node_types.json", "processor": "processor_types.json"}
MOST_SOCKETS = 1_024  # processors of one type in a node, beyond which a file is refused
_CONSTANTS = ("b", "c", "da", "db", "dc", "dd")
_LEAST_MB_S = 1000.0  # bandwidths below this are in GB/s, as the library says; it holds some in MB/s


def irmasim_testbed(clocks: Mapping[float, int] = HETEROGENEOUS, stalled: float = 1.0) -> Machine:
    """Return a cluster of nodes of one processor of Table III, so many by clock in GHz, the first ones first.

    ``stalled`` is the share of a core's power that it draws while it waits for memory, 1 in the paper. Raises
    `UsageError` if Table III has no such clock.
    """
    nodes: list[Node] = []
    for clock, count in clocks.items():
        if clock not in WATTS:
            raise UsageError(f"Table III has no row for {clock:g} GHz, but for 3.4, 2.5 and 1.7")
        core_w, processor_w = WATTS[clock]
        power = PowerConstants(core_w, processor_w, IDLE_SHARE * processor_w, stalled)
        kind = Processor(f"i5-7500 {clock:g} GHz", CORES, clock, 1.0, BANDWIDTH_MB_S, CONTENTION, power)
        nodes += [
            Node(f"n{number:02d}", (kind,), MEMORY_MB) for number in range(len(nodes) + 1, len(nodes) + count + 1)
        ]
    return Machine("irmasim-testbed", (Cluster("testbed", tuple(nodes)),))


class _Model(FileModel, extra="ignore"):  # keys that are not known are ignored, as IRMaSim does
    pass


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
    """Make the machine of a parsed platform file of IRMaSim, ``where``.

    ``types`` is the folder of the library of types, ``chosen`` the name of one of several platforms. Raises
    `BadFileError` if something is wrong, or of another model than the paper's.
    """
    platforms = obj.get("platform")
    if not isinstance(platforms, dict) or not platforms:
        raise bad_file(where, "platform", "is missing, must be an object of platforms by name")
    first, known = next(iter(platforms)), ", ".join(platforms)
    if chosen is None and len(platforms) > 1:
        raise bad_file(where, "platform", f"holds {known}; choose one as in {where}#{first}")
    name = chosen or first
    if name not in platforms:
        raise bad_file(where, "platform", f"has no {shown(name)}; it holds {known}")
    platform = validated(_Platform, platforms[name], f"{where}: platform.{name}")
    if platform.model_name != MODEL:
        fault = f"is {shown(platform.model_name)}, whose equations are others; must be {MODEL!r}"
        raise bad_file(where, f"platform.{name}.model_name", fault)
    library = _Library(obj, where, types)
    with problem_faults_named(where):
        n_processors = n_nodes = 0
        for group in (group for cluster in platform.clusters for group in cluster.nodes):
            kind = library.find("node", group.type, _Node)
            n_nodes += group.number
            n_processors += group.number * sum(entry.number for entry in kind.processors)
        Machine.check_size(n_nodes, n_processors)
        clusters = [
            Cluster(cluster.id, tuple(chain.from_iterable(map(library.nodes, cluster.nodes))))
            for cluster in platform.clusters
        ]
        names = [node.name for cluster in clusters for node in cluster.nodes]
        if len(set(names)) < len(names):
            # Types stand in for names where a file gives none, so that clusters may repeat them.
            for place, one in enumerate(clusters):
                told_apart = (
                    replace(node, name=f"{one.name}.{node.name}-{at}") for at, node in enumerate(one.nodes, 1)
                )
                clusters[place] = Cluster(one.name, tuple(told_apart))
        return Machine(platform.id or name, tuple(clusters))


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

    def nodes(self, group: _Nodes) -> Iterator[Node]:
        kind = self.find("node", group.type, _Node)
        parts = tuple(part for entry in kind.processors for part in [self.processor(entry.type)] * entry.number)
        memory = None if kind.memory is None else kind.memory.capacity * MB_PER_GB
        return (Node(name, parts, memory) for name in numbered(group.id or group.type, group.number))

    def processor(self, name: str) -> Processor:
        model = self.find("processor", name, _Processor)
        place = f"processor.{name}"
        if model.profile_version != 1:
            fault = f"is {model.profile_version}, whose equations are others; must be 1"
            raise bad_file(self.where, f"{place}.profile_version", fault)
        bandwidth = model.mem_bw
        # The library states bandwidths in GB/s, but some of its processors in MB/s: no channel has 1000 GB/s.
        if bandwidth is not None and bandwidth < _LEAST_MB_S:
            bandwidth *= MB_PER_GB
        constants = {key: value for key in _CONSTANTS if (value := getattr(model, key)) is not None}
        missing = [key for key in _CONSTANTS if key not in constants]
        if constants and missing:
            raise bad_file(self.where, place, f"has {', '.join(constants)}, but no {', '.join(missing)}")
        # Files name the two powers pa and pb, or dynamic and static power.
        core = model.dynamic_power if model.pa is None else model.pa
        shared = model.static_power if model.pb is None else model.pb
        with problem_faults_named(self.where, place):
            contention = ContentionConstants(**constants) if constants else None
            power = None
            if core is not None or shared is not None:
                power = PowerConstants(core or 0.0, shared or 0.0, model.min_power * (shared or 0.0))
            return Processor(name, model.cores, model.clock_rate, model.dpflops_per_cycle, bandwidth, contention, power)
