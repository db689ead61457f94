"""Reads nodes of Kubernetes, as ``kubectl get nodes -o json`` or ``-o yaml`` prints them; labels give the topology."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse
from allocopt.cluster.kubernetes_objects import ENDED, KubernetesObjects, Node, quantities
from allocopt.cluster.kubernetes_rules import Taint
from allocopt.cluster.named import placed_tree
from allocopt.cluster.objects import no_nodes
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, printable, shown

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
"""Labels that are searched if none are named, from the top of a network downwards."""

_OF_KUBERNETES = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "node-role.kubernetes.io/")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
GPU_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")

_TOLERATED = frozenset(GPU_RESOURCES)  # keys of taints that pods with GPUs tolerate automatically
_HARMLESS = (
    "pods",
    "ephemeral-storage",
    "hugepages-",
    "attachable-volumes-",
)  # prefixes of resources that do not limit jobs
_SPEC = frozenset("podCIDR podCIDRs providerID taints unschedulable configSource externalID doNotUseExternalID".split())


class _Use:
    """The resources that pods occupy, by node. ``daemons`` is for pods of DaemonSets and of the node itself."""

    def __init__(self, objects: KubernetesObjects) -> None:
        self.in_use: dict[str, Counter[str]] = {}
        self.daemons: dict[str, Counter[str]] = {}
        self.claiming = 0  # number of pods that get devices through resource claims (DRA)
        for where, node, pod in objects.on_nodes:
            self.claiming += bool(pod.spec.claims)
            # Pods of the node and of DaemonSets never end, so no job waits for their resources.
            held = self.daemons if pod.of_node else self.in_use
            held.setdefault(node, Counter()).update(pod.requests(where))


def _tolerates(objects: KubernetesObjects, node: Node, taint: Taint) -> bool:
    """Return whether pods with GPUs, or pods of a ResourceFlavor that the node has, tolerate a taint."""
    flavors = (flavor.spec.tolerations or () for flavor in objects.flavors if flavor.has(node))
    return taint.key in _TOLERATED or any(one.covers(taint) for told in flavors for one in told)


def kubernetes_cluster(objects: Sequence[tuple[Path, Mapping[str, Any]]], labels: Sequence[str] = ()) -> Cluster:
    """Return the cluster of nodes, with the resources that running pods occupy; the values of labels give the tree.

    Parameters
    ----------
    objects
        Lists of nodes and pods, or single objects, with the files that they come from.
    labels
        Labels of the levels, from the top downwards, each once. The default is the labels of a Topology of Kueue or KAI
        among the objects; without one, those of `KNOWN_LABELS` that every node outside the control plane has. Nodes
        that lack one of the labels are left out.

    Raises
    ------
    BadFileError, UsageError
        As `read_topology`.
    """
    found = KubernetesObjects.of(objects)
    path = objects[0][0]
    if not found.nodes:
        raise no_nodes(objects[0][1], path)
    cluster = cluster_of(found, path, labels)
    kept = set(cluster.topology.nodes)
    placed = [node for node in found.nodes if node.metadata.name in kept]
    return replace(cluster, remarks=(*cluster.remarks, *_remarks(placed, found)))


def cluster_of(found: KubernetesObjects, path: Path, labels: Sequence[str] = ()) -> Cluster:
    """Return the cluster of the objects, at least one of which is a node; no remarks say what is not modelled.

    Errors name the file ``path``; see `kubernetes_cluster`.
    """
    if len(set(labels)) < len(labels):
        raise UsageError(f"labels {','.join(labels)} name a label twice")
    nodes = found.nodes
    workers = _workers(found)
    apart = sum(not _is_of_control_plane(node) for node in nodes) or len(nodes)
    apart -= len(workers)
    keys = level_labels(found, path, labels)
    placed = [node for node in workers if all(key in node.metadata.labels for key in keys)]
    if not placed:
        raise bad_file(path, "items", f"none of the {len(nodes)} nodes has the labels {', '.join(keys)}")
    name, count = Counter(node.metadata.name for node in placed).most_common(1)[0]
    if count > 1:
        raise bad_file(path, "items", f"node {name!r} is given twice")
    remarks = [f"levels from the top downwards: {', '.join(keys)}" if keys else _FLAT]
    for left_out, what in (
        (len(nodes) - len(workers) - apart, "of the control plane"),
        (apart, "of no given ResourceFlavor"),
        (len(workers) - len(placed), "without all of these labels"),
    ):
        remarks += [f"nodes {what} left out: {left_out}"] * bool(left_out)
    use = _Use(found)
    made = [_cluster_node(node, found, use, path) for node in placed]
    tree = placed_tree({one.metadata.name: tuple(one.metadata.labels[key] for key in keys) for one in placed})
    is_told = any(node.status.allocatable for node in placed)
    return Cluster.of(made, tree, is_exclusive=not is_told, remarks=remarks)


def _is_of_control_plane(node: Node) -> bool:
    return any(role in node.metadata.labels for role in CONTROL_PLANE)


def _workers(found: KubernetesObjects) -> list[Node]:
    """Return the nodes outside the control plane, or all if none is; if flavors are given, only nodes that have one."""
    workers = [node for node in found.nodes if not _is_of_control_plane(node)] or found.nodes
    return [node for node in workers if not found.flavors or any(flavor.has(node) for flavor in found.flavors)]


def level_labels(found: KubernetesObjects, path: Path, labels: Sequence[str] = ()) -> list[str]:
    """Return the labels of the levels, from the top downwards.

    They are ``labels``; if these are empty, those of a Topology of Kueue or KAI; without one, the known labels that all
    nodes have. Raises `BadFileError` if there are none of these, but the nodes have other labels.
    """
    workers = _workers(found)
    keys = list(labels) or found.levels(path)
    keys = keys or [key for key in KNOWN_LABELS if all(key in node.metadata.labels for node in workers)]
    there = sorted({key for node in workers for key in node.metadata.labels if not key.startswith(_OF_KUBERNETES)})
    if not keys and there:
        fault = f"no known label of a network topology is on all nodes; the nodes have {', '.join(there)}"
        raise bad_file(path, "items", f"{fault}: name the labels of the levels with --labels, from the top downwards")
    return keys


_FLAT = "the nodes have no label of a network topology: all are equally near; name levels with --labels KEY,..."


def _cluster_node(node: Node, found: KubernetesObjects, use: _Use, path: Path) -> ClusterNode:
    in_use = use.in_use.get(node.metadata.name, Counter())
    amounts = quantities(f"{path}: node {node.metadata.name!r}", node.status.allocatable)
    for key, held_always in use.daemons.get(node.metadata.name, Counter()).items():
        if key in amounts:
            amounts[key] = max(amounts[key] - held_always, Fraction(0))
    labelled = node.metadata.labels
    kind = next((labelled[key] for key in GPU_LABELS if key in labelled), "")

    def gpus(held: Mapping[str, Any]) -> dict[str, int]:
        count = round(sum(amount for key, amount in held.items() if key in GPU_RESOURCES))
        return {kind: count} if count else {}

    memory = amounts.get("memory")
    return ClusterNode(
        name=node.metadata.name,
        cores=float(amounts.get("cpu", 1.0)),
        memory_mib=None if memory is None else int(memory / 2**20),
        gpus=gpus(amounts),
        features=frozenset(f"{key}={value}" for key, value in labelled.items()),
        away=_why_away(node, found),
        use=NodeUse(float(in_use.get("cpu", 0)), math.ceil(in_use.get("memory", 0) / 2**20), gpus(in_use)),
    )


def _why_away(node: Node, objects: KubernetesObjects) -> tuple[str, ...]:
    return reasons_away(node, (one for one in node.shutting if not _tolerates(objects, node, one)))


def reasons_away(node: Node, taints: Iterable[Taint]) -> tuple[str, ...]:
    """Return the reasons why a node takes no pods, given its taints that the pods do not tolerate."""
    found = list(node.closed)
    # Kubernetes also taints nodes that are cordoned or not ready; such taints add no reason.
    shut = (one.key for one in taints if not one.key.startswith("node.kubernetes.io/") or not found)
    return tuple(dict.fromkeys([*found, *(f"tainted {printable(key)}" for key in shut)]))


def _remarks(nodes: Sequence[Node], objects: KubernetesObjects) -> list[str]:
    use = _Use(objects)
    pending = sum(not pod.spec.node and pod.phase not in ENDED for _, pod in objects.pods)
    taints = ((node, one) for node in nodes for one in node.shutting)
    open_taints = Counter(one.key for node, one in taints if _tolerates(objects, node, one))
    spec = Counter(key for node in nodes for key in (node.spec.model_extra or {}) if key not in _SPEC)
    held: dict[str, list[str]] = {}
    for node in nodes:
        for key, text in node.status.allocatable.items():
            is_known = key in ("cpu", "memory", *GPU_RESOURCES) or key.startswith(_HARMLESS)
            if not is_known and str(text) != "0":
                held.setdefault(key, []).append(str(text))
    parts = (
        ("tolerated taints, with their numbers of nodes", [f"{key} {count}" for key, count in open_taints.items()]),
        (
            "resources that are not modelled, with their numbers of nodes",
            [f"{key} {len(of)}" for key, of in held.items()],
        ),
        ("unknown keys of spec of nodes, ignored", [f"{shown(key)} {count}" for key, count in spec.items()]),
        ("objects other than nodes and pods, ignored", [f"{kind} {len(of)}" for kind, of in objects.others.items()]),
        ("pods with resource claims, whose devices count as free", [str(use.claiming)] if use.claiming else []),
        ("pending pods, not added to the jobs", [str(pending)] if pending else []),
        ("nodes reduced by what their DaemonSets request", [str(len(use.daemons))] if use.daemons else []),
    )
    return [f"{what}: {', '.join(map(printable, told))}" for what, told in parts if told]
