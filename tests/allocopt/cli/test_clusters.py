"""``--cluster``: jobs share nodes in ``simulate``, ``what-if``, ``sweep`` and ``rerun``."""

import csv
import json
from pathlib import Path

import pytest
from support.program import Run

from allocopt.cluster.hostlist import expand_hostlist

CONF = (
    "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nNodeName=n[01-04] CPUs=4\nNodeName=n[05-08] CPUs=8\n"
    "PartitionName=main Nodes=n[01-08] Default=YES\nPartitionName=short Nodes=n[01-04] MaxTime=1\n"
)
CLUSTER = ("--cluster", "slurm.conf,topology.conf")
SIMULATE = ("simulate", "jobs.csv", *CLUSTER, "--backfill", "easy", "--json")


@pytest.fixture(autouse=True)
def conf(site: Path) -> None:
    (site / "slurm.conf").write_text(CONF, encoding="utf-8")


def test_jobs_share_the_nodes_of_a_cluster_in_every_file_that_is_written(run: Run) -> None:
    files = ("--jobs-csv", "out.csv", "--swf", "out.swf", "--out", "out.json")
    answer = run(*SIMULATE, "--allocator", "best-fit", *files)
    assert (answer.code, answer.rows[0]["jobs"]) == (0, 39)
    assert "groups: 2 at level 1; hops 2, 4; 48 cores; partitions main, short" in answer.err
    assert len(Path("out.csv").read_text(encoding="utf-8").splitlines()) == 40
    assert run("simulate", "out.swf", "--json").rows[0]["jobs"] == 39
    again = run("rerun", "out.json")
    assert (again.code, again.lines_of_error[-1]) == (0, "allocopt: out.json: rows are equal")
    assert "utilization of cores" in again.out
    assert "utilization of nodes" in again.out


def test_every_allocator_and_scheduler_is_compared_on_a_cluster(run: Run) -> None:
    what_if = ("what-if", "--trace", "jobs.csv", *CLUSTER, "--schedulers", "easy,sjf+easy", "--jobs-csv", "csv")
    answer = run(*what_if, "--report", "page.html", "--out", "rows.json", "--json")
    rows = [row for row in answer.rows if row["allocator"] != "as recorded"]
    assert [row["allocator"] for row in rows] == ["lowest-switch", "first", "best-fit"] * 2
    assert {(row["jobs"], row["processors"]) for row in rows} == {(39, 48)}
    assert len(list(Path("csv").iterdir())) == len(answer.rows)
    page = Path("page.html").read_text(encoding="utf-8")
    assert "the cluster of slurm.conf, topology.conf; jobs get the resources that they request" in page
    assert run("report", "csv/easy,first.csv", "--out", "one.html").code == 0


def test_clusters_are_swept(run: Run, site: Path) -> None:
    (site / "sweep.toml").write_text(
        '[[traces]]\nfile = "jobs.csv"\ncluster = ["slurm.conf", "topology.conf"]\n'
        '[[policies]]\nname = "sjf"\nbackfill = ["none", "easy"]\nallocator = "least-loaded"\n',
        encoding="utf-8",
    )
    rows = run("sweep", "sweep.toml", "--json").rows
    assert [(row["backfill"], row["jobs"]) for row in rows] == [("none", 39), ("easy", 39)]


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ((*SIMULATE, "--topology", "topology.conf"), "topology and cluster state the size of the machine"),
        ((*SIMULATE, "--set", "strategy=free", "--allocator", "first"), "strategy: is for solvers that choose whole"),
        ((*SIMULATE, "--allocator", "frist"), "there is no allocator 'frist'; did you mean 'first'?"),
        (("what-if", "--trace", "jobs.csv", *CLUSTER, "--allocators", "frist"), "no allocator 'frist'; did you mean"),
        ((*SIMULATE, "--explain", "no-such-job"), "there is no job no-such-job to explain in jobs"),
        (("what-if", "--trace", "jobs.csv"), "give either --topology (whole nodes) or --cluster"),
    ],
)
def test_what_does_not_go_with_a_cluster_is_said_in_one_line(run: Run, command: tuple[str, ...], fault: str) -> None:
    answer = run(*command)
    assert (answer.code, answer.out) == (2, "")
    assert fault in answer.lines_of_error[-1]


