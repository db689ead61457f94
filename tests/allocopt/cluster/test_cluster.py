"""Clusters of real sites: what nodes have, partitions, constraints, and which nodes a job may use."""

import json
import os
import threading
from pathlib import Path

import pytest

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.reading import read_cluster, read_topology
from allocopt.cluster.request import Constraint, Request
from allocopt.errors import BadFileError, InvalidProblemError, UsageError

CONF = """
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
NodeName=DEFAULT RealMemory=100 Sockets=2 CoresPerSocket=4 Weight=5
NodeName=a[1-2] Feature=ib,fast
NodeName=b1 CPUs=16 ThreadsPerCore=2 Gres=gpu:v100:2,gpu:a100:1(S:0-1) Feature=ib CoreSpecCount=1 MemSpecLimit=10
NodeName=c1 State=DOWN
NodeSet=quick Feature=fast
PartitionName=DEFAULT MaxTime=1-00:00:00 DefMemPerCPU=7
PartitionName=all Nodes=ALL
PartitionName=fast Nodes=quick Default=YES MaxTime=90 OverSubscribe=EXCLUSIVE PriorityTier=3 MaxNodes=1
"""
SCONTROL = """
NodeName=a1 Arch=x86_64 CoresPerSocket=4
   CPUAlloc=0 CPUEfctv=8 CPUTot=8 CPULoad=0.01
   AvailableFeatures=ib,fast
   ActiveFeatures=ib,fast
   Gres=gpu:v100:2(S:0)
   OS=Linux 6.1 #1 SMP Debian
   RealMemory=100 AllocMem=0 Sockets=2 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=5 Owner=N/A
   Partitions=all

NodeName=a2 Arch=x86_64 CoresPerSocket=4
   CPUAlloc=0 CPUEfctv=8 CPUTot=8
   ActiveFeatures=(null) Gres=(null)
   RealMemory=100 Sockets=2 Boards=1
   State=DOWN+DRAIN ThreadsPerCore=1 Weight=5

PartitionName=all
   AllowGroups=ALL Default=YES
   MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0
   Nodes=a[1-2]
   OverSubscribe=NO State=UP DefMemPerCPU=7
"""


def read(folder: Path, **texts: str) -> Cluster:
    paths = []
    for name, text in texts.items():
        paths.append(folder / name.replace("_", "."))
        paths[-1].write_text(text, encoding="utf-8")
    return read_cluster(paths)


def test_slurm_conf_says_what_nodes_and_partitions_have(tmp_path: Path) -> None:
    cluster = read(tmp_path, slurm_conf=CONF)
    assert cluster.nodes == (
        ClusterNode("a1", 8, 100, {}, frozenset({"ib", "fast"}), 5),
        ClusterNode("a2", 8, 100, {}, frozenset({"ib", "fast"}), 5),
        # A core is kept for the system, and memory; of sixteen threads two are a core.
        ClusterNode("b1", 7, 90, {"v100": 2, "a100": 1}, frozenset({"ib"}), 5, cpus_per_core=2),
    )
    assert cluster.partitions == (
        Partition("fast", ("a1", "a2"), 5400.0, 1, 7, None, is_exclusive=True, tier=3),
        Partition("all", ("a1", "a2", "b1"), 86_400.0, None, 7, None),
    )
    assert cluster.resources == ("cores", "memory_mib", "gpus", "gpus:a100", "gpus:v100")
    assert cluster.capacity.tolist()[2] == [7000, 90, 3000, 1000, 2000]
    assert cluster.remarks == (
        "nodes have 1 to 2 CPUs per core: a job's cores are computed with the smallest number among its possible nodes",
        "nodes that take no jobs, left out: 1 (down 1)",
    )


def test_scontrol_says_the_same_of_what_is_up(tmp_path: Path) -> None:
    cluster = read(tmp_path, show_txt=SCONTROL)
    assert cluster.nodes == (ClusterNode("a1", 8, 100, {"v100": 2}, frozenset({"ib", "fast"}), 5),)
    assert cluster.partitions == (Partition("all", ("a1",), None, None, 7),)


