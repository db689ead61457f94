"""Clusters, topologies and multicore platforms in any format, told apart by the ending of the file or its contents."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_toml, read_yaml

if TYPE_CHECKING:
    from allocopt.cluster.multicore import Machine

_SWITCHES = re.compile(r"^\s*(SwitchName|BlockName)\s*=", re.MULTILINE | re.IGNORECASE)
_WRITERS = {".conf": "slurm:write_slurm_topology", ".graphml": "graphml:write_graphml"}


@memory_faults_named
def read_topology(path: Path | str, labels: Sequence[str] = ()) -> NamedTree:
    """Read how the nodes of a cluster are connected.

    Parameters
    ----------
    path
        Slurm's ``topology.conf``, what ``scontrol show topology`` prints, or ``topology.yaml``, of which ``FILE#NAME``
        chooses a topology; nodes of Kubernetes as ``kubectl get nodes -o json`` or ``-o yaml`` prints them; Flux's
        resource graphs; ``.graphml``; what ``ibnetdiscover`` prints. ``.gz`` is decompressed.
    labels
        For Kubernetes the keys of the labels that name the levels, from the top downwards; none for known ones.

    Raises
    ------
    BadFileError
        If the file cannot be read or makes no tree; it names the place.
    UsageError
        If labels are given for another format, or one twice.
    """
    found = _found(path, labels)
    if found is None:
        raise bad_file(Path(path), "names no switches; with --cluster it says what nodes have")
    return replace(found.topology, remarks=found.remarks) if isinstance(found, Cluster) else found


def read_cluster(paths: Sequence[Path | str], labels: Sequence[str] = ()) -> Cluster:
    """Read a cluster that one or several files describe together.

    Parameters
    ----------
    paths
        Beside the formats of `read_topology`: Slurm's ``slurm.conf`` and ``gres.conf``, what ``scontrol show node`` and
        ``scontrol show partition`` print, and lists of nodes of Alibaba's openb traces (``.csv``). At most one file may
        say how the nodes are connected; nodes that it, or the others, do not have are left out.
    labels
        As in `read_topology`.

    Raises
    ------
    BadFileError
        If a file cannot be read; it names the place.
    UsageError
        If two files say how nodes are connected, or nothing says what nodes there are.
    """
    trees: list[NamedTree] = []
    clusters: list[Cluster] = []
    sites: list[Path] = []
    for path in paths:
        match _found(path, labels):
            case NamedTree() as found:
                trees.append(found)
            case Cluster() as whole:
                clusters.append(whole)
            case None:
                sites.append(Path(path))
    shown_paths = ",".join(map(str, paths))
    if len(trees) > 1 or len(clusters) > 1 or (clusters and sites):
        raise UsageError(f"{shown_paths}: two files describe the same thing, must be one cluster and one topology")
    tree = next(iter(trees), None)
    with problem_faults_named(shown_paths):
        if sites:
            from allocopt.cluster.slurm_conf import read_slurm_site

            site = read_slurm_site(sites)
            return Cluster.of(site.nodes, tree, site.partitions, is_exclusive=site.is_exclusive, remarks=site.remarks)
        alone = "what nodes have is told nowhere: jobs have them alone"
        if clusters:
            one = clusters[0] if tree is None else clusters[0].among(tree)
            return replace(one, remarks=(*one.remarks, alone)) if one.is_exclusive else one
        if tree is None:
            raise UsageError("no file names the cluster")
        return Cluster.of(map(ClusterNode, tree.nodes), tree, is_exclusive=True, remarks=[alone])


def _found(path: Path | str, labels: Sequence[str]) -> NamedTree | Cluster | None:
    # None for a file of a site that says what nodes have, but not how they are connected.
    with problem_faults_named(topology_file(path)[0]):
        return _read_as_told(path, labels)


def _read_as_told(path: Path | str, labels: Sequence[str]) -> NamedTree | Cluster | None:
    # The name of a topology behind # is no part of the file's ending.
    source, name = topology_file(path)
    suffix = _suffix(source).lower()
    found: NamedTree | Cluster | None
    if suffix in (".json", ".yaml", ".yml"):
        found = _from_object(
            read_yaml(source) if suffix != ".json" else parse_json(read_text(source), source), source, name, labels
        )
        if found is not None:
            return found
    if labels:
        raise UsageError(f"labels are those of Kubernetes nodes, {source.name} holds none")
    if suffix == ".graphml":
        return cast(NamedTree | Cluster, _loaded("graphml:read_graphml")(source))
    if suffix == ".csv":
        return cast(Cluster, _loaded("openb:read_openb_nodes")(source))
    text = read_text(source)
    if re.search(r'^Switch\s+\d+\s+"S-', text, re.MULTILINE):
        return cast(NamedTree, _loaded("ibnetdiscover:read_ibnetdiscover")(source))
    is_site = not _SWITCHES.search(text) and re.search(
        r"^\s*(NodeName|PartitionName|NodeSet|Name|AutoDetect|SelectType\w*)\s*=", text, re.M | re.I
    )
    return None if is_site else cast(NamedTree, _loaded("slurm:read_slurm_topology")(source))


def _from_object(obj: object, source: Path, name: str | None, labels: Sequence[str]) -> NamedTree | Cluster:
    kind = obj.get("kind") if isinstance(obj, dict) else None
    if not isinstance(obj, dict) and _suffix(source).lower() != ".json":
        if labels:
            raise UsageError(f"labels are those of Kubernetes nodes, {source.name} holds none")
        return cast(NamedTree, _loaded("slurm:slurm_yaml_topology")(obj, source, name))
    if isinstance(obj, dict) and "graph" in obj:
        return cast(Cluster, _loaded("flux:flux_cluster")(obj, source))
    if isinstance(obj, dict) and str(obj.get("apiVersion", "")).startswith("kind.x-k8s.io"):
        raise bad_file(
            source, "tells kind how to make a cluster, must be what `kubectl get nodes -o yaml` prints of it"
        )
    if isinstance(obj, dict) and kind is None and "switches" in obj:
        raise bad_file(
            source, "is a model of topograph's simulator, must be the topology.conf that topograph makes of it"
        )
    return cast(Cluster, _loaded("kubernetes:kubernetes_cluster")(obj, source, labels))


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
def read_machine(path: Path | str, types: Path | str | None = None) -> "Machine":
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
