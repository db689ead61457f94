"""Files of multicore platforms: our own as TOML or JSON, and those of Batsim, which are SimGrid's, as XML."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal
from xml.etree import ElementTree

from pydantic import Field

from allocopt.cluster.multicore import Cluster, ContentionConstants, Machine, Node, PowerConstants, Processor
from allocopt.errors import InvalidProblemError
from allocopt.files.faults import bad_file, problem_faults_named, shown
from allocopt.files.models import FileModel, Text, check_header, validated
from allocopt.files.reading import read_text

MOST = 1_000_000  # cores of a processor, and nodes of a kind, beyond which a file is refused
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SPEED = re.compile(r"([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([kMGTP]?)f?(?:lops)?")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_POWER = ("wattage_per_state", "watt_per_state")
_MASTER = "master_host"  # the host on which Batsim's scheduler runs; no job does
Count = Annotated[int, Field(ge=1, le=MOST)]
PositiveNumber = Annotated[float, Field(gt=0)]
Watts = Annotated[float, Field(ge=0)]


class _ContentionModel(FileModel):
    """Constants of the memory slowdown of a processor, rates in MB/s (IRMaSim, Eq. 2 and 3)."""

    b: Annotated[float, Field(lt=0, description="Speed factor lost per MB/s.")]
    c: Annotated[PositiveNumber, Field(description="Rate of all tasks beyond which they slow each other down.")]
    da: float
    db: Annotated[float, Field(ge=0)]
    dc: PositiveNumber
    dd: Annotated[float, Field(ge=0)]


class _PowerModel(FileModel):
    """Power of a processor (IRMaSim, Eq. 5)."""

    core_w: Annotated[Watts, Field(description="Watts of an active core (pa).")]
    processor_w: Annotated[Watts, Field(description="Watts of what its cores share, while one is active (pb).")]
    idle_w: Annotated[Watts, Field(description="Watts while no core is active.")] = 0.0
    stalled: Annotated[
        float, Field(ge=0, le=1, description="Share of core_w that a core draws while it waits for memory.")
    ] = 1.0


class _ProcessorModel(FileModel):
    """A type of processor."""

    cores: Count
    clock_ghz: PositiveNumber
    operations_per_cycle: PositiveNumber = 1.0
    bandwidth_mb_s: Annotated[
        PositiveNumber | None, Field(description="Bandwidth of the memory channels; contention.c if left out.")
    ] = None
    contention: _ContentionModel | None = None
    power: _PowerModel | None = None


class _NodeTypeModel(FileModel):
    """A type of node."""

    processors: Annotated[list[Text], Field(min_length=1, description="Types of its processors; one may come twice.")]
    memory_mb: Annotated[PositiveNumber | None, Field(description="Memory; if left out, it limits no job.")] = None


class _NodesModel(FileModel):
    """Nodes of one type."""

    type: Text
    count: Count = 1
    names: Annotated[list[Text] | None, Field(description="One for each; TYPE-1, TYPE-2, ... if left out.")] = None


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


def numbered(name: str, count: int) -> list[str]:
    """Return names of nodes of one type: the type's own where there is only one."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]


def machine_of(obj: object, where: Path) -> Machine:
    """Make the machine of a file of our own; raises `BadFileError` if its shape is wrong or its values contradict."""
    model = validated(PlatformFile, check_header(obj, where, "allocopt-platform"), where)
    place = "top level"
    try:
        processors = {}
        for name, made in model.processors.items():
            place = f"processors.{name}"
            processors[name] = Processor(
                name,
                **made.model_dump(exclude={"contention", "power"}),
                contention=None if made.contention is None else ContentionConstants(**made.contention.model_dump()),
                power=None if made.power is None else PowerConstants(**made.power.model_dump()),
            )
        place = "clusters"
        groups = [group for cluster in model.clusters for group in cluster.nodes]
        kinds = {name: len(kind.processors) for name, kind in model.nodes.items()}
        # Counted before any node is written out: a few bytes may ask for more than a memory holds.
        n_processors = sum(group.count * kinds.get(group.type, 0) for group in groups)
        Machine.check_size(sum(group.count for group in groups), n_processors)
        clusters = []
        for number, cluster in enumerate(model.clusters):
            place = f"clusters[{number}]"
            nodes: list[Node] = []
            for group in cluster.nodes:
                kind = model.nodes.get(group.type)
                if kind is None:
                    fault = f"type {shown(group.type)} is not among the types of nodes: {', '.join(model.nodes)}"
                    raise InvalidProblemError("nodes", fault)
                for name in kind.processors:
                    if name not in processors:
                        fault = f"has processor {shown(name)}, there is none; there are {', '.join(processors)}"
                        raise InvalidProblemError(f"nodes.{group.type}", fault)
                if group.names is not None and len(group.names) != group.count:
                    fault = f"has {len(group.names)} names for {group.count} nodes"
                    raise InvalidProblemError(f"nodes of type {shown(group.type)}", fault)
                parts = tuple(processors[name] for name in kind.processors)
                names = group.names or numbered(group.type, group.count)
                nodes += (Node(name, parts, kind.memory_mb) for name in names)
            clusters.append(Cluster(cluster.name, tuple(nodes)))
        place = "clusters"
        return Machine(model.name, tuple(clusters))
    except InvalidProblemError as error:
        raise bad_file(where, place, str(error)) from None


