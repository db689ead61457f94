"""Objects of Kubernetes for tests, and a slow count of what a plan does to them, from the JSON only."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Obj = dict[str, Any]
ZONE, RACK = "topology.kubernetes.io/zone", "cloud.provider.com/topology-rack"


def node(name: str, rack: str = "r1", **more: Any) -> Obj:
    """Return a node of a rack; ``held`` changes what it has, ``taints`` and others are keys of its spec."""
    held = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "10", **more.pop("held", {})}
    labels = {RACK: rack, "kubernetes.io/hostname": name, **more.pop("labels", {})}
    conditions = [{"type": "Ready", "status": more.pop("ready", "True")}]
    metadata = {"name": name, "labels": labels, **more.pop("metadata", {})}
    status: Obj = {"allocatable": held, "conditions": conditions}
    return {"kind": "Node", "metadata": metadata, "spec": more, "status": status}


def pod(name: str, where: str | None = None, owner: str | None = "ReplicaSet", **more: Any) -> Obj:
    """Return a pod of a controller on a node; other keys are those of its spec, but for some of its metadata."""
    metadata: Obj = {"name": name, "namespace": more.pop("namespace", "ns"), "labels": more.pop("labels", {})}
    if owner is not None:
        name_of = more.pop("owner_name", "of")
        metadata["ownerReferences"] = [{"kind": owner, "name": name_of, "controller": True}]
    for key in ("annotations", "deletionTimestamp"):
        if key in more:
            metadata[key] = more.pop(key)
    phase = more.pop("phase", "Running" if where else "Pending")
    status = {"phase": phase, **more.pop("status", {})}
    requests = {"cpu": more.pop("cpu", "1"), **more.pop("asks", {})}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}], **more}
    if where is not None:
        spec["nodeName"] = where
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def listed(*objects: Obj) -> str:
    """Return what kubectl prints of objects."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def write(path: Path, *objects: Obj) -> Path:
    """Write a list of objects to a file."""
    path.write_text(listed(*objects), encoding="utf-8")
    return path


_SUFFIXES = {"": 1.0, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def amount(text: object) -> float:
    """Return a quantity of the tests as a number."""
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    assert match is not None
    return float(match[1]) * _SUFFIXES[match[2]]


def held_by(one: Obj) -> Counter[str]:
    """Return what a pod of the tests holds: its containers, or an init container with the sidecars before it."""
    spec, sidecars, peak = one["spec"], Counter[str](), Counter[str]()
    for begun in spec.get("initContainers", ()):
        asked = _requests(begun)
        if begun.get("restartPolicy") == "Always":
            sidecars.update(asked)
            asked = Counter()
        for key in {*asked, *sidecars}:
            peak[key] = max(peak[key], asked[key] + sidecars[key])
    total = Counter(sidecars)
    for container in spec["containers"]:
        total.update(_requests(container))
    found = Counter({key: max(total[key], peak[key]) for key in {*total, *peak}})
    found.update({key: amount(text) for key, text in spec.get("overhead", {}).items()})
    found["pods"] += 1
    return found


def _requests(container: Obj) -> Counter[str]:
    requests = container.get("resources", {}).get("requests", {})
    return Counter({key: amount(text) for key, text in requests.items()})


def is_protected(one: Obj, budgets: Iterable[Obj] = ()) -> bool:
    """Whether a pod of the tests must not be deleted, by what it says itself and by budgets that allow nothing."""
    metadata = one["metadata"]
    owners = [owner["kind"] for owner in metadata.get("ownerReferences", ()) if owner.get("controller")]
    annotations = metadata.get("annotations", {})
    if not owners or owners[0] in ("DaemonSet", "Node", "Workflow") or "deletionTimestamp" in metadata:
        return True
    if annotations.get("cluster-autoscaler.kubernetes.io/safe-to-evict") == "false":
        return True
    for budget in budgets:
        wanted = budget["spec"]["selector"].get("matchLabels", {})
        is_meant = wanted.items() <= metadata["labels"].items()
        if is_meant and budget["metadata"]["namespace"] == metadata["namespace"]:
            return int(budget["status"]["disruptionsAllowed"]) == 0
    return False


def may_have(one: Obj, on: Obj) -> bool:
    """Whether a pod of the tests may get a node: it is ready, not cordoned, tolerated, and selected."""
    spec, labels = one["spec"], on["metadata"]["labels"]
    if on["spec"].get("unschedulable") or on["status"]["conditions"][0]["status"] != "True":
        return False
    if not spec.get("nodeSelector", {}).items() <= labels.items() or not on["status"]["allocatable"]:
        return False
    keys = {toleration["key"] for toleration in spec.get("tolerations", ())}
    return all(taint["key"] in keys for taint in on["spec"].get("taints", ()) if taint["effect"] != "PreferNoSchedule")


def check_plan(
    objects: list[Obj],
    steps: Iterable[tuple[str, str]],
    places: Mapping[str, Mapping[str, int]],
    members: Mapping[str, list[str]],
    drained: Iterable[str] = (),
) -> None:
    """Carry out a plan step by step, and assert that no node ever gives more than it has, and nobody protected leaves.

    Parameters
    ----------
    steps
        Actions and jobs.
    places
        Nodes that jobs get, and the number of their pods on each.
    members
        Namespaces and names of the pods of jobs.
    """
    nodes = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Node"}
    pods = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": one for one in objects if one["kind"] == "Pod"}
    budgets = [one for one in objects if one["kind"] == "PodDisruptionBudget"]
    alive = {name: one for name, one in pods.items() if one["status"]["phase"] not in ("Succeeded", "Failed")}
    where = {name: one["spec"]["nodeName"] for name, one in alive.items() if "nodeName" in one["spec"]}
    gangs = {name: one["metadata"].get("annotations", {}).get("pod-group-name") for name, one in alive.items()}
    left: set[str] = set()
    for action, job in steps:
        for name in members[job] if action != "start" else ():
            if name not in left:
                assert not is_protected(pods[name], budgets), f"{name} must stay"
                left.add(name)
                del where[name]
        if action in ("move", "start"):
            targets = [name for name, count in places[job].items() for _ in range(count)]
            for name, target in zip(members[job], targets, strict=True):
                assert may_have(pods[name], nodes[target]), f"{name} may not have {target}"
                where[name] = target
            for target in places[job]:
                _check_node(nodes[target], [pods[name] for name, on in where.items() if on == target])
    for name in left:
        # A gang stops or moves as one.
        mates = {one for one, gang in gangs.items() if gang is not None and gang == gangs[name]}
        assert {one for one in mates if "nodeName" in pods[one]["spec"]} <= left, f"{name} left its gang"
    for name, on in where.items():
        is_of_node = pods[name]["metadata"].get("ownerReferences", [{}])[0].get("kind") in ("DaemonSet", "Node")
        assert on not in set(drained) or is_of_node, f"{name} is on {on}, which has to be empty"


def _check_node(on: Obj, pods: Iterable[Obj]) -> None:
    used: Counter[str] = Counter()
    for one in pods:
        used.update(held_by(one))
    for key, number in used.items():
        has = amount(on["status"]["allocatable"].get(key, "0"))
        assert number <= has + 1e-6, f"{on['metadata']['name']} has {has} {key}, pods there ask for {number}"
