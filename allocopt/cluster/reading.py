"""Reads clusters and topologies in any format, recognized by the ending of the file or by its contents."""

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from allocopt.cluster.affiliations import Affiliations
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.conf_lines import ConfLine
from allocopt.cluster.foreign import foreign_object, foreign_text
from allocopt.cluster.hostlist import HostlistExpander
from allocopt.cluster.kai import archived, is_archive, is_snapshot, kubernetes_list
from allocopt.cluster.named import NamedTree
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, memory_faults_named, problem_faults_named, shown
from allocopt.files.reading import parse_json, read_text, read_yaml_documents, without_compression
from allocopt.files.writing import write_text

ALONE = "no node resources given; each job gets its nodes exclusively"
NO_RESERVATIONS = "No reservations in the system"
"""Output of ``scontrol show reservation`` if there are none."""
_READ = "a cluster is what Slurm, Kubernetes or Flux prints of it, or a table of nodes in .csv"
_NODES = re.compile(
    r"^\s*(NodeName|PartitionName|ReservationName|NodeSet|Name|AutoDetect|SelectType\w*|DownNodes)\s*=",
    re.MULTILINE | re.IGNORECASE,
)
_PAIR = re.compile(r"^\s*(include\s|\w+\s*=)", re.MULTILINE | re.IGNORECASE)
_SWITCHES = re.compile(r"^\s*(SwitchName|BlockName)\s*=", re.MULTILINE | re.IGNORECASE)


@memory_faults_named
def read_topology(
    path: Path | str, labels: Sequence[str] = (), *, include_unavailable: Collection[str] = ()
) -> NamedTree:
    """Read how the nodes of a cluster are connected.

    The file is Slurm's ``topology.conf`` or ``topology.yaml`` (``FILE#NAME`` chooses one topology of the latter);
    output of ``scontrol show topology``, ``ibnetdiscover``, or ``kubectl get nodes`` with ``-o json`` or ``-o yaml``;
    a resource graph of Flux; or a ``.graphml`` file. ``.gz`` is decompressed.

    Parameters
    ----------
    path
        The file.
    labels
        Keys of Kubernetes labels that name the levels, from the top downwards; empty for the known labels.
    include_unavailable
        Reasons to ignore, as named in the remark on unavailable nodes: nodes that have no other reason are kept.
        ``all`` keeps all nodes.

    Raises
    ------
    BadFileError
        If the file cannot be read or is not a topology; the error names the place.
    UsageError
        If labels are given for a format without labels, or a label is given twice.
    """
    found = read_whole_nodes(path, labels, include_unavailable=include_unavailable)
    return replace(found.topology, remarks=found.remarks)


@memory_faults_named
def read_whole_nodes(
    path: Path | str, labels: Sequence[str] = (), *, include_unavailable: Collection[str] = ()
) -> Cluster:
    """Read a topology like `read_topology`, as a cluster on which jobs have their nodes exclusively."""
    parts = _Parts(labels)
    parts.add(path)
    if parts.slurm:
        raise bad_file(Path(path), "names no switches; it describes nodes, so give it with --cluster")
    with problem_faults_named(path):
        found = parts.cluster(str(path)).available(include_unavailable).in_whole_nodes()
        return replace(found, remarks=tuple(one for one in found.remarks if one != ALONE))


@memory_faults_named
def read_cluster(
    paths: Sequence[Path | str], labels: Sequence[str] = (), *, include_unavailable: Collection[str] = ()
) -> Cluster:
    """Read a cluster that one or several files describe together.

    In addition to the formats of `read_topology`: Slurm's ``slurm.conf`` and ``gres.conf``; output of ``scontrol show``
    for nodes, partitions and reservations, and of ``sinfo``, also as JSON; pods of Kubernetes; Flux's R and resource
    status; and lists of nodes of Alibaba's openb traces (``.csv``). At most one file may say how the nodes are
    connected; nodes that are missing in it, or in the other files, are left out.

    Parameters
    ----------
    paths
        The files.
    labels, include_unavailable
        As in `read_topology`.

    Raises
    ------
    BadFileError
        If a file cannot be read; the error names the place.
    UsageError
        If two files describe the topology or the nodes, or none describes either; and as in `read_topology`.
    """
    parts = _Parts(labels)
    for path in paths:
        parts.add(path)
    shown_paths = ",".join(map(str, paths))
    with problem_faults_named(shown_paths):
        return parts.cluster(shown_paths).available(include_unavailable)


