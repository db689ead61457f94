"""Jobs that wait in Slurm: their demands in every form, whether they may start, arrays and components."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition, Reservation
from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_jobs import Queue, QueuedJob, array_tasks, startable
from allocopt.errors import BadFileError
from allocopt.problems.placement.generate import snapshot

RECORD = """JobId={id} JobName=some job
   UserId=u(1) GroupId=g(1) MCS_label=N/A
   Priority=5 Nice=0 Account=a QOS=normal
   JobState=PENDING Reason={reason} Dependency={dependency}
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A
   Partition=main AllocNode:Sid=login:1
   ReqNodeList=(null) ExcNodeList=(null)
   NumNodes={nodes} NumCPUs=4 NumTasks={tasks} CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Socks/Node={sockets} NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   MinCPUsNode=1 MinMemoryNode=1G MinTmpDiskNode=0
   Features=(null) DelayBoot=00:00:00
   OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null)
   Command=/home/u/a.sh TresPerNode=gres/gpu:9
{more}
"""
BASIC: dict[str, Any] = {
    "job_id": 1,
    "job_state": ["PENDING"],
    "state_reason": "Resources",
    "node_count": {"set": True, "infinite": False, "number": 1},
    "max_nodes": {"set": True, "infinite": False, "number": 1},
    "tasks": {"set": True, "infinite": False, "number": 4},
    "partition": "main",
    "time_limit": {"set": True, "infinite": False, "number": 60},
}


def record(more: str = "", **values: Any) -> str:
    told = {"id": "1", "reason": "Resources", "dependency": "(null)", "nodes": "1-1", "tasks": 4, "sockets": "*"}
    return RECORD.format(**{**told, **values}, more=more)


def queue(folder: Path, text: str, name: str = "queue.txt") -> Queue:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_queue(path)


def only(folder: Path, text: str, name: str = "queue.txt") -> QueuedJob:
    (job,) = queue(folder, text, name).jobs
    return job


# Of a job of 4 tasks on one node of 2 sockets: the line that scontrol prints, and GPUs on the node and for each task.
GPUS: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "TresPerNode=gres/gpu:2": ({"": 2}, {}),
    "TresPerNode=gres:gpu:2": ({"": 2}, {}),
    "TresPerNode=gres/gpu=2": ({"": 2}, {}),
    "TresPerNode=gres/gpu:a100:2": ({"a100": 2}, {}),
    "TresPerNode=gres/gpu:a100=2": ({"a100": 2}, {}),
    "TresPerNode=gpu": ({"": 1}, {}),
    "TresPerNode=gres/gpu:1g.5gb:7": ({"1g.5gb": 7}, {}),
    "TresPerJob=gres/gpu:3": ({"": 3}, {}),
    "TresPerSocket=gres/gpu:2": ({"": 4}, {}),
    "TresPerTask=gres/gpu=1": ({}, {"": 1}),
    "TresPerTask=gres:gpu:1": ({}, {"": 1}),
    "TresPerTask=cpu=1,gres/gpu:v100=2": ({}, {"v100": 2}),
}


@pytest.mark.parametrize("line", GPUS)
def test_gpus_are_read_in_every_form(tmp_path: Path, line: str) -> None:
    request = only(tmp_path, record(f"   {line}", sockets="2")).request
    assert (dict(request.gpus_per_node), dict(request.gpus_per_task)) == GPUS[line]
    assert (request.tasks, request.least_nodes, request.memory_per_node_mib) == (4, 1, 1024)


@pytest.mark.parametrize("line", [line for line in GPUS if "TresPerSocket" not in line])
def test_json_says_the_same_as_the_text(tmp_path: Path, line: str) -> None:
    key, _, value = line.partition("=")
    name = {"TresPerNode": "tres_per_node", "TresPerJob": "tres_per_job", "TresPerTask": "tres_per_task"}[key]
    answer = {"jobs": [{**BASIC, name: value, "memory_per_node": {"set": True, "number": 1024}}], "meta": {}}
    job = only(tmp_path, json.dumps(answer), "queue.json")
    assert job == only(tmp_path, record(f"   {line}"))


def test_cpus_and_memory_for_each_gpu_become_those_of_tasks_and_nodes(tmp_path: Path) -> None:
    of_task = only(tmp_path, record("   CpusPerTres=gres/gpu:8\n   TresPerTask=gres/gpu=2")).request
    assert of_task.cores_per_task == 16
    of_node = only(tmp_path, record("   MemPerTres=gres/gpu:3000\n   TresPerNode=gres/gpu:2")).request
    assert of_node.memory_per_node_mib == 6000


# What a job asks for that is not modelled, and its name in the remark.
STRANGE = {
    "TresPerNode=gres/shard:2": "gres/shard", "TresPerTask=gres/shard=1": "gres/shard",
    "TresPerJob=gres:craynetwork:1": "gres/craynetwork", "TresPerJob=license/matlab=1": "license/matlab",
    "TresPerSocket=gres/gpu:1": "--gpus-per-socket", "Contiguous=1": "--contiguous",
    "Licenses=matlab:2": "license/matlab",
    "Switches=1@00:05:00": "--switches", "SpreadJob=Yes": "--spread-job", "BurstBuffer=#BB x": "a burst buffer",
    "SegmentSize=4": "--segment", "CoreSpec=2": "--core-spec", "MinTmpDiskNode=100": "--tmp", "Network=ib": "--network",
    "OverSubscribe=USER": "--exclusive=user, mcs or topo", "Exclusive=TOPO": "--exclusive=user, mcs or topo",
    "Prefer=fast": "--prefer", "ReqNodeList=n1": "--nodelist with fewer nodes than the job gets",
    "CpusPerTres=gres/gpu:4": "--cpus-per-gpu", "MinCPUsNode=64": "--mincpus",
}  # fmt: skip


@pytest.mark.parametrize("line", STRANGE)
def test_a_job_that_asks_for_what_is_not_modelled_is_left_out_and_counted(tmp_path: Path, line: str) -> None:
    key = line.partition("=")[0]
    kept = "\n".join(
        " ".join(word for word in one.split(" ") if not word.startswith(f"{key}=")) if "Command" not in one else one
        for one in record(nodes="2-2").splitlines()
    )
    job = only(tmp_path, f"{kept}\n   {line}\n")
    assert job.request.unmodelled == (STRANGE[line],)
    cluster = a_cluster(2)
    problem, remarks = snapshot(cluster, [job, QueuedJob("2", Request.whole_nodes(1))], cluster.capacity, 1000.0, "w")
    assert [one.id for one in problem.jobs] == ["2"]
    assert f"jobs left out, asks for {STRANGE[line]}, which is not modelled: 1" in remarks


@given(key=st.from_regex(r"[A-Z][a-z]{3,9}Xq", fullmatch=True), value=st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True))
def test_a_key_of_a_job_that_is_not_known_is_counted(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: str
) -> None:
    found = queue(tmp_path_factory.mktemp("queue"), record(f"   {key}={value}"))
    assert [job.id for job in found.jobs] == ["1"]
    assert found.remarks == (f"unknown keys of jobs, ignored: {key.lower()!r} 1",)
    answer = {"jobs": [{**BASIC, key: value}]}
    told = queue(tmp_path_factory.mktemp("queue"), json.dumps(answer), "q.json")
    assert told.remarks == (f"unknown keys of jobs, ignored: {key!r} 1",)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"reason": "Priority"}, ""),
        ({"reason": "None"}, ""),
        ({"reason": "JobHeldUser"}, "JobHeldUser"),
        ({"reason": "JobHeldAdmin"}, "JobHeldAdmin"),
        ({"reason": "BeginTime"}, "BeginTime"),
        ({"reason": "Dependency", "dependency": "afterok:7(unfulfilled)"}, "Dependency"),
        ({"reason": "Priority", "dependency": "afterok:7(unfulfilled)"}, "Dependency"),
        ({"reason": "QOSMaxJobsPerUserLimit"}, "QOSMaxJobsPerUserLimit"),
        ({"reason": "ReqNodeNotAvail,_UnavailableNodes:n3"}, "ReqNodeNotAvail,_UnavailableNodes:n3"),
        ({"reason": "PartitionDown"}, "PartitionDown"),
        ({"reason": "Reservation"}, "Reservation"),
        ({"reason": "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"}, ""),
    ],
)
def test_a_job_waits_for_what_slurm_says(tmp_path: Path, values: dict[str, str], why: str) -> None:
    job = only(tmp_path, record(**values))
    assert job.waits_for == why
    left, remarks = startable([job])
    assert len(left) == (not why)
    # What Slurm adds behind a comma differs from job to job.
    counted = why.partition(",")[0]
    assert remarks == ([f"jobs that may not start now, left out: 1 ({counted} 1)"] if why else [])


def test_an_array_is_as_many_jobs_as_may_run_at_once(tmp_path: Path) -> None:
    waiting = record("   ArrayJobId=7 ArrayTaskId=1-5%3 ArrayTaskThrottle=3", id="7")
    begun = record("   ArrayJobId=7 ArrayTaskId=0", id="8").replace("JobState=PENDING", "JobState=RUNNING")
    jobs = queue(tmp_path, f"{waiting}\n{begun}").jobs
    assert [job.id for job in jobs] == ["7_1", "7_2", "7_3", "7_4", "7_5"]
    assert [job.waits_for for job in jobs] == ["", "", *["JobArrayTaskLimit"] * 3]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True), st.integers(0, 5))
def test_tasks_of_an_array_are_read_as_slurm_writes_them(tasks: list[int], limit: int) -> None:
    text = ",".join(map(str, tasks)) + (f"%{limit}" if limit else "")
    assert array_tasks(text) == (tasks, limit)
    assert array_tasks(f"[{text}]") == (tasks, limit)


def test_steps_of_an_array_are_read() -> None:
    assert array_tasks("1-9:4,20%2") == ([1, 5, 9, 20], 2)
    for wrong in ("", "a", "3-1", "1-2-3", "1%x"):
        with pytest.raises(ValueError, match="must"):
            array_tasks(wrong)


SQUEUE = """             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
     12_[3-4%2]      main  two one       u PD       0:00      2 (Resources)
            13       main      job       u PD       0:00      1 (Dependency)
            14       main      job       u  R 1-02:03:04      9 n[1-9]
           15+0      main      het       u PD       0:00      1 (Priority)
