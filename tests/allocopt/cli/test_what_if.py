"""``allocopt what-if``, ``fetch-trace``, and topologies in the other commands."""

import gzip
import hashlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.program import Run

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.experiments.grids import _WhatIfTask

TOPOLOGY = """SwitchName=s1 Nodes=n[01-04]
SwitchName=s2 Nodes=n[05-08]
SwitchName=top Switches=s[1-2]
"""
JOBS = "job_id,submit,run,nodes,estimate\n" + "".join(
    f"{job},{job // 3 * 100},{300 + 40 * (job % 7)},{1 + job * 5 % 6},900\n" for job in range(1, 40)
)


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topology.conf"
    path.write_text(TOPOLOGY, encoding="utf-8")
    return path


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS, encoding="utf-8")
    return path


@pytest.fixture
def window(run: Run, topology: Path, tmp_path: Path) -> Run:
    """Put waiting jobs and idle nodes into the file ``now.json``."""
    return partial(run, "generate", "window", "--topology", topology, "--out", tmp_path / "now.json")


def test_a_trace_and_a_topology_give_a_verdict(run: Run, jobs: Path, topology: Path) -> None:
    answer = run("what-if", "--trace", jobs, "--topology", topology, "--allocators", "first,best-fit,lns")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    assert [line.split()[1] for line in answer.out.splitlines()[3:6]] == ["first", "best-fit", "lns"]
    assert "lowest hop cost: " in answer.out
    assert f"allocopt: {topology}: 8 nodes; groups: 2 at level 1; hops 2, 4" in answer.lines_of_error


def test_rows_have_every_measure_and_its_change(run: Run, jobs: Path, topology: Path) -> None:
    answer = run(
        "what-if", "--trace", jobs, "--topology", topology, "--allocators", "first,best-fit", "--schedulers",
        "easy,sjf+easy", "--json",
    )  # fmt: skip
    rows = answer.rows
    assert [(row["scheduler"], row["allocator"]) for row in rows] == [
        ("easy", "first"), ("easy", "best-fit"), ("sjf+easy", "first"), ("sjf+easy", "best-fit"),
    ]  # fmt: skip
    for row in rows:
        assert row["jobs"] == 39
        assert len(row["fragmentation"]) == 1
        for name, change in (("mean_wait_s", "mean_wait_change"), ("mean_hop_cost", "mean_hop_cost_change")):
            assert row[change] == pytest.approx(row[name] / rows[0][name] - 1)
    assert rows[1]["mean_hop_cost"] <= rows[0]["mean_hop_cost"]


def test_load_limits_and_slowdown_change_what_is_simulated(
    run: Run, jobs: Path, topology: Path, tmp_path: Path
) -> None:
    common = ("what-if", "--trace", jobs, "--topology", topology, "--allocators", "first", "--json")
    plain = run(*common).rows[0]
    assert run(*common, "--load", "2").rows[0]["mean_wait_s"] > plain["mean_wait_s"]
    assert run(*common, "--hop-slowdown", "1").rows[0]["makespan_s"] > plain["makespan_s"]
    assert run(*common, "--max-jobs", "5").rows[0]["jobs"] == 5
    answer = run(*common, "--columns", "estimate=run", "--jobs-csv", tmp_path / "out")
    assert answer.code == 0
    assert len((tmp_path / "out" / "easy,first.csv").read_text(encoding="utf-8").splitlines()) == 40


@pytest.mark.parametrize(("out", "name"), [("rows.json", "rows.json"), ("folder", "folder/what-if.csv")])
def test_an_interrupted_comparison_goes_on_where_it_was(
    run: Run, jobs: Path, topology: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str, name: str
) -> None:
    site = ("--trace", jobs, "--topology", topology, "--schedulers", "easy,sjf+easy", "--allocators", "first,best-fit")
    command = ("what-if", *site, "--jobs-csv", tmp_path / "jobs", "--out", tmp_path / out, "--json")
    with monkeypatch.context() as patched:
        patched.setattr(_WhatIfTask, "run", run_two(_WhatIfTask.run))
        interrupted = run(*command)
    assert interrupted.code == 130
    table = tmp_path / name
    kept = f"2 of 4 simulations done, kept in {table}.sqlite; the same command goes on from there"
    assert interrupted.lines_of_error[-1] == f"allocopt: interrupted; {kept}"
    answer = run(*command)
    assert answer.code == 0
    # Times and all: nobody simulated these again.
    assert answer.rows[:2] == interrupted.rows
    if table.suffix == ".json":
        assert json.loads(table.read_text(encoding="utf-8")) == answer.rows
    else:
        header, *lines = table.read_text(encoding="utf-8").splitlines()
        assert header.split(",") == list(answer.rows[0])
        assert len(lines) == 4
    assert not Path(f"{table}.sqlite").exists()
    alone = run("what-if", *site, "--jobs-csv", tmp_path / "alone", "--workers", "2", "--json")
    assert [{**row, "runtime_s": 0} for row in alone.rows] == [{**row, "runtime_s": 0} for row in answer.rows]
    for path in (tmp_path / "alone").iterdir():
        assert path.read_bytes() == (tmp_path / "jobs" / path.name).read_bytes()