def read_simgrid(path: Path) -> Machine:
    """Read a platform of Batsim.

    A host becomes a node of one processor, whose speed in billions of operations per second stands for its clock. Its
    power is that of its first state in ``wattage_per_state`` (``watt_per_state``): idle, the processor's own, and all
    of it with all cores active; or, of two values, idle and all. Nothing is known of contention. Links are left out.
    Errors are those of `read_machine`.
    """
    text = read_text(path)
    # Entities that name each other grow a few bytes without bound, and external ones open files.
    if "<!ENTITY" in text:
        raise bad_file(path, "declares entities, which are not read")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise bad_file(path, f"is not XML: {error}") from None
    if root.tag != "platform":
        raise bad_file(path, f"is XML of {shown(root.tag)}, must be of 'platform'")
    with problem_faults_named(path):
        clusters = tuple(_clusters(root, path))
        if not clusters:
            raise bad_file(path, "holds neither a host nor a cluster")
        return Machine(path.name.removesuffix(".gz").removesuffix(".xml"), clusters)


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
                fault = f"radical has {shown(part)}, must be as in 0-15,17"
                raise bad_file(path, f"cluster {shown(element.get('id', 'cluster'))}", fault)
            numbers[-1].append(range(first, last + 1))
    count = sum(len(part) for parts in numbers for part in parts)
    Machine.check_size(count, count)
    for element, parts in zip(elements, numbers, strict=True):
        prefix, suffix = element.get("prefix", ""), element.get("suffix", "")
        nodes = [_host(path, element, f"{prefix}{number}{suffix}") for number in chain.from_iterable(parts)]
        yield Cluster(element.get("id", "cluster"), tuple(nodes))


def _host(path: Path, element: ElementTree.Element, name: str) -> Node:
    place = f"{element.tag} {shown(name)}"
    if not name:
        raise bad_file(path, place, "has no id, must have one")
    cores = element.get("core", "1")
    if not (cores.isascii() and cores.isdigit() and len(cores) < 10 and 0 < int(cores) <= MOST):
        raise bad_file(path, place, f"core is {shown(cores)}, must be a positive number")
    # Of several states the first one counts.
    text = element.get("speed", element.get("power", "")).split(",")[0].strip()
    found = _SPEED.fullmatch(text)
    speed = _float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < speed < 1e30:
        raise bad_file(path, place, f"speed is {shown(text)}, must be as in 1.5Gf")
    values = {prop.get("id"): prop.get("value", "") for prop in element.findall("prop")}
    wattage = next((values[name] for name in _POWER if name in values), None)
    power = None
    if wattage is not None:
        watts = [_float(part) for part in wattage.split(",")[0].split(":")]
        if len(watts) not in (2, 3) or not all(0 <= watt < 1e12 for watt in watts) or watts[-1] < watts[-2]:
            fault = f"{_POWER[0]} is {shown(wattage)}, must be IDLE:ALL or IDLE:PROCESSOR:ALL, rising, in watts"
            raise bad_file(path, place, fault)
        # With two values the processor's own power is that of idleness.
        power = PowerConstants((watts[-1] - watts[-2]) / int(cores), watts[-2], watts[0])
    return Node(name, (Processor(name, int(cores), speed / 1e9, power=power),))


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0