def test_gres_conf_tells_types_and_linear_selection_gives_nodes_alone(tmp_path: Path) -> None:
    conf = "SelectType=select/linear\nSelectTypeParameters=CR_Memory\nNodeName=n[1-2] CPUs=4 Gres=gpu:2\n"
    cluster = read(tmp_path, slurm_conf=conf, gres_conf="AutoDetect=off\nNodeName=n1 Name=gpu Type=t4 Count=2\n")
    assert [node.gpus for node in cluster.nodes] == [{"t4": 2}, {"": 2}]
    assert cluster.is_exclusive


def test_a_pipe_which_can_be_read_once_is_read(tmp_path: Path) -> None:
    for name, text in (("topology.conf", "SwitchName=s Nodes=a[1-3]\n"), ("slurm.conf", "NodeName=a[1-3]\n")):
        os.mkfifo(tmp_path / name)
        writer = threading.Thread(target=(tmp_path / name).write_text, args=(text,))
        writer.start()
        assert read_cluster([tmp_path / name]).size == 3
        writer.join()


def test_two_files_that_disagree_are_their_intersection(tmp_path: Path) -> None:
    tree = "SwitchName=s1 Nodes=a2,x1\nSwitchName=s2 Nodes=b1,x2\nSwitchName=top Switches=s[1-2]\n"
    cluster = read(tmp_path, slurm_conf=CONF, topology_conf=tree)
    assert cluster.topology.nodes == ("a2", "b1")
    assert [partition.nodes for partition in cluster.partitions] == [("a2",), ("a2", "b1")]
    assert cluster.remarks[1:] == (
        "nodes of the topology that no file describes, left out: 2",
        "nodes under no switch of the topology, left out: 2",
    )


def test_what_kubernetes_can_give_is_read_from_json_and_yaml(tmp_path: Path) -> None:
    def node(name: str, **more: object) -> dict[str, object]:
        labels = {"topology.kubernetes.io/zone": "z", "nvidia.com/gpu.product": "H100"}
        allocatable = {"cpu": "63500m", "memory": "2Gi", "nvidia.com/gpu": 8, "pods": "110"}
        return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}, **more}

    nodes = {"kind": "List", "items": [node("a"), node("b", spec={"unschedulable": True})]}
    for cluster in (read(tmp_path, nodes_json=json.dumps(nodes)), read(tmp_path, nodes_yaml=json.dumps(nodes))):
        (only,) = cluster.nodes
        assert (only.name, only.cores, only.memory_mib, only.gpus) == ("a", 63.5, 2048, {"H100": 8})
        assert cluster.capacity.tolist() == [[63_500, 2048, 8000, 8000]]
        assert "nodes that take no jobs, left out: 1 (cordoned 1)" in cluster.remarks


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("slurm.conf", "NodeName=a CPUs=many\n", "line 1: cpus is 'many', must be a whole number"),
        ("slurm.conf", "NodeName=a[1-2 CPUs=1\n", "line 1: NodeName: 'a[1-2' has a bracket"),
        ("slurm.conf", "NodeName=a CPUs=1\nNodeName=a CPUs=1\n", "line 2: node 'a' is given twice"),
        (
            "slurm.conf",
            "NodeName=a Gres=gpu:t4:x:2\n",
            "line 1: Gres is 'gpu:t4:x:2', must be a list such as gres/gpu:a100=2",
        ),
        ("slurm.conf", "NodeName=a\nPartitionName=p MaxTime=soon\n", "line 2: MaxTime is 'soon', must be a number"),
        (
            "slurm.conf",
            "NodeName=a State=DOWN\n",
            "no node takes jobs: 1 (down 1); use --include-unavailable all to include them",
        ),
        (
            "n.json",
            '{"items": [{"metadata": {"name": "a", "labels": {"x/y": "1"}}}]}',
            "items: no known label of a network topology",
        ),
        ("n.json", '{"graph": {"nodes": [{"metadata": {"type": "node"}}]}}', "graph.nodes[0]: has no containment path"),
        ("n.csv", "sn,cpu_milli,memory_mib,gpu\na,-1,1,1\n", "line 2: cpu_milli is '-1', must be a number, not neg"),
        (
            "n.out",
            'Switch 2 "S-1" # "leaf"\n[1] broken\n',
            'line 2: is not a port, must be a line such as [1] "S-0002c9"[2]',
        ),
        ("n.out", 'Switch 2 "S-1" # "leaf"\n', "holds no adapter of a host"),
        ("n.yaml", "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\n", "configures the tool kind"),
    ],
)
def test_an_odd_file_gets_a_line_that_says_where_and_what(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(BadFileError) as raised:
        read_cluster([tmp_path / name])
    assert str(raised.value).startswith(f"{tmp_path / name}: {message}")
    assert "\n" not in str(raised.value)


def test_two_topologies_or_none_at_all_are_refused(tmp_path: Path) -> None:
    tree = tmp_path / "topology.conf"
    tree.write_text("SwitchName=s Nodes=a\n", encoding="utf-8")
    with pytest.raises(UsageError, match="several files describe the nodes, or the topology"):
        read_cluster([tree, tree])
    with pytest.raises(UsageError, match="no file describes the cluster"):
        read_cluster([])


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("a", [{"a"}, {"a", "b"}]),
        ("a&b", [{"a", "b"}]),
        ("a,b", [{"a", "b"}]),
        ("a|c", [{"a"}, {"c"}, {"a", "b"}]),
        ("(a|c)&b", [{"a", "b"}]),
    ],
)
def test_a_constraint_holds_for_the_features_it_names(text: str, right: list[set[str]]) -> None:
    for features in ({"a"}, {"b"}, {"c"}, {"a", "b"}, set()):
        assert Constraint.parse(text).holds(features) == ((features in right),)
    # A list in brackets asks for one feature on all nodes.
    assert Constraint.parse("[a|c]&b").holds({"a", "b"}) == (True, False)


