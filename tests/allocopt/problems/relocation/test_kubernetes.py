"""Plans for Kubernetes, counted by hand: whatever the snapshot, nobody protected leaves and no node is too full."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.kubernetes import Obj, check_plan, listed, node, pod

from allocopt.errors import AllocoptError, BadFileError, UsageError
from allocopt.problems.relocation.aims import Aims
from allocopt.problems.relocation.sources import GivenFiles, Snapshot, snapshot_of
from allocopt.solving.solve import solve

NODES = 5


@st.composite
def nodes(draw: st.DrawFn) -> list[Obj]:
    found = []
    for number in range(NODES):
        more: dict[str, Any] = {"held": {"cpu": draw(st.sampled_from(["3", "4", "4500m"]))}}
        match draw(st.integers(0, 13)):
            case 0:
                more["unschedulable"] = True
            case 1:
                more["taints"] = [{"key": "soft", "effect": "PreferNoSchedule"}]
            case 2:
                more["taints"] = [
                    {"key": "team", "value": "x", "effect": draw(st.sampled_from(["NoSchedule", "NoExecute"]))}
                ]
            case 3:
                more["ready"] = draw(st.sampled_from(["False", "Unknown"]))
            case 4:
                more["held"] = {"cpu": "4", "pods": "3"}
        made = node(f"n{number}", f"r{number // 3}", labels={"disk": draw(st.sampled_from(["ssd", "hdd"]))}, **more)
        if draw(st.integers(0, 9)) == 0:
            made["status"]["allocatable"] = {}
        found.append(made)
    return found


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    """Draw what the pods of one gang ask for."""
    more: dict[str, Any] = {"cpu": draw(st.sampled_from(["500m", "1", "1500m", "2"]))}
    if draw(st.integers(0, 2)) == 0:
        more["asks"] = {"nvidia.com/gpu": draw(st.sampled_from(["1", "2", "4"]))}
    if draw(st.integers(0, 3)) == 0:
        more["nodeSelector"] = {"disk": "ssd"}
    if draw(st.integers(0, 3)) == 0:
        more["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if draw(st.integers(0, 3)) == 0:
        more["overhead"] = {"cpu": "250m"}
    if draw(st.integers(0, 2)) == 0:
        sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
        first = {"name": "i", "resources": {"requests": {"cpu": draw(st.sampled_from(["1", "2"]))}}}
        more["initContainers"] = draw(st.permutations([sidecar, first]))
    more["priority"] = draw(st.sampled_from([0, 0, 100]))
    return more


@st.composite
def pods(draw: st.DrawFn) -> list[Obj]:
    found = []
    for number in range(draw(st.integers(2, 8))):
        shape = draw(shapes())
        count = draw(st.sampled_from([1, 1, 1, 2, 3]))
        if count > 1:
            shape["annotations"] = {"pod-group-name": f"g{number}"}
        for member in range(count):
            more = json.loads(json.dumps(shape))
            owner = draw(st.sampled_from(["ReplicaSet", "Job", "StatefulSet", "DaemonSet", "Workflow", None]))
            match draw(st.integers(0, 9)):
                case 0:
                    more["deletionTimestamp"] = "2026-01-01T00:00:00Z"
                case 1:
                    safe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
                    more["annotations"] = {**more.get("annotations", {}), **safe}
                case 2:
                    more["labels"] = {"app": "guarded"}
                case 3:
                    more["phase"] = draw(st.sampled_from(["Succeeded", "Failed", "Pending"]))
            where = f"n{draw(st.integers(0, NODES - 1))}"
            found.append(
                pod(f"p{number}-{member}", where, owner if draw(st.integers(0, 3)) == 0 else "ReplicaSet", **more)
            )
    return found


def snapshot_from(objects: list[Obj], aims: Aims) -> Snapshot:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.json"
        path.write_text(listed(*objects), encoding="utf-8")
        return snapshot_of(GivenFiles((path,)), aims)


@settings(max_examples=200, deadline=None)
@given(
    nodes(),
    pods(),
    shapes(),
    st.integers(0, 3),
    st.integers(0, 2),
    st.sampled_from([("n0",), ("n1", "n3"), ()]),
    st.booleans(),
)
def test_no_plan_deletes_a_pod_that_must_stay_or_fills_a_node_beyond_what_it_has(
    racks: list[Obj],
    running: list[Obj],
    shape: dict[str, Any],
    size: int,
    allowed: int,
    drained: tuple[str, ...],
    is_within: bool,
) -> None:
    gang = [pod(f"w{number}", None, "Job", **shape, annotations={"pod-group-name": "gang"}) for number in range(size)]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    objects = [*racks, *running, *gang, budget]
    aims = Aims(("ns/gang",) if gang else (), "leaf" if gang and is_within else None, ",".join(drained))
    if not gang and not drained:
        return
    try:
        found = snapshot_from(objects, aims)
    except BadFileError as error:
        # All nodes are drawn as ones that take nobody.
        fault = str(error)
    else:
        fault = ""
    assert not fault or "no node takes jobs" in fault
    if fault:
        return
    solution = solve(found.problem, solver="auto", time_limit=10).solution
    if solution is None:
        return
    names = found.nodes.nodes
    ends = {job: {names[at]: count for at, count in held} for job, held in found.problem.ends(solution).items()}
    members = {job.id: found.members(job.id) for job in found.problem.running}
    members |= {"ns/gang": [f"ns/w{number}" for number in range(size)]}
    check_plan(objects, [(str(action), job) for action, job in solution.steps], ends, members, drained)
    deleted = [line.split()[-1] for line in found.commands(solution) if line.startswith("kubectl delete pod -n ns ")]
    leaving = [*solution.stopped(found.problem), *solution.moved(found.problem)]
    assert sorted(deleted) == sorted(name.partition("/")[2] for job in leaving for name in members[job.id])


def test_without_pods_nothing_is_said_to_be_free() -> None:
    with pytest.raises(UsageError, match="no pod is given, so that none can stop or move"):
        snapshot_from([node("n0")], Aims(drained="n0"))


def with_everything() -> list[Obj]:
    """Return a snapshot with every kind of object and every key that is read."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": "a", "operator": "Gt", "values": ["3"]}
    term = {"labelSelector": {"matchLabels": {"a": "b"}}, "namespaces": ["q"], "namespaceSelector": {}}
    sidecar = {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    held = {"name": "c", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    own = {"name": "g", "namespace": "ns"}
    reach = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    first = pod(
        "a",
        "n0",
        "Job",
        tolerations=[{"key": "a", "operator": "Exists"}],
        nodeSelector={"x": "y"},
        overhead={"cpu": "1"},
        initContainers=[sidecar],
        volumes=[claim],
        annotations={"pod-group-name": "g"},
        priority=5,
        status={"containerStatuses": [held]},
        affinity={"nodeAffinity": {required: reach["required"]}, "podAntiAffinity": {required: [term]}},
    )
    ports = [{"containerPort": 3, "hostPort": 4}]
    second = pod("b", "n1", hostNetwork=True, containers=[{"name": "c", "ports": ports}], workloadRef={"name": "w"})
    return [
        node("n0"),
        node("n1", taints=[{"key": "a", "effect": "NoSchedule"}]),
        first,
        second,
        {"kind": "PodDisruptionBudget", "metadata": own, "spec": {"selector": {"matchExpressions": [expression]}}},
        {"kind": "PodGroup", "apiVersion": "scheduling.run.ai/v2alpha2", "metadata": own, "spec": {"minMember": 1}},
        {"kind": "PriorityClass", "metadata": {"name": "p"}, "value": 3},
        {
            "kind": "Job",
            "apiVersion": "batch/v1",
            "metadata": own,
            "spec": {"backoffLimit": 3},
            "status": {"failed": 1},
        },
        {"kind": "PersistentVolumeClaim", "metadata": own, "spec": {"volumeName": "v", "accessModes": ["x"]}},
        {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": reach}},
        {"kind": "BindRequest", "metadata": own, "spec": {"podName": "w", "selectedNode": "n1"}},
    ]


def paths_of(obj: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    return [path for key, held in keys for path in [(*above, key), *paths_of(held, (*above, key))]]


PATHS = paths_of(with_everything())


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(PATHS),
    st.sampled_from([None, 7, -1, "", "x", [], {}, [None], {"a": None}, True, 2**63, "9" * 18 + "E", "-1", 1.5, [{}]]),
    st.booleans(),
)
def test_a_snapshot_with_a_wrong_value_is_read_or_refused_in_words(
    path: tuple[Any, ...], value: Any, gone: bool
) -> None:
    objects: Any = with_everything()
    held = objects
    for key in path[:-1]:
        held = held[key]
    if gone:
        del held[path[-1]]
    else:
        held[path[-1]] = value
    try:
        snapshot_from(objects, Aims(drained="n0"))
        message = "read"
    except AllocoptError as error:
        message = str(error)
    assert message.isprintable()