_MakeTree = Callable[[Affiliations | None], NamedTree | None]


@dataclass(slots=True)
class _Parts:
    """The contents of a cluster's files, by system."""

    labels: Sequence[str]
    trees: list[_MakeTree] = field(default_factory=list)
    clusters: list[Cluster] = field(default_factory=list)
    slurm: list[ConfLine] = field(default_factory=list)
    kubernetes: list[tuple[Path, dict[str, object]]] = field(default_factory=list)
    flux: list[tuple[Path, dict[str, object]]] = field(default_factory=list)
    expander: HostlistExpander = field(default_factory=HostlistExpander)

    def add(self, path: Path | str) -> None:
        """Read a file and add its contents."""
        # A file is read only once, because it may be a pipe. Each format imports only what it needs, because networkx
        # and pydantic load slowly.
        source, name = topology_file(path)
        suffix = Path(without_compression(source.name)).suffix.lower()
        with problem_faults_named(source):
            if self.labels and suffix not in (".json", ".yaml", ".yml"):
                raise UsageError(f"labels apply only to nodes of Kubernetes, and {source.name} holds none")
            if suffix == ".json" or suffix in (".yaml", ".yml"):
                self._add_object(read_object(source), source, name, is_json=suffix == ".json")
            elif is_archive(source):
                self._add_object(archived(source), source, name, is_json=True)
            elif suffix == ".graphml":
                from allocopt.cluster.graphml import read_graphml

                found = read_graphml(source)
                if isinstance(found, Cluster):
                    self.clusters.append(found)
                else:
                    self._add_tree(source, lambda _: found)
            elif suffix == ".csv":
                from allocopt.cluster.node_table import node_table

                self.clusters.append(node_table(source))
            else:
                self._add_text(read_text(source), source)
            if self.labels and not self.kubernetes:
                raise UsageError(f"labels apply only to nodes of Kubernetes, and {source.name} holds none")

    def _add_tree(self, source: Path, make: _MakeTree) -> None:
        # Make the tree only after all files are read, because nodes and partitions in other files may name topologies.
        def made(site: Affiliations | None) -> NamedTree | None:
            with problem_faults_named(source):
                return make(site)

        self.trees.append(made)

    def _add_object(self, obj: object, source: Path, name: str | None, *, is_json: bool) -> None:
        from allocopt.cluster.objects import System, check_is_cluster, system_of

        if (told := foreign_object(obj)) is not None:
            raise bad_file(source, f"{told}; {_READ}")
        if is_snapshot(obj):
            self.kubernetes.append((source, kubernetes_list(obj, source)))
        elif isinstance(obj, dict):
            check_is_cluster(obj, source)
            match system_of(obj):
                case System.SLURM:
                    from allocopt.cluster.slurm_records import json_records

                    self.slurm += json_records(source, obj, self.expander)
                case System.FLUX:
                    self.flux.append((source, obj))
                case System.KUBERNETES:
                    self.kubernetes.append((source, obj))
        elif is_json:
            fault = "must be what `kubectl get nodes -o json` or `scontrol show node --json` prints, or Flux's graph"
            raise bad_file(source, "top level", f"is {shown(obj)}, {fault}")
        else:
            from allocopt.cluster.topology_yaml import slurm_yaml_topology

            self._add_tree(source, lambda site: slurm_yaml_topology(obj, source, name, site))

    def _add_text(self, text: str, source: Path) -> None:
        if re.search(r'^Switch\s+\d+\s+"S-', text, re.MULTILINE):
            from allocopt.cluster.ibnetdiscover import ibnetdiscover_tree

            found = ibnetdiscover_tree(text, source)
            self._add_tree(source, lambda _: found)
            return
        if text.strip() == NO_RESERVATIONS:
            return
        if (told := foreign_text(text)) is not None:
            raise bad_file(source, f"{told}; {_READ}")
        if not _SWITCHES.search(text):
            from allocopt.cluster.objects import JOBS
            from allocopt.cluster.slurm_conf import conf_lines
            from allocopt.cluster.slurm_tables import is_sinfo, is_squeue

            if is_squeue(text) or re.match(r"\s*JobId=", text):
                raise bad_file(source, JOBS)

            if _NODES.search(text) or is_sinfo(text):
                self.slurm += conf_lines(source, text, self.expander)
                return
            if not _PAIR.search(text):
                right = "Slurm's configuration, or what scontrol show topology or node, or ibnetdiscover, prints"
                raise bad_file(source, f"has no SwitchName=, BlockName= or NodeName=, must be {right}")
        from allocopt.cluster.topology_conf import slurm_topology

        self._add_tree(source, lambda site: slurm_topology(text, source, site or Affiliations()))

    def cluster(self, shown_paths: str) -> Cluster:
        """Return the cluster of all files, including the nodes that take no jobs."""
        clusters = list(self.clusters)
        if self.slurm:
            from allocopt.cluster.slurm_conf import slurm_cluster

            clusters.append(slurm_cluster(self.slurm))
        if self.kubernetes:
            from allocopt.cluster.kubernetes import kubernetes_cluster

            clusters.append(kubernetes_cluster(self.kubernetes, self.labels))
        if self.flux:
            from allocopt.cluster.flux import flux_cluster

            clusters.append(flux_cluster(self.flux))
        if len(self.trees) > 1 or len(clusters) > 1:
            raise UsageError(f"{shown_paths}: several files describe the nodes, or the topology; give one of each")
        if not self.trees and not clusters:
            raise UsageError("no file describes the cluster")
        if not clusters:
            tree = self.trees[0](None)
            assert tree is not None  # without a cluster, a topology that names no nodes is refused
            found = Cluster.whole_nodes(tree)
        else:
            found = clusters[0]
            tree = self.trees[0](self._affiliations(found)) if self.trees else None
            found = found if tree is None else found.under(tree)
        is_told = self.slurm or not found.is_exclusive
        return found if is_told else replace(found, remarks=(ALONE, *found.remarks))

    def _affiliations(self, cluster: Cluster) -> Affiliations:
        if not self.slurm:
            return Affiliations(nodes=cluster.topology.nodes)
        from allocopt.cluster.slurm_conf import affiliations

        return affiliations(self.slurm, cluster)