"""


def test_a_table_of_squeue_is_read_with_states_and_reasons(tmp_path: Path) -> None:
    jobs = {job.id: job for job in queue(tmp_path, SQUEUE).jobs}
    assert list(jobs) == ["12_3", "12_4", "13", "15+0"]
    assert jobs["12_3"].request == replace(Request.whole_nodes(2), partition="main")
    assert [job.waits_for for job in jobs.values()] == ["", "", "Dependency", ""]
    assert jobs["15+0"].together == "15"


def test_a_list_of_ids_may_name_arrays_and_components(tmp_path: Path) -> None:
    found = queue(tmp_path, "5_[1-3%2] 2\n6 4-8\n7+0 1\n7+1 2\n")
    assert [(job.id, job.waits_for, job.together) for job in found.jobs] == [
        ("5_1", "", ""), ("5_2", "", ""), ("5_3", "JobArrayTaskLimit", ""), ("6", "", ""), ("7+0", "", "7"),
        ("7+1", "", "7"),
    ]  # fmt: skip
    assert found.remarks == ("jobs with a range of nodes, taken with the least number: 1",)


def a_cluster(nodes: int, *reservations: Reservation) -> Cluster:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return Cluster.of(map(ClusterNode, names), None, is_exclusive=True, reservations=reservations)


def test_components_of_a_job_are_taken_together_or_not_at_all() -> None:
    def job(name: str, nodes: int, together: str = "") -> QueuedJob:
        return QueuedJob(name, Request.whole_nodes(nodes), together=together)

    jobs = [job("1", 2), job("7+0", 1, "7"), job("7+1", 2, "7"), job("9", 1)]
    for free, taken in ((4, {"1", "9"}), (5, {"1", "7+0", "7+1"})):
        cluster = a_cluster(free)
        problem, _ = snapshot(cluster, jobs, cluster.capacity, 1000.0, "w")
        assert {one.id for one in problem.jobs} == taken


def test_nodes_of_a_reservation_are_for_its_jobs_alone() -> None:
    cluster = a_cluster(4, Reservation("course", ("n1", "n2", "n9")))
    jobs = [
        QueuedJob("1", Request.whole_nodes(2), reservation="course"),
        QueuedJob("2", Request.whole_nodes(2)),
        QueuedJob("3", Request.whole_nodes(3)),
        QueuedJob("4", Request.whole_nodes(1), reservation="gone"),
    ]
    problem, remarks = snapshot(cluster, jobs, cluster.capacity, 1000.0, "w")
    masks = {one.id: one.request.masks[0].tolist() for one in problem.jobs}  # type: ignore[union-attr]
    assert masks == {"1": [True, True, False, False], "2": [False, False, True, True]}
    assert remarks == [
        "jobs of reservations that are not given, left out: 1 (gone 1)",
        "jobs left out, larger than the nodes that it does not exclude: 1",
    ]


def test_partition_limits_and_defaults_for_gpus_hold() -> None:
    nodes = [ClusterNode(f"n{number}", 8, 1000, {"": 4}) for number in range(4)]
    partition = Partition("p", tuple(node.name for node in nodes), least_nodes=2, memory_per_gpu_mib=100)
    cluster = Cluster.of(nodes, None, [partition])
    asked = Request(2, 2, 2, 1, gpus_per_node=(("", 3.0),)).on(cluster)
    assert (asked.per_node[1], asked.per_task[1]) == (300, 0)
    asked = Request(4, 2, 2, 2, gpus_per_task=(("", 2.0),)).on(cluster)
    assert (asked.per_node[1], asked.per_task[1]) == (0, 200)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("q.json", "{}", "has no list of jobs; a queue is what `scontrol show job` or `squeue` prints"),
        ("q.json", '{"jobs": [1]}', "jobs[0]: is not a job of Slurm: it has no job_id"),
        ("q.json", '{"jobs": [{"job_id": 1, "job_state": ["PENDING"], "tasks": "x"}]}', "jobs[0]: numtasks is 'x'"),
        ("q.yaml", "- 1\n", "is a list, holds no list of jobs"),
        ("q.txt", "JOBID PARTITION NODES\n1 p 2\n", "line 1: is a table of squeue without a column ST or STATE"),
        ("q.txt", "JOBID ST\n1 PD\n", "line 1: is a table of squeue without a column NODES"),
        ("q.txt", "JOBID ST NODES\n1 PD\n", "line 2: has 2 columns, but there are 3 titles: JOBID ST NODES"),
        ("q.txt", "5_[3-1] 2\n", "line 1: is '[3-1]', must be rising"),
        ("q.txt", "5 2\n5 2\n", "line 2: job '5' is given twice"),
        ("q.txt", record("   ArrayJobId=7 ArrayTaskId=a-b"), "line 1: ArrayTaskId is 'a-b', must be tasks"),
        ("q.txt", record().replace("MinMemoryNode=1G", "MinMemoryNode=much"), "line 1: minmemorynode is 'MUCH'"),
        ("q.txt", record("   TresPerNode=gres/gpu:a:b:c"), "line 1: is 'gres/gpu:a:b:c', must be a list such as"),
    ],
)
def test_an_odd_queue_gets_a_line_that_says_where_and_what(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(BadFileError) as error:
        queue(tmp_path, text, name)
    assert message in str(error.value)
    assert str(error.value).count(name) == 1
    assert "\n" not in str(error.value)