def test_why_a_job_of_a_cluster_waited_is_told(run: Run) -> None:
    assert run(*SIMULATE, "--policy", "wfp3", "--jobs-csv", "jobs-run.csv").code == 0
    rows = list(csv.DictReader(Path("jobs-run.csv").read_text(encoding="utf-8").splitlines()))
    longest = max(rows, key=lambda row: float(row["wait"]))
    lines = run(*SIMULATE[:-1], "--policy", "wfp3", "--explain", longest["job_id"]).out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(f"job {longest['job_id']}: submitted at "))
    assert "asks for " in lines[at + 1]


def test_hops_slow_jobs_of_a_cluster_down(run: Run) -> None:
    compare = "what-if", "--trace", "jobs.csv", *CLUSTER, "--schedulers", "fcfs+easy", "--allocators", "first", "--json"
    makespans = [run(*compare, *more).rows[0]["makespan_s"] for more in ((), ("--hop-slowdown", "1"))]
    assert makespans[0] < makespans[1]


def test_on_two_switches_that_none_joins_no_job_has_nodes_of_both(run: Run) -> None:
    Path("topology.conf").write_text("SwitchName=a Nodes=n[01-04]\nSwitchName=b Nodes=n[05-08]\n", encoding="utf-8")
    answer = run("what-if", "--trace", "jobs.csv", "--topology", "topology.conf", "--json")
    (line,) = (line for line in answer.lines_of_error if " jobs dropped (" in line)
    assert line.startswith("allocopt: jobs: ")
    dropped = int(line.split()[2])
    assert line.endswith(f"(larger than the trees of the topology: {dropped})")
    assert "separate trees, a job stays within one" in answer.err
    assert {row["jobs"] for row in answer.rows} == {39 - dropped}


ODD = (
    "JobID|Submit|Start|ElapsedRaw|AllocNodes|AllocCPUS|ReqTRES|Partition|Constraints|State\n"
    "1|0|5|60|1|2|cpu=2|main||COMPLETED\n"
    "2|0|5|60|1|2|cpu=2|gone||COMPLETED\n"
    "3|0|5|60|1|2|cpu=2,gres/gpu:h100=1|main||COMPLETED\n"
    "4|0|5|60|2|2|cpu=2|main|[a*1&b*1]|COMPLETED\n"
    "5|0|5|60|1|2|cpu=2|main|skylake|COMPLETED\n"
    "6|0|5|60|1|2|cpu=2,gres/shard=2|main||COMPLETED\n"
    "7|0|5|60|9|9|cpu=9|main||COMPLETED\n"
    "8|0|5|60|1|2|cpu=2|gone||COMPLETED\n"
    "9|0|5|60|1|2|cpu=2|main||RUNNING\n"
    "10|0|5|60|1|2|cpu=2,license/matlab=1|main||COMPLETED\n"
)
READ = (
    "asks for a constraint that counts nodes, which is not modelled",
    "asks for gres/shard, which is not modelled",
    "not ended",
    "asks for license/matlab, which is not modelled",
)
"""Reasons that are known when the trace is read, whatever the cluster."""
WHY = {
    **dict.fromkeys(READ, 1),
    "partition gone is not in the cluster": 2,
    "no node has GPUs of type h100": 1,
    "no node has feature skylake": 1,
    "larger than the machine": 1,
}