def read_object(source: Path) -> object:
    """Return the object of a JSON or YAML file; several Kubernetes objects in YAML become a list."""
    is_json = Path(without_compression(source.name)).suffix.lower() == ".json"
    return parse_json(read_text(source), source) if is_json else _yaml_object(source)


def _yaml_object(source: Path) -> object:
    """Return the object of a YAML file; several Kubernetes objects become a list, as ``kubectl get`` prints it."""
    documents = read_yaml_documents(source)
    if len(documents) < 2:
        return documents[0] if documents else None
    if not all(isinstance(one, dict) and "kind" in one for one in documents):
        raise bad_file(source, f"holds {len(documents)} YAML documents, must be one, or objects of Kubernetes")
    return {"kind": "List", "items": documents}


def topology_file(path: Path | str) -> tuple[Path, str | None]:
    """Return the file and the topology of ``FILE#NAME``; the topology is None if none is named.

    Only YAML files hold several topologies. In other names, and in names of existing files, ``#`` is a plain character.
    """
    file, hash_sign, name = str(path).rpartition("#")
    is_chosen = hash_sign and without_compression(file.lower()).endswith((".yaml", ".yml")) and not os.path.exists(path)
    return (Path(file), name or None) if is_chosen else (Path(path), None)


def write_topology(path: Path, cluster: NamedTree) -> None:
    """Write the topology of a cluster as ``.graphml``, or as Slurm's ``topology.conf`` (``.conf``).

    Raises `BadFileError` if the file cannot be written, `UsageError` if it has another ending.
    """
    match _suffix(path).lower():
        case ".conf":
            from allocopt.cluster.topology_conf import write_slurm_topology

            write_slurm_topology(path, cluster)
        case ".graphml":
            import networkx as nx

            from allocopt.cluster.graphml import graph_of

            write_text(path, "\n".join(nx.generate_graphml(graph_of(cluster))) + "\n")
        case _:
            raise UsageError(f"{path} must end in .conf or .graphml")


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix
