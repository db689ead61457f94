"""Nodes of Kubernetes, as ``kubectl get nodes -o json`` or ``-o yaml`` prints them; labels give their place."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasPath, Field

from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse
from allocopt.cluster.named import placed_tree
from allocopt.cluster.objects import BESIDE_NODES, no_nodes
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, printable, shown
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
"""Labels that are looked for if none are named, from the top of a network downwards."""

NOT_NETWORK = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os")
_OF_KUBERNETES = ("kubernetes.io/", "beta.kubernetes.io/", "node.kubernetes.io/", "node-role.kubernetes.io/")
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")
GPU_LABELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "gpu.intel.com/product")
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
SHUT = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods without a toleration off a node."""

_TOLERATED = frozenset(GPU_RESOURCES)  # keys of taints that Kubernetes lets pods with GPUs tolerate
_HARMLESS = (
    "pods",
    "ephemeral-storage",
    "hugepages-",
    "attachable-volumes-",
)  # prefixes of resources that do not limit jobs
_SPEC = frozenset("podCIDR podCIDRs providerID taints unschedulable configSource externalID doNotUseExternalID".split())
_ENDED = ("Succeeded", "Failed")
_QUANTITY = re.compile(r"(?=\.?[0-9])([0-9]{0,18}(?:\.[0-9]{0,18})?)(?:([eE][+-]?[0-9]{1,2})|([a-zA-Z]*))", re.ASCII)
_POWERS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3} | {
    prefix + suffix: base**power
    for suffix, base in (("", 1000.0), ("i", 1024.0))
    for power, prefix in enumerate("KMGTPE", 1)
    if prefix + suffix != "K"
}

Amounts = Mapping[str, str | int]


# Unknown keys are ignored, because objects of Kubernetes have many.
class _Owner(FileModel, extra="ignore"):
    kind: str


class _Metadata(FileModel, extra="ignore"):
    name: Annotated[str, Field(min_length=1)]
    labels: Annotated[dict[str, str], Field(default_factory=dict)]
    deleted: Annotated[str | None, Field(validation_alias="deletionTimestamp")] = None
    owners: Annotated[list[_Owner] | None, Field(validation_alias="ownerReferences")] = None


class _Taint(FileModel, extra="ignore"):
    key: str
    value: str = ""
    effect: str = ""


class _Condition(FileModel, extra="ignore"):
    type: str
    status: str


class _NodeSpec(FileModel, extra="allow"):
    unschedulable: bool | None = None
    taints: Annotated[list[_Taint] | None, Field(strict=False)] = None


class _NodeStatus(FileModel, extra="ignore"):
    allocatable: Annotated[dict[str, str | int], Field(default_factory=dict)]
    conditions: Annotated[list[_Condition], Field(default_factory=list)]


class _Node(FileModel, extra="ignore"):
    kind: Literal["Node"] = "Node"
    metadata: _Metadata
    spec: Annotated[_NodeSpec, Field(default_factory=_NodeSpec)]
    status: Annotated[_NodeStatus, Field(default_factory=_NodeStatus)]


class _Resources(FileModel, extra="ignore"):
    requests: dict[str, str | int] | None = None


class _Container(FileModel, extra="ignore"):
    resources: Annotated[_Resources, Field(default_factory=_Resources)]
    restart: Annotated[str | None, Field(validation_alias="restartPolicy")] = None


class _PodSpec(FileModel, extra="ignore"):
    node: Annotated[str | None, Field(validation_alias="nodeName")] = None
    containers: Annotated[list[_Container], Field(default_factory=list)]
    initial: Annotated[list[_Container] | None, Field(validation_alias="initContainers")] = None
    overhead: dict[str, str | int] | None = None
    resources: _Resources | None = None
    claims: Annotated[list[dict[str, Any]] | None, Field(validation_alias="resourceClaims")] = None


