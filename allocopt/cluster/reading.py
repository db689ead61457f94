"""Topologies and multicore platforms in any format, told apart by the ending of the file."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from allocopt.cluster.multicore import Machine
from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_toml

_READERS = {
    ".conf": "slurm:read_slurm_topology",
    ".graphml": "graphml:read_graphml",
    ".json": "kubernetes:read_kubernetes_nodes",
    ".yaml": "slurm:read_slurm_topology_yaml",
    ".yml": "slurm:read_slurm_topology_yaml",
}
"""By the ending of a file, the function that reads its topology, given a path and what chooses in files of its kind.

It raises `BadFileError`, or `InvalidProblemError` where what it read makes no tree.
"""
_WRITERS = {".conf": "slurm:write_slurm_topology", ".graphml": "graphml:write_graphml"}


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
        For Kubernetes the keys of the labels that name the levels, from the top downwards; none for known ones.

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
    asked = {"labels": labels} if labels else {"name": name} if name else {}
    with problem_faults_named(source):
        return cast(NamedTree, _loaded(_READERS.get(suffix, _READERS[".conf"]))(source, **asked))


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
    writer = _WRITERS.get(_suffix(path).lower())
    if writer is None:
        raise UsageError(f"{path} must end in .conf or .graphml")
    _loaded(writer)(path, cluster)


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
    obj = read_toml(source) if suffix == ".toml" else parse_json(read_text(source), source)
    if suffix != ".toml" and isinstance(obj, dict) and "format" not in obj:
        from allocopt.cluster.irmasim import irmasim_machine

        return irmasim_machine(obj, source, None if types is None else Path(types), chosen or None)
    from allocopt.cluster.platform_files import machine_of

    machine = machine_of(obj, source)
    if chosen not in ("", machine.name):
        raise bad_file(source, f"holds platform {shown(machine.name)}, {shown(chosen)} cannot be chosen")
    return machine


def _loaded(home: str) -> Callable[..., Any]:
    # Only what a format needs is imported: networkx and pydantic take a while.
    module, name = home.split(":")
    return cast(Callable[..., Any], getattr(import_module(f"allocopt.cluster.{module}"), name))


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
