"""Which nodes take jobs and what running jobs leave of them, in every format that says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode, NodeUse
from allocopt.cluster.reading import read_cluster, read_topology
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_jobs import QueuedJob
from allocopt.cluster.unserved import UnservedError
from allocopt.errors import BadFileError
from allocopt.problems.placement.generate import snapshot

NODE = """NodeName={name} Arch=x86_64 CoresPerSocket=4
   CPUAlloc={alloc} CPUEfctv=16 CPUTot=16 CPULoad=0.01
   AvailableFeatures=ib
   ActiveFeatures=ib
   Gres=gpu:a100:4(S:0-1)
   NodeAddr={name} NodeHostName={name} Version=24.11.1
   OS=Linux 6.1 #1 SMP
   RealMemory=1000 AllocMem={memory} FreeMem=5 Sockets=2 Boards=1
   State={state} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=main
   BootTime=None SlurmdStartTime=None
   CfgTRES=cpu=16,mem=1000M,billing=16
   AllocTRES={tres}
   Reason=Not responding NodeName=evil State=IDLE [root@2026-01-01T00:00:00]
"""


def scontrol(name: str, state: str = "IDLE", alloc: int = 0, memory: int = 0, tres: str = "") -> str:
    return NODE.format(name=name, state=state, alloc=alloc, memory=memory, tres=tres)


def read(folder: Path, include: tuple[str, ...] = (), labels: tuple[str, ...] = (), **texts: str) -> Cluster:
    paths = []
    for name, text in texts.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_text(text, encoding="utf-8")
    return read_cluster(paths, labels, include_unavailable=include)


def kube(name: str, **more: Any) -> dict[str, Any]:
    spec = more.pop("spec", {})
    conditions = [{"type": "Ready", "status": more.pop("ready", "True")}]
    held = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4", "pods": "110", **more.pop("held", {})}
    labels = {"topology.kubernetes.io/zone": "z"}
    status = {"allocatable": held, "conditions": conditions}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def kube_list(*items: dict[str, Any]) -> str:
    return json.dumps({"kind": "List", "apiVersion": "v1", "items": items})


# Two nodes, a that takes jobs and b that does not, and why.
RANKS = {"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-7"}}], "nodelist": ["a,b"]}}
OF_B = {"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {"core": "0-7"}}], "nodelist": ["b"]}}
JGF = {
    "graph": {
        "nodes": [
            {"metadata": {"type": "cluster", "paths": {"containment": "/c"}}},
            {"metadata": {"type": "node", "rank": 0, "paths": {"containment": "/c/a"}}},
            {"metadata": {"type": "node", "rank": 1, "status": 1, "paths": {"containment": "/c/b"}}},
        ]
    }
}
SINFO = "NODELIST STATE CPUS MEMORY REASON\na idle 8 100 none\nb drain* 8 100 bad fan\n"
SINFO_JSON = {"meta": {}, "nodes": [{"name": "a", "cpus": 8, "state": ["IDLE"]},
                                    {"name": "b", "cpus": 8, "state": ["MIXED", "DRAIN"]}]}  # fmt: skip
OLD_JSON = {"errors": [], "nodes": [{"name": "a", "cpus": 8, "state": "idle", "state_flags": []},
                                    {"name": "b", "cpus": 8, "state": "idle", "state_flags": ["DRAIN"]}]}  # fmt: skip
AWAY: dict[str, tuple[dict[str, str], str]] = {
    "slurm.conf": ({"slurm_conf": "NodeName=a CPUs=8\nNodeName=b CPUs=8 State=DRAIN\n"}, "drained"),
    "DownNodes": ({"slurm_conf": "NodeName=a,b CPUs=8\nDownNodes=b State=FAIL Reason=x\n"}, "failing"),
    "scontrol": ({"n_txt": scontrol("a") + "\n" + scontrol("b", "MIXED+DRAIN+NOT_RESPONDING")}, "not responding"),
    "scontrol beside slurm.conf": (
        {"slurm_conf": "NodeName=a,b CPUs=16\n", "n_txt": scontrol("b", "IDLE+MAINTENANCE")},
        "in maintenance",
    ),
    "sinfo": ({"s_txt": SINFO}, "drained"),
    "sinfo beside slurm.conf": (
        {"slurm_conf": "NodeName=a,b CPUs=8\n", "s_txt": "PARTITION AVAIL NODES STATE NODELIST\np* up 1 resv b\n"},
        "reserved",
    ),
    "scontrol --json": ({"n_json": json.dumps(SINFO_JSON)}, "drained"),
    "scontrol --json of 22.05": ({"n_json": json.dumps(OLD_JSON)}, "drained"),
    "scontrol --yaml": ({"n_yaml": json.dumps(SINFO_JSON)}, "drained"),
    "cordoned": ({"n_json": kube_list(kube("a"), kube("b", spec={"unschedulable": True}))}, "cordoned"),
    "tainted": (
        {"n_json": kube_list(kube("a"), kube("b", spec={"taints": [{"key": "k", "effect": "NoExecute"}]}))},
        "tainted k",
    ),
    "not ready": ({"n_json": kube_list(kube("a"), kube("b", ready="Unknown"))}, "not ready"),
    "JGF": ({"n_json": json.dumps(JGF)}, "down"),
    "flux drain": ({"n_json": json.dumps({"R": RANKS, "drain": {"1": {"reason": "x"}}})}, "drained"),
    "flux offline": ({"n_json": json.dumps({"R": RANKS, "online": "0", "offline": "1"})}, "offline"),
    "flux exclude": ({"n_json": json.dumps({"R": RANKS, "exclude": "1"})}, "excluded"),
    "flux down": ({"n_json": json.dumps({"all": RANKS, "down": OF_B})}, "down"),
    "openb": ({"n_csv": "sn,cpu_milli,memory_mib,gpu,status\na,8000,100,0,Ready\nb,8000,100,0,Drained\n"}, "drained"),
    "openb ready": ({"n_csv": "sn,cpu_milli,memory_mib,gpu,ready\na,8000,100,0,true\nb,8,1,0,False\n"}, "not ready"),
}


@pytest.mark.parametrize("name", AWAY)
def test_a_node_that_takes_no_jobs_is_left_out_and_counted_by_its_reason(tmp_path: Path, name: str) -> None:
    texts, why = AWAY[name]
    cluster = read(tmp_path, **texts)
    assert [node.name for node in cluster.nodes] == ["a"]
    (told,) = [remark for remark in cluster.remarks if remark.startswith("nodes that take no jobs, left out: 1 (")]
    assert f"{why} 1" in told


@pytest.mark.parametrize("name", AWAY)
def test_nodes_that_take_no_jobs_are_offered_where_the_user_says_so(tmp_path: Path, name: str) -> None:
    texts, why = AWAY[name]
    everything = read(tmp_path, include=("all",), **texts)
    assert [node.name for node in everything.nodes] == ["a", "b"]
    reasons = next(node.away for node in everything.nodes if node.name == "b")
    assert why in reasons
    assert read(tmp_path, include=reasons, **texts).size == 2
    with pytest.raises(BadFileError, match="no node is left out for the reason 'no such'; the reasons are "):
        read(tmp_path, include=("no such",), **texts)


def test_a_reason_of_several_must_be_named_with_the_others(tmp_path: Path) -> None:
    text = scontrol("a") + scontrol("b", "DOWN+DRAIN")
    assert read(tmp_path, include=("drained",), n_txt=text).size == 1
    assert read(tmp_path, include=("drained", "down"), n_txt=text).size == 2


def test_a_topology_of_kubernetes_leaves_out_nodes_that_take_no_pods(tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    path.write_text(kube_list(kube("a"), kube("b", ready="False")), encoding="utf-8")
    assert read_topology(path).nodes == ("a",)
    assert read_topology(path, include_unavailable=["not ready"]).nodes == ("a", "b")


def test_a_taint_of_gpus_is_tolerated_and_said(tmp_path: Path) -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    cluster = read(tmp_path, n_json=kube_list(kube("a", spec={"taints": [taint]})))
    assert "tolerated taints, with their numbers of nodes: nvidia.com/gpu 1" in cluster.remarks
    soft = {"key": "k", "effect": "PreferNoSchedule"}
    assert read(tmp_path, n_json=kube_list(kube("a", spec={"taints": [soft]}))).size == 1


def test_scontrol_says_what_running_jobs_have(tmp_path: Path) -> None:
    conf = "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
    text = scontrol("a", "MIXED", 6, 300, "cpu=6,mem=300M,gres/gpu=3,gres/gpu:a100=3") + scontrol("b", "IDLE")
    cluster = read(tmp_path, slurm_conf=conf, n_txt=text)
    # Sixteen CPUs are eight cores.
    assert cluster.nodes[0].use == NodeUse(3, 300, {"a100": 3})
    assert cluster.free.tolist() == [[5000, 700, 1000, 1000], [8000, 1000, 4000, 4000]]
    assert cluster.in_use.tolist() == [True, False]


@pytest.mark.parametrize("state", ["ALLOCATED", "MIXED", "IDLE+COMPLETING", "alloc", "comp"])
def test_a_node_in_use_of_which_no_amount_is_known_is_full(tmp_path: Path, state: str) -> None:
    cluster = read(tmp_path, s_txt=f"NODELIST STATE CPUS MEMORY\na idle 4 100\nb {state} 4 100\n")
    assert cluster.in_use.tolist() == [False, True]
    assert cluster.free[1].tolist() == [0, 0, 0]
    assert "nodes in use without CPUAlloc, taken as full: 1" in cluster.remarks


def test_gpus_that_are_drained_are_not_offered(tmp_path: Path) -> None:
    text = scontrol("a").replace("   NodeAddr", "   GresDrain=gpu:a100:1\n   NodeAddr", 1)
    assert read(tmp_path, n_txt=text).nodes[0].gpus == {"a100": 3}


def test_running_pods_take_what_they_request(tmp_path: Path) -> None:
    def pod(name: str, phase: str, node: str | None, *asked: dict[str, str], **spec: Any) -> dict[str, Any]:
        containers = [{"resources": {"requests": one}} for one in asked]
        placed = {"nodeName": node} if node else {}
        return {
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": containers, **placed, **spec},
            "status": {"phase": phase},
        }

    pods = kube_list(
        pod("p", "Running", "a", {"cpu": "500m", "nvidia.com/gpu": "1"}, {"cpu": "1", "memory": "1Gi"}),
        pod("q", "Succeeded", "a", {"cpu": "4"}),
        pod("r", "Pending", None, {"cpu": "4"}),
        pod("s", "Running", "b", {"cpu": "1"}, overhead={"cpu": "250m"},
            initContainers=[{"resources": {"requests": {"cpu": "2"}}}]),
    )  # fmt: skip
    cluster = read(tmp_path, n_json=kube_list(kube("a"), kube("b"), kube("c")), p_json=pods)
    assert cluster.nodes[0].use == NodeUse(1.5, 1024, {"": 1})
    assert cluster.nodes[1].use.cores == 2.25
    assert cluster.in_use.tolist() == [True, True, False]
    assert "pending pods, not added to the jobs: 1" in cluster.remarks


def test_allocations_of_flux_take_cores_of_their_ranks(tmp_path: Path) -> None:
    job = {"version": 1, "execution": {"R_lite": [{"rank": "1", "children": {"core": "0-4"}}], "nodelist": ["b"]}}
    for texts in ({"r_json": RANKS, "j_json": job}, {"r_json": {"all": RANKS, "allocated": job}}):
        cluster = read(tmp_path, **{name: json.dumps(obj) for name, obj in texts.items()})
        assert [node.use.cores for node in cluster.nodes] == [0, 5]
        assert cluster.free[:, 0].tolist() == [8000, 3000]


def test_a_resource_set_of_flux_is_a_cluster(tmp_path: Path) -> None:
    rows = [{"rank": "0-1", "children": {"core": "0-7", "gpu": "0,1"}}, {"rank": "2", "children": {"core": "0-3"}}]
    told = {"version": 1, "execution": {"R_lite": rows, "nodelist": ["n[1-2]", "big"], "properties": {"fast": "1-2"}}}
    cluster = read(tmp_path, r_json=json.dumps(told))
    assert cluster.nodes == (
        ClusterNode("n1", 8, None, {"": 2}),
        ClusterNode("n2", 8, None, {"": 2}, frozenset({"fast"})),
        ClusterNode("big", 4, None, {}, frozenset({"fast"})),
    )


WORD = st.from_regex(r"[a-z]{4,9}xq", fullmatch=True)


@given(key=WORD)
def test_what_is_not_known_of_a_node_or_partition_is_counted(
    tmp_path_factory: pytest.TempPathFactory, key: str
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    conf = f"{key}=1\nNodeName=a CPUs=1 {key}=2\nPartitionName=p Nodes=a {key}=3\nNodeSet=s Nodes=a {key}=4\n"
    remarks = read(folder, slurm_conf=conf, gres_conf=f"NodeName=a Name=gpu {key}=5\n").remarks
    for noun in ("setting", "node", "partition", "NodeSet line", "gres.conf line"):
        assert f"unknown keys of {noun}s, ignored: {key!r} 1" in remarks
    spelled = key.capitalize()
    printed = scontrol("a").replace("TmpDisk=0", f"TmpDisk=0 {spelled}=1")
    assert f"unknown keys of nodes, ignored: {key!r} 1" in read(folder, n_txt=printed).remarks
    told = {"meta": {}, "nodes": [{"name": "a", "cpus": 1, "state": ["IDLE"], key: 7}],
            "partitions": [{"name": "p", "nodes": {"configured": "a"}, key: 1}]}  # fmt: skip
    answer = read(folder, n_json=json.dumps(told)).remarks
    for noun in ("node", "partition"):
        assert f"unknown keys of {noun}s, ignored: {key!r} 1" in answer
    held = read(folder, k_json=kube_list(kube("a", held={f"x.com/{key}": "1"}, spec={key: 1}))).remarks
    assert f"resources that are not modelled, with their numbers of nodes: x.com/{key} 1" in held
    assert f"unknown keys of spec of nodes, ignored: {key!r} 1" in held
    graph = {
        "graph": {"nodes": [*JGF["graph"]["nodes"], {"metadata": {"type": key, "paths": {"containment": "/c/a/x"}}}]}
    }
    assert f"vertices that are not modelled, ignored: {key!r} 1" in read(folder, g_json=json.dumps(graph)).remarks
    table = f"sn,cpu_milli,memory_mib,gpu,{key}\na,1,1,0,1\n"
    assert f"unknown columns of nodes, ignored: {key!r}" in read(folder, t_csv=table).remarks


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("OverSubscribe=FORCE:2", "OverSubscribe=FORCE:2 of partition p: each core runs one job at a time"),
        ("OverSubscribe=YES", "OverSubscribe=YES of partition p"),
        ("MaxCPUsPerNode=4", "MaxCPUsPerNode=4 of partition p"),
        ("MaxCPUsPerSocket=4", "MaxCPUsPerSocket=4 of partition p"),
        ("LLN=YES", "LLN=YES of partition p: the least loaded nodes are not preferred"),
        ("ExclusiveUser=YES", "ExclusiveUser=YES of partition p"),
        ("PreemptMode=REQUEUE", "PreemptMode=REQUEUE of partition p: no job is preempted"),
        ("TRESBillingWeights=CPU=1.0,Mem=0.25G", "TRESBillingWeights=CPU=1.0,Mem=0.25G of partition p"),
    ],
)
def test_a_rule_of_a_partition_that_is_not_applied_is_said(tmp_path: Path, line: str, words: str) -> None:
    quoted = line if "=" not in line.partition("=")[2] else line.replace("=", '="', 1) + '"'
    conf = "SelectTypeParameters=CR_CORE\nNodeName=a CPUs=4\nPartitionName=p Nodes=a "
    (remark,) = read(tmp_path, slurm_conf=f"{conf}{quoted}\n").remarks
    assert remark.startswith(f"not modelled, {words}")
    for default in (
        "OverSubscribe=NO",
        "LLN=NO",
        "PreemptMode=OFF",
        "MaxCPUsPerNode=UNLIMITED",
        "OverSubscribe=FORCE:1",
    ):
        assert not read(tmp_path, slurm_conf=f"{conf}{default}\n").remarks


def test_the_new_way_to_say_exclusive_is_read(tmp_path: Path) -> None:
    conf = "SelectTypeParameters=CR_CORE\nNodeName=a CPUs=4\nPartitionName=p Nodes=a Exclusive=NODE MinNodes=1\n"
    (partition,) = read(tmp_path, slurm_conf=conf).partitions
    assert partition.is_exclusive


def test_cpus_that_are_kept_for_the_system_are_counted_from_a_list(tmp_path: Path) -> None:
    node = "NodeName=a CPUs=16 Sockets=1 CoresPerSocket=8 ThreadsPerCore=2 CPUSpecList=0-1,8\n"
    assert read(tmp_path, slurm_conf=f"SelectTypeParameters=CR_CORE\n{node}").nodes[0].cores == 6


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (
            {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "x"}]}},
            "is a Topology of Kueue; give what `kubectl",
        ),
        ({"kind": "ResourceFlavor", "metadata": {"name": "f"}}, "is a ResourceFlavor of Kueue"),
        ({"kind": "WorkloadList", "items": []}, "is a Workload of Kueue"),
        ({"kind": "List", "items": [{"kind": "Job"}]}, "is a Job of Kubernetes; give what `kubectl"),
        ({"nb_res": 4, "jobs": [], "profiles": {}}, "holds jobs and no nodes: give waiting jobs with --queue"),
        ({"meta": {}, "jobs": []}, "holds jobs and no nodes"),
    ],
)
def test_an_object_that_is_no_cluster_is_named_for_what_it_is(tmp_path: Path, obj: dict[str, Any], words: str) -> None:
    with pytest.raises(BadFileError, match=words):
        read(tmp_path, x_json=json.dumps(obj))


def test_the_summary_counts_gpus_by_type_where_types_are_known(tmp_path: Path) -> None:
    conf = "NodeName=a[1-2] CPUs=4 Gres=gpu:v100:2\nNodeName=b CPUs=4 Gres=gpu:3\nNodeName=c CPUs=4 Gres=gpu:a100:1\n"
    summary = read(tmp_path, slurm_conf=conf).summary()
    assert summary.endswith("16 cores, 8 gpus (1 a100, 4 v100, 3 of no type)")
    assert read(tmp_path, slurm_conf="NodeName=b CPUs=4 Gres=gpu:3\n").summary().endswith("4 cores, 3 gpus")


# A slurm.conf whose nodes have two threads a core, and the demands of a job that an empty node can just serve.
THREADS = (
    "SelectTypeParameters=CR_Core_Memory\nNodeName=n[1-2] Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=160\n"
)


@pytest.mark.parametrize(
    ("asked", "cores", "memory"),
    [
        (Request(16, 1, 1), 0.5, 0),
        (Request(8, 1, 1, cores_per_task=2), 1.0, 0),
        (Request(1, 1, 1, cores_per_task=3), 2.0, 0),
        (Request(3, 1, 1), 2 / 3, 0),
        (Request(2, 2, 2, cores_per_task=15), 8.0, 0),
        (Request(8, 1, 1, memory_per_core_mib=10), 0.5, 10),
        (Request(1, 1, 1, memory_per_core_mib=10), 1.0, 20),
    ],
)
def test_threads_are_cpus_and_jobs_get_whole_cores(tmp_path: Path, asked: Request, cores: float, memory: int) -> None:
    made = asked.on(read(tmp_path, slurm_conf=THREADS))
    assert made.per_task[:2].tolist() == [round(cores * 1000), memory]


def test_where_threads_are_consumed_a_cpu_is_a_core(tmp_path: Path) -> None:
    cluster = read(tmp_path, slurm_conf=THREADS.replace("CR_Core", "CR_CPU"))
    assert [node.cores for node in cluster.nodes] == [16, 16]
    assert Request(16, 1, 1).on(cluster).per_task[0] == 1000


def test_of_nodes_that_differ_in_threads_a_job_may_choose_the_partition(tmp_path: Path) -> None:
    conf = f"{THREADS}NodeName=m CPUs=8\nPartitionName=two Nodes=n[1-2]\nPartitionName=all Nodes=ALL\n"
    cluster = read(tmp_path, slurm_conf=conf)
    assert any(remark.startswith("nodes have 1 to 2 CPUs per core") for remark in cluster.remarks)
    assert Request(16, 1, 1, partition="two").on(cluster).per_task[0] == 500
    with pytest.raises(UnservedError, match="more cores on a node than any node has"):
        Request(16, 1, 1, partition="all").on(cluster)


def test_all_memory_of_a_node_is_all_of_the_node(tmp_path: Path) -> None:
    conf = "SelectTypeParameters=CR_Core{}\nNodeName=n[1-2] CPUs=4 RealMemory=100\n"
    everything = Request(1, 1, 1, memory_per_node_mib=0)
    assert everything.on(read(tmp_path, slurm_conf=conf.format("_Memory"))).is_exclusive
    assert not everything.on(read(tmp_path, slurm_conf=conf.format(""))).is_exclusive
    assert not Request(1, 1, 1).on(read(tmp_path, slurm_conf=conf.format("_Memory"))).is_exclusive


PARTITIONS = (
    "SelectTypeParameters=CR_Core\nNodeName=n[1-4] CPUs=4\nNodeName=d CPUs=4 State=DRAIN Feature=big\n"
    "PartitionName=main Nodes=n[1-4] Default=YES\nPartitionName=small Nodes=n1 MaxNodes=1\n"
    "PartitionName=off Nodes=n2 State=DOWN\nPartitionName=sick Nodes=d\nPartitionName=mem Nodes=n3 DefMemPerNode=9\n"
)


def test_a_job_of_several_partitions_may_have_the_nodes_of_each(tmp_path: Path) -> None:
    cluster = read(tmp_path, slurm_conf=PARTITIONS)
    asked = Request(1, 1, 1, partition="small,main")
    assert asked.on(cluster).masks.tolist() == [[True, False, False, False], [True] * 4]
    assert Request(2, 2, 2, partition="small,main").on(cluster).masks.tolist() == [[True] * 4]
    # A partition in which it would need something else stands in when the others cannot serve it.
    assert Request(1, 1, 1, partition="small,mem").on(cluster).masks.tolist() == [[True, False, False, False]]
    assert Request(1, 1, 1, partition="gone,mem").on(cluster).masks.tolist() == [[False, False, True, False]]
    with pytest.raises(UnservedError, match="partition off is down"):
        Request(1, 1, 1, partition="off,gone").on(cluster)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (Request(1, 1, 1, partition="off"), "partition off is down"),
        (Request(1, 1, 1, partition="sick"),
         "served only with nodes that take no jobs (partition sick has no node that takes jobs)"),
        (Request(1, 1, 1, partition="gone"), "partition gone is not in the cluster"),
        (Request(1, 1, 1, constraint="small"), "no node has feature small"),
    ],
)  # fmt: skip
def test_a_job_is_left_out_for_its_true_reason(tmp_path: Path, asked: Request, reason: str) -> None:
    cluster = read(tmp_path, slurm_conf=PARTITIONS)
    jobs = [QueuedJob("1", asked), QueuedJob("2", Request(1, 1, 1))]
    _, remarks = snapshot(cluster, jobs, cluster.capacity, 1000.0, "w")
    assert f"jobs left out, {reason}: 1" in remarks


def test_a_demand_that_only_a_drained_node_meets_is_told_from_one_that_none_meets(tmp_path: Path) -> None:
    conf = "NodeName=n[1-2] CPUs=4\nNodeName=d[1-2] CPUs=4 State=DRAIN Feature=big Gres=gpu:t4:1\n"
    cluster = read(tmp_path, slurm_conf=conf)
    asked = {
        "1": Request(1, 1, 1, constraint="big"),
        "2": Request(1, 1, 1, gpus_per_node=(("t4", 1),)),
        "3": Request(3, 3, 3),
        "4": Request(9, 9, 9),
        "5": Request(1, 1, 1),
    }
    jobs = [QueuedJob(name, one) for name, one in asked.items()]
    _, remarks = snapshot(cluster, jobs, cluster.capacity, 1000.0, "w")
    known = "jobs left out, served only with nodes that take no jobs"
    for why in ("no node has feature big", "no node has GPUs of type t4", "larger than the machine"):
        assert f"{known} ({why}): 1" in remarks
    assert "jobs left out, larger than the machine: 1" in remarks


def test_a_setting_of_slurm_conf_does_not_make_it_an_answer_of_scontrol(tmp_path: Path) -> None:
    conf = "NodeName=DEFAULT CPUs=4\nNodeName=n[1-2]\nPartitionName=p Nodes=n[1-2] AllowGroups=staff State=UP\n"
    cluster = read(tmp_path, slurm_conf=conf)
    assert [node.cores for node in cluster.nodes] == [4, 4]
    assert [one.nodes for one in cluster.partitions] == [("n1", "n2")]


def test_the_example_of_gres_in_the_manual_is_read(tmp_path: Path) -> None:
    conf = "NodeName=n CPUs=4 Gres=gpu:tesla:1,gpu:kepler:1,bandwidth:lustre:no_consume:4G\n"
    cluster = read(tmp_path, slurm_conf=conf)
    assert cluster.nodes[0].gpus == {"tesla": 1, "kepler": 1}
    assert "GRES that are not modelled: gres/bandwidth on 1 node lines; jobs that ask for them are left out" in (
        cluster.remarks
    )


def test_the_files_of_a_part_of_a_gpu_are_one_device(tmp_path: Path) -> None:
    line = "NodeName=n Name=gpu Type=1g.5gb MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap[21,30]\n"
    cluster = read(tmp_path, slurm_conf="NodeName=n CPUs=4 Gres=gpu:2\n", gres_conf=line * 2)
    assert cluster.nodes[0].gpus == {"1g.5gb": 2}


def test_a_reservation_without_a_state_is_taken_as_active_and_told(tmp_path: Path) -> None:
    told = {"meta": {}, "reservations": [{"name": "r", "node_list": "n1", "flags": []}]}
    cluster = read(tmp_path, slurm_conf="NodeName=n[1-2] CPUs=4\n", r_json=json.dumps(told))
    assert [one.nodes for one in cluster.reservations] == [("n1",)]
    assert "reservations whose state is not given, taken as active: r" in cluster.remarks


@pytest.mark.parametrize("number", [lambda time: time, lambda time: {"set": True, "infinite": False, "number": time}])
@pytest.mark.parametrize(("asked", "is_active"), [(99, False), (100, True), (199, True), (200, False)])
def test_a_reservation_of_json_is_active_between_its_times(
    tmp_path: Path, number: Callable[[int], Any], asked: int, is_active: bool
) -> None:
    course = {"name": "r", "node_list": "n1", "start_time": number(100), "end_time": number(200)}
    told = {"meta": {}, "reservations": [course], "last_update": number(asked)}
    cluster = read(tmp_path, slurm_conf="NodeName=n[1-2] CPUs=4\n", r_json=json.dumps(told))
    assert [one.nodes for one in cluster.reservations] == [("n1",)] * is_active
    assert ("reservations that are not active, ignored: r" in cluster.remarks) == (not is_active)


def documents(*objects: dict[str, Any]) -> str:
    return "---\n".join(["", *(f"{json.dumps(one)}\n" for one in objects)])


def test_documents_of_a_yaml_file_are_a_list(tmp_path: Path) -> None:
    cluster = read(tmp_path, n_yaml=documents(kube("a"), {"kind": "List", "items": [kube("b")]}, kube("c")))
    assert [node.name for node in cluster.nodes] == ["a", "b", "c"]
    with pytest.raises(BadFileError, match="holds 2 YAML documents, must be one, or objects of Kubernetes"):
        read(tmp_path, n_yaml=documents({"meta": {}, "nodes": []}, {"meta": {}, "nodes": []}))


def test_a_node_that_is_being_deleted_takes_no_job(tmp_path: Path) -> None:
    gone = kube("b")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    cluster = read(tmp_path, n_json=kube_list(kube("a"), gone))
    assert cluster.size == 1
    assert "nodes that take no jobs, left out: 1 (being deleted 1)" in cluster.remarks


def test_pods_that_every_node_has_leave_it_idle(tmp_path: Path) -> None:
    def pod(name: str, node: str, cpu: str, **about: Any) -> dict[str, Any]:
        spec = {"nodeName": node, "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
        return {"kind": "Pod", "metadata": {"name": name, **about}, "spec": spec, "status": {"phase": "Running"}}

    owned = [
        pod("d", "a", "1", ownerReferences=[{"kind": "DaemonSet"}]),
        pod("s", "b", "2", ownerReferences=[{"kind": "Node"}]),
    ]
    cluster = read(tmp_path, n_json=kube_list(kube("a"), kube("b"), *owned, pod("j", "b", "3")))
    assert [node.cores for node in cluster.nodes] == [7, 6]
    assert cluster.in_use.tolist() == [False, True]
    assert cluster.free[:, 0].tolist() == [7000, 3000]
    assert "nodes reduced by what their DaemonSets request: 2" in cluster.remarks


def test_what_a_pod_asks_for_as_a_whole_beats_its_containers(tmp_path: Path) -> None:
    spec = {
        "nodeName": "a",
        "containers": [{"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        "resources": {"requests": {"cpu": "5"}},
    }
    cluster = read(tmp_path, n_json=kube_list(kube("a"), {"kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    assert cluster.nodes[0].use == NodeUse(5, 1024)


def test_nodes_without_any_label_of_a_network_are_equally_near(tmp_path: Path) -> None:
    bare = [kube("a"), kube("b")]
    for one in bare:
        one["metadata"]["labels"] = {"kubernetes.io/hostname": "x", "node.kubernetes.io/instance-type": "t"}
    cluster = read(tmp_path, n_json=kube_list(*bare))
    assert (cluster.size, cluster.topology.tree.names) == (2, ())
    assert any(remark.startswith("the nodes have no label of a network topology") for remark in cluster.remarks)


def kueue(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


def racked(name: str, rack: str, **more: Any) -> dict[str, Any]:
    node = kube(name, **more)
    node["metadata"]["labels"] = {"x.com/block": "b", "x.com/rack": rack, "pool": "tas", "kubernetes.io/hostname": name}
    return node


LEVELS = [{"nodeLabel": "x.com/block"}, {"nodeLabel": "x.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]


def test_a_topology_of_kueue_names_the_levels(tmp_path: Path) -> None:
    nodes = [racked("a", "1"), racked("b", "1"), racked("c", "2")]
    cluster = read(tmp_path, n_json=kube_list(*nodes), t_yaml=documents(kueue("Topology", "t", levels=LEVELS)))
    assert [len(level) for level in cluster.topology.tree.names] == [2]
    assert "levels from the top downwards: x.com/block, x.com/rack" in cluster.remarks
    # What the user says counts.
    told = read(tmp_path, labels=("x.com/block",), n_json=kube_list(*nodes, kueue("Topology", "t", levels=LEVELS)))
    assert "levels from the top downwards: x.com/block" in told.remarks
    several = kube_list(*nodes, kueue("Topology", "t", levels=LEVELS), kueue("Topology", "u", levels=LEVELS[:1]))
    with pytest.raises(BadFileError, match="has several topologies of Kueue \\(t, u\\): name the levels of one with"):
        read(tmp_path, n_json=several)


def test_a_flavor_of_kueue_chooses_nodes_and_tolerates_taints(tmp_path: Path) -> None:
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    other = {"key": "broken", "effect": "NoExecute"}
    nodes = [racked("a", "1", spec={"taints": [taint]}), racked("b", "2", spec={"taints": [taint, other]}), kube("z")]
    toleration = {"key": "dedicated", "operator": "Equal", "value": "x"}
    flavor = kueue("ResourceFlavor", "f", nodeLabels={"pool": "tas"}, topologyName="t", tolerations=[toleration])
    topologies = [kueue("Topology", "t", levels=LEVELS), kueue("Topology", "u", levels=LEVELS[:1])]
    cluster = read(tmp_path, n_json=kube_list(*nodes), k_yaml=documents(*topologies, flavor))
    assert [node.name for node in cluster.nodes] == ["a"]
    assert cluster.nodes[0].away == ()
    for remark in (
        "nodes of no given ResourceFlavor left out: 1",
        "nodes that take no jobs, left out: 1 (tainted broken 1)",
    ):
        assert remark in cluster.remarks


def test_a_rank_of_flux_has_all_its_reasons(tmp_path: Path) -> None:
    text = json.dumps({"R": RANKS, "offline": "1", "drain": {"1": {"reason": ""}}})
    assert read(tmp_path, include=("drained",), n_json=text).size == 1
    assert read(tmp_path, include=("drained", "offline"), n_json=text).size == 2


def test_properties_in_a_graph_are_features(tmp_path: Path) -> None:
    graph = json.loads(json.dumps(JGF))
    graph["graph"]["nodes"][1]["metadata"]["properties"] = {"big": ""}
    assert read(tmp_path, n_json=json.dumps(graph)).nodes[0].features == {"big"}


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1e9", 953),
        ("1E3Mi", None),
        ("2048.Ki", 2),
        (".5Gi", 512),
        ("1048576e0", 1),
        ("3145728000000000u", 3000),
        ("e3", None),
    ],
)
def test_quantities_of_kubernetes_have_any_form_that_it_accepts(tmp_path: Path, text: str, mib: int | None) -> None:
    node = {"kind": "Node", "metadata": {"name": "k"}, "status": {"allocatable": {"cpu": "4", "memory": text}}}
    path = tmp_path / "node.json"
    path.write_text(json.dumps(node), encoding="utf-8")
    if mib is None:
        with pytest.raises(BadFileError, match="must be a quantity"):
            read_cluster([path])
    else:
        assert read_cluster([path]).nodes[0].memory_mib == mib


def test_pods_that_have_devices_by_claims_are_counted(tmp_path: Path) -> None:
    node = {"kind": "Node", "metadata": {"name": "k"}, "status": {"allocatable": {"cpu": "4"}}}
    claim = {"nodeName": "k", "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}], "containers": []}
    pods = [
        {"kind": "Pod", "metadata": {"name": name}, "spec": claim, "status": {"phase": phase}}
        for name, phase in (("a", "Running"), ("b", "Succeeded"))
    ]
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"kind": "List", "items": [node, *pods]}), encoding="utf-8")
    assert "pods with resource claims, whose devices count as free: 1" in read_cluster([path]).remarks


@pytest.mark.parametrize("other", ["File=/dev/nvidia[0-2]", "Count=3"])
def test_gpus_of_no_type_count_beside_those_of_a_type(tmp_path: Path, other: str) -> None:
    conf, gres = tmp_path / "slurm.conf", tmp_path / "gres.conf"
    conf.write_text("NodeName=m1 CPUs=8 Gres=gpu:3,gpu:l4:1\n", encoding="utf-8")
    gres.write_text(f"Name=gpu {other}\nName=gpu Type=l4 File=/dev/nvidia3\n", encoding="utf-8")
    cluster = read_cluster([conf, gres])
    assert cluster.nodes[0].gpus == {"": 3, "l4": 1}
    assert not [remark for remark in cluster.remarks if "differently" in remark]
