"""Reads files of multicore platforms: our own in TOML or JSON, IRMaSim's in JSON, and SimGrid's, as for Batsim, in XML.

IRMaSim's files define platforms, nodes and processors by type; some types are in a library of their own.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from xml.etree import ElementTree

from pydantic import AliasPath, Field

from allocopt.cluster.irmasim import IDLE_SHARE
from allocopt.cluster.multicore import (
    MOST_CORES,
    Cluster,
    ContentionConstants,
    Machine,
    Node,
    PowerConstants,
    Processor,
)
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.models import FileModel, Text, check_header, validated
from allocopt.files.reading import parse_json, read_text, read_toml, without_compression

_MOST = 1_000_000  # largest number of cores of a processor, and of nodes of a kind
_MOST_SOCKETS = 1_024  # largest number of processors of one type in a node of IRMaSim
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SPEED = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGTP]?)f?(?:lops)?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_POWER = ("wattage_per_state", "watt_per_state")
_MASTER = "master_host"  # the host of Batsim's scheduler, on which no job runs
_IRMASIM = "modelV1"  # the platform model of IRMaSim that is described in the paper
_LIBRARY = {"node": "node_types.json", "processor": "processor_types.json"}
_MB_PER_GB = 1000.0
_LEAST_MB_S = 1000.0  # IRMaSim's library gives bandwidths in GB/s or MB/s; numbers below this are GB/s
_Count = Annotated[int, Field(ge=1, le=_MOST)]
_Positive = Annotated[float, Field(gt=0)]
_Watts = Annotated[float, Field(ge=0)]


class _ContentionModel(FileModel):
    """Constants of the memory slowdown of a processor, rates in MB/s (IRMaSim, Eq. 2 and 3)."""

    b: Annotated[float, Field(lt=0, description="Change of the speed factor per MB/s.")]
    c: Annotated[_Positive, Field(description="Total rate of all tasks; above it, they slow each other down.")]
    da: float
    db: Annotated[float, Field(ge=0)]
    dc: _Positive
    dd: Annotated[float, Field(ge=0)]


class _PowerModel(FileModel):
    """Power of a processor (IRMaSim, Eq. 5)."""

    core_w: Annotated[_Watts, Field(description="Watts of an active core (pa).")]
    processor_w: Annotated[
        _Watts, Field(description="Watts of the parts that its cores share, while a core is active (pb).")
    ]
    idle_w: Annotated[_Watts, Field(description="Watts while no core is active.")] = 0.0
    stalled: Annotated[
        float, Field(ge=0, le=1, description="Share of core_w that a core draws while it waits for memory.")
    ] = 1.0


class _ProcessorModel(FileModel):
    """A type of processor."""

    cores: _Count
    clock_ghz: _Positive
    operations_per_cycle: _Positive = 1.0
    bandwidth_mb_s: Annotated[
        _Positive | None, Field(description="Bandwidth of the memory channels; contention.c by default.")
    ] = None
    contention: _ContentionModel | None = None
    power: _PowerModel | None = None


class _NodeTypeModel(FileModel):
    """A type of node."""

    processors: Annotated[
        list[Text], Field(min_length=1, description="Types of its processors; a type may occur twice.")
    ]
    memory_mb: Annotated[_Positive | None, Field(description="Memory; by default it limits no job.")] = None


class _NodesModel(FileModel):
    """Nodes of one type."""

    type: Text
    count: _Count = 1
    names: Annotated[list[Text] | None, Field(description="One for each node; TYPE-1, TYPE-2, ... by default.")] = None


class _ClusterModel(FileModel):
    """A cluster."""

    name: Text
    nodes: Annotated[list[_NodesModel], Field(min_length=1)]


class PlatformFile(FileModel):
    """A multicore platform."""

    format: Literal["allocopt-platform"]
    version: Literal[1]
    name: Text
    processors: Annotated[dict[Text, _ProcessorModel], Field(min_length=1, description="Types of processors by name.")]
    nodes: Annotated[dict[Text, _NodeTypeModel], Field(min_length=1, description="Types of nodes by name.")]
    clusters: Annotated[list[_ClusterModel], Field(min_length=1)]


@memory_faults_named
def read_machine(path: Path | str, types: Path | str | None = None) -> Machine:
    """Read a multicore platform from ``.toml``, ``.json`` or ``.xml``, plain or compressed (``.gz``).

    A JSON file is our own if it names its format, otherwise IRMaSim's. ``FILE#PLATFORM`` chooses one of several
    platforms. The folder ``types`` has IRMaSim's ``node_types.json`` and ``processor_types.json``, for types that its
    files leave out. Raises `BadFileError` if the file cannot be read or is invalid.
    """
    file, _, chosen = str(path).partition("#")
    source = Path(file)
    suffix = Path(without_compression(source.name)).suffix
    if chosen and suffix != ".json":
        raise bad_file(source, f"holds only one platform, so {shown(chosen)} cannot be chosen")
    if suffix == ".xml":
        return _read_simgrid(source)
    obj = read_toml(source) if suffix == ".toml" else parse_json(read_text(source), source)
    if suffix != ".toml" and isinstance(obj, dict) and "format" not in obj:
        return _irmasim_machine(obj, source, None if types is None else Path(types), chosen)
    machine = _machine_of(obj, source)
    if chosen not in ("", machine.name):
        raise bad_file(source, f"holds only platform {shown(machine.name)}, so {shown(chosen)} cannot be chosen")
    return machine


@dataclass(frozen=True, slots=True)
class _Group:
    # Nodes of one type, with names of their own or with numbers.
    type: str
    processors: tuple[Processor, ...]
    memory_mb: float | None
    count: int
    names: list[str] | None = None

    def nodes(self) -> Iterator[Node]:
        numbered = (f"{self.type}-{number}" for number in range(1, self.count + 1))
        names = self.names or ([self.type] if self.count == 1 else numbered)
        return (Node(name, self.processors, self.memory_mb) for name in names)


def _check_size(nodes: int, processors: int) -> None:
    # Count before any node is made, because a few bytes may ask for more nodes than fit into memory.
    for name, count, most in (("nodes", nodes, _MOST), ("processors", processors, MOST_CORES)):
        if count > most:
            raise InvalidProblemError("platform", f"has {count} {name}, must be at most {most}")


def _clusters_of(named: Iterable[tuple[str, list[_Group]]]) -> list[Cluster]:
    clusters = list(named)
    groups = [group for _, inside in clusters for group in inside]
    n_processors = sum(group.count * len(group.processors) for group in groups)
    _check_size(sum(group.count for group in groups), n_processors)
    return [Cluster(name, tuple(chain.from_iterable(one.nodes() for one in inside))) for name, inside in clusters]


def _machine_of(obj: object, where: Path) -> Machine:
    model = validated(PlatformFile, check_header(obj, where, "allocopt-platform"), where)
    processors = {}
    for name, made in model.processors.items():
        with problem_faults_named(where, f"processors.{name}"):
            processors[name] = Processor(
                name,
                **made.model_dump(exclude={"contention", "power"}),
                contention=None if made.contention is None else ContentionConstants(**made.contention.model_dump()),
                power=None if made.power is None else PowerConstants(**made.power.model_dump()),
            )

    def group(nodes: _NodesModel, place: str) -> _Group:
        kind = model.nodes.get(nodes.type)
        if kind is None:
            fault = f"type {shown(nodes.type)} is not among the types of nodes: {', '.join(model.nodes)}"
            raise bad_file(where, place, "nodes", fault)
        for name in kind.processors:
            if name not in processors:
                fault = f"has the unknown processor {shown(name)}, must be one of {', '.join(processors)}"
                raise bad_file(where, place, f"nodes.{nodes.type}", fault)
        if nodes.names is not None and len(nodes.names) != nodes.count:
            fault = f"has {len(nodes.names)} names for {nodes.count} nodes"
            raise bad_file(where, place, f"nodes of type {shown(nodes.type)}", fault)
        parts = tuple(processors[name] for name in kind.processors)
        return _Group(nodes.type, parts, kind.memory_mb, nodes.count, nodes.names)

    named = [
        (cluster.name, [group(nodes, f"clusters[{number}]") for nodes in cluster.nodes])
        for number, cluster in enumerate(model.clusters)
    ]
    with problem_faults_named(where, "clusters"):
        return Machine(model.name, tuple(_clusters_of(named)))


# Unknown keys are ignored, as IRMaSim does.
class _IrmasimModel(FileModel, extra="ignore"):
    pass


class _IrmasimNodes(_IrmasimModel):
    id: str | None = None
    type: str
    number: _Count = 1


class _IrmasimCluster(_IrmasimModel):
    id: str
    nodes: Annotated[list[_IrmasimNodes], Field(min_length=1)]


class _IrmasimPlatform(_IrmasimModel):
    id: str | None = None
    model_name: str = _IRMASIM
    clusters: Annotated[list[_IrmasimCluster], Field(min_length=1)]


class _IrmasimSockets(_IrmasimModel):
    type: str
    number: Annotated[int, Field(ge=1, le=_MOST_SOCKETS)] = 1


class _IrmasimNode(_IrmasimModel):
    processors: Annotated[list[_IrmasimSockets], Field(min_length=1)]
    memory_gb: Annotated[_Positive | None, Field(validation_alias=AliasPath("memory", "capacity"))] = None


class _IrmasimProcessor(_IrmasimModel):
    cores: _Count
    clock_rate: _Positive
    dpflops_per_cycle: _Positive = 1.0
    mem_bw: _Positive | None = None
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


_Model = TypeVar("_Model", bound=_IrmasimModel)


def _irmasim_machine(obj: Mapping[str, Any], where: Path, types: Path | None, chosen: str) -> Machine:
    platforms = obj.get("platform")
    if not isinstance(platforms, dict) or not platforms:
        raise bad_file(where, "platform", "is missing, must be an object of platforms by name")
    first, known = next(iter(platforms)), ", ".join(platforms)
    if not chosen and len(platforms) > 1:
        raise bad_file(where, "platform", f"holds {known}; choose one as in {where}#{first}")
    name = chosen or first
    if name not in platforms:
        raise bad_file(where, "platform", f"has no {shown(name)}; it holds {known}")
    platform = validated(_IrmasimPlatform, platforms[name], f"{where}: platform.{name}")
    if platform.model_name != _IRMASIM:
        fault = f"is {shown(platform.model_name)}, which has other equations; must be {_IRMASIM!r}"
        raise bad_file(where, f"platform.{name}.model_name", fault)
    library = _Library(obj, where, types)
    with problem_faults_named(where):
        clusters = _clusters_of((one.id, list(map(library.group, one.nodes))) for one in platform.clusters)
        names = [node.name for cluster in clusters for node in cluster.nodes]
        if len(set(names)) < len(names):
            # Nodes without names are named after their type, which may occur in several clusters.
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

    def find(self, noun: str, name: str, model: type[_Model]) -> _Model:
        own = self.obj.get(noun, {})
        if not isinstance(own, dict):
            raise bad_file(self.where, noun, f"is {shown(own)}, must be an object of types by name")
        if name in own:
            return validated(model, own[name], f"{self.where}: {noun}.{name}")
        if self.types is None:
            fault = f"type {shown(name)} is not in the file; set types = FOLDER to the folder of {_LIBRARY[noun]}"
            raise bad_file(self.where, noun, fault)
        file = self.types / _LIBRARY[noun]
        known = parse_json(read_text(file), file)
        if not isinstance(known, dict):
            raise bad_file(file, "top level", f"is {shown(known)}, must be an object of types by name")
        if name not in known:
            raise bad_file(self.where, noun, f"type {shown(name)} is neither in the file nor in {file}")
        return validated(model, known[name], f"{file}: {name}")

    def group(self, nodes: _IrmasimNodes) -> _Group:
        kind = self.find("node", nodes.type, _IrmasimNode)
        _check_size(1, sum(entry.number for entry in kind.processors))
        parts = tuple(part for entry in kind.processors for part in [self.processor(entry.type)] * entry.number)
        memory = None if kind.memory_gb is None else kind.memory_gb * _MB_PER_GB
        return _Group(nodes.id or nodes.type, parts, memory, nodes.number)

    def processor(self, name: str) -> Processor:
        model = self.find("processor", name, _IrmasimProcessor)
        place = f"processor.{name}"
        if model.profile_version != 1:
            fault = f"is {model.profile_version}, which has other equations; must be 1"
            raise bad_file(self.where, f"{place}.profile_version", fault)
        bandwidth = model.mem_bw
        # The library gives some bandwidths in GB/s and some in MB/s. No processor has 1000 GB/s.
        if bandwidth is not None and bandwidth < _LEAST_MB_S:
            bandwidth *= _MB_PER_GB
        found = {field.name: getattr(model, field.name) for field in fields(ContentionConstants)}
        constants = {key: value for key, value in found.items() if value is not None}
        missing = [key for key in found if key not in constants]
        if constants and missing:
            raise bad_file(self.where, place, f"has {', '.join(constants)}, but no {', '.join(missing)}")
        # The two powers are called pa and pb, or dynamic and static power.
        core = model.dynamic_power if model.pa is None else model.pa
        shared = model.static_power if model.pb is None else model.pb
        with problem_faults_named(self.where, place):
            contention = ContentionConstants(**constants) if constants else None
            power = None
            if core is not None or shared is not None:
                power = PowerConstants(core or 0.0, shared or 0.0, model.min_power * (shared or 0.0))
            return Processor(name, model.cores, model.clock_rate, model.dpflops_per_cycle, bandwidth, contention, power)


def _read_simgrid(path: Path) -> Machine:
    # A host becomes a node with one processor, whose clock is the speed in billions of operations per second. Its power
    # is that of its first state, which has three values in watts: idle, the processor without its cores, and the total
    # with all cores active. A state of two values lacks the middle one. There is no contention, and links are left out.
    text = read_text(path)
    # Nested entities can expand a few bytes without bound, and external ones open files.
    if "<!ENTITY" in text:
        raise bad_file(path, "declares entities, which are not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise bad_file(path, f"is not XML: {error}") from None
    if root.tag != "platform":
        raise bad_file(path, f"is XML with the root {shown(root.tag)}, must be 'platform'")
    with problem_faults_named(path):
        clusters = tuple(_clusters(root, path))
        if not clusters:
            raise bad_file(path, "holds neither a host nor a cluster")
        return Machine(without_compression(path.name).removesuffix(".xml"), clusters)


def _clusters(root: ElementTree.Element, path: Path) -> Iterator[Cluster]:
    for zone in [root, *root.iter("AS"), *root.iter("zone")]:
        hosts = [
            _host(path, host, host.get("id", ""))
            for host in zone.findall("host")
            if host.get("id") != _MASTER and not any(prop.get("value") == "master" for prop in host.findall("prop"))
        ]
        if hosts:
            yield Cluster(zone.get("id", "platform"), tuple(hosts))
    elements = [*root.iter("cluster"), *root.iter("cabinet")]
    numbers: list[list[range]] = []
    for element in elements:
        numbers.append([])
        for part in map(str.strip, element.get("radical", "").split(",")):
            found = _RANGE.fullmatch(part)
            first = int(found[1]) if found else 0
            last = int(found[2] or first) if found else -1
            if last < first:
                fault = f"radical has {shown(part)}, must be numbers or ranges such as 0-15,17"
                raise bad_file(path, f"cluster {shown(element.get('id', 'cluster'))}", fault)
            numbers[-1].append(range(first, last + 1))
    count = sum(len(part) for parts in numbers for part in parts)
    _check_size(count, count)
    for element, parts in zip(elements, numbers, strict=True):
        prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
        nodes = [_host(path, element, f"{prefix}{number}{suffix}") for number in chain.from_iterable(parts)]
        yield Cluster(element.get("id", "cluster"), tuple(nodes))


def _host(path: Path, element: ElementTree.Element, name: str) -> Node:
    place = f"{element.tag} {shown(name)}"
    if not name:
        raise bad_file(path, place, "has no id")
    cores = element.get("core", "1")
    if not (cores.isascii() and cores.isdigit() and len(cores) < 10 and 0 < int(cores) <= _MOST):
        raise bad_file(path, place, f"core is {shown(cores)}, must be a positive number")
    # The first one of several states is used.
    text = element.get("speed", element.get("power", "")).split(",")[0].strip()
    found = _SPEED.fullmatch(text)
    speed = _float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < speed < 1e30:
        raise bad_file(path, place, f"speed is {shown(text)}, must be a speed such as 1.5Gf")
    values = {prop.get("id"): prop.get("value", "") for prop in element.findall("prop")}
    wattage = next((values[name] for name in _POWER if name in values), None)
    power = None
    if wattage is not None:
        watts = [_float(part) for part in wattage.split(",")[0].split(":")]
        if len(watts) not in (2, 3) or not all(0 <= watt < 1e12 for watt in watts) or watts[-1] < watts[-2]:
            fault = f"{_POWER[0]} is {shown(wattage)}, must be IDLE:ALL or IDLE:PROCESSOR:ALL, rising, in watts"
            raise bad_file(path, place, fault)
        # With two values, the power of the processor without its cores is the idle power.
        power = PowerConstants((watts[-1] - watts[-2]) / int(cores), watts[-2], watts[0])
    return Node(name, (Processor(name, int(cores), speed / 1e9, power=power),))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
