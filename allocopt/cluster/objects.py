"""JSON and YAML objects: recognizes the system they come from, and names those that do not describe a cluster."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from allocopt.cluster.slurm_records import is_json_answer
from allocopt.errors import BadFileError
from allocopt.files.faults import bad_file

JOBS = "holds jobs and no nodes: give waiting jobs with --queue, and give finished jobs as a trace"
"""Error for a file of jobs that is given as a cluster."""


class System(Enum):
    """A system whose objects describe a cluster."""

    SLURM = "Slurm"
    FLUX = "Flux"
    KUBERNETES = "Kubernetes"


def system_of(obj: Mapping[str, Any]) -> System:
    """Return the system that an object comes from, Kubernetes by default."""
    if is_json_answer(obj):
        return System.SLURM
    if is_flux(obj):
        return System.FLUX
    return System.KUBERNETES


def is_flux(obj: Mapping[str, Any]) -> bool:
    """Return whether an object is a graph (JGF), a resource set (R), or a resource status of Flux."""
    status = (obj.get(key) for key in ("R", "all", "allocated", "down"))
    return "graph" in obj or _is_resource_set(obj) or any(_is_resource_set(one) for one in status)


def _is_resource_set(obj: Any) -> bool:
    return isinstance(obj, dict) and isinstance(obj.get("execution"), dict) and "R_lite" in obj["execution"]


_KINDS = {
    "Topology": "a Topology of Kueue",
    "ResourceFlavor": "a ResourceFlavor of Kueue",
    "ClusterQueue": "a ClusterQueue of Kueue, whose quotas are not modelled",
    "LocalQueue": "a LocalQueue of Kueue",
    "Workload": "a Workload of Kueue",
    "Node": "a Node of Kubernetes",
    "Pod": "a Pod of Kubernetes",
    "Job": "a Job of Kubernetes",
    "JobSet": "a JobSet of Kubernetes",
    "PodGroup": "a PodGroup of Kubernetes",
    "Deployment": "a Deployment of Kubernetes",
    "ConfigMap": "a ConfigMap of Kubernetes",
}
"""Words for kinds of Kubernetes objects."""
_NODES = "give what `kubectl get nodes -o json` prints, and each job with --job NAME=NODES"


BESIDE_NODES = ("Node", "Pod", "Topology", "ResourceFlavor")
"""Kinds of objects that describe nodes or their pods."""


def _kind(obj: Mapping[str, Any]) -> str:
    # The kind of an object, or of all items of a list; empty if unknown.
    kind = obj.get("kind")
    items = obj.get("items")
    if kind in ("List", None) and isinstance(items, list) and items and all(isinstance(one, dict) for one in items):
        kinds = {str(one.get("kind")) for one in items}
        kind = kinds.pop() if len(kinds) == 1 else None
    return str(kind or "").removesuffix("List")


def no_nodes(obj: Mapping[str, Any], source: Path) -> BadFileError:
    """Return the error for Kubernetes objects without a node."""
    what = _KINDS.get(_kind(obj))
    return bad_file(source, f"is {what}; {_NODES}" if what else f"holds no node; {_NODES}")


def object_in_words(obj: Mapping[str, Any]) -> str | None:
    """Return a description of an object that holds no jobs of Slurm; None if the object is unknown."""
    if (kind := _kind(obj)) in _KINDS:
        return f"{_KINDS[kind]}: give each job with --job NAME=NODES"
    if "resources" in obj and "tasks" in obj:
        return "a jobspec of Flux: give each job with --job NAME=NODES"
    if is_flux(obj):
        return "a description of resources of Flux"
    jobs = obj.get("jobs")
    first = jobs[0] if isinstance(jobs, list) and jobs else None
    if isinstance(first, dict) and "job_id" not in first and "id" in first:
        return "a list of jobs of another program: give each job with --job NAME=NODES"
    if not isinstance(jobs, list) and is_json_answer(obj):
        return "an answer of Slurm without jobs"
    return None


def check_is_cluster(obj: Mapping[str, Any], source: Path) -> None:
    """Raise `BadFileError` for an object that is not a cluster; the error says what it is and what to give instead."""
    if str(obj.get("apiVersion", "")).startswith("kind.x-k8s.io"):
        fault = "configures the tool kind; give what `kubectl get nodes -o yaml` prints of that cluster"
        raise bad_file(source, fault)
    kind = _kind(obj)
    if kind == "ConfigMap":
        raise bad_file(
            source, "is a ConfigMap; if it is topograph's, give the topology.conf or topology.yaml that it holds"
        )
    if kind in _KINDS and kind not in BESIDE_NODES:
        raise no_nodes(obj, source)
    if "kind" not in obj and "switches" in obj:
        fault = "is a model of topograph's simulator; give the topology.conf that topograph makes from it"
        raise bad_file(source, fault)
    if isinstance(obj.get("jobs"), list) and not is_json_answer(obj):
        raise bad_file(source, JOBS)
    if {"meta", "errors"} & set(obj) and not is_json_answer(obj):
        known = "nodes, partitions, reservations or sinfo"
        raise bad_file(source, f"is an answer of Slurm without {known}; print them with `scontrol show node --json`")
