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
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_toml, read_yaml

if TYPE_CHECKING:
    from allocopt.cluster.multicore import Machine

ALONE = "what nodes have is told nowhere: jobs have them alone"
_NODES = re.compile(
    r"^\s*(NodeName|PartitionName|NodeSet|Name|AutoDetect|SelectType\w*)\s*=", re.MULTILINE | re.IGNORECASE
)
_PAIR = re.compile(r"^\s*(include\s|\w+\s*=)", re.MULTILINE | re.IGNORECASE)
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
    if isinstance(found, str):
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
    site: dict[Path, str] = {}
    for path in paths:
        match _found(path, labels):
            case NamedTree() as tree:
                trees.append(tree)
            case Cluster() as cluster:
                clusters.append(cluster)
            case text:
                site[Path(path)] = text
    shown_paths = ",".join(map(str, paths))
    with problem_faults_named(shown_paths):
        if site:
            from allocopt.cluster.slurm_conf import slurm_cluster

            clusters.append(slurm_cluster(site))
        if len(trees) > 1 or len(clusters) > 1:
            raise UsageError(f"{shown_paths}: two files describe the same thing, must be one cluster and one topology")
        if not trees and not clusters:
            raise UsageError("no file names the cluster")
        found = clusters[0] if clusters else Cluster.whole_nodes(trees[0])
        if clusters and trees:
            found = found.under(trees[0])
    is_told = site or not found.is_exclusive
    return found if is_told else replace(found, remarks=(ALONE, *found.remarks))


def _found(path: Path | str, labels: Sequence[str]) -> NamedTree | Cluster | str:
    # The text of a file of Slurm that says what nodes have; several of them say it together.
    source, name = topology_file(path)
    with problem_faults_named(source):
        # A pipe can be read once.
        match _suffix(source).lower():
            case ".json":
                return _from_object(parse_json(read_text(source), source), source, name, labels)
            case ".yaml" | ".yml":
                return _from_object(read_yaml(source), source, name, labels)
            case suffix:
                _check_no_labels(source, labels)
                if suffix == ".graphml":
                    return cast(NamedTree | Cluster, _loaded("graphml:read_graphml")(source))
                if suffix == ".csv":
                    return _openb_nodes(source)
                return _from_text(read_text(source), source)


def _openb_nodes(path: Path) -> Cluster:
    # Of Alibaba's cluster-trace-gpu-v2023 (https://github.com/alibaba/clusterdata), which tells nothing of the network.
    nodes, needed = [], ("cpu_milli", "memory_mib", "gpu")
    for place, row in csv_rows(path, ("sn", *needed), "nodes"):
        with problem_faults_named(path, place):
            cores, memory, gpus = (number_at_least_0(path, place, row, name, "a number") for name in needed)
            nodes.append(
                ClusterNode(row["sn"], cores / 1000, int(memory), {row.get("model", ""): int(gpus)} if gpus else {})
            )
    return Cluster.of(nodes, None)


def _from_text(text: str, source: Path) -> NamedTree | str:
    if re.search(r'^Switch\s+\d+\s+"S-', text, re.MULTILINE):
        return cast(NamedTree, _loaded("ibnetdiscover:ibnetdiscover_tree")(text, source))
    if not _SWITCHES.search(text):
        if _NODES.search(text):
            return text
        if not _PAIR.search(text):
            right = "what scontrol show topology or node, or ibnetdiscover, prints"
            raise bad_file(
                source, f"has no SwitchName=, BlockName= or NodeName=, must be Slurm's configuration, or {right}"
            )
    return cast(NamedTree, _loaded("slurm:slurm_topology")(text, source))


def _from_object(obj: object, source: Path, name: str | None, labels: Sequence[str]) -> NamedTree | Cluster:
    if not isinstance(obj, dict):
        if _suffix(source).lower() == ".json":
            fault = "must be what `kubectl get nodes -o json` prints, or a resource graph of Flux"
            raise bad_file(source, "top level", f"is {shown(obj)}, {fault}")
        _check_no_labels(source, labels)
        return cast(NamedTree, _loaded("slurm:slurm_yaml_topology")(obj, source, name))
    elif "graph" in obj:
        return cast(Cluster, _loaded("flux:flux_cluster")(obj, source))
    elif str(obj.get("apiVersion", "")).startswith("kind.x-k8s.io"):
        fault = "tells kind how to make a cluster, must be what `kubectl get nodes -o yaml` prints of it"
        raise bad_file(source, fault)
    elif "kind" not in obj and "switches" in obj:
        fault = "is a model of topograph's simulator, must be the topology.conf that topograph makes of it"
        raise bad_file(source, fault)
    return cast(Cluster, _loaded("kubernetes:kubernetes_cluster")(obj, source, labels))


def _check_no_labels(source: Path, labels: Sequence[str]) -> None:
    if labels:
        raise UsageError(f"labels are those of Kubernetes nodes, {source.name} holds none")


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
