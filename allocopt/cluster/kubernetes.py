"""Nodes of Kubernetes, as ``kubectl get nodes -o json`` or ``-o yaml`` prints them; labels say where in the network."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasPath, Field

from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.cluster.named import placed_tree
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.models import FileModel, validated

KNOWN_LABELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "network.topology.nvidia.com/datacenter",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "network.topology.nvidia.com/accelerator",
    # Tiers of topograph are counted from the nodes upwards.
    *(f"fabric.topograph.run/tier-{tier}" for tier in range(9, -1, -1)),
    "accelerator.topograph.run/domain",
    "accelerator.topograph.run/sub-domain",
    "nvidia.com/gpu.clique",
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

NOT_NETWORK = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
GPU_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


_QUANTITY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([a-zA-Z]*)", re.ASCII)
_POWERS = {"": 1.0, "m": 1e-3, "k": 1e3} | {
    prefix + suffix: base**power
    for suffix, base in (("", 1000.0), ("i", 1024.0))
    for power, prefix in enumerate("KMGTPE", 1)
    if prefix + suffix != "K"
}


# Keys that are not known are left alone: the objects of Kubernetes have many.
class _Metadata(FileModel, extra="ignore"):
    name: Annotated[str, Field(min_length=1)]
    labels: Annotated[dict[str, str], Field(default_factory=dict)]


class _Node(FileModel, extra="ignore"):
    kind: Literal["Node"] = "Node"
    metadata: _Metadata
    is_cordoned: Annotated[bool, Field(validation_alias=AliasPath("spec", "unschedulable"))] = False
    held: Annotated[
        dict[str, str | int], Field(default_factory=dict, validation_alias=AliasPath("status", "allocatable"))
    ]


class _NodeList(FileModel, extra="ignore"):
    items: Annotated[list[_Node], Field(min_length=1)]


def kubernetes_cluster(obj: object, path: Path, labels: Sequence[str] = ()) -> Cluster:
    """Return the cluster of a list of nodes; the values of labels put them into a tree.

    The labels name the levels, from the top downwards, each once; if none are given, those of `KNOWN_LABELS` that every
    node but those of the control plane has. Nodes of the control plane, nodes that are cordoned and nodes that lack one
    of the labels are left out and remarked. Errors are those of `read_topology`.
    """
    if len(set(labels)) < len(labels):
        raise UsageError(f"labels {','.join(labels)} name one twice")
    if isinstance(obj, dict) and obj.get("kind") == "Node":
        obj = {"items": [obj]}
    nodes = validated(_NodeList, obj, path).items
    # No job runs on a control plane; where all nodes are of it, as in tests on one machine, jobs do.
    workers = [node for node in nodes if not any(role in node.metadata.labels for role in CONTROL_PLANE)] or nodes
    open_nodes = [node for node in workers if not node.is_cordoned]
    keys = list(labels) or [key for key in KNOWN_LABELS if all(key in node.metadata.labels for node in workers)]
    if not keys:
        there = sorted({key for node in workers for key in node.metadata.labels if key not in NOT_NETWORK})
        fault = f"none of the labels of a network topology that are known is on all nodes; there are {', '.join(there)}"
        raise bad_file(path, "items", f"{fault}: choose from the top downwards with --labels")
    placed = [node for node in open_nodes if all(key in node.metadata.labels for key in keys)]
    if not placed:
        raise bad_file(path, "items", f"none of the {len(nodes)} nodes has the labels {', '.join(keys)}")
    name, count = Counter(node.metadata.name for node in placed).most_common(1)[0]
    if count > 1:
        raise bad_file(path, "items", f"node {name!r} is given twice")
    remarks = [f"levels from the top downwards: {', '.join(keys)}"]
    for left_out, what in (
        (len(nodes) - len(workers), "of the control plane"),
        (len(workers) - len(open_nodes), "that are cordoned"),
        (len(open_nodes) - len(placed), "without all of these labels"),
    ):
        remarks += [f"nodes {what} left out: {left_out}"] * bool(left_out)
    is_told = any(node.held for node in placed)
    tree = placed_tree({one.metadata.name: tuple(one.metadata.labels[key] for key in keys) for one in placed})
    described: list[ClusterNode] = []
    for node in placed:
        amounts: dict[str, float] = {}
        for key, text in node.held.items():
            # A quantity of Kubernetes: a number and a power of ten or two.
            match = _QUANTITY.fullmatch(str(text))
            if match is None or match[2] not in _POWERS:
                fault = f"is {shown(text)}, must be a quantity such as 64, 63500m or 256Gi"
                raise bad_file(path, f"node {node.metadata.name!r}: {key}", fault)
            amounts[key] = float(match[1]) * _POWERS[match[2]]
        labelled = node.metadata.labels
        kind = next((labelled[key] for key in GPU_LABELS if key in labelled), "")
        gpus = round(sum(amount for key, amount in amounts.items() if key in GPU_RESOURCES))
        memory = amounts.get("memory")
        described.append(
            ClusterNode(
                node.metadata.name,
                amounts.get("cpu", 1.0),
                None if memory is None else int(memory / 2**20),
                {kind: gpus} if gpus else {},
                frozenset(f"{key}={value}" for key, value in labelled.items()),
            )
        )
    return Cluster.of(described, tree, is_exclusive=not is_told, remarks=remarks)
