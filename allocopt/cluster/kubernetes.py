"""Nodes of Kubernetes, as ``kubectl get nodes -o json`` prints them: labels tell their places in the network."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from allocopt.cluster.named import NamedTree, Switch, tree_of_switches
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file
from allocopt.files.models import FileModel, validated
from allocopt.files.reading import parse_json, read_text

KNOWN_LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/accelerator",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "oci.oraclecloud.com/rdma.hpc_island_id",
    "oci.oraclecloud.com/rdma.network_block_id",
    "oci.oraclecloud.com/rdma.local_block_id",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
)
"""Labels that are looked for where none are named, from the top of a network downwards."""

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


# Keys that are not known are left alone: the objects of Kubernetes have many.
class _Metadata(FileModel, extra="ignore"):
    name: Annotated[str, Field(min_length=1)]
    labels: Annotated[dict[str, str], Field(default_factory=dict)]


class _Node(FileModel, extra="ignore"):
    metadata: _Metadata


class _NodeList(FileModel, extra="ignore"):
    items: Annotated[list[_Node], Field(min_length=1)]


def read_kubernetes_nodes(path: Path, labels: Sequence[str] = ()) -> NamedTree:
    """Read the nodes of a Kubernetes cluster and put them into a tree by the values of labels.

    The labels name the levels, from the top downwards, each once; if none are given, those of `KNOWN_LABELS` that every
    node but those of the control plane has. Nodes of the control plane, and nodes that lack one of the labels, are left
    out and remarked. Errors are those of `read_topology`.
    """
    if len(set(labels)) < len(labels):
        raise UsageError(f"labels {','.join(labels)} name one twice")
    nodes = [node.metadata for node in validated(_NodeList, parse_json(read_text(path), path), path).items]
    # No job runs on a control plane; where all nodes are of it, as in tests on one machine, jobs do.
    workers = [node for node in nodes if not any(role in node.labels for role in CONTROL_PLANE)] or nodes
    keys = list(labels) or [key for key in KNOWN_LABELS if all(key in node.labels for node in workers)]
    if not keys:
        fault = "no label of a network topology is on all of them: name the keys of the levels, from the top downwards"
        raise bad_file(path, "items", fault)
    placed = [node for node in workers if all(key in node.labels for key in keys)]
    if not placed:
        raise bad_file(path, "items", f"none of the {len(nodes)} nodes has the labels {', '.join(keys)}")
    name, count = Counter(node.name for node in placed).most_common(1)[0]
    if count > 1:
        raise bad_file(path, "items", f"node {name!r} is given twice")
    remarks = [f"levels from the top downwards: {', '.join(keys)}"]
    if len(workers) < len(nodes):
        remarks.append(f"nodes of the control plane left out: {len(nodes) - len(workers)}")
    if len(placed) < len(workers):
        remarks.append(f"nodes without all of these labels left out: {len(workers) - len(placed)}")
    tree = tree_of_switches(_switches(placed, keys))
    return NamedTree(tree.tree, tree.nodes, (*remarks, *tree.remarks))


def _switches(nodes: Sequence[_Metadata], keys: Sequence[str]) -> list[Switch]:
    held: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        held.setdefault(tuple(node.labels[key] for key in keys), []).append(node.name)
    below: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for path in held:
        for depth in range(len(path)):
            below.setdefault(path[:depth], {})[path[: depth + 1]] = None
    # A switch is named by its value, or where that stands in several places by all values from the top.
    paths = [path for found in below.values() for path in found]
    counts = Counter(path[-1] for path in paths)
    names = {path: path[-1] if counts[path[-1]] == 1 else "/".join(path) for path in paths}
    leaves = [Switch(names[path], tuple(found)) for path, found in held.items()]
    top, *above = (Switch(names.get(at, "/"), (), tuple(map(names.__getitem__, found))) for at, found in below.items())
    return [*leaves, *above, *([top] if len(top.switches) > 1 else [])]