@pytest.mark.parametrize("text", ["", "a&", "(a", "a)", "a*2", "[a", "!a", "a||b", "[a|b]|c"])
def test_what_is_no_constraint_is_named(text: str) -> None:
    with pytest.raises(InvalidProblemError, match=r"^constraint: "):
        Constraint.parse(text)


def test_requests_in_the_numbers_of_a_cluster(tmp_path: Path) -> None:
    cluster = read(tmp_path, slurm_conf=CONF)
    made = Request(4, 1, None, 4, 1.5, gpus_per_node=(("v100", 1),), partition="all").on(cluster)
    assert made.per_task.tolist() == [1500, 10, 0, 0, 0]
    assert made.per_node.tolist() == [0, 0, 1000, 0, 1000]
    assert (made.tasks, made.least_nodes, made.most_nodes, made.most_tasks) == (4, 1, 1, 4)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (Request(partition="none"), "request: partition none is not in the cluster, which has fast, all"),
        (Request(least_nodes=2), "request: asks for 2 nodes, partition fast allows at most 1"),
        (
            Request(9, partition="all", most_nodes=1),
            "request: asks for more cores on a node than any node has",
        ),
        (Request(gpus_per_node=(("k80", 1),), partition="all"), "request: no node has GPUs of type k80"),
        (
            Request(excluded="a[1-2]"),
            "request: asks for more than the nodes have: it is larger than the nodes that it does not exclude",
        ),
        (Request(required="z9"), "request: there is no node 'z9', which it requires"),
    ],
)
def test_a_request_that_never_fits_says_why(tmp_path: Path, request_: Request, message: str) -> None:
    with pytest.raises(InvalidProblemError) as raised:
        request_.on(read(tmp_path, slurm_conf=CONF))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("nodes", "most"), [(20, (1, 0)), (30, (1, 0)), (31, (2, 1)), (120, (4, 1)), (121, (0, 0)), (300, (0, 0))]
)
def test_jobs_span_no_more_blocks_than_slurm_lets_them(tmp_path: Path, nodes: int, most: tuple[int, ...]) -> None:
    blocks = "".join(f"BlockName=b{n} Nodes=n{n}-[1-32]\n" for n in range(8)) + "BlockSizes=30,120\n"
    assert read(tmp_path, topology_conf=blocks).topology.most_groups(nodes) == most


