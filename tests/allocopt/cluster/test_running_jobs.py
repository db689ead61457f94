"""Jobs of a queue that have nodes, jobs that a state or a limit of time keeps from starting."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.reading import read_cluster, read_topology
from allocopt.cluster.slurm_jobs import Queue, RunningJob, job_state, startable, with_running
from allocopt.errors import BadFileError
from allocopt.problems.placement.generate import snapshot

CONF = (
    "SelectTypeParameters=CR_Core_Memory\nNodeName=h[1-5] Sockets=1 CoresPerSocket=8 ThreadsPerCore=2"
    " RealMemory=32000 Gres=gpu:l40:2\n"
    "PartitionName=day Nodes=ALL Default=YES MaxTime=1-00:00:00\nPartitionName=hour Nodes=ALL MaxTime=60\n"
)


def record(job: int, state: str, nodes: str = "", tres: str = "", *, limit: str = "00:30:00", part: str = "day") -> str:
    return (
        f"JobId={job} JobName=j\n   JobState={state} Reason=None Dependency=(null)\n   TimeLimit={limit}\n"
        f"   Partition={part}\n   NodeList={nodes}\n   NumNodes=1-1 NumCPUs=4 NumTasks=4 CPUs/Task=1\n"
        f"   TRES={tres}\n\n"
    )


def queue(folder: Path, text: str, name: str = "queue.txt") -> Queue:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_queue(path)


def free_of(folder: Path, found: Queue) -> tuple[dict[str, list[int]], list[str]]:
    path = folder / "slurm.conf"
    path.write_text(CONF, encoding="utf-8")
    cluster, remarks = with_running(read_cluster([path]), found.running)
    return {node.name: row[:3].tolist() for node, row in zip(cluster.nodes, cluster.free, strict=True)}, remarks


def test_a_running_job_on_one_node_leaves_what_it_does_not_have(tmp_path: Path) -> None:
    text = record(1, "RUNNING", "h2", "cpu=4,mem=8G,node=1,billing=4,gres/gpu=1,gres/gpu:l40=1")
    free, remarks = free_of(tmp_path, queue(tmp_path, text + record(2, "RUNNING", "h2", "cpu=2,mem=500M,node=1")))
    assert free["h2"] == [5000, 32000 - 8192 - 500, 1000]
    assert free["h1"] == [8000, 32000, 2000]
    assert remarks == ["nodes that the cluster's files list as idle, but running jobs use: 1"]


def test_fractions_of_memory_count(tmp_path: Path) -> None:
    running = record(1, "RUNNING", "h2", "cpu=4,mem=15.50G,node=1")
    asked = record(2, "PENDING").replace("   NodeList", "   MinMemoryNode=1.50G\n   NodeList")
    found = queue(tmp_path, running + asked)
    assert free_of(tmp_path, found)[0]["h2"][1] == 32000 - 15872
    assert found.jobs[0].request.memory_per_node_mib == 1536


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "SIGNALING"])
def test_nodes_of_a_job_that_runs_on_several_are_full(tmp_path: Path, state: str) -> None:
    free, remarks = free_of(tmp_path, queue(tmp_path, record(1, state, "h[1,3]", "cpu=6,node=2")))
    assert [name for name, left in free.items() if left == [0, 0, 0]] == ["h1", "h3"]
    assert remarks[0].endswith(": 2; of these, taken as full, as the jobs' amounts are not given: 2")


def test_a_node_that_is_being_left_is_full(tmp_path: Path) -> None:
    free, _ = free_of(tmp_path, queue(tmp_path, record(1, "COMPLETING", "h1", "cpu=2,node=1")))
    assert free["h1"] == [0, 0, 0]


def test_running_jobs_are_read_alike_from_every_form(tmp_path: Path) -> None:
    answer = {"jobs": [{"job_id": 1, "job_state": ["RUNNING"], "nodes": "h[4-5]"}], "meta": {}}
    table = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n1 day a u R 1:00 2 h[4-5]\n"
    parted = "JOBID|STATE|NODES|NODELIST|REASON\n1|RUNNING|2|h[4-5]|None\n"
    bare = "1 day a u R 1:00 2 h[4-5]\n"
    for number, text in enumerate((json.dumps(answer), table, parted, bare, record(1, "RUNNING", "h[4-5]"))):
        assert queue(tmp_path, text, f"q{number}").running == (RunningJob(("h4", "h5")),)


@pytest.mark.parametrize(
    ("ending", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_yaml_of_queues_and_topologies_may_be_compressed(
    tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    jobs, tree = tmp_path / f"q.yaml{ending}", tmp_path / f"topology.yaml{ending}"
    jobs.write_bytes(compress(b"jobs:\n- {job_id: 1, job_state: [PENDING], node_count: 1}\nmeta: {}\n"))
    tree.write_bytes(
        compress(b"- {topology: t, cluster_default: true, tree: {switches: [{switch: s, nodes: 'h[1-5]'}]}}\n")
    )
    assert [job.id for job in read_queue(jobs).jobs] == ["1"]
    assert read_topology(tree).tree.size == 5


def test_a_running_job_without_nodes_is_counted(tmp_path: Path) -> None:
    found = queue(tmp_path, "JOBID|STATE|NODES\n1|RUNNING|2\n2|PENDING|1\n")
    assert free_of(tmp_path, found)[1] == ["running jobs whose nodes are not given: 1"]


def test_what_the_files_give_as_in_use_stays(tmp_path: Path) -> None:
    path = tmp_path / "nodes.txt"
    path.write_text("NodeName=h1 CPUAlloc=3 CPUTot=8 RealMemory=9000 AllocMem=100\n   State=MIXED\n", encoding="utf-8")
    cluster = read_cluster([path])
    assert with_running(cluster, [RunningJob(("h1",))]) == (cluster, [])


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["PENDING"], "PENDING"),
        (["PENDING", "REQUEUED"], "PENDING"),
        (["PENDING", "REQUEUE_HOLD"], "REQUEUE_HOLD"),
        (["PENDING", "SPECIAL_EXIT"], "SPECIAL_EXIT"),
        (["CANCELLED", "COMPLETING"], "COMPLETING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["COMPLETED"], "COMPLETED"),
        (["REQUEUED"], "REQUEUED"),
    ],
)
def test_flags_of_a_state_say_whether_a_job_has_nodes_or_may_start(words: list[str], state: str) -> None:
    assert job_state(words) == state


def test_a_job_that_is_held_after_its_run_may_not_start(tmp_path: Path) -> None:
    told: dict[str, Any] = {"job_id": 3, "job_state": ["PENDING", "REQUEUE_HOLD"], "state_reason": "None"}
    table = "JOBID ST NODES REASON\n3 RH 1 None\n"
    for number, text in enumerate((json.dumps({"jobs": [told]}), table, record(3, "REQUEUE_HOLD"))):
        found, remarks = startable(queue(tmp_path, text, f"q{number}").jobs)
        assert (found, remarks) == ([], ["jobs that may not start now, left out: 1 (REQUEUE_HOLD 1)"])


def test_jobs_that_have_ended_are_counted(tmp_path: Path) -> None:
    text = record(1, "PENDING") + record(2, "COMPLETED") + record(3, "TIMEOUT") + record(4, "COMPLETED")
    found = queue(tmp_path, text)
    assert found.remarks == ("jobs that neither wait nor run, left out: 3 (COMPLETED 2, TIMEOUT 1)",)


@pytest.mark.parametrize(
    ("limit", "partition", "is_placed"),
    [
        ("01:00:00", "hour", True),
        ("01:00:01", "hour", False),
        ("UNLIMITED", "hour", False),
        ("Partition_Limit", "hour", True),
        ("01:00:01", "hour,day", True),
        ("2-00:00:00", "hour,day", False),
        ("2-00:00:00", "(null)", False),
    ],
)
def test_a_job_longer_than_its_partition_allows_is_left_out(
    tmp_path: Path, limit: str, partition: str, is_placed: bool
) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF, encoding="utf-8")
    text = record(1, "PENDING", limit=limit, part=partition) + record(2, "PENDING")
    cluster = read_cluster([path])
    problem, remarks = snapshot(cluster, queue(tmp_path, text).jobs, cluster.free, 1000.0, "q")
    assert ("1" in [job.id for job in problem.jobs]) == is_placed
    assert any("over the time limit of partition" in remark for remark in remarks) != is_placed


def test_a_time_limit_of_json_counts_in_minutes(tmp_path: Path) -> None:
    told = {"job_id": 1, "job_state": "PENDING", "time_limit": {"set": True, "infinite": False, "number": 90}}
    (one,) = queue(tmp_path, json.dumps({"jobs": [told]})).jobs
    assert one.limit_s == 5400
    (one,) = queue(tmp_path, json.dumps({"jobs": [{**told, "time_limit": 4294967295}]})).jobs
    assert one.limit_s is None


def test_a_long_table_cuts_states_and_limits_but_not_their_meaning(tmp_path: Path) -> None:
    text = (
        "Fri May 02 10:00:00 2025\n"
        "             JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"
        "                 1       day        a      ann  PENDING       0:00 14-00:00:      1 (Priority)\n"
        "                 2       day        b      ann COMPLETI       9:00 1-00:00:0      1 h5\n"
        "                 3       day        b      ann SUSPENDE       9:00   2:00:00      1 h4\n"
    )
    found = queue(tmp_path, text)
    assert [(job.id, job.limit_s) for job in found.jobs] == [("1", None)]
    assert found.running == (RunningJob(("h5",)), RunningJob(("h4",)))


@pytest.mark.parametrize("told", [{"hold": True}, {"priority": {"set": True, "infinite": False, "number": 0}}])
def test_a_held_job_of_json_may_not_start_whatever_its_reason(tmp_path: Path, told: dict[str, Any]) -> None:
    job = {"job_id": 3, "job_state": ["PENDING"], "state_reason": "Priority", "priority": 9, "hold": False}
    assert startable(queue(tmp_path, json.dumps({"jobs": [job]})).jobs)[1] == []
    found = queue(tmp_path, json.dumps({"jobs": [job | told]}))
    assert startable(found.jobs) == ([], ["jobs that may not start now, left out: 1 (held 1)"])


@pytest.mark.parametrize(("priority", "is_held"), [("0", True), ("0.00000000000000", True), ("0.00000000023", False)])
def test_a_job_of_priority_zero_is_held(tmp_path: Path, priority: str, is_held: bool) -> None:
    for number, text in enumerate(
        (
            record(1, "PENDING").replace("TimeLimit", f"Priority={priority} Nice=0\n   TimeLimit"),
            f"JOBID|ST|NODES|PRIORITY|REASON\n1|PD|1|{priority}|None\n",
        )
    ):
        assert bool(startable(queue(tmp_path, text, f"q{number}").jobs)[1]) == is_held


def test_a_job_of_priority_zero_keeps_the_reason_of_slurm(tmp_path: Path) -> None:
    found = queue(tmp_path, "JOBID|ST|NODES|PRIORITY|REASON\n1|PD|1|0|JobHeldAdmin\n")
    assert startable(found.jobs)[1] == ["jobs that may not start now, left out: 1 (JobHeldAdmin 1)"]


def test_magnetic_reservations_and_lists_of_reservations_are_reported(tmp_path: Path) -> None:
    conf, booked = tmp_path / "slurm.conf", tmp_path / "r.txt"
    conf.write_text(CONF, encoding="utf-8")
    told = "ReservationName={0} StartTime=now EndTime=later\n   Nodes={1} NodeCnt=1 Flags={2}\n   State=ACTIVE\n\n"
    booked.write_text(told.format("pull", "h1", "MAGNETIC") + told.format("own", "h2", "SPEC_NODES"), encoding="utf-8")
    cluster = read_cluster([conf, booked])
    assert (
        "reservations that are magnetic, whose nodes go only to jobs that name the reservation: pull" in cluster.remarks
    )
    text = record(1, "PENDING").replace("NumNodes", "Reservation=pull,own\n   NumNodes") + record(2, "PENDING")
    problem, remarks = snapshot(cluster, queue(tmp_path, text).jobs, cluster.free, 1000.0, "q")
    assert [job.id for job in problem.jobs] == ["2"]
    assert remarks == ["jobs that name several reservations, which is not modelled, left out: 1"]


@pytest.mark.parametrize("tres", ["cpu=x", "cpu=4,mem=abc,node=1", "cpu=4,mem=16Gn", "cpu=4,gres/gpu="])
def test_what_a_running_job_has_that_cannot_be_read_is_named(tmp_path: Path, tres: str) -> None:
    with pytest.raises(BadFileError, match=r"queue\.txt: line 1.*TRES .* must be a list such as"):
        queue(tmp_path, record(1, "RUNNING", "h1", tres))


@pytest.mark.parametrize(("memory", "mib"), [("16G", 16384), ("16g", 16384), ("500M", 500), ("1.5G", 1536)])
def test_memory_of_a_running_job_is_read_in_every_unit(tmp_path: Path, memory: str, mib: int) -> None:
    found = queue(tmp_path, record(1, "RUNNING", "h1", f"cpu=4,mem={memory},node=1,billing=4"))
    assert found.running == (RunningJob(("h1",), 4, mib),)