class _Pod(FileModel, extra="ignore"):
    metadata: _Metadata
    spec: _PodSpec
    phase: Annotated[str, Field(validation_alias=AliasPath("status", "phase"))] = "Running"

    def requests(self, read: Callable[[Amounts], dict[str, float]]) -> dict[str, float]:
        """Return what the pod occupies on its node: its containers together, or a larger init container."""
        total: Counter[str] = Counter()
        for one in self.spec.containers:
            total.update(read(one.resources.requests or {}))
        most: dict[str, float] = {}
        for one in self.spec.initial or []:
            asked = read(one.resources.requests or {})
            # An init container that is restarted runs beside the others.
            if one.restart == "Always":
                total.update(asked)
            else:
                most |= {key: max(amount, most.get(key, 0.0)) for key, amount in asked.items()}
        found = {key: max(float(total[key]), most.get(key, 0.0)) for key in {*total, *most}}
        # Requests of the whole pod override those of its containers.
        found |= read((self.spec.resources and self.spec.resources.requests) or {})
        for key, amount in read(self.spec.overhead or {}).items():
            found[key] = found.get(key, 0.0) + amount
        return found


class _Level(FileModel, extra="ignore"):
    label: Annotated[str, Field(validation_alias="nodeLabel")]


class _Topology(FileModel, extra="ignore"):
    """A Topology of Kueue: the labels of its levels, from the top downwards."""

    metadata: _Metadata
    levels: Annotated[list[_Level], Field(validation_alias=AliasPath("spec", "levels"))]

    @property
    def labels(self) -> list[str]:
        """Labels of the levels above the nodes."""
        return [level.label for level in self.levels if level.label not in NOT_NETWORK]


class _Toleration(FileModel, extra="ignore"):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: _Taint) -> bool:
        """Whether pods with this toleration may be on a node with a taint."""
        is_same = self.operator == "Exists" or self.value == taint.value
        return self.key in ("", taint.key) and self.effect in ("", taint.effect) and is_same


class _FlavorSpec(FileModel, extra="ignore"):
    labels: Annotated[dict[str, str] | None, Field(validation_alias="nodeLabels")] = None
    tolerations: list[_Toleration] | None = None
    topology: Annotated[str | None, Field(validation_alias="topologyName")] = None


class _Flavor(FileModel, extra="ignore"):
    """A ResourceFlavor of Kueue: labels that its nodes have, and taints that its pods tolerate."""

    metadata: _Metadata
    spec: Annotated[_FlavorSpec, Field(default_factory=_FlavorSpec)]

    def has(self, node: _Node) -> bool:
        """Whether a node is of the flavor."""
        return (self.spec.labels or {}).items() <= node.metadata.labels.items()


