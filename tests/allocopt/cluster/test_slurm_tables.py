"""Tables of ``sinfo`` and ``squeue``: columns in any order, cut, empty or parted by bars."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster
from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.reading import read_cluster
from allocopt.cluster.request import Request
from allocopt.cluster.slurm_jobs import Queue
from allocopt.errors import BadFileError

CONF = "SelectTypeParameters=CR_Core\nNodeName=n[1-4] CPUs=16\nPartitionName=main Nodes=n[1-4] MaxNodes=3\n"
LONG = """Fri Nov 28 03:35:26 2026
NODELIST   NODES PARTITION       STATE CPUS    S:C:T MEMORY TMP_DISK WEIGHT AVAIL_FE REASON
n1             1     main*        idle 16      2:8:1  64000        0      1       ib none
n1             1     debug        idle 16      2:8:1  64000        0      1       ib none
n2             1     main*     drained 16      2:8:1  64000        0      1       ib Not responding now
n3             1     main*        idle 16      2:8:1  64000        0      1 infiniba none
"""
BY_PARTITION = """Fri Nov 28 03:35:26 2026
PARTITION AVAIL  TIMELIMIT   JOB_SIZE ROOT OVERSUBS     GROUPS  NODES       STATE RESERVATION NODELIST
main*        up 1-00:00:00 1-infinite   no       NO        all      2        idle             n[1-2]
main*        up 1-00:00:00 1-infinite   no       NO        all      1    reserved      course n3
main*        up 1-00:00:00 1-infinite   no       NO        all      1   allocated             n4
"""
REASONS = """REASON               USER      TIMESTAMP           NODELIST
Not responding       root      2026-01-01T00:00:00 n[1-2]
kernel panic         (0)       2026-01-01T00:00:00 n4
"""


def cluster(folder: Path, *texts: str) -> Cluster:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.txt")
        paths[-1].write_text(text, encoding="utf-8")
    return read_cluster(paths)


def queue(folder: Path, text: str) -> Queue:
    (folder / "queue.txt").write_text(text, encoding="utf-8")
    return read_queue(folder / "queue.txt")


def test_the_time_above_a_table_and_cut_titles_are_understood(tmp_path: Path) -> None:
    found = cluster(tmp_path, LONG)
    assert [(node.name, node.cores, set(node.features)) for node in found.nodes] == [
        ("n1", 16, {"ib"}),
        ("n3", 16, set()),
    ]
    assert "nodes that take no jobs, left out: 1 (drained 1)" in found.remarks
    # Half a feature is none.
    assert "unknown keys of nodes, ignored: 'AVAIL_FEATURES cut short' 1" in found.remarks
    assert [(one.name, one.nodes) for one in found.partitions] == [("main", ("n1", "n3")), ("debug", ("n1",))]


def test_partitions_are_those_of_the_rows(tmp_path: Path) -> None:
    found = cluster(tmp_path, BY_PARTITION)
    (main,) = found.partitions
    assert (main.name, main.nodes, main.most_seconds) == ("main", ("n1", "n2", "n4"), 86400)
    assert found.in_use.tolist() == [False, False, True]
    assert "nodes that take no jobs, left out: 1 (reserved 1)" in found.remarks


def test_a_table_says_of_a_partition_only_whether_it_is_up(tmp_path: Path) -> None:
    (main,) = cluster(tmp_path, CONF, BY_PARTITION).partitions
    assert (main.most_seconds, main.most_nodes) == (None, 3)
    down = cluster(tmp_path, CONF, BY_PARTITION.replace("    up ", "  down "))
    assert down.closed == {"main": "is down"}
    assert not down.partitions


def test_a_list_of_reasons_names_nodes_that_take_no_jobs(tmp_path: Path) -> None:
    found = cluster(tmp_path, CONF, REASONS)
    assert [node.name for node in found.nodes] == ["n3"]
    assert "nodes that take no jobs, left out: 3 (down or drained 3)" in found.remarks
    states = "NODELIST STATE\nn1 drain\nn2 down*\nn4 down\n"
    both = cluster(tmp_path, CONF, states, REASONS)
    assert [node.name for node in both.nodes] == ["n3"]


def test_of_a_sum_over_several_nodes_the_least_is_taken(tmp_path: Path) -> None:
    found = cluster(tmp_path, "NODELIST STATE CPUS MEMORY\nn[1-2] idle 16+ 1K\nn2 idle 32 2048\n")
    assert [node.cores for node in found.nodes] == [16, 32]
    assert found.nodes[0].memory_mib == 1024


def test_bars_part_columns(tmp_path: Path) -> None:
    found = cluster(
        tmp_path, "NODELIST|STATE|CPUS|GRES|REASON\nn1|idle|8|gpu:a100:4|\nn2|drain|8||bad | fan\n"[:-6] + "\n"
    )
    assert [(node.name, dict(node.gpus)) for node in found.nodes] == [("n1", {"a100": 4})]
    (job,) = queue(tmp_path, "JOBID|NAME|STATE|NODES|REASON\n7|a b|PENDING|2|Priority\n").jobs
    assert (job.id, job.request.least_nodes) == ("7", 2)


def test_amounts_in_use_beat_a_word(tmp_path: Path) -> None:
    printed = "NodeName=n1 CPUAlloc=4 CPUTot=16 State=MIXED RealMemory=100 AllocMem=10\n"
    found = cluster(tmp_path, printed, "NODELIST STATE\nn1 mix-\n")
    assert found.free[0].tolist() == [12000, 90, 0]
    with pytest.raises(BadFileError, match="no node takes jobs: 1 \\(drained 1\\)"):
        cluster(tmp_path, printed, "NODELIST STATE\nn1 drng\n")


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ("unk", "in an unknown state"), ("unknown*", "in an unknown state"), ("npc", "in use for its counters"),
        ("block", "blocked"), ("powring_dn", "powering down"), ("powered_dn", ""), ("plnd", ""), ("idle~", ""),
        ("idle#", ""), ("drain$", "drained"), ("fail*", "failing"), ("futr", "future"), ("boot^", "rebooting"),
    ],
)  # fmt: skip
def test_every_state_of_sinfo_is_known(tmp_path: Path, state: str, why: str) -> None:
    found = cluster(tmp_path, f"NODELIST STATE\nn1 idle\nn2 {state}\n")
    assert found.size == 1 + (not why)
    assert not why or why in found.remarks[-1]


TABLES = {
    "long": "Fri Nov 28 03:35:26 2026\n"
    " JOBID PARTITION     NAME     USER    STATE       TIME TIME_LIMI  NODES NODELIST(REASON)\n"
    "    12      main   my job        u  PENDING       0:00 1-00:00:00     2 (Resources)\n"
    "    13      main      job        u  PENDING       0:00 UNLIMITED      1 (Dependency)\n"
    "    14      main      job        u  RUNNING       1:00   1:00:00      1 n1\n",
    "own columns": "JOBID PARTITION STATE NODES NODELIST(REASON)\n12 main PENDING 2 (Resources)\n"
    "13 main PENDING 1 (Dependency)\n14 main RUNNING 1 n1\n",
    "start": "JOBID PARTITION NAME USER ST START_TIME NODES SCHEDNODES NODELIST(REASON)\n"
    "12 main a u PD N/A 2 (null) (Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
    "partitions)\n13 main a u PD 2026-01-01T00:00:00 1 n3 (Dependency)\n",
    "without titles": "12 main a u PD 0:00 2 (Priority)\n13 main a u PD 0:00 1 (Dependency)\n14 main a u R 1:00 1 n1\n",
    "empty cells": "JOBID PARTITION ST NODES NODELIST REASON\n12 main PD 2  Priority\n13 main PD 1  Dependency\n"
    "14 main R 1 n1 None\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_jobs_is_read_whatever_its_columns(tmp_path: Path, name: str) -> None:
    jobs = queue(tmp_path, TABLES[name]).jobs
    assert [(job.id, job.request.least_nodes, job.waits_for) for job in jobs] == [
        ("12", 2, ""),
        ("13", 1, "Dependency"),
    ]
    assert {job.request.partition for job in jobs} == {"main"}
    assert all(job.request.is_exclusive for job in jobs)


def test_demands_in_a_table_hold(tmp_path: Path) -> None:
    text = (
        "JOBID STATE NODES CPUS MIN_MEMORY FEATURES TRES_PER_NODE LICENSES REASON\n"
        "1 PENDING 1 4 10M (null) gres/gpu:1 (null) Priority\n2 PENDING 1 4 10M big N/A (null) Priority\n"
        "3 PENDING 1 4 10M (null) N/A matlab:1 Priority\n4 PENDING 1 4 10M (null) gres/shard:1 (null) Priority\n"
    )
    found = queue(tmp_path, text)
    asked = [job.request for job in found.jobs]
    assert (asked[0].gpus_per_node, asked[1].constraint, asked[0].memory_per_node_mib) == ((("", 1.0),), "big", 10)
    assert [one.unmodelled for one in asked] == [(), (), ("license/matlab",), ("gres/shard",)]
    assert found.remarks == ("jobs of a table, which get whole nodes: 4",)
    odd = queue(tmp_path, "JOBID ST NODES WEATHER\n1 PD 1 rain\n")
    assert "unknown keys of jobs, ignored: 'weather' 1" in odd.remarks


def test_a_name_of_a_partition_that_is_cut_is_completed(tmp_path: Path) -> None:
    conf = CONF + "PartitionName=interactive Nodes=n[3-4]\n"
    (job,) = queue(tmp_path, "JOBID PARTITION ST NODES\n1 interacti PD 1\n").jobs
    assert job.request.on(cluster(tmp_path, conf)).masks.tolist() == [[False, False, True, True]]
    both = cluster(tmp_path, f"{conf}PartitionName=interaction Nodes=n1\n")
    with pytest.raises(Exception, match="partition interacti is not in the cluster"):
        job.request.on(both)
    exact = cluster(tmp_path, f"{conf}PartitionName=interacti Nodes=n1\n")
    assert job.request.on(exact).masks.tolist() == [[True, False, False, False]]


@pytest.mark.parametrize(
    ("text", "tasks"),
    [("[1-3,5,...%2]", [1, 2, 3, 5]), ("[0-9,20-2", [*range(10), 20]), ("[0-9,2", list(range(10))),
     ("[3-99", list(range(3, 100)))],
)  # fmt: skip
def test_of_an_array_that_is_cut_short_the_certain_tasks_are_taken(tmp_path: Path, text: str, tasks: list[int]) -> None:
    found = queue(tmp_path, f"JOBID ST NODES\n7_{text} PD 1\n")
    assert [job.id for job in found.jobs] == [f"7_{task}" for task in tasks]
    assert any(one.startswith("arrays whose list of tasks is cut short") for one in found.remarks)
    listed = queue(tmp_path, f"7_{text} 1\n")
    assert [job.id for job in listed.jobs] == [f"7_{task}" for task in tasks]
    assert any(one.startswith("arrays whose list of tasks is cut short") for one in listed.remarks)


def test_running_tasks_count_towards_the_limit_of_their_array(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "JOBID ST NODES\n7_[3-5%2] PD 1\n7_2 R 1\n").jobs
    assert [(job.id, job.waits_for) for job in jobs] == [
        ("7_3", ""), ("7_4", "JobArrayTaskLimit"), ("7_5", "JobArrayTaskLimit"),
    ]  # fmt: skip


NAME = st.from_regex(r"[a-z]{1,5}( [a-z]{1,5}){0,2}", fullmatch=True)


@given(
    rows=st.lists(
        st.tuples(NAME, st.integers(1, 9), st.sampled_from(["Priority", "Resources"])), min_size=1, max_size=5
    )
)
def test_names_with_spaces_move_no_column(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, str]]
) -> None:
    lines = [f"{number} main {name} user PD 0:00 {nodes} ({why})" for number, (name, nodes, why) in enumerate(rows, 1)]
    text = "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)\n" + "\n".join(lines)
    jobs = queue(tmp_path_factory.mktemp("queue"), text).jobs
    assert [job.request.least_nodes for job in jobs] == [nodes for _, nodes, _ in rows]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("NODELIST STATE\nn1\n", "line 2: has 1 columns, but there are 2 titles: NODELIST STATE"),
        ("STATE NNODES NCORES NGPUS NODELIST\nfree 1 8 0 t0\n", "is a table of Flux; print its resources with"),
        ("NODELIST|STATE\n|idle\n", "line 2: names no node"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(BadFileError, match=re.escape(fault)):
        cluster(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["NodeName=n1 CPUAlloc=0 CPUTot=8\n", "NODELIST STATE\nn1 idle\n", "SwitchName=s Nodes=n1\n"]
)
def test_a_cluster_is_no_queue(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFileError, match="describes a cluster and no jobs: give it with --cluster"):
        queue(tmp_path, text)


@pytest.mark.parametrize("text", ["JobId=1 JobName=a\n   JobState=PENDING\n", "JOBID ST NODES\n1 PD 1\n"])
def test_a_queue_is_no_cluster(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadFileError, match="holds jobs and no nodes: give waiting jobs with --queue"):
        cluster(tmp_path, text)


def test_a_job_of_a_table_gets_whole_nodes(tmp_path: Path) -> None:
    (job,) = queue(tmp_path, "JOBID ST NODES\n1 PD 2-4\n").jobs
    assert job.request == Request.whole_nodes(2)
