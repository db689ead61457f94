"""``--cluster``: jobs share nodes in ``simulate``, ``what-if``, ``sweep`` and ``rerun``."""

from pathlib import Path

import pytest
from support.program import Run

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
    assert (again.code, again.lines_of_error[-1]) == (0, "allocopt: out.json: the same rows as before")
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
    assert "the cluster of slurm.conf, topology.conf; jobs get of its nodes what they request" in page
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
        ((*SIMULATE, "--topology", "topology.conf"), "topology and cluster both say how large the machine is"),
        ((*SIMULATE, "--set", "strategy=free", "--allocator", "first"), "strategy: is for solvers that choose whole"),
        ((*SIMULATE, "--allocator", "frist"), "there is no allocator 'frist'; did you mean 'first'?"),
        (("what-if", "--trace", "jobs.csv", *CLUSTER, "--allocators", "frist"), "no allocator 'frist'; did you mean"),
        ((*SIMULATE, "--explain", "1"), "why a job waited is not recorded where jobs share nodes"),
        ((*SIMULATE, "--policy", "wfp3"), "queue order 'wfp3' changes with time"),
        (("what-if", "--trace", "jobs.csv"), "give --topology, for whole nodes, or --cluster"),
        (("what-if", "--trace", "jobs.csv", *CLUSTER, "--hop-slowdown", "1"), "hops do not slow jobs down"),
    ],
)
def test_what_does_not_go_with_a_cluster_is_said_in_one_line(run: Run, command: tuple[str, ...], fault: str) -> None:
    answer = run(*command)
    assert (answer.code, answer.out) == (2, "")
    assert fault in answer.lines_of_error[-1]


def test_on_two_switches_that_none_joins_no_job_has_nodes_of_both(run: Run) -> None:
    Path("topology.conf").write_text("SwitchName=a Nodes=n[01-04]\nSwitchName=b Nodes=n[05-08]\n", encoding="utf-8")
    answer = run("what-if", "--trace", "jobs.csv", "--topology", "topology.conf", "--json")
    (line,) = (line for line in answer.lines_of_error if " jobs dropped (" in line)
    assert line.startswith("allocopt: jobs: ")
    dropped = int(line.split()[2])
    assert line.endswith(f"(larger than the trees, which no job leaves: {dropped})")
    assert "trees that no job leaves" in answer.err
    assert {row["jobs"] for row in answer.rows} == {39 - dropped}


ODD = (
    "JobID|Submit|Start|ElapsedRaw|AllocNodes|AllocCPUS|ReqTRES|Partition|Constraints|State\n"
    "1|0|5|60|1|2|cpu=2,license/matlab=1|main||COMPLETED\n"
    "2|0|5|60|1|2|cpu=2|gone||COMPLETED\n"
    "3|0|5|60|1|2|cpu=2,gres/gpu:h100=1|main||COMPLETED\n"
    "4|0|5|60|2|2|cpu=2|main|[a*1&b*1]|COMPLETED\n"
    "5|0|5|60|1|2|cpu=2|main|skylake|COMPLETED\n"
    "6|0|5|60|1|2|cpu=2,gres/shard=2|main||COMPLETED\n"
    "7|0|5|60|9|9|cpu=9|main||COMPLETED\n"
    "8|0|5|60|1|2|cpu=2|gone||COMPLETED\n"
    "9|0|5|60|1|2|cpu=2|main||RUNNING\n"
)
WHY = {
    "not ended": 1,
    "partition gone is not in the cluster": 2,
    "no node has GPUs of type h100": 1,
    "constraint [a*1&b*1] counts nodes, which is not modelled": 1,
    "no node has feature skylake": 1,
    "asks for gres/shard, which is not modelled": 1,
    "larger than the machine": 1,
}


def test_every_command_counts_dropped_jobs_by_the_same_true_reasons(run: Run) -> None:
    Path("odd.txt").write_text(ODD, encoding="utf-8")
    compared = run("what-if", "odd.txt", *CLUSTER, "--allocators", "first", "--json")
    listed = "; ".join(f"{reason}: {jobs}" for reason, jobs in WHY.items())
    assert f"allocopt: odd: 8 of 9 jobs dropped ({listed})" in compared.lines_of_error
    assert "allocopt: odd: jobs repaired, asks for license/matlab, which is not modelled, placed without it: 1" in (
        compared.lines_of_error
    )
    assert [row["jobs"] for row in compared.rows] == [1, 1]
    simulated = run("simulate", "odd.txt", *CLUSTER, "--set", "skip_oversized=true", "--json")
    assert {f"allocopt: odd: jobs dropped, {reason}: {jobs}" for reason, jobs in WHY.items()} <= {
        *simulated.lines_of_error
    }
    refused = run("simulate", "odd.txt", *CLUSTER).lines_of_error[-1]
    counts = "; ".join(f"{reason}: {jobs}" for reason, jobs in WHY.items() if reason != "not ended")
    assert refused.startswith(
        "allocopt: job 2: partition gone is not in the cluster, which has main, short; 7 jobs cannot be"
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