@dataclass(slots=True)
class _Objects:
    """The objects of all files, by kind.

    Parameters
    ----------
    nodes
        The nodes.
    topologies, flavors
        Objects of Kueue.
    in_use, daemons
        What running pods occupy, by node; ``daemons`` is for pods of DaemonSets and of the node itself.
    others
        Number of other objects by kind.
    pending, claiming
        Number of pods without a node, and of those on a node that have devices by claims (DRA).
    """

    nodes: list[_Node] = field(default_factory=list)
    topologies: list[_Topology] = field(default_factory=list)
    flavors: list[_Flavor] = field(default_factory=list)
    in_use: dict[str, Counter[str]] = field(default_factory=dict)
    daemons: dict[str, Counter[str]] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    pending: int = 0
    claiming: int = 0

    @classmethod
    def of(cls, objects: Sequence[tuple[Path, Mapping[str, Any]]]) -> "_Objects":
        found = cls()
        for path, obj in objects:
            for place, one in _items(obj, path):
                kind = one.get("kind", "Node")
                if kind == "Node":
                    found.nodes.append(validated(_Node, one, f"{path}: {place}"))
                elif kind == "Pod":
                    found._add_pod(validated(_Pod, one, f"{path}: {place}"), path)
                elif kind == "Topology":
                    found.topologies.append(validated(_Topology, one, f"{path}: {place}"))
                elif kind == "ResourceFlavor":
                    found.flavors.append(validated(_Flavor, one, f"{path}: {place}"))
                else:
                    found.others[shown(kind)] += 1
        return found

    def _add_pod(self, pod: _Pod, path: Path) -> None:
        if pod.phase in _ENDED:
            return
        if pod.spec.node is None:
            self.pending += 1
            return
        self.claiming += bool(pod.spec.claims)
        read = partial(_amounts, f"{path}: pod {pod.metadata.name!r}")
        # These pods never end, so no job waits for their resources.
        is_daemon = any(owner.kind in ("DaemonSet", "Node") for owner in pod.metadata.owners or ())
        held = self.daemons if is_daemon else self.in_use
        held.setdefault(pod.spec.node, Counter()).update(pod.requests(read))

    def levels(self, path: Path) -> list[str]:
        """Return the labels of the levels of Kueue's topology, empty without one."""
        named = {flavor.spec.topology for flavor in self.flavors} - {None}
        chosen = [one for one in self.topologies if not named or one.metadata.name in named]
        if len({tuple(one.labels) for one in chosen}) > 1:
            names = ", ".join(printable(one.metadata.name) for one in chosen)
            fault = f"has several topologies of Kueue ({names}): name the levels of one with --labels"
            raise bad_file(path, fault)
        return chosen[0].labels if chosen else []

    def tolerates(self, node: _Node, taint: _Taint) -> bool:
        """Whether pods with GPUs, or those of a flavor of the node, tolerate a taint."""
        flavors = (flavor.spec.tolerations or () for flavor in self.flavors if flavor.has(node))
        return taint.key in _TOLERATED or any(one.covers(taint) for told in flavors for one in told)


def kubernetes_cluster(objects: Sequence[tuple[Path, Mapping[str, Any]]], labels: Sequence[str] = ()) -> Cluster:
    """Return the cluster of nodes, with what running pods occupy; the values of labels give the tree.

    Parameters
    ----------
    objects
        Lists of nodes and pods, or single ones, with the files that they come from.
    labels
        Labels of the levels, from the top downwards, each once. The default is those of `KNOWN_LABELS` that every node
        outside the control plane has. Nodes that lack one of the labels are left out.

    Raises
    ------
    BadFileError, UsageError
        As `read_topology`.
    """
    if len(set(labels)) < len(labels):
        raise UsageError(f"labels {','.join(labels)} name a label twice")
    found = _Objects.of(objects)
    nodes = found.nodes
    path = objects[0][0]
    if not nodes:
        raise no_nodes(objects[0][1], path)
    # Jobs do not run on a control plane, unless all nodes belong to it, as in tests on one machine.
    workers = [node for node in nodes if not any(role in node.metadata.labels for role in CONTROL_PLANE)] or nodes
    of_flavor = [node for node in workers if not found.flavors or any(flavor.has(node) for flavor in found.flavors)]
    apart = len(workers) - len(of_flavor)
    workers = of_flavor
    keys = list(labels) or found.levels(path)
    keys = keys or [key for key in KNOWN_LABELS if all(key in node.metadata.labels for node in workers)]
    there = sorted({key for node in workers for key in node.metadata.labels if not key.startswith(_OF_KUBERNETES)})
    if not keys and there:
        fault = f"no known label of a network topology is on all nodes; the nodes have {', '.join(there)}"
        raise bad_file(path, "items", f"{fault}: name those of the levels with --labels, from the top downwards")
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
    made = [_cluster_node(node, found, path) for node in placed]
    remarks += _remarks(placed, found)
    tree = placed_tree({one.metadata.name: tuple(one.metadata.labels[key] for key in keys) for one in placed})
    is_told = any(node.status.allocatable for node in placed)
    return Cluster.of(made, tree, is_exclusive=not is_told, remarks=remarks)


_FLAT = "the nodes have no label of a network topology: all are equally near; name levels with --labels KEY,..."


