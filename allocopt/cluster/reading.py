"""Topologies and multicore platforms in any format, told apart by the ending of the file."""

import os
from collections.abc import Sequence
from pathlib import Path

from allocopt.cluster.multicore import Machine
from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, memory_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_toml


@memory_faults_named
def read_topology(path: Path | str, labels: Sequence[str] = ()) -> NamedTree:
    """Read how the nodes of a cluster are connected.

    Parameters
    ----------
    path
        ``.yaml`` or ``.yml`` as Slurm's ``topology.yaml``, of which ``FILE#NAME`` chooses a topology; ``.json`` as
        ``kubectl get nodes -o json`` prints it; ``.graphml``; anything else as Slurm's ``topology.conf``.
        ``.gz`` is decompressed.
    labels
        For Kubernetes the keys of labels, from the top downwards; none for those that are known and there.

    Raises
    ------
    BadFileError
        If the file cannot be read or makes no tree; it names the place.
    UsageError
        If labels are given for another format, or one twice.
    """
    # The name of a topology behind # is no part of the file's ending.
    source, name = topology_file(path)
    suffix = _suffix(source).lower()
    if labels and suffix != ".json":
        raise UsageError(f"labels are those of Kubernetes nodes in a .json file, {source.name} is none")
    # What a format needs is loaded for that format.
    if suffix in (".yaml", ".yml"):
        from allocopt.cluster.slurm_yaml import read_slurm_topology_yaml

        return read_slurm_topology_yaml(source, name)
    if suffix == ".json":
        from allocopt.cluster.kubernetes import read_kubernetes_nodes

        return read_kubernetes_nodes(source, labels)
    if suffix == ".graphml":
        from allocopt.cluster.graphml import read_graphml

        return read_graphml(source)
    from allocopt.cluster.slurm import read_slurm_topology

    return read_slurm_topology(source)


def topology_file(path: Path | str) -> tuple[Path, str | None]:
    """Return the file, and the name of the topology that ``FILE#NAME`` chooses; None if none is.

    Only YAML files hold several; in any other name, and in that of a file that is there, ``#`` is a letter.
    """
    file, hash_sign, name = str(path).rpartition("#")
    is_chosen = hash_sign and file.lower().removesuffix(".gz").endswith((".yaml", ".yml")) and not os.path.exists(path)
    return (Path(file), name or None) if is_chosen else (Path(path), None)


def write_topology(path: Path, cluster: NamedTree) -> None:
    """Write a cluster: ``.graphml``, or ``.conf`` as Slurm's ``topology.conf``.

    Raises
    ------
    BadFileError
        If the file cannot be written.
    UsageError
        If its ending is another one.
    """
    suffix = _suffix(path).lower()
    if suffix == ".graphml":
        from allocopt.cluster.graphml import write_graphml

        return write_graphml(path, cluster)
    if suffix == ".conf":
        from allocopt.cluster.slurm import write_slurm_topology

        return write_slurm_topology(path, cluster)
    raise UsageError(f"{path} must end in .conf or .graphml")


@memory_faults_named
def read_machine(path: Path | str, types: Path | str | None = None) -> Machine:
    """Read a multicore platform from ``.toml``, ``.json`` or ``.xml``, plain or compressed (``.gz``).

    A JSON file is our own if it names its format, otherwise IRMaSim's; one of several platforms is named
    ``FILE#PLATFORM``. The folder ``types`` has IRMaSim's ``node_types.json`` and ``processor_types.json``, for types
    that its files leave out. Raises `BadFileError` if the file cannot be read or anything in it is wrong.
    """
    file, _, chosen = str(path).partition("#")
    source = Path(file)
    suffix = _suffix(source)
    if chosen and suffix != ".json":
        raise bad_file(source, f"holds one platform, {shown(chosen)} cannot be chosen")
    if suffix == ".xml":
        from allocopt.cluster.platform_files import read_simgrid

        return read_simgrid(source)
    from allocopt.cluster.platform_files import PLATFORM_FORMAT, PlatformFile, machine_of
    from allocopt.files.models import check_header, validated

    obj = read_toml(source) if suffix == ".toml" else parse_json(read_text(source), source)
    if suffix != ".toml" and isinstance(obj, dict) and "format" not in obj:
        from allocopt.cluster.irmasim import irmasim_machine

        return irmasim_machine(obj, source, None if types is None else Path(types), chosen or None)
    machine = machine_of(validated(PlatformFile, check_header(obj, source, PLATFORM_FORMAT), source), source)
    if chosen not in ("", machine.name):
        raise bad_file(source, f"holds platform {shown(machine.name)}, {shown(chosen)} cannot be chosen")
    return machine


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
