"""JSON and YAML objects of clusters: which system they come from, and what those are that describe no cluster."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from allocopt.cluster.slurm_records import is_json_answer
from allocopt.files.faults import bad_file


class System(Enum):
    """A system whose objects describe a cluster."""

    SLURM = "Slurm"
    FLUX = "Flux"
    KUBERNETES = "Kubernetes"


def system_of(obj: Mapping[str, Any]) -> System:
    """Return the system that an object comes from; Kubernetes where nothing says so."""
    if is_json_answer(obj):
        return System.SLURM
    if is_flux(obj):
        return System.FLUX
    return System.KUBERNETES


def is_flux(obj: Mapping[str, Any]) -> bool:
    """Whether an object is a graph (JGF), a resource set (R), or a status of resources of Flux."""
    status = (obj.get(key) for key in ("R", "all", "allocated", "down"))
    return "graph" in obj or _is_resource_set(obj) or any(_is_resource_set(one) for one in status)


def _is_resource_set(obj: Any) -> bool:
    return isinstance(obj, dict) and isinstance(obj.get("execution"), dict) and "R_lite" in obj["execution"]


_KINDS = {
    "Topology": "a Topology of Kueue; give the nodes (kubectl get nodes -o json) and name its levels with --labels",
    "ResourceFlavor": "a ResourceFlavor of Kueue; give the nodes (kubectl get nodes -o json)",
    "ClusterQueue": "a ClusterQueue of Kueue, whose quotas are not modelled; give the nodes",
    "LocalQueue": "a LocalQueue of Kueue; give the nodes",
    "Workload": "a Workload of Kueue; give the nodes, and each job with --job NAME=NODES",
    "Job": "a Job; give the nodes, and the job with --job NAME=NODES",
    "JobSet": "a JobSet; give the nodes, and each job with --job NAME=NODES",
    "PodGroup": "a PodGroup; give the nodes, and the job with --job NAME=NODES",
    "Deployment": "a Deployment; give the nodes (kubectl get nodes -o json)",
    "ConfigMap": "a ConfigMap; of topograph give the topology.conf or topology.yaml that it holds",
}
"""Kinds of objects of Kubernetes that are no nodes or pods, and what to give instead."""


def check_is_cluster(obj: Mapping[str, Any], source: Path) -> None:
    """Raise `BadFileError` for an object that describes no cluster; it says what it is and what to give instead."""
    kind = obj.get("kind")
    items = obj.get("items")
    if kind in ("List", None) and isinstance(items, list) and items and all(isinstance(one, dict) for one in items):
        kinds = {one.get("kind") for one in items}
        kind = kinds.pop() if len(kinds) == 1 else None
    kind = str(kind or "").removesuffix("List")
    if str(obj.get("apiVersion", "")).startswith("kind.x-k8s.io"):
        fault = "tells kind how to make a cluster, must be what `kubectl get nodes -o yaml` prints of it"
        raise bad_file(source, fault)
    if kind in _KINDS:
        raise bad_file(source, f"is {_KINDS[kind]}")
    if "kind" not in obj and "switches" in obj:
        fault = "is a model of topograph's simulator, must be the topology.conf that topograph makes of it"
        raise bad_file(source, fault)
    if isinstance(obj.get("jobs"), list) and not is_json_answer(obj):
        raise bad_file(source, "holds jobs and no nodes: give what waits with --queue, and what has run as a trace")