def _items(obj: Mapping[str, Any], path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if obj.get("kind") in BESIDE_NODES:
        yield str(obj["kind"]), obj
        return
    items = obj.get("items")
    if not isinstance(items, list) or not items:
        raise bad_file(path, "items", "is missing or empty, must be a list of nodes of Kubernetes")
    for number, one in enumerate(items):
        if not isinstance(one, dict):
            raise bad_file(path, f"items[{number}]", f"is {shown(one)}, must be an object")
        # Items of a list of one kind may omit the kind.
        kind = str(obj.get("kind", "")).removesuffix("List")
        if str(one.get("kind", "")).endswith("List") and isinstance(one.get("items"), list):
            for place, below in _items(one, path) if one["items"] else ():
                yield f"items[{number}].{place}", below
            continue
        yield f"items[{number}]", one if "kind" in one or not kind else {"kind": kind, **one}


def _amounts(where: str, held: Amounts) -> dict[str, float]:
    found = {}
    for key, text in held.items():
        # A quantity of Kubernetes is a number with a suffix for a power of ten or two: 2k, 2Ki or 2e3.
        match = _QUANTITY.fullmatch(str(text))
        if match is None or (match[3] or "") not in _POWERS:
            raise bad_file(f"{where}: {key}", f"is {shown(text)}, must be a quantity such as 64, 63500m or 256Gi")
        found[key] = float(match[1] + (match[2] or "")) * _POWERS[match[3] or ""]
    return found


def _cluster_node(node: _Node, found: _Objects, path: Path) -> ClusterNode:
    in_use = found.in_use.get(node.metadata.name, Counter())
    amounts = _amounts(f"{path}: node {node.metadata.name!r}", node.status.allocatable)
    for key, held_always in found.daemons.get(node.metadata.name, Counter()).items():
        if key in amounts:
            amounts[key] = max(amounts[key] - held_always, 0.0)
    labelled = node.metadata.labels
    kind = next((labelled[key] for key in GPU_LABELS if key in labelled), "")

    def gpus(held: Mapping[str, float]) -> dict[str, int]:
        count = round(sum(amount for key, amount in held.items() if key in GPU_RESOURCES))
        return {kind: count} if count else {}

    memory = amounts.get("memory")
    return ClusterNode(
        name=node.metadata.name,
        cores=amounts.get("cpu", 1.0),
        memory_mib=None if memory is None else int(memory / 2**20),
        gpus=gpus(amounts),
        features=frozenset(f"{key}={value}" for key, value in labelled.items()),
        away=_why_away(node, found),
        use=NodeUse(in_use.get("cpu", 0.0), math.ceil(in_use.get("memory", 0.0) / 2**20), gpus(in_use)),
    )


def _why_away(node: _Node, objects: _Objects) -> tuple[str, ...]:
    ready = {one.type: one.status for one in node.status.conditions}.get("Ready", "True")
    found = ["not ready"] * (ready != "True") + ["cordoned"] * bool(node.spec.unschedulable)
    found += ["being deleted"] * (node.metadata.deleted is not None)
    taints = (one for one in node.spec.taints or () if one.effect in SHUT)
    shut = (one.key for one in taints if not objects.tolerates(node, one))
    # Kubernetes also taints nodes that are cordoned or not ready; such taints add no reason.
    found += [f"tainted {printable(key)}" for key in shut if not key.startswith("node.kubernetes.io/") or not found]
    return tuple(dict.fromkeys(found))


def _remarks(nodes: Sequence[_Node], objects: _Objects) -> list[str]:
    taints = ((node, one) for node in nodes for one in node.spec.taints or () if one.effect in SHUT)
    open_taints = Counter(one.key for node, one in taints if objects.tolerates(node, one))
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
        ("objects other than nodes and pods, ignored", [f"{kind} {count}" for kind, count in objects.others.items()]),
        ("pods with resource claims, whose devices count as free", [str(objects.claiming)] if objects.claiming else []),
        ("pending pods, not added to the jobs", [str(objects.pending)] if objects.pending else []),
        ("nodes reduced by what their DaemonSets request", [str(len(objects.daemons))] if objects.daemons else []),
    )
    return [f"{what}: {', '.join(map(printable, told))}" for what, told in parts if told]