def test_every_command_counts_dropped_jobs_by_the_same_true_reasons(run: Run) -> None:
    Path("odd.txt").write_text(ODD, encoding="utf-8")
    compared = run("what-if", "odd.txt", *CLUSTER, "--allocators", "first", "--json")
    listed = "; ".join(f"{reason}: {jobs}" for reason, jobs in WHY.items())
    assert f"allocopt: odd: 9 of 10 jobs dropped ({listed})" in compared.lines_of_error
    assert [row["jobs"] for row in compared.rows] == [1, 1]
    simulated = run("simulate", "odd.txt", *CLUSTER, "--set", "skip_oversized=true", "--json")
    assert {f"allocopt: odd: jobs dropped, {reason}: {jobs}" for reason, jobs in WHY.items()} <= {
        *simulated.lines_of_error
    }
    refused = run("simulate", "odd.txt", *CLUSTER).lines_of_error[-1]
    counts = "; ".join(f"{reason}: {jobs}" for reason, jobs in WHY.items() if reason not in READ)
    assert refused.startswith(
        "allocopt: job 2: partition gone is not in the cluster, which has main, short; 5 jobs cannot be"
    )
    assert refused.endswith(f" served: {counts}; skip_oversized = true drops such jobs")


def test_a_window_counts_jobs_that_are_never_served_by_reason(run: Run) -> None:
    job = "JobId={} JobState=PENDING NumNodes=1 NumTasks=1 Partition={} {}\n"
    queue = [job.format(1, "main", ""), job.format(2, "gone", ""), job.format(3, "gone", "")]
    queue += [job.format(4, "main", "Features=skylake"), job.format(5, "main", "TresPerNode=gres/shard:1")]
    Path("queue.txt").write_text("\n".join(queue), encoding="utf-8")
    answer = run("generate", "window", *CLUSTER, "--queue", "queue.txt", "--out", "now.json")
    assert answer.code == 0
    for reason, jobs in (
        ("partition gone is not in the cluster", 2),
        ("no node has feature skylake", 1),
        ("asks for gres/shard, which is not modelled", 1),
    ):
        assert f"queue: jobs left out, {reason}: {jobs}" in answer.lines_of_error


MIXED = (
    "SelectTypeParameters=CR_Core\nGresTypes=gpu\nNodeName=c[1-4] CPUs=4\nNodeName=g[1-2] CPUs=4 Gres=gpu:a100:2\n"
    "PartitionName=cpu Nodes=c[1-4] Default=YES\nPartitionName=gpu Nodes=g[1-2]\n"
)
USED = (
    "JobID|Submit|Start|ElapsedRaw|TimelimitRaw|AllocNodes|AllocCPUS|ReqTRES|Partition|User|Account|State\n"
    + "".join(
        f"{job}|{600 * job}|{600 * job + 60}|{900 + job % 7 * 600}|240|{1 + job % 2}|{4 + job % 2 * 4}|"
        + (f"cpu=4{',gres/gpu:a100=2' if job % 4 else ',gres/gpu=1'}|gpu" if job % 3 == 0 else "cpu=4|cpu")
        + f"|{('anna', 'ben')[job % 2]}|{('phys', '')[job % 5 == 0]}|COMPLETED\n"
        for job in range(1, 91)
    )
)
GROUPED = ("used.txt", "--cluster", "mixed.conf")


@pytest.fixture
def used(conf: None) -> None:
    Path("mixed.conf").write_text(MIXED, encoding="utf-8")
    Path("used.txt").write_text(USED, encoding="utf-8")


@pytest.mark.usefixtures("used")
def test_what_if_shows_each_of_several_partitions_and_other_groups_where_they_are_asked_for(run: Run) -> None:
    answer = run("what-if", *GROUPED, "--allocators", "first,best-fit")
    assert answer.code == 0, answer.err
    assert max(len(line) for line in answer.out.splitlines() if line.startswith("|")) <= 80
    assert "partition cpu: 60 jobs, " in answer.out
    assert "partition gpu: 30 jobs, " in answer.out
    assert "GPU type" not in answer.out
    by = run("what-if", *GROUPED, "--allocators", "first", "--by", "gpus,account", "--by", "user,size").out
    for title in ("GPU type none: 60 jobs", "GPU type a100: 23 jobs", "GPU type any: 7 jobs", "account phys: 72 jobs"):
        assert title in by
    for title in ("account -: 18 jobs", "user anna: 45 jobs", "user ben: 45 jobs", "size 1: 45 jobs", "size 2-4: 45"):
        assert title in by
    assert "partition" not in by
    assert "too few jobs for a verdict: 7 jobs, fewer than 30" in by


