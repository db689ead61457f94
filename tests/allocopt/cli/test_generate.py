"""``allocopt generate``: windows of instances, synthetic windows, and workloads."""

import gzip
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.program import Answer, Run

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.reading import read_topology
from allocopt.cluster.topology import Tree
from allocopt.problems.instances import read_problems, write_problems
from allocopt.problems.topology import Job, TopologyProblem
from allocopt.traces.reading import read_workload

SMALL = ["--pods", "2", "--leaves-per-pod", "3", "--nodes-per-leaf", "4"]


Windows = Callable[..., Answer]


@pytest.fixture
def windows(run: Run) -> Windows:
    """Cut windows by the fastest allocator into a file; nothing is printed on standard output."""

    def made(out: Path, *more: str | Path) -> Answer:
        answer = run("generate", "windows", "--out", out, "--allocator", "sequential", "--strategy", "scas", *more)
        assert (answer.code, answer.out) == (0, ""), answer.err
        return answer

    return made


def test_windows_go_into_one_file_or_into_a_folder_one_file_each(windows: Windows, tmp_path: Path) -> None:
    file, folder = tmp_path / "paper.jsonl.gz", tmp_path / "made"
    assert "instances written: 5" in windows(file, "--count", "5", "--skip", "10").err
    problems = read_problems(file)
    assert [problem.name for problem in problems] == [f"paper-{number:03d}" for number in range(5)]
    assert {problem.topology.size for problem in problems} == {1000}
    windows(folder, "--count", "2", "--prefix", "w")
    assert sorted(path.name for path in folder.iterdir()) == ["w-000.json", "w-001.json"]
    assert read_problems(folder / "w-001.json")[0].name == "w-001"


@pytest.mark.parametrize(
    "what",
    [
        "windows --count 3 --out",
        "synthetic --idle 20 --jobs 2 --count 3 --out",
        "knapsack --count 2 --out",
        "coallocation --hosts 4 --guests 3 --count 2 --out",
        *(f"workload --model {model} --jobs 100" for model in ("lublin", "nsa", "asax")),
    ],
)
def test_the_seed_alone_decides_the_bytes(run: Run, tmp_path: Path, what: str) -> None:
    files = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / name / "made.json.gz"
        path.parent.mkdir()
        path = path if what.startswith("workload") else path.with_name("made.jsonl.gz")
        assert run("generate", *what.split(), path, "--seed", str(seed)).code == 0
        files.append(path.read_bytes())
    assert files[0] == files[1] != files[2]