def run_two(ran: Callable[..., Any]) -> Callable[..., Any]:
    """Let Ctrl-C come within the third simulation."""
    count = 0

    def run_task(task: _WhatIfTask, given: Any) -> Any:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return ran(task, given)

    return run_task


@pytest.mark.slow
def test_the_nrel_sample_on_a_real_topology(run: Run, shared_data: Path) -> None:
    trace = shared_data / "slurm_jobs" / "nrel_eagle_sample.csv"
    real = shared_data / "slurm_topology" / "ubhpc-medium.topology.conf"
    rows = run("what-if", "--trace", trace, "--topology", real, "--allocators", "first,best-fit,lns", "--json").rows
    assert [row["jobs"] for row in rows] == [995] * 3
    assert rows[1]["mean_hop_cost"] < 0.9 * rows[0]["mean_hop_cost"]
    assert rows[2]["mean_hop_cost"] < 0.9 * rows[0]["mean_hop_cost"]
    assert rows[0]["mean_wait_s"] == rows[1]["mean_wait_s"] == rows[2]["mean_wait_s"]


def test_a_window_of_a_sites_trace_is_solved_into_hostlists(
    run: Run, jobs: Path, topology: Path, tmp_path: Path
) -> None:
    out = tmp_path / "window.json"
    site = ("--workload", jobs, "--topology", topology)
    assert run("generate", "windows", *site, "--count", "1", "--min-jobs", "1", "--out", out).code == 0
    sizes = {job["id"]: job["nodes"] for job in json.loads(out.read_text(encoding="utf-8"))["jobs"]}
    answer = run("solve", out, "--nodelist", topology)
    lists = dict(line.split("\t") for line in answer.out.splitlines()[1:])
    assert lists.keys() == sizes.keys()
    nodes = [expand_hostlist(lists[job]) for job in sizes]
    assert [len(held) for held in nodes] == list(sizes.values())
    assert set().union(*nodes) <= {f"n{number:02d}" for number in range(1, 9)}
    (row,) = run("solve", out, "--nodelist", topology, "--json").rows
    assert row["nodelists"] == lists


def test_simulate_takes_a_topology_and_a_table(run: Run, jobs: Path, topology: Path) -> None:
    plain = run("simulate", jobs, "--processors", "8", "--backfill", "easy", "--json").rows[0]
    placed = run(
        "simulate", jobs, "--topology", topology, "--allocator", "best-fit", "--backfill", "easy", "--json"
    ).rows[0]
    assert placed["mean_wait_s"] == plain["mean_wait_s"]


def test_convert_takes_tables_and_topologies(run: Run, jobs: Path, topology: Path, tmp_path: Path) -> None:
    assert run("convert", jobs, tmp_path / "jobs.swf").code == 0
    assert run("simulate", tmp_path / "jobs.swf", "--processors", "8", "--json").rows[0]["jobs"] == 39
    assert run("convert", topology, tmp_path / "t.graphml").code == 0
    assert run("convert", tmp_path / "t.graphml", tmp_path / "t.conf").code == 0
    written = (tmp_path / "t.conf").read_text(encoding="utf-8").splitlines()
    assert written == [*TOPOLOGY.splitlines()[:2], "SwitchName=top Switches=s[1-2]"]


