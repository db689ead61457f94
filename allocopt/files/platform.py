"""Files of multicore platforms: our own as TOML or JSON, those of IRMaSim as JSON, those of Batsim as XML."""

from collections.abc import Iterator
from pathlib import Path

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
from allocopt.files.faults import bad_file, memory_faults_named, shown
from allocopt.files.platform_models import PLATFORM_FORMAT, NodesModel, NodeTypeModel, PlatformFile, ProcessorModel
from allocopt.files.reading import parse_json, parse_toml, read_text
from allocopt.files.validation import check_header, validated


@memory_faults_named
def read_machine(path: Path | str, types: Path | str | None = None) -> Machine:
    """Read a multicore platform.

    Parameters
    ----------
    path
        ``.toml``, ``.json`` or ``.xml``, plain or compressed (``.gz``). A JSON file is our own if it names its format,
        otherwise IRMaSim's; one of several platforms is named ``FILE#PLATFORM``.
    types
        Folder with IRMaSim's ``node_types.json`` and ``processor_types.json``, for types that its files leave out.

    Raises
    ------
    BadFileError
        If the file cannot be read or anything in it is wrong; it names the place.
    """
    file, _, chosen = str(path).partition("#")
    source = Path(file)
    suffix = Path(source.name.removesuffix(".gz")).suffix
    if chosen and suffix != ".json":
        raise bad_file(source, f"holds one platform, {shown(chosen)} cannot be chosen")
    if suffix == ".xml":
        from allocopt.files.simgrid import read_simgrid

        return read_simgrid(source)
    text = read_text(source)
    obj = parse_toml(text, source) if suffix == ".toml" else parse_json(text, source)
    if suffix != ".toml" and isinstance(obj, dict) and "format" not in obj:
        from allocopt.files.irmasim import irmasim_machine

        return irmasim_machine(obj, source, None if types is None else Path(types), chosen or None)
    machine = _machine(validated(PlatformFile, check_header(obj, source, PLATFORM_FORMAT), source), source)
    if chosen not in ("", machine.name):
        raise bad_file(source, f"holds platform {shown(machine.name)}, {shown(chosen)} cannot be chosen")
    return machine


def _machine(model: PlatformFile, where: Path) -> Machine:
    """Make the machine of a file."""
    place = "top level"
    try:
        processors = {}
        for name, made in model.processors.items():
            place = f"processors.{name}"
            processors[name] = _processor(name, made)
        place = "clusters"
        groups = [group for cluster in model.clusters for group in cluster.nodes]
        kinds = {name: len(kind.processors) for name, kind in model.nodes.items()}
        check_count(
            sum(group.count for group in groups), sum(group.count * kinds.get(group.type, 0) for group in groups)
        )
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
    """Make a type of processor."""
    contention, power = model.contention, model.power
    return Processor(
        name,
        model.cores,
        model.clock_ghz,
        model.operations_per_cycle,
        model.bandwidth_mb_s,
        None if contention is None else ContentionConstants(**contention.model_dump()),
        None if power is None else PowerConstants(**power.model_dump()),
    )


def _nodes(group: NodesModel, types: dict[str, NodeTypeModel], processors: dict[str, Processor]) -> Iterator[Node]:
    """Yield nodes of one type."""
    if group.type not in types:
        raise InvalidProblemError("nodes", f"type {shown(group.type)} is not among the types of nodes: {_names(types)}")
    kind = types[group.type]
    for name in kind.processors:
        if name not in processors:
            fault = f"has processor {shown(name)}, there is none; there are {_names(processors)}"
            raise InvalidProblemError(f"nodes.{group.type}", fault)
    if group.names is not None and len(group.names) != group.count:
        fault = f"has {len(group.names)} names for {group.count} nodes"
        raise InvalidProblemError(f"nodes of type {shown(group.type)}", fault)
    parts = tuple(processors[name] for name in kind.processors)
    for name in group.names or numbered(group.type, group.count):
        yield Node(name, parts, kind.memory_mb)


def numbered(name: str, count: int) -> list[str]:
    """Return names of nodes of one type: the type's own where there is only one."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]


def _names(known: dict[str, object] | dict[str, NodeTypeModel] | dict[str, Processor]) -> str:
    """Name what there is."""
    return ", ".join(known)