@pytest.mark.usefixtures("used")
def test_rows_of_groups_stand_in_a_file_of_their_own_and_among_json_only_where_they_are_asked_for(run: Run) -> None:
    asked = ("what-if", *GROUPED, "--allocators", "first", "--json")
    plain = run(*asked, "--out", "rows.json")
    assert [row["allocator"] for row in plain.rows] == ["as recorded", "first"]
    groups = json.loads(Path("rows.groups.json").read_text(encoding="utf-8"))
    assert [(row["by"], row["group"], row["allocator"]) for row in groups] == [
        ("partition", label, name) for name in ("as recorded", "first") for label in ("cpu", "gpu")
    ]
    mixed = run(*asked, "--by", "user", "--report", "page.html").rows
    assert [row.get("by") for row in mixed] == [None, "user", "user"] * 2
    assert [{**row, "runtime_s": 0} for row in mixed if "by" not in row] == [
        {**row, "runtime_s": 0} for row in plain.rows
    ]
    assert "By user" in Path("page.html").read_text(encoding="utf-8")
    for whole, *own in (mixed[:3], mixed[3:]):
        assert sum(row["jobs"] for row in own) == whole["jobs"]
        wait = sum(row["jobs"] * row["mean_wait_s"] for row in own)
        assert wait == pytest.approx(whole["jobs"] * whole["mean_wait_s"])
    Path("mixed.jsonl").write_text("\n".join(map(json.dumps, mixed)), encoding="utf-8")
    assert run(*asked, "--out", "rows.csv").code == 0
    assert run("report", "mixed.jsonl", "rows.csv", "rows.groups.csv", "--out", "all.html").code == 0
    text = Path("all.html").read_text(encoding="utf-8")
    assert {"By user", "By partition"} <= {title for title in ("By user", "By partition") if title in text}


@pytest.mark.usefixtures("used")
def test_simulate_measures_groups_of_jobs(run: Run) -> None:
    whole, *groups = run("simulate", *GROUPED, "--by", "partition,gpus", "--json", "--jobs-csv", "jobs.csv").rows
    assert [(row["by"], row["group"], row["jobs"]) for row in groups] == [
        ("partition", "cpu", 60), ("partition", "gpu", 30), ("gpus", "none", 60), ("gpus", "a100", 23),
        ("gpus", "any", 7),
    ]  # fmt: skip
    wait = sum(row["jobs"] * row["mean_wait_s"] for row in groups if row["by"] == "partition")
    assert wait == pytest.approx(whole["jobs"] * whole["mean_wait_s"])
    shown = run("simulate", *GROUPED, "--by", "account").out
    assert "| account | jobs |" in shown
    rows = list(csv.DictReader(Path("jobs.csv").read_text(encoding="utf-8").splitlines()))
    assert {(row["partition"], row["gpu_type"]) for row in rows} == {("cpu", ""), ("gpu", "a100"), ("gpu", "any")}
    assert all(expand_hostlist(row["node_list"]) and int(row["nodes"]) in (1, 2) for row in rows)
    # The report of the file has the same groups.
    assert run("report", "jobs.csv", "--out", "one.html").code == 0
    assert {"Jobs by partition", "Jobs by GPU type", "Jobs by account"} <= {
        title
        for title in ("Jobs by partition", "Jobs by GPU type", "Jobs by account")
        if title in Path("one.html").read_text(encoding="utf-8")
    }


def test_a_grouping_that_is_not_known_is_refused_before_anything_is_simulated(run: Run) -> None:
    for command in ("simulate", "what-if"):
        answer = run(command, "jobs.csv", *CLUSTER, "--by", "queue")
        assert (answer.code, answer.out) == (2, "")
        assert "no grouping 'queue'; there are partition, gpus, user, account, size" in answer.lines_of_error[-1]