def test_a_trace_is_fetched_by_name_and_simulated_without_a_network(
    run: Run, jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    assert run("convert", jobs, tmp_path / "jobs.swf.gz").code == 0
    url = "http://127.0.0.1:1/jobs.swf.gz"
    checksum = hashlib.sha256(gzip.decompress((tmp_path / "jobs.swf.gz").read_bytes())).hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr("allocopt.traces.fetch._download", lambda url: (tmp_path / "jobs.swf.gz").read_bytes())
        fetched = run("fetch-trace", "mine", "--url", url, "--sha256", checksum)
        wrong = run("fetch-trace", "other", "--url", url, "--sha256", "0" * 64)
    assert fetched.out.strip() == str(tmp_path / "cache" / "allocopt" / "traces" / "mine.swf.gz")
    assert wrong.code == 3
    assert "it is another file" in wrong.lines_of_error[-1]
    again = run("fetch-trace", "mine", "--url", url, "--sha256", checksum, "--json")
    assert again.rows[0]["path"] == fetched.out.strip()
    assert run("simulate", "mine", "--processors", "8", "--json").rows[0]["jobs"] == 39


def test_known_traces_are_listed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "KTH-SP2" in run("fetch-trace").out
    assert all(row["path"] is None for row in run("fetch-trace", "--json").rows)


def test_what_waits_now_is_a_window(window: Run, run: Run, topology: Path, tmp_path: Path) -> None:
    (tmp_path / "queue.txt").write_text("12_3 2\n\n13 9\n14 3\n", encoding="utf-8")
    out = tmp_path / "now.json"
    made = window("--idle", "n[01-02,05-08],n01", "--job", "11=1", "--queue", tmp_path / "queue.txt")
    assert made.code == 0
    assert "queue: jobs left waiting: 1" in made.lines_of_error
    lists = dict(line.split("\t") for line in run("solve", out, "--nodelist", topology).out.splitlines()[1:])
    assert lists.keys() == {"11", "12_3", "14"}
    assert lists["12_3"] == "n[01-02]"
    assert json.loads(out.read_text(encoding="utf-8"))["name"] == "queue"


def test_of_a_range_of_nodes_the_least_are_taken_and_remarked(window: Run, tmp_path: Path) -> None:
    (tmp_path / "queue.txt").write_text("1 2-4\n2 3\n", encoding="utf-8")
    out = tmp_path / "now.json"
    made = window("--queue", tmp_path / "queue.txt")
    assert "queue: jobs with a range of nodes, the least taken: 1" in made.lines_of_error
    assert [job["nodes"] for job in json.loads(out.read_text(encoding="utf-8"))["jobs"]] == [2, 3]


def test_nodes_are_excluded_by_the_names_of_the_topology(window: Run, run: Run, topology: Path, tmp_path: Path) -> None:
    out = tmp_path / "now.json"
    assert window("--job", "1=5").code == 0
    solved = run("solve", out, "--nodelist", topology, "--exclude-nodes", "n[01-02],n05", "--solver", "greedy")
    assert solved.out.splitlines()[1:] == ["1\tn[03-04,06-08]"]
    numbered = run("solve", out, "--nodelist", topology, "--exclude-nodes", "0-1,4", "--solver", "greedy")
    assert numbered.out.splitlines()[1:] == ["1\tn[03-04,06-08]"]
    unknown = run("solve", out, "--nodelist", topology, "--exclude-nodes", "n09")
    assert (unknown.code, unknown.lines_of_error[-1]) == (2, "allocopt: nodes 'n09': there is no node 'n09'")
    nameless = run("solve", out, "--exclude-nodes", "n01")
    assert (nameless.code, nameless.out) == (2, "")
    assert "must be numbers and ranges such as 3,7-9; names are those of a topology" in nameless.err
    many = run("solve", out, "--exclude-nodes", ",".join(["0-9999999"] * 9))
    assert (many.code, many.lines_of_error[-1][-24:]) == (2, "' are more than 10000000")


def test_a_name_that_forges_a_hostlist_is_told_before_anything_is_solved(run: Run, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_text(
        json.dumps({"items": [{"metadata": {"name": n, "labels": {"k": "v"}}} for n in ("a,b", "c")]}), encoding="utf-8"
    )
    arguments = ("--topology", tmp_path / "odd.json", "--labels", "k")
    assert run("generate", "window", *arguments, "--job", "1=1", "--out", tmp_path / "now.json").code == 0
    forged = run("solve", tmp_path / "now.json", "--nodelist", tmp_path / "odd.json", "--labels", "k")
    assert (forged.code, forged.out) == (2, "")
    assert "the name 'a,b' cannot stand in a hostlist" in forged.lines_of_error[-1]
