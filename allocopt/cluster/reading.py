"""Clusters and topologies in any format, told apart by the ending of the file or its contents."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.csv_rows import csv_rows, number_at_least_0
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_yaml
from allocopt.files.writing import write_text

ALONE = "what nodes have is told nowhere: jobs have them alone"
_NODES = re.compile(
    r"^\s*(NodeName|PartitionName|NodeSet|Name|AutoDetect|SelectType\w*)\s*=", re.MULTILINE | re.IGNORECASE
)
_PAIR = re.compile(r"^\s*(include\s|\w+\s*=)", re.MULTILINE | re.IGNORECASE)
_SWITCHES = re.compile(r"^\s*(SwitchName|BlockName)\s*=", re.MULTILINE | re.IGNORECASE)


@memory_faults_named
def read_topology(path: Path | str, labels: Sequence[str] = ()) -> NamedTree:
    """Read how the nodes of a cluster are connected.

    Raises `BadFileError`, which names the place, if the file cannot be read or makes no tree, `UsageError` if labels
    are given for another format, or one twice.

    The file is Slurm's ``topology.conf``, what ``scontrol show topology`` prints, or ``topology.yaml``, of which
    ``FILE#NAME`` chooses a topology; nodes of Kubernetes as ``kubectl get nodes -o json`` or ``-o yaml`` prints them;
    Flux's resource graphs; ``.graphml``; what ``ibnetdiscover`` prints. ``.gz`` is decompressed. For Kubernetes the
    keys of labels name the levels, from the top downwards; none for known ones.
    """
    found = _found(path, labels)
    if isinstance(found, str):
        raise bad_file(Path(path), "names no switches; with --cluster it says what nodes have")
    return replace(found.topology, remarks=found.remarks) if isinstance(found, Cluster) else found


def read_cluster(paths: Sequence[Path | str], labels: Sequence[str] = ()) -> Cluster:
    """Read a cluster that one or several files describe together; labels are those of `read_topology`.

    Beside the formats of that: Slurm's ``slurm.conf`` and ``gres.conf``, what ``scontrol show node`` and ``scontrol
    show partition`` print, and lists of nodes of Alibaba's openb traces (``.csv``). At most one file may say how the
    nodes are connected; nodes that it, or the others, do not have are left out. Raises `BadFileError`, which names the
    place, if a file cannot be read, `UsageError` if two say how nodes are connected, or none what nodes there are.
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
    # The text of a file of Slurm that says what nodes have; several of them say it together. A pipe can be read once,
    # and only what a format needs is imported: networkx and pydantic take a while.
    source, name = topology_file(path)
    suffix = _suffix(source).lower()
    with problem_faults_named(source):
        obj: object = None
        if suffix == ".json":
            obj = parse_json(read_text(source), source)
        elif suffix in (".yaml", ".yml"):
            obj = read_yaml(source)
        if isinstance(obj, dict):
            return _from_object(obj, source, labels)
        if labels:
            raise UsageError(f"labels are those of Kubernetes nodes, {source.name} holds none")
        match suffix:
            case ".json":
                fault = "must be what `kubectl get nodes -o json` prints, or a resource graph of Flux"
                raise bad_file(source, "top level", f"is {shown(obj)}, {fault}")
            case ".yaml" | ".yml":
                from allocopt.cluster.slurm import slurm_yaml_topology

                return slurm_yaml_topology(obj, source, name)
            case ".graphml":
                from allocopt.cluster.graphml import read_graphml

                return read_graphml(source)
            case ".csv":
                # Alibaba's cluster-trace-gpu-v2023 (https://github.com/alibaba/clusterdata): without a network.
                nodes, needed = [], ("cpu_milli", "memory_mib", "gpu")
                for place, row in csv_rows(source, ("sn", *needed), "nodes"):
                    with problem_faults_named(source, place):
                        cores, memory, gpus = (number_at_least_0(source, place, row, key, "a number") for key in needed)
                        kinds = {row.get("model", ""): int(gpus)} if gpus else {}
                        nodes.append(ClusterNode(row["sn"], cores / 1000, int(memory), kinds))
                return Cluster.of(nodes, None)
        return _from_text(read_text(source), source)


def _from_text(text: str, source: Path) -> NamedTree | str:
    if re.search(r'^Switch\s+\d+\s+"S-', text, re.MULTILINE):
        from allocopt.cluster.ibnetdiscover import ibnetdiscover_tree

        return ibnetdiscover_tree(text, source)
    if not _SWITCHES.search(text):
        if _NODES.search(text):
            return text
        if not _PAIR.search(text):
            right = "Slurm's configuration, or what scontrol show topology or node, or ibnetdiscover, prints"
            raise bad_file(source, f"has no SwitchName=, BlockName= or NodeName=, must be {right}")
    from allocopt.cluster.slurm import slurm_topology

    return slurm_topology(text, source)


def _from_object(obj: dict[str, object], source: Path, labels: Sequence[str]) -> Cluster:
    if "graph" in obj:
        from allocopt.cluster.flux import flux_cluster

        return flux_cluster(obj, source)
    if str(obj.get("apiVersion", "")).startswith("kind.x-k8s.io"):
        fault = "tells kind how to make a cluster, must be what `kubectl get nodes -o yaml` prints of it"
        raise bad_file(source, fault)
    if "kind" not in obj and "switches" in obj:
        fault = "is a model of topograph's simulator, must be the topology.conf that topograph makes of it"
        raise bad_file(source, fault)
    from allocopt.cluster.kubernetes import kubernetes_cluster

    return kubernetes_cluster(obj, source, labels)


def topology_file(path: Path | str) -> tuple[Path, str | None]:
    """Return the file, and the name of the topology that ``FILE#NAME`` chooses; None if none is.

    Only YAML files hold several; in any other name, and in that of a file that is there, ``#`` is a letter.
    """
    file, hash_sign, name = str(path).rpartition("#")
    is_chosen = hash_sign and file.lower().removesuffix(".gz").endswith((".yaml", ".yml")) and not os.path.exists(path)
    return (Path(file), name or None) if is_chosen else (Path(path), None)


def write_topology(path: Path, cluster: NamedTree) -> None:
    """Write a cluster: ``.graphml``, or ``.conf`` as Slurm's ``topology.conf``.

    Raises `BadFileError` if the file cannot be written, `UsageError` if its ending is another one.
    """
    match _suffix(path).lower():
        case ".conf":
            from allocopt.cluster.slurm import write_slurm_topology

            write_slurm_topology(path, cluster)
        case ".graphml":
            import networkx as nx

            from allocopt.cluster.graphml import graph_of

            write_text(path, "\n".join(nx.generate_graphml(graph_of(cluster))) + "\n")
        case _:
            raise UsageError(f"{path} must end in .conf or .graphml")


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
