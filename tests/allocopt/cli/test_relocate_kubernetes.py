"""``allocopt relocate`` on what kubectl prints and on snapshots of KAI: which pods leave, and which stay."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.kubernetes import RACK, ZONE, Obj, listed, node, pod, write
from support.program import Answer, Run

from allocopt.cluster.reading import read_cluster

Relocate = Callable[..., Answer]
SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
GANG = {"pod-group-name": "train"}


def racks(number: int = 2, size: int = 3, **more: Any) -> list[Obj]:
    return [node(f"n{rack * size + at}", f"r{rack}", **more) for rack in range(number) for at in range(size)]


@pytest.fixture
def relocate(run: Run, tmp_path: Path) -> Relocate:
    """Run the command on some objects in one file."""

    def asked(objects: list[Obj], *words: str) -> Answer:
        return run("relocate", write(tmp_path / "all.json", *objects), *words)

    return asked


def moved(answer: Answer) -> dict[str, str]:
    assert answer.code == 0, answer.err
    found: dict[str, str] = json.loads(answer.out)["moved"]
    return found


def test_a_pod_moves_off_a_node_that_is_to_be_emptied(relocate: Relocate) -> None:
    answer = relocate([*racks(), pod("a", "n0")], "--drain", "n0")
    assert answer.code == 0
    assert "0 jobs stop, 1 move; cost 0.5, no plan is cheaper" in answer.out


def test_the_commands_cordon_what_is_emptied_and_then_delete_pods(relocate: Relocate) -> None:
    lines = relocate([*racks(), pod("a", "n0"), pod("b", "n1")], "--drain", "n[0-1]", "--commands").out.splitlines()
    assert lines == [
        "kubectl cordon n0",
        "kubectl cordon n1",
        "kubectl delete pod -n ns a",
        "kubectl delete pod -n ns b",
    ]


def test_nodes_of_a_gang_are_closed_until_the_pods_in_its_way_are_gone(relocate: Relocate) -> None:
    gang = [pod(f"g{number}", None, "Job", cpu="8", annotations=GANG) for number in range(3)]
    objects = [*racks(), pod("a", "n0", cpu="5"), pod("b", "n3", owner=None), *gang]
    answer = relocate(objects, "--start", "ns/train", "--within", "leaf", "--commands")
    assert answer.out.splitlines() == [
        *(f"kubectl cordon n{number}" for number in range(3)),
        "kubectl delete pod -n ns a",
        *(f"kubectl uncordon n{number}" for number in range(3)),
    ]


def test_nodes_of_freed_racks_stay_closed(relocate: Relocate) -> None:
    lines = relocate(
        [*racks(), pod("a", "n0"), pod("b", "n3", owner=None)], "--free-racks", "1", "--size", "3", "--commands"
    )
    assert lines.out.splitlines() == [
        "kubectl cordon n0",
        "kubectl cordon n1",
        "kubectl cordon n2",
        "kubectl delete pod -n ns a",
    ]


def test_nodes_and_pods_come_in_two_files_or_the_pods_as_the_queue(run: Run, tmp_path: Path) -> None:
    nodes, pods = write(tmp_path / "nodes.json", *racks()), write(tmp_path / "pods.json", pod("a", "n0"))
    for words in ([f"{nodes},{pods}"], [nodes, "--queue", pods]):
        answer = run("relocate", *words, "--drain", "n0", "--json")
        assert list(moved(answer)) == ["ns/a"]


def test_yaml_is_read_as_json_is(run: Run, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    path = tmp_path / "all.yaml"
    path.write_text(yaml.safe_dump(json.loads(listed(*racks(), pod("a", "n0")))), encoding="utf-8")
    assert list(moved(run("relocate", path, "--drain", "n0", "--json"))) == ["ns/a"]


# Who stays.


@pytest.mark.parametrize(
    ("about", "reason"),
    [
        ({"owner": None}, "without a controller"),
        ({"owner": "Workflow"}, "of a controller that is not known to recreate them (Workflow)"),
        ({"annotations": SAFE}, "that are not safe to evict"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "that are being deleted"),
        ({"phase": "Unknown"}, "of phase Unknown"),
        ({"annotations": {"gpu-fraction": "0.5"}}, "that share GPUs by KAI"),
        ({"resourceClaims": [{"name": "x"}]}, "that have devices by claims (DRA)"),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            "whose volumes may not be reached from other nodes",
        ),
        (
            {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]},
            "whose volumes may not be reached from other nodes",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}]},
            "that have to be spread evenly",
        ),
        (
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}, "topologyKey": RACK}]
                    }
                }
            },
            "with required affinity or anti-affinity to other pods",
        ),
        (
            {"annotations": {"kueue.x-k8s.io/podset-slice-required-topology": RACK}},
            "of gangs that must stay within a level which is not modelled",
        ),
    ],
)
def test_a_pod_that_must_not_be_deleted_stays_and_is_counted(
    relocate: Relocate, about: dict[str, Any], reason: str
) -> None:
    answer = relocate([*racks(), pod("a", "n0", **about), pod("b", "n1")], "--drain", "n0")
    assert answer.code == 4
    assert f"pods that stay, {reason}: 1" in answer.err
    assert answer.err.splitlines()[-1].endswith("at least 1 more must stop: ns/a")


@pytest.mark.parametrize(
    "about",
    [
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway"}]},
        {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}},
        {"phase": "Pending"},
    ],
)
def test_a_wish_is_no_reason_to_stay(relocate: Relocate, about: dict[str, Any]) -> None:
    assert list(moved(relocate([*racks(), pod("a", "n0", **about)], "--drain", "n0", "--json"))) == ["ns/a"]


def test_pods_of_the_node_stay_when_it_is_emptied_and_their_room_is_taken_off(relocate: Relocate) -> None:
    mirror = pod("m", "n0", None, cpu="1", annotations={"kubernetes.io/config.mirror": "x"})
    objects = [*racks(1, 2), pod("d", "n1", "DaemonSet", cpu="1"), mirror, pod("a", "n0", cpu="8")]
    answer = relocate(objects, "--drain", "n0", "--json")
    found = json.loads(answer.out)
    # The node says 8, of which the DaemonSet has 1.
    assert (found["stopped"], found["moved"]) == (["ns/a"], {})
    assert "pods of DaemonSets and of the nodes, subtracted from capacities: 2" in answer.err


@pytest.mark.parametrize(("allowed", "code"), [(0, 4), (1, 0)])
def test_a_budget_that_allows_no_disruption_keeps_its_pods(relocate: Relocate, allowed: int, code: int) -> None:
    objects = [*racks(), pod("a", "n0", labels={"app": "x"}), budget({"matchLabels": {"app": "x"}}, allowed)]
    answer = relocate(objects, "--drain", "n0")
    assert answer.code == code
    assert ("whose PodDisruptionBudget does not allow it: 1" in answer.err) == (code == 4)


def budget(selector: Obj, allowed: int, namespace: str = "ns") -> Obj:
    metadata = {"name": "b", "namespace": namespace}
    status = {"disruptionsAllowed": allowed}
    return {"kind": "PodDisruptionBudget", "metadata": metadata, "spec": {"selector": selector}, "status": status}


@pytest.mark.parametrize(
    ("selector", "namespace", "code"),
    [
        ({}, "ns", 4),
        ({}, "other", 0),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}, "ns", 4),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["x"]}]}, "ns", 0),
        ({"matchExpressions": [{"key": "app", "operator": "Newer", "values": ["9"]}]}, "ns", 4),
    ],
)
def test_a_budget_means_the_pods_of_its_namespace_and_selector(
    relocate: Relocate, selector: Obj, namespace: str, code: int
) -> None:
    objects = [*racks(), pod("a", "n0", labels={"app": "x"}), budget(selector, 0, namespace)]
    assert relocate(objects, "--drain", "n0").code == code


def test_more_deletions_than_a_budget_allows_at_once_are_said(relocate: Relocate) -> None:
    objects = [*racks(), pod("a", "n0"), pod("b", "n0"), budget({}, 1)]
    fault = "2 pods of PodDisruptionBudget ns/b are deleted, but it allows only 1 at once: wait for new pods in between"
    assert fault in relocate(objects, "--drain", "n0").err


def test_that_no_budgets_are_given_is_said_and_an_empty_list_is_a_list(run: Run, tmp_path: Path) -> None:
    path, none = write(tmp_path / "all.json", *racks(), pod("a", "n0")), write(tmp_path / "pdb.json")
    told = "no PodDisruptionBudget is given"
    assert told in run("relocate", path, "--drain", "n0").err
    assert run("relocate", f"{path},{none}", "--drain", "n0").code == 0


@pytest.mark.parametrize(("limit", "code"), [(0, 4), (1, 4), (2, 0)])
def test_pods_of_a_job_stay_if_it_would_fail_without_them(relocate: Relocate, limit: int, code: int) -> None:
    job = {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "of", "namespace": "ns"}}
    objects = [*racks(), pod("a", "n0", "Job"), pod("b", "n1", "Job"), {**job, "spec": {"backoffLimit": limit}}]
    answer = relocate(objects, "--drain", "n0")
    assert answer.code == code
    assert ("of Jobs that have too few retries left: 2" in answer.err) == (code == 4)


def test_a_pod_that_another_one_must_not_be_near_stays(relocate: Relocate) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "noisy"}}, "topologyKey": "kubernetes.io/hostname"}
    shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [*racks(), pod("a", "n0", labels={"app": "noisy"}), pod("s", "n1", affinity=shy)]
    answer = relocate(objects, "--drain", "n0")
    assert answer.code == 4
    assert "pods that stay, that another pod's anti-affinity keeps away: 1" in answer.err


def test_a_volume_that_other_nodes_reach_lets_its_pod_move_there_only(relocate: Relocate) -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"]},
    }
    expression = {"key": RACK, "operator": "In", "values": ["r1"]}
    reach = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    volume = {"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {"nodeAffinity": reach}}
    uses = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    objects = [*racks(2, 2), claim, volume, pod("a", "n0", **uses)]
    assert moved(relocate(objects, "--drain", "n0", "--json"))["ns/a"] in ("n2", "n3")
    # Only one node at a time may have it.
    assert relocate([*objects, pod("b", "n0", **uses)], "--drain", "n0").code == 4


# What pods hold.


@pytest.mark.parametrize(
    ("about", "fits"),
    [
        ({"cpu": "4"}, True),
        ({"cpu": "4001m"}, False),
        ({"cpu": "1", "overhead": {"cpu": "4"}}, False),
        ({"cpu": "1", "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "5"}}}]}, False),
        (
            {
                "cpu": "1",
                "initContainers": [
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                    {"name": "i", "resources": {"requests": {"cpu": "3500m"}}},
                ],
            },
            False,
        ),
        (
            {
                "cpu": "1",
                "initContainers": [
                    {"name": "i", "resources": {"requests": {"cpu": "3500m"}}},
                    {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
                ],
            },
            True,
        ),
        (
            {
                "cpu": "4",
                "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
            },
            False,
        ),
        ({"cpu": "1", "containers": [{"name": "c", "resources": {"limits": {"cpu": "5"}}}]}, False),
        ({"cpu": "1", "resources": {"requests": {"cpu": "5"}}}, False),
        ({"cpu": "1", "status": {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "5"}}]}}, False),
        (
            {
                "cpu": "1",
                "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]},
            },
            False,
        ),
        ({"cpu": "1", "asks": {"example.com/nic": "2"}}, False),
        ({"cpu": "1", "asks": {"memory": "17Gi"}}, False),
        ({"cpu": "1", "asks": {"ephemeral-storage": "1Gi"}}, False),
    ],
)
def test_a_pod_holds_what_kubernetes_counts(relocate: Relocate, about: dict[str, Any], fits: bool) -> None:
    # Its node has room for it; the other one has 4 cores left.
    own = node("n0", held={"example.com/nic": "4", "memory": "64Gi", "ephemeral-storage": "10Gi"})
    objects = [own, node("n1", held={"example.com/nic": "1"}), pod("x", "n1", None, cpu="4"), pod("a", "n0", **about)]
    found = json.loads(relocate(objects, "--drain", "n0", "--json").out)
    assert (found["moved"], found["stopped"]) == (({"ns/a": "n1"}, []) if fits else ({}, ["ns/a"]))


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing_and_is_not_deleted(relocate: Relocate, phase: str) -> None:
    objects = [*racks(1, 2), pod("old", "n1", cpu="8", phase=phase), pod("a", "n0", cpu="8")]
    assert moved(relocate(objects, "--drain", "n0", "--json")) == {"ns/a": "n1"}
    found = json.loads(relocate(objects, "--drain", "n1", "--json").out)
    assert (found["stopped"], found["moved"]) == ([], {})


def test_a_pending_pod_that_has_a_node_holds_its_room(relocate: Relocate) -> None:
    objects = [*racks(1, 2), pod("soon", "n1", None, cpu="8", phase="Pending"), pod("a", "n0")]
    found = json.loads(relocate(objects, "--drain", "n0", "--json").out)
    assert (found["stopped"], found["moved"]) == (["ns/a"], {})


def test_a_node_takes_no_more_pods_than_it_says(relocate: Relocate) -> None:
    objects = [node("n0"), node("n1", held={"pods": "1"}), pod("x", "n1", None), pod("a", "n0")]
    assert json.loads(relocate(objects, "--drain", "n0", "--json").out)["stopped"] == ["ns/a"]


def test_two_pods_do_not_get_the_same_port_of_a_node(relocate: Relocate) -> None:
    ports = {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
    objects = [node("n0"), node("n1"), pod("x", "n1", None, **ports), pod("a", "n0", **ports)]
    assert json.loads(relocate(objects, "--drain", "n0", "--json").out)["stopped"] == ["ns/a"]
    mapped = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 81}]}]}
    assert moved(relocate([*objects[:3], pod("a", "n0", **mapped)], "--drain", "n0", "--json")) == {"ns/a": "n1"}


# Which nodes get pods.


@pytest.mark.parametrize(
    "about",
    [
        {"unschedulable": True},
        {"ready": "False"},
        {"ready": "Unknown"},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]},
        {"taints": [{"key": "team", "value": "x", "effect": "NoExecute"}]},
        {"taints": [{"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]},
    ],
)
def test_nodes_that_take_no_pods_keep_theirs_and_get_none(relocate: Relocate, about: dict[str, Any]) -> None:
    objects = [node("n0"), node("n1", **about), pod("a", "n0"), pod("b", "n1", owner=None)]
    found = json.loads(relocate(objects, "--drain", "n0", "--json").out)
    assert (found["stopped"], found["moved"]) == (["ns/a"], {})
    assert relocate(objects, "--drain", "n1").code == 4


@pytest.mark.parametrize(
    ("toleration", "is_moved"),
    [
        ({"key": "team", "operator": "Equal", "value": "x"}, True),
        ({"key": "team", "operator": "Equal", "value": "y"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "team", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "team", "operator": "Exists", "tolerationSeconds": 300}, False),
        ({"key": "team", "operator": "Gt", "value": "x"}, False),
    ],
)
def test_a_pod_moves_to_a_tainted_node_only_if_it_tolerates_that_for_good(
    relocate: Relocate, toleration: Obj, is_moved: bool
) -> None:
    tainted = node("n1", taints=[{"key": "team", "value": "x", "effect": "NoExecute"}])
    objects = [node("n0"), tainted, node("n2"), pod("x", "n2", None, cpu="8"), pod("a", "n0", tolerations=[toleration])]
    found = json.loads(relocate(objects, "--drain", "n0", "--json").out)
    assert (found["moved"] == {"ns/a": "n1"}) == is_moved


@pytest.mark.parametrize(
    ("about", "target"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "n2"),
        ({"nodeSelector": {"kubernetes.io/hostname": "n3"}}, "n3"),
        ({"expression": {"key": "disk", "operator": "In", "values": ["ssd"]}}, "n2"),
        ({"expression": {"key": "disk", "operator": "Exists"}}, "n2"),
        ({"expression": {"key": "age", "operator": "Gt", "values": ["4"]}}, "n3"),
        ({"expression": {"key": "age", "operator": "Lt", "values": ["4"]}}, "n1"),
        ({"expression": {"key": "age", "operator": "NotIn", "values": ["2", "7"]}}, "n2"),
        ({"expression": {"key": "age", "operator": "DoesNotExist"}}, "n2"),
        ({"expression": {"key": "age", "operator": "Like", "values": ["7"]}}, None),
        ({"field": {"key": "metadata.name", "operator": "In", "values": ["n3"]}}, "n3"),
    ],
)
def test_a_pod_moves_only_to_nodes_that_it_selects(
    relocate: Relocate, about: dict[str, Any], target: str | None
) -> None:
    term = {"matchExpressions": [about.pop("expression")]} if "expression" in about else {}
    term |= {"matchFields": [about.pop("field")]} if "field" in about else {}
    if term:
        required = {"nodeSelectorTerms": [term]}
        about["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    nodes = [
        node("n0"),
        node("n1", labels={"age": "2"}),
        node("n2", labels={"disk": "ssd"}),
        node("n3", labels={"age": "7"}),
    ]
    found = json.loads(relocate([*nodes, pod("a", "n0", **about)], "--drain", "n0", "--json").out)
    assert found["moved"] == ({"ns/a": target} if target else {})


def test_a_node_that_does_not_say_what_it_has_gets_no_pod(relocate: Relocate) -> None:
    silent = node("n1")
    silent["status"]["allocatable"] = {}
    answer = relocate([node("n0"), silent, pod("x", "n1"), pod("a", "n0")], "--drain", "n0", "--json")
    assert json.loads(answer.out)["stopped"] == ["ns/a"]
    assert "nodes without allocatable resources, which get no pods: 1" in answer.err


def test_a_node_that_gives_more_than_it_has_gets_no_pod_even_after_one_has_left(relocate: Relocate) -> None:
    over = [pod("x", "n1", cpu="5"), pod("y", "n1", cpu="5", owner=None)]
    gang = [pod("w", None, "Job", cpu="5")]
    answer = relocate([node("n1"), *over, *gang], "--start", "w")
    assert answer.code == 4
    assert "overcommitted nodes, which get no pods: 1" in answer.err


def test_pods_on_nodes_that_are_left_out_are_counted(relocate: Relocate) -> None:
    control = node("c0", labels={"node-role.kubernetes.io/control-plane": ""})
    answer = relocate([*racks(), control, pod("x", "c0"), pod("y", "gone"), pod("a", "n0")], "--drain", "n0")
    assert "pods on nodes that are left out, not counted: 2" in answer.err


# Gangs.


@pytest.mark.parametrize(
    "sign",
    [
        {"labels": {"scheduling.x-k8s.io/pod-group": "train"}},
        {"labels": {"kueue.x-k8s.io/pod-group-name": "train"}},
        {"labels": {"leaderworkerset.sigs.k8s.io/group-key": "train"}},
        {"labels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
        {"labels": {"training.kubeflow.org/job-name": "train"}},
        {"annotations": {"scheduling.k8s.io/group-name": "train"}},
        {"annotations": {"pod-group-name": "train"}},
        {"workloadRef": {"name": "train", "podGroup": "workers"}},
    ],
)
def test_a_gang_moves_as_one_whatever_marks_it(relocate: Relocate, sign: dict[str, Any]) -> None:
    members = [pod(f"m{number}", f"n{number}", "Job", cpu="6", **json.loads(json.dumps(sign))) for number in range(2)]
    answer = relocate([*racks(), *members], "--drain", "n0", "--json")
    found = json.loads(answer.out)
    ((job, pods),) = found["pods"].items()
    assert sorted(pods) == ["ns/m0", "ns/m1"]
    assert [line for line in found["commands"] if "delete" in line] == [
        f"kubectl delete pod -n ns m{n}" for n in (0, 1)
    ]
    assert job in found["moved"]


def test_gangs_of_one_name_in_two_namespaces_are_two(relocate: Relocate) -> None:
    members = [pod(f"m{space}", f"n{at}", annotations=GANG, namespace=space) for at, space in enumerate(("a", "b"))]
    found = json.loads(relocate([*racks(), *members], "--drain", "n0", "--json").out)
    assert found["pods"] == {"a/train": ["a/ma"]}


def test_a_gang_with_a_pod_that_must_stay_stays(relocate: Relocate) -> None:
    members = [pod("m0", "n0", annotations=GANG), pod("m1", "n1", annotations={**GANG, **SAFE})]
    answer = relocate([*racks(), *members], "--drain", "n0")
    assert answer.code == 4
    assert "pods that stay, that are not safe to evict, or of a gang with such a pod: 2" in answer.err


def test_a_gang_of_unlike_pods_stays(relocate: Relocate) -> None:
    members = [pod("m0", "n0", annotations=GANG, cpu="1"), pod("m1", "n1", annotations=GANG, cpu="2")]
    answer = relocate([*racks(), *members], "--drain", "n0")
    assert answer.code == 4
    assert "pods that stay, of gangs whose pods have different requests: 2" in answer.err


def test_a_gang_that_must_stay_within_a_rack_moves_into_one(relocate: Relocate) -> None:
    required = {**GANG, "kueue.x-k8s.io/podset-required-topology": RACK}
    members = [pod(f"m{number}", f"n{number}", "Job", cpu="6", annotations=required) for number in range(3)]
    others = [pod("x", "n5", None, cpu="6")]
    found = json.loads(relocate([*racks(3), *others, *members], "--drain", "n0", "--json").out)
    assert found["moved"] == {"ns/train": "n[6-8]"}


def test_a_gang_that_must_stay_within_a_zone_may_span_its_racks(relocate: Relocate) -> None:
    required = {**GANG, "kueue.x-k8s.io/podset-required-topology": ZONE}
    nodes = [node(f"n{at}", f"r{at // 2}", labels={ZONE: f"z{at // 4}"}) for at in range(12)]
    members = [pod(f"m{at}", f"n{at}", "Job", cpu="8", annotations=required) for at in range(3)]
    full = [pod(f"x{at}", f"n{at}", None, cpu="8") for at in (3, 4, 11)]
    # Three nodes are free in each of two zones; one has to be left.
    answer = relocate([*nodes, *members, *full], "--drain", "n0", "--json")
    assert moved(answer)["ns/train"] in ("n[5-7]", "n[8-10]")
    assert f"levels from the top downwards: {ZONE}, {RACK}" in answer.err


def test_the_costs_rise_with_nodes_and_with_the_rank_of_the_priority(relocate: Relocate) -> None:
    # One rack of two has to be free; nobody can move, for all nodes are full.
    low = [pod("a", "n0", cpu="8"), pod("b", "n1", cpu="8")]
    high = [pod("c", "n2", cpu="8", priority=1000), pod("d", "n3", cpu="8", priority=1000)]
    found = json.loads(relocate([*racks(2, 2), *low, *high], "--free-racks", "1", "--size", "2", "--json").out)
    assert (sorted(found["stopped"]), found["cost"]) == (["ns/a", "ns/b"], 2)
    # Two stop, of ranks 1 and 2, or two of rank 1 stop and one of rank 2 moves for half of 2.
    assert json.loads(relocate([*racks(2, 2), *low, *high], "--drain", "n[0,2]", "--json").out)["cost"] == 3


def test_a_pod_above_what_must_start_is_not_stopped_for_it(relocate: Relocate) -> None:
    full = [pod("a", "n0", cpu="8", priority=1000)]
    waiting = pod("w", None, "Job", cpu="8", priority=10)
    answer = relocate([node("n0"), *full, waiting], "--start", "ns/w")
    assert answer.code == 4
    assert "of higher priority than those that must start, which may move but not stop: 1" in answer.err
    waiting["spec"]["priority"] = 1000
    assert relocate([node("n0"), *full, waiting], "--start", "ns/w").code == 0


def test_a_gang_of_two_kinds_of_pods_starts(relocate: Relocate) -> None:
    gang = [pod("w0", None, "Job", cpu="8", annotations=GANG), pod("w1", None, "Job", cpu="2", annotations=GANG)]
    found = json.loads(relocate([*racks(1, 2), pod("x", "n0"), *gang], "--start", "train", "--json").out)
    assert sorted(found["started"]) == ["ns/train", "ns/train (2)"]
    fault = "its pods have different requests, but must stay within one group"
    assert fault in relocate([*racks(2, 2), pod("x", "n0"), *gang], "--start", "train", "--within", "leaf").err


@pytest.mark.parametrize(
    ("about", "fault"),
    [
        ({"schedulingGates": [{"name": "g"}]}, "pod ns/w has a scheduling gate and may not start now"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "pod ns/w is being deleted"),
        ({"resourceClaims": [{"name": "x"}]}, "it has pods that have devices by claims (DRA), which is not modelled"),
        ({"annotations": {"pod-group-name": "x"}}, "no gang or pod of that namespace and name waits"),
        ({"where": "n1"}, "some of its pods have nodes already"),
    ],
)
def test_a_pod_that_may_not_start_is_refused(relocate: Relocate, about: dict[str, Any], fault: str) -> None:
    answer = relocate([*racks(), pod("x", "n0"), pod("w", owner="Job", **about)], "--start", "ns/w")
    assert answer.code == 2
    assert answer.err.splitlines()[-1].endswith(f"--start ns/w: {fault}")


def test_a_gang_of_which_pods_are_missing_does_not_start(relocate: Relocate) -> None:
    group = {
        "kind": "PodGroup",
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "metadata": {"name": "t", "namespace": "ns"},
    }
    gang = pod("w", None, "Job", labels={"scheduling.x-k8s.io/pod-group": "t"})
    answer = relocate([*racks(), pod("x", "n0"), gang, {**group, "spec": {"minMember": 2}}], "--start", "t")
    assert answer.err.splitlines()[-1].endswith("--start t: it needs 2 pods, but only 1 exist")


# Faults of files.


def test_a_fault_names_the_file_and_the_object(relocate: Relocate) -> None:
    answer = relocate([*racks(), pod("a", "n0", cpu="lots")], "--drain", "n0")
    assert answer.code == 3
    assert "all.json: items[6] (Pod ns/a): cpu: is 'lots', must be a quantity" in answer.err
    answer = relocate([*racks(), pod("a", "n0", priority="high")], "--drain", "n0")
    assert "all.json: items[6] (Pod ns/a): spec.priority: is 'high'" in answer.err


def test_an_amount_that_no_node_could_have_is_refused(relocate: Relocate) -> None:
    answer = relocate([*racks(), pod("a", "n0", cpu="9999999999E")], "--drain", "n0")
    assert answer.code == 3
    assert "(Pod ns/a): cpu: is 9999999999" in answer.err


def test_a_pod_that_is_given_twice_is_refused(relocate: Relocate) -> None:
    answer = relocate([*racks(), pod("a", "n0"), pod("a", "n1")], "--drain", "n0")
    assert answer.code == 3
    assert "pod ns/a is given twice, first at " in answer.err


def test_a_name_that_a_shell_would_read_is_refused(relocate: Relocate) -> None:
    answer = relocate([*racks(), node("n; reboot"), pod("a", "n0")], "--drain", "n0")
    assert answer.code == 3
    assert "has a node with the name 'n; reboot', which Kubernetes does not allow" in answer.err
    answer = relocate([*racks(), pod("a; reboot", "n0")], "--drain", "n0")
    assert answer.code == 3
    assert "has the name 'a; reboot', which Kubernetes does not allow" in answer.err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"kind": "List", "items": []}', "holds no node"),
        ('{"kind": "List", "items": [7]}', "items[0]: is 7, must be an object"),
        ('{"apiVersion": "v1", "pods": []}', "items: is missing or empty"),
        ('{"kind": "Status", "apiVersion": "v1", "code": 403}', "items: is missing or empty"),
        ("[1]", "must be what `kubectl get nodes -o json`"),
    ],
)
def test_a_file_of_an_unknown_shape_is_refused_in_words(run: Run, tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    answer = run("relocate", path, "--drain", "n0")
    assert answer.code == 3
    assert fault in answer.err.splitlines()[-1]


def test_a_queue_that_is_not_of_kubernetes_is_refused_beside_its_nodes(run: Run, tmp_path: Path) -> None:
    nodes, jobs = write(tmp_path / "nodes.json", *racks()), tmp_path / "jobs.txt"
    jobs.write_text("JobId=1 JobState=RUNNING\n", encoding="utf-8")
    answer = run("relocate", nodes, "--queue", jobs, "--drain", "n0")
    assert answer.code == 3
    assert (
        "jobs.txt: holds no objects of Kubernetes; give what `kubectl get nodes,pods -A -o json` prints" in answer.err
    )


def test_kinds_that_are_not_used_are_counted(relocate: Relocate) -> None:
    answer = relocate([*racks(), pod("a", "n0"), {"kind": "Service", "metadata": {"name": "s"}}], "--drain", "n0")
    assert "objects of other kinds, ignored: Service 1" in answer.err
    assert "all pods are of namespace ns; `kubectl get pods -A -o json` prints all" in answer.err


# KAI.


def raw(**more: list[Obj] | None) -> Obj:
    objects: Obj = {"nodes": racks(), "pods": [pod("a", "n0", annotations=GANG)], "queues": None, **more}
    for held in objects.values():
        for one in held or ():
            one.pop("kind", None)
    return {"config": {}, "schedulerParams": {}, "rawObjects": objects}


def zipped(path: Path, obj: Any, name: str = "snapshot.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps(obj))
    return path


def test_a_snapshot_of_kai_is_read_zipped_or_not(run: Run, tmp_path: Path) -> None:
    plain = tmp_path / "snapshot.json"
    plain.write_text(json.dumps(raw()), encoding="utf-8")
    for path in (plain, zipped(tmp_path / "snapshot.gzip", raw())):
        assert list(moved(run("relocate", path, "--drain", "n0", "--json"))) == ["ns/train"]


def group(**spec: Any) -> Obj:
    return {"metadata": {"name": "train", "namespace": "ns"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({}, 0),
        ({"preemptibility": "non-preemptible"}, 4),
        ({"preemptibility": "preemptible", "priorityClassName": "build"}, 0),
        ({"priorityClassName": "build"}, 4),
        ({"priorityClassName": "train"}, 0),
        ({"priorityClassName": "unknown"}, 4),
        ({"topologyConstraint": {"requiredTopologyLevel": "nowhere"}}, 4),
        ({"topologyConstraint": {"requiredTopologyLevel": RACK}}, 0),
        ({"subGroups": [{"name": "s", "topologyConstraint": {"requiredTopologyLevel": RACK}}]}, 4),
    ],
)
def test_what_kai_does_not_preempt_stays(run: Run, tmp_path: Path, spec: Obj, code: int) -> None:
    classes = [{"metadata": {"name": "build"}, "value": 100}, {"metadata": {"name": "train"}, "value": 50}]
    path = zipped(tmp_path / "s.zip", raw(podGroups=[group(**spec)], priorityClasses=classes))
    assert run("relocate", path, "--drain", "n0").code == code


def test_a_pod_that_says_that_kai_does_not_preempt_it_stays(relocate: Relocate) -> None:
    label = {"kai.scheduler/preemptibility": "non-preemptible"}
    answer = relocate([*racks(), pod("a", "n0", labels=label)], "--drain", "n0")
    assert answer.code == 4
    assert "pods that stay, that KAI does not preempt: 1" in answer.err


def test_pods_of_jobs_that_are_not_given_are_counted(relocate: Relocate) -> None:
    assert (
        "pods of Jobs whose retries are not known: 1"
        in relocate([*racks(), pod("a", "n0", "Job"), pod("b", "n1")], "--drain", "n0").err
    )


def test_a_snapshot_of_kai_is_a_cluster_for_every_command(tmp_path: Path) -> None:
    cluster = read_cluster([zipped(tmp_path / "s.zip", raw())])
    assert (cluster.size, cluster.topology.tree.names) == (6, (("r0", "r1"),))
    assert cluster.in_use.tolist() == [True, *[False] * 5]


def test_a_pod_that_kai_is_binding_holds_its_node_and_stays(run: Run, tmp_path: Path) -> None:
    soon = pod("soon", None, "Job", cpu="8")
    binding = {"metadata": {"name": "b", "namespace": "ns"}, "spec": {"podName": "soon", "selectedNode": "n1"}}
    objects = raw(nodes=racks(1, 2), pods=[pod("a", "n0"), soon], bindRequests=[binding])
    answer = run("relocate", zipped(tmp_path / "s.zip", objects), "--drain", "n0", "--json")
    assert json.loads(answer.out)["stopped"] == ["ns/a"]
    assert "pods that stay, that KAI is binding to their nodes: 1" in answer.err


@pytest.mark.parametrize(
    ("obj", "name", "fault"),
    [
        ({"rawObjects": 7}, "snapshot.json", "rawObjects: is 7, must be the object"),
        ({"rawObjects": {"nodes": []}}, "snapshot.json", "rawObjects.pods: is missing"),
        ({"rawObjects": {"nodes": [], "pods": 7}}, "snapshot.json", "rawObjects.pods: is 7, must be a list"),
        ({"rawObjects": {"nodes": [7], "pods": []}}, "snapshot.json", "rawObjects.nodes[0]: is 7, must be an object"),
        ({"rawObjects": {"nodes": [], "pods": [], "new": []}}, "snapshot.json", "rawObjects.new: is an unknown key"),
        ({}, "snapshot.json", "snapshot.json: rawObjects: is missing"),
        ({}, "other.json", "is a zip archive of other.json; KAI's snapshot holds snapshot.json only"),
    ],
)
def test_an_archive_of_another_shape_is_refused_in_words(
    run: Run, tmp_path: Path, obj: Obj, name: str, fault: str
) -> None:
    answer = run("relocate", zipped(tmp_path / "s.zip", obj, name), "--drain", "n0")
    assert answer.code == 3
    assert fault in answer.err


def test_an_archive_that_is_cut_short_is_refused(run: Run, tmp_path: Path) -> None:
    path = zipped(tmp_path / "s.zip", raw())
    path.write_bytes(path.read_bytes()[:200])
    answer = run("relocate", path, "--drain", "n0")
    assert answer.code == 3
    assert "cannot be unpacked" in answer.err