def test_blocks_that_one_joins_have_no_level_of_it(shared_data: Path) -> None:
    topology = read_topology(shared_data / "sites" / "topologies" / "slurmman_block.conf")
    assert [topology.most_groups(nodes) for nodes in (30, 31, 61, 128)] == [(1,), (2,), (3,), (0,)]


# scontrol(1) and sinfo(1), NODE STATE CODES.
TAKES_JOBS = (
    *(
        "IDLE",
        "MIXED",
        "ALLOCATED",
        "UNKNOWN",
        "IDLE+CLOUD",
        "MIXED+PLANNED",
        "ALLOCATED+COMPLETING",
        "IDLE+DYNAMIC_NORM",
    ),
    *("IDLE+CLOUD+POWERED_DOWN", "IDLE+POWERING_UP", "idle~", "idle#", "mixed-", "alloc", "comp"),
)
TAKES_NONE = {
    "DOWN": "down", "DOWN*": "down", "DOWN+CLOUD+NOT_RESPONDING": "down", "DRAIN": "drained", "IDLE+DRAIN": "drained",
    "MIXED+DRAIN": "drained", "ALLOCATED+DRAIN+COMPLETING": "drained", "drng": "drained", "DRAINED*": "drained",
    "FAIL": "failing", "IDLE+FAIL": "failing", "ERROR": "in error", "FUTURE": "future",
    "IDLE+INVALID_REG": "wrongly registered",
    "IDLE+MAINTENANCE": "in maintenance", "maint": "in maintenance", "IDLE+MAINTENANCE+RESERVED": "in maintenance",
    "IDLE+RESERVED": "reserved", "resv": "reserved", "IDLE+NOT_RESPONDING": "not responding", "idle*": "not responding",
    "IDLE+CLOUD+POWERING_DOWN": "powering down", "MIXED+POWER_DOWN": "powering down", "idle%": "powering down",
    "idle!": "powering down", "IDLE+REBOOT_ISSUED": "rebooting", "MIXED+REBOOT_REQUESTED": "rebooting",
    "mix@": "rebooting", "idle^": "rebooting", "mix$": "in maintenance", "IDLE+BLOCKED": "blocked",
}  # fmt: skip


@pytest.mark.parametrize("state", [*TAKES_JOBS, *TAKES_NONE])
def test_a_node_takes_jobs_by_its_state_and_all_its_flags(tmp_path: Path, state: str) -> None:
    cluster = read(
        tmp_path, slurm_conf=f"NodeName=a CPUs=1\nNodeName=b CPUs=1 State={state}\nSelectTypeParameters=CR_CORE\n"
    )
    why = TAKES_NONE.get(state)
    assert [node.name for node in cluster.nodes] == (["a", "b"] if why is None else ["a"])
    assert [remark.partition(" (")[0] for remark in cluster.remarks] == ["nodes that take no jobs, left out: 1"] * (
        why is not None
    )
    assert why is None or f"{why} 1" in cluster.remarks[0]


def test_nodes_that_slurm_conf_names_as_down_are_left_out_by_reason(tmp_path: Path) -> None:
    conf = (
        'SelectTypeParameters=CR_CORE\nNodeName=n[1-8] CPUs=2\nDownNodes=n[2-3] State=DOWN Reason="psu"\n'
        "DownNodes=n5 State=DRAIN\nDownNodes=n6\nPartitionName=main Nodes=ALL\n"
    )
    cluster = read(tmp_path, slurm_conf=conf)
    assert [node.name for node in cluster.nodes] == ["n1", "n4", "n7", "n8"]
    assert cluster.partitions[0].nodes == ("n1", "n4", "n7", "n8")
    assert cluster.remarks == ("nodes that take no jobs, left out: 4 (down 3, drained 1)",)