def test_a_trace_is_replayed_in_whole_nodes_and_losses_are_said(windows: Windows, tmp_path: Path) -> None:
    trace = tmp_path / "log.swf.gz"
    jobs = [(1, 30, 0), (2, 31, 60), (3, 17, 60), (4, 1000, 60), (5, 160, 60)]
    text = "".join(f"{j} 0 -1 {run} {p} -1 -1 {p} -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for j, p, run in jobs)
    trace.write_bytes(gzip.compress(text.encode()))
    said = windows(tmp_path / "a.json", "--workload", trace, "--processors-per-node", "16", "--count", "1", *SMALL).err
    (problem,) = read_problems(tmp_path / "a.json")
    assert problem.name == "log-000"
    assert [(job.id, job.nodes) for job in problem.jobs] == [("2", 2), ("3", 2), ("5", 10)]
    assert "log: jobs dropped, run time not positive: 1" in said
    assert "log: jobs dropped, larger than the machine: 1" in said
    assert "no requested time, run time used: 4" in said


def test_fewer_windows_than_asked_are_said(windows: Windows, tmp_path: Path) -> None:
    assert "fewer than the 50 asked for" in windows(tmp_path / "few.jsonl", "--jobs", "30", "--count", "50").err


def test_hops_and_pairs_reach_the_instance(windows: Windows, tmp_path: Path) -> None:
    windows(tmp_path / "a.jsonl", "--count", "1", "--hops", "1,3,5", "--pairs", "unordered", "--hop-cost", "7")
    (problem,) = read_problems(tmp_path / "a.jsonl")
    assert (problem.topology.hops, problem.topology.pairs, problem.hop_cost) == ((1, 3, 5), "unordered", 7)


def test_synthetic_windows_have_what_was_asked_and_several_are_numbered_and_differ(run: Run, tmp_path: Path) -> None:
    one, several = tmp_path / "L.json.gz", tmp_path / "a.jsonl"
    asked = ("--idle", "300", "--jobs", "12", "--name", "L", "--load", "0.8")
    assert run("generate", "synthetic", *asked, "--out", one).code == 0
    (problem,) = read_problems(one)
    assert (problem.name, len(problem.idle_nodes), len(problem.jobs)) == ("L", 300, 12)
    assert problem.sizes.sum() <= 240
    small = ("--idle", "20", "--jobs", "2", "--max-nodes", "9", "--count", "3", "--seed", "4", *SMALL)
    assert run("generate", "synthetic", *small, "--out", several).code == 0
    problems = read_problems(several)
    assert [problem.name for problem in problems] == ["synthetic-000", "synthetic-001", "synthetic-002"]
    assert len({tuple(problem.idle_nodes.tolist()) for problem in problems}) == 3


def test_windows_are_cut_from_the_authors_workload(windows: Windows, shared_data: Path, tmp_path: Path) -> None:
    windows(tmp_path / "out", "--workload", shared_data / "tjap" / "data_large_1800_40.txt.gz", "--count", "3")
    assert sorted(path.name for path in (tmp_path / "out").iterdir())[0] == "data_large_1800_40-000.json"


@pytest.mark.parametrize("model", ["lublin", "nsa", "asax"])
def test_a_workload_of_a_model_is_written(run: Run, tmp_path: Path, model: str) -> None:
    out = tmp_path / "made.swf.gz"
    answer = run("generate", "workload", "--model", model, "--jobs", "50", "--processors", "64", "--seed", "3", out)
    assert (answer.code, answer.out, answer.lines_of_error) == (0, "", [f"{out}: jobs written: 50"])
    made = read_workload(out)
    assert made.ids.tolist() == list(range(1, 51))
    assert made.machine_processors == 64
    assert made.processors.max() <= 64


M, T = "sites/micro/", "sites/topologies/"
JOBS = """JobId=11 JobName=a
   JobState=PENDING Partition=normal ReqNodeList=(null) ExcNodeList=n1
   NumNodes=2-2 NumCPUs=24 NumTasks=24 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   Socks/Node=* NtasksPerN:B:S:C=12:0:*:1 MinMemoryCPU=2800M Features=CPU-N OverSubscribe=OK

JobId=12 JobState=RUNNING NumNodes=1
JobId=13 JobState=PENDING Partition=normal NumNodes=1 NumTasks=1 MinMemoryNode=4G TresPerNode=gres:gpu:2
JobId=14 JobState=PENDING NumNodes=40-40 NumTasks=40 CPUs/Task=12 OverSubscribe=NO
"""


def test_jobs_that_share_nodes_are_allocated_by_the_sites_own_files(
    run: Run, shared_data: Path, tmp_path: Path
) -> None:
    (tmp_path / "jobs.txt").write_text(JOBS, encoding="utf-8")
    out, queue = tmp_path / "now.json", tmp_path / "jobs.txt"
    cluster = ",".join(str(shared_data / M / name) for name in ("slurm.conf", "gres.conf", "topology.conf"))
    made = run("generate", "window", "--cluster", cluster, "--queue", queue, "--idle", "n[1-3],g1", "--out", out)
    assert made.code == 0, made.err
    assert "jobs left out, larger than the machine: 1" in made.err
    answer = run("solve", out, "--solver", "cons-tres", "--nodelist", cluster)
    # Of the nodes with the feature one is excluded and one is not idle; GPUs are on one node.
    assert answer.out.splitlines()[1:] == ["11\tn[2-3]", "13\tg1"]
    for old, new, line in (("NumTasks=24", "NumTasks=many", 1), ("JobId=13", "JobId=11", 7), ("2800M", "2800 cows", 1)):
        queue.write_text(JOBS.replace(old, new), encoding="utf-8")
        refused = run("generate", "window", "--cluster", cluster, "--queue", queue, "--out", tmp_path / "none.json")
        assert refused.refusal(3).startswith(f"{queue}: line {line}: ")


@pytest.mark.parametrize(
    ("name", "jobs", "lists"),
    [
        # Trees of 16, 16 and 8 nodes: of two jobs of 12 nodes each has a tree, no third and none of 17 fits.
        ("slurm133_6.conf", {"a": 12, "b": 12, "c": 12, "d": 17, "e": 8}, {"a", "b", "e"}),
        # Blocks of 32 nodes, planned with 30: a job of 31 nodes may take two of them, not three.
        ("slurmman_block.conf", {"a": 31, "b": 128}, {"a"}),
    ],
)
def test_no_list_crosses_what_slurm_does_not(
    run: Run, shared_data: Path, tmp_path: Path, name: str, jobs: dict[str, int], lists: set[str]
) -> None:
    path, out = shared_data / T / name, tmp_path / "now.json"
    waiting = [part for job, nodes in jobs.items() for part in ("--job", f"{job}={nodes}")]
    for option in ("--topology", "--cluster"):
        assert run("generate", "window", option, path, *waiting, "--out", out).code == 0
        answer = run("solve", out, "--solver", "best-fit", "--nodelist", path)
        given = dict(line.split("\t") for line in answer.out.splitlines()[1:])
        assert given.keys() == lists
        tree = read_topology(path)
        for job, hostlist in given.items():
            nodes = np.array(tree.numbers(expand_hostlist(hostlist)))
            assert len(nodes) == jobs[job]
            spans = [len(np.unique(row[nodes])) for row in tree.tree.groups]
            assert all(span <= most for span, most in zip(spans, tree.most_groups(len(nodes)), strict=True) if most)
    plain = TopologyProblem(tree.tree, np.arange(tree.tree.size), (Job("a", 20),), name="plain")
    write_problems(tmp_path / "plain.json", [plain])
    refusal = run("solve", tmp_path / "plain.json", "--nodelist", path).err.splitlines()[-1]
    assert "job 'a' of plain may span blocks or roots" in refusal
    windows = run("generate", "windows", "--topology", path, "--out", tmp_path / "many.json")
    assert (windows.code, "has blocks or several trees, not one tree" in windows.err) == (2, True)


def test_nothing_is_placed_on_toruses_of_which_only_some_nodes_go_together(
    run: Run, shared_data: Path, tmp_path: Path
) -> None:
    # As Slurm's own test of it: a job of 8 nodes waits while 16 are idle that make up no 2 x 2 x 2.
    torus = shared_data / T / "slurm_test161.yaml"
    (tmp_path / "jobs.csv").write_text("job_id,submit,run,nodes\n1,0,100,8\n", encoding="utf-8")
    write_problems(
        tmp_path / "w.json", [TopologyProblem(Tree.from_levels([{"t": range(32)}]), np.arange(32), (Job("a", 8),))]
    )
    for command in (
        ("generate", "window", "--cluster", torus, "--job", "a=8", "--out", tmp_path / "made.json"),
        ("generate", "windows", "--topology", torus, "--out", tmp_path / "made.json"),
        ("solve", tmp_path / "w.json", "--nodelist", torus),
        ("simulate", tmp_path / "jobs.csv", "--topology", torus),
        ("simulate", tmp_path / "jobs.csv", "--cluster", torus),
        ("what-if", "--trace", tmp_path / "jobs.csv", "--topology", torus),
    ):
        answer = run(*command)
        assert (answer.code, answer.out, (tmp_path / "made.json").exists()) == (2, "", False)
        assert re.search("adjacent nodes|not one tree", answer.lines_of_error[-1])
