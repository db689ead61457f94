"""Objects of Kubernetes as ``kubectl get -o json`` or ``-o yaml`` prints them: nodes, pods and others."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasPath, Field

from allocopt.cluster.kubernetes_rules import Affinity, Spread, Taint, Toleration
from allocopt.cluster.objects import BESIDE_NODES
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file, printable, shown
from allocopt.files.models import FileModel, validated

NOT_NETWORK = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os")
"""Labels that every node has and that do not describe a network."""
SHUT = ("NoSchedule", "NoExecute")
"""Effects of taints that keep pods without a toleration off a node."""
ENDED = ("Succeeded", "Failed")
"""Phases of pods that hold no resources."""

_QUANTITY = re.compile(r"(?=\.?[0-9])([0-9]{0,18}(?:\.[0-9]{0,18})?)(?:([eE][+-]?[0-9]{1,2})|([a-zA-Z]*))", re.ASCII)
_POWERS = {"": Fraction(1), "k": Fraction(1000)} | {
    letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)
}
_POWERS |= {
    prefix + suffix: Fraction(base**power)
    for suffix, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("KMGTPE", 1)
    if prefix + suffix != "K"
}

Amounts = Mapping[str, str | int]
_Amounts = dict[str, str | int]
_Model = TypeVar("_Model", bound=FileModel)


# Unknown keys are ignored, because objects of Kubernetes have many.
class Owner(FileModel, extra="ignore"):
    """An owner of an object; one of them may be its controller."""

    kind: str
    name: str = ""
    controller: bool | None = None


class Metadata(FileModel, extra="ignore"):
    """The identity of an object: name, namespace, labels and owners."""

    name: Annotated[str, Field(min_length=1)]
    namespace: str = "default"
    labels: Annotated[dict[str, str], Field(default_factory=dict)]
    annotations: dict[str, str] | None = None
    deleted: Annotated[str | None, Field(validation_alias="deletionTimestamp")] = None
    owners: Annotated[list[Owner] | None, Field(validation_alias="ownerReferences")] = None


class _Condition(FileModel, extra="ignore"):
    type: str
    status: str


class _NodeSpec(FileModel, extra="allow"):
    unschedulable: bool | None = None
    taints: Annotated[list[Taint] | None, Field(strict=False)] = None


class _NodeStatus(FileModel, extra="ignore"):
    allocatable: Annotated[_Amounts, Field(default_factory=dict)]
    conditions: Annotated[list[_Condition], Field(default_factory=list)]


class Node(FileModel, extra="ignore"):
    """A node."""

    kind: Literal["Node"] = "Node"
    metadata: Metadata
    spec: Annotated[_NodeSpec, Field(default_factory=_NodeSpec)]
    status: Annotated[_NodeStatus, Field(default_factory=_NodeStatus)]

    @property
    def closed(self) -> tuple[str, ...]:
        """Reasons why the node takes no pods, whatever taints they tolerate: not ready, cordoned or being deleted."""
        ready = {one.type: one.status for one in self.status.conditions}.get("Ready", "True")
        reasons = ("not ready", ready != "True"), ("cordoned", self.spec.unschedulable)
        found = [why for why, holds in reasons if holds]
        return (*found, *("being deleted",) * (self.metadata.deleted is not None))

    @property
    def shutting(self) -> list[Taint]:
        """Taints that keep pods without a toleration off the node."""
        return [one for one in self.spec.taints or () if one.effect in SHUT]


class _Resources(FileModel, extra="ignore"):
    requests: _Amounts | None = None
    limits: _Amounts | None = None

    def read(self, where: str) -> dict[str, Fraction]:
        # Kubernetes sets a missing request to the limit.
        return quantities(where, {**(self.limits or {}), **(self.requests or {})})


class _Port(FileModel, extra="ignore"):
    container: Annotated[int | None, Field(validation_alias="containerPort")] = None
    host: Annotated[int | None, Field(validation_alias="hostPort")] = None
    protocol: str = "TCP"


class _Container(FileModel, extra="ignore"):
    name: str = ""
    resources: Annotated[_Resources, Field(default_factory=_Resources)]
    restart: Annotated[str | None, Field(validation_alias="restartPolicy")] = None
    ports: list[_Port] | None = None


class _ContainerStatus(FileModel, extra="ignore"):
    name: str = ""
    allocated: Annotated[_Amounts | None, Field(validation_alias="allocatedResources")] = None
    resources: _Resources | None = None


class _Claim(FileModel, extra="ignore"):
    claim: Annotated[str, Field(validation_alias="claimName")]


class _Volume(FileModel, extra="ignore"):
    claim: Annotated[_Claim | None, Field(validation_alias="persistentVolumeClaim")] = None
    ephemeral: dict[str, Any] | None = None
    name: str = ""


class PodSpec(FileModel, extra="ignore"):
    """The specification of a pod."""

    node: Annotated[str | None, Field(validation_alias="nodeName")] = None
    containers: Annotated[list[_Container], Field(default_factory=list)]
    initial: Annotated[list[_Container] | None, Field(validation_alias="initContainers")] = None
    overhead: _Amounts | None = None
    resources: _Resources | None = None
    claims: Annotated[list[dict[str, Any]] | None, Field(validation_alias="resourceClaims")] = None
    priority: int | None = None
    selector: Annotated[dict[str, str] | None, Field(validation_alias="nodeSelector")] = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    spread: Annotated[list[Spread] | None, Field(validation_alias="topologySpreadConstraints")] = None
    gates: Annotated[list[dict[str, Any]] | None, Field(validation_alias="schedulingGates")] = None
    volumes: list[_Volume] | None = None
    has_host_network: Annotated[bool | None, Field(validation_alias="hostNetwork")] = None
    workload: Annotated[dict[str, Any] | None, Field(validation_alias="workloadRef")] = None
    group: Annotated[dict[str, Any] | None, Field(validation_alias="schedulingGroup")] = None


class _PodStatus(FileModel, extra="ignore"):
    phase: str = "Running"
    nominated: Annotated[str | None, Field(validation_alias="nominatedNodeName")] = None
    containers: Annotated[list[_ContainerStatus] | None, Field(validation_alias="containerStatuses")] = None
    initial: Annotated[list[_ContainerStatus] | None, Field(validation_alias="initContainerStatuses")] = None


class Pod(FileModel, extra="ignore"):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: Annotated[_PodStatus, Field(default_factory=_PodStatus)]

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def phase(self) -> str:
        """Its phase, Running if none is given."""
        return self.status.phase

    @property
    def of_node(self) -> bool:
        """Whether it is a pod of a DaemonSet or of the node itself (a mirror of a static pod)."""
        is_mirror = "kubernetes.io/config.mirror" in (self.metadata.annotations or {})
        return is_mirror or any(owner.kind in ("DaemonSet", "Node") for owner in self.metadata.owners or ())

    @property
    def controller(self) -> Owner | None:
        """The owner that controls it, None if it has none."""
        return next((owner for owner in self.metadata.owners or () if owner.controller), None)

    def requests(self, where: str) -> dict[str, Fraction]:
        """Return the resources that the pod occupies on its node, as the scheduler of Kubernetes counts them.

        This is the sum over its containers and sidecars; or, if it is larger, the request of an init container plus
        those of the sidecars started before it. If a container still holds more than it requests, because it is being
        resized, what it holds counts.
        """
        held = {one.name: one for one in (*(self.status.containers or ()), *(self.status.initial or ()))}
        total: Counter[str] = Counter()
        most: dict[str, Fraction] = {}
        # A sidecar (an init container that is always restarted) runs beside all containers that are started after it.
        for one in self.spec.initial or ():
            asked = _asked(one, held, where)
            if one.restart == "Always":
                total.update(asked)
                asked = {}
            for key in (*asked, *total):
                most[key] = max(asked.get(key, Fraction(0)) + total[key], most.get(key, Fraction(0)))
        for one in self.spec.containers:
            total.update(_asked(one, held, where))
        found = {key: max(Fraction(total[key]), most.get(key, Fraction(0))) for key in {*total, *most}}
        # Requests of the whole pod override those of its containers.
        found |= self.spec.resources.read(where) if self.spec.resources else {}
        for key, amount in quantities(where, self.spec.overhead or {}).items():
            found[key] = found.get(key, Fraction(0)) + amount
        return found

    @property
    def host_ports(self) -> set[str]:
        """Ports of the node that it uses, as ``TCP/8080``."""
        containers = (*self.spec.containers, *(self.spec.initial or ()))
        ports = [port for one in containers for port in one.ports or ()]
        numbers = ((one, one.host or (one.container if self.spec.has_host_network else None)) for one in ports)
        return {f"{one.protocol}/{number}" for one, number in numbers if number}


def _asked(one: _Container, held: Mapping[str, _ContainerStatus], where: str) -> dict[str, Fraction]:
    asked = one.resources.read(where)
    status = held.get(one.name) if one.name else None
    if status is None:
        return asked
    # Limits in the status are not read: they may exceed what the container requests.
    told = (status.allocated or {}, (status.resources and status.resources.requests) or {})
    for amounts in told:
        for key, amount in quantities(where, amounts).items():
            asked[key] = max(asked.get(key, Fraction(0)), amount)
    return asked


class _Level(FileModel, extra="ignore"):
    label: Annotated[str, Field(validation_alias="nodeLabel")]


class Topology(FileModel, extra="ignore"):
    """A Topology of Kueue or KAI: the labels of its levels, from the top downwards."""

    metadata: Metadata
    levels: Annotated[list[_Level], Field(validation_alias=AliasPath("spec", "levels"))]

    @property
    def labels(self) -> list[str]:
        """Labels of the levels above the nodes."""
        return [level.label for level in self.levels if level.label not in NOT_NETWORK]


class _FlavorSpec(FileModel, extra="ignore"):
    labels: Annotated[dict[str, str] | None, Field(validation_alias="nodeLabels")] = None
    tolerations: list[Toleration] | None = None
    topology: Annotated[str | None, Field(validation_alias="topologyName")] = None


class Flavor(FileModel, extra="ignore"):
    """A ResourceFlavor of Kueue: labels that its nodes have, and taints that its pods tolerate."""

    metadata: Metadata
    spec: Annotated[_FlavorSpec, Field(default_factory=_FlavorSpec)]

    def has(self, node: Node) -> bool:
        """Return whether a node has this flavor."""
        return (self.spec.labels or {}).items() <= node.metadata.labels.items()


@dataclass(slots=True)
class KubernetesObjects:
    """The objects of all files, by kind.

    Parameters
    ----------
    nodes, pods
        The nodes, and the pods with the places where they are given.
    topologies, flavors
        Objects of Kueue and KAI.
    others
        All other objects by kind, with their places; `read` validates them.
    """

    nodes: list[Node] = field(default_factory=list)
    pods: list[tuple[str, Pod]] = field(default_factory=list)
    topologies: list[Topology] = field(default_factory=list)
    flavors: list[Flavor] = field(default_factory=list)
    others: dict[str, list[tuple[str, Mapping[str, Any]]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, objects: Iterable[tuple[Path, Mapping[str, Any]]], *, may_be_empty: bool = False
    ) -> "KubernetesObjects":
        """Return the objects of some files. Raises `BadFileError` for an empty list, unless it may be empty."""
        found = cls()
        for path, obj in objects:
            for place, one in _items(obj, path, may_be_empty):
                found._add(one, f"{path}: {place}{_named(one)}")
        return found

    def _add(self, one: Mapping[str, Any], where: str) -> None:
        kind = one.get("kind", "Node")
        if kind == "Node":
            self.nodes.append(validated(Node, one, where))
        elif kind == "Pod":
            self.pods.append((where, validated(Pod, one, where)))
        elif kind == "Topology":
            self.topologies.append(validated(Topology, one, where))
        elif kind == "ResourceFlavor":
            self.flavors.append(validated(Flavor, one, where))
        else:
            self.others.setdefault(kind if isinstance(kind, str) else shown(kind), []).append((where, one))

    def read(self, model: type[_Model], kind: str) -> list[_Model]:
        """Return the objects of a kind in `others` as models."""
        return [validated(model, one, where) for where, one in self.others.get(kind, ())]

    @property
    def on_nodes(self) -> Iterator[tuple[str, str, Pod]]:
        """The pods that hold resources of a node: each with its place in the file and its node."""
        for where, pod in self.pods:
            if pod.spec.node and pod.phase not in ENDED:
                yield where, pod.spec.node, pod

    def levels(self, path: Path) -> list[str]:
        """Return the labels of the levels of the given Topology; empty if there is none.

        If flavors name topologies, only these count. Raises `BadFileError` if several topologies have different levels.
        """
        named = {flavor.spec.topology for flavor in self.flavors} - {None}
        chosen = [one for one in self.topologies if not named or one.metadata.name in named]
        if len({tuple(one.labels) for one in chosen}) > 1:
            names = ", ".join(printable(one.metadata.name) for one in chosen)
            fault = f"has several topologies of Kueue ({names}): name the levels of one with --labels"
            raise bad_file(path, fault)
        return chosen[0].labels if chosen else []


def _named(one: Mapping[str, Any]) -> str:
    """Return the kind and name of an object for the place of an error, empty if it has no name."""
    metadata = one.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        return ""
    space = metadata.get("namespace")
    name = f"{space}/{metadata['name']}" if isinstance(space, str) else metadata["name"]
    return f" ({one.get('kind', 'Node')} {printable(name)})"


def _items(obj: Mapping[str, Any], path: Path, may_be_empty: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    items = obj.get("items")
    is_single = "kind" in obj and "metadata" in obj and not isinstance(items, list) and may_be_empty
    if obj.get("kind") in BESIDE_NODES or is_single:
        yield str(obj["kind"]), obj
        return
    if not isinstance(items, list) or not (items or may_be_empty):
        raise _no_items(path)
    for number, one in enumerate(items):
        if not isinstance(one, dict):
            raise bad_file(path, f"items[{number}]", f"is {shown(one)}, must be an object")
        # Items of a list of one kind may omit the kind.
        kind = str(obj.get("kind", "")).removesuffix("List")
        if str(one.get("kind", "")).endswith("List") and isinstance(one.get("items"), list):
            for place, below in _items(one, path, may_be_empty) if one["items"] else ():
                yield f"items[{number}].{place}", below
            continue
        yield f"items[{number}]", one if "kind" in one or not kind else {"kind": kind, **one}


def _no_items(path: Path) -> BadFileError:
    return bad_file(path, "items", "is missing or empty, must be a list of nodes of Kubernetes")


def quantities(where: str, held: Amounts) -> dict[str, Fraction]:
    """Return amounts as exact fractions. Raises `BadFileError`, which names the place, for an invalid quantity."""
    found = {}
    for key, text in held.items():
        # A quantity of Kubernetes is a number with a suffix for a power of ten or two: 2k, 2Ki or 2e3.
        match = _QUANTITY.fullmatch(str(text))
        if match is None or (match[3] or "") not in _POWERS:
            raise bad_file(f"{where}: {key}", f"is {shown(text)}, must be a quantity such as 64, 63500m or 256Gi")
        found[key] = Fraction(match[1] + (match[2] or "")) * _POWERS[match[3] or ""]
    return found


def kinds_of(objects: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the kinds of some objects and of the items of lists among them."""
    found: set[str] = set()
    for obj in objects:
        items = obj.get("items")
        held = items if isinstance(items, list) else [obj]
        found |= {str(one.get("kind")) for one in held if isinstance(one, Mapping)}
    return found
