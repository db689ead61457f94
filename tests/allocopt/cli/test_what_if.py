"""``allocopt what-if``, ``fetch-trace``, and topologies in the other commands."""

import dataclasses
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.program import Run

from allocopt.cluster.hostlist import expand_hostlist
from allocopt.experiments.grids import _WhatIfTask
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

pytestmark = pytest.mark.usefixtures("site")

WHAT_IF = ("what-if", "--trace", "jobs.csv", "--topology", "topology.conf")
WINDOW = ("generate", "window", "--topology", "topology.conf", "--out", "now.json")
SOLVE = ("solve", "now.json", "--nodelist", "topology.conf")


def nodelists(answer: Any) -> dict[str, str]:
    """Return the nodes of every job as they are printed below the line that says what came out."""
    return dict(line.split("\t") for line in answer.out.splitlines()[1:])


def test_a_trace_and_a_topology_give_a_verdict(run: Run) -> None:
    answer = run(*WHAT_IF, "--allocators", "first,best-fit,lns")
    assert answer.code == 0
    assert max(map(len, answer.out.splitlines())) <= 80
    assert [line.split()[1] for line in answer.out.splitlines()[3:6]] == ["first", "best-fit", "lns"]
    assert "lowest hop cost: " in answer.out
    assert "allocopt: topology.conf: 8 nodes; groups: 2 at level 1; hops 2, 4" in answer.lines_of_error


def test_rows_have_every_measure_and_its_change(run: Run) -> None:
    rows = run(*WHAT_IF, "--allocators", "first,best-fit", "--schedulers", "easy,sjf+easy", "--json").rows
    assert [(row["scheduler"], row["allocator"]) for row in rows] == [
        ("easy", "first"), ("easy", "best-fit"), ("sjf+easy", "first"), ("sjf+easy", "best-fit"),
    ]  # fmt: skip
    for row in rows:
        assert row["jobs"] == 39
        assert len(row["fragmentation"]) == 1
        for name, change in (("mean_wait_s", "mean_wait_change"), ("mean_hop_cost", "mean_hop_cost_change")):
            assert row[change] == pytest.approx(row[name] / rows[0][name] - 1)
    assert rows[1]["mean_hop_cost"] <= rows[0]["mean_hop_cost"]


def test_measures_over_variants_are_their_means_and_the_same_for_every_combination(run: Run) -> None:
    common = (*WHAT_IF, "--schedulers", "easy,fcfs+easy,fcfs", "--allocators", "first", "--json")
    plain, varied = run(*common).rows, run(*common, "--variants", "5").rows
    assert [row["variants"] for row in (*plain, *varied)] == [0, 0, 0, 5, 5, 5]
    # The same jobs under the same rule by two names: as they are, and in each variant.
    for rows in (plain, varied):
        assert rows[0]["mean_wait_s"] == rows[1]["mean_wait_s"] != rows[2]["mean_wait_s"]
    assert varied[0]["mean_wait_s"] != plain[0]["mean_wait_s"]
    assert varied[0]["mean_wait_s"] == pytest.approx(plain[0]["mean_wait_s"], rel=0.3)
    for name in ("jobs", "utilization", "makespan_s", "fragmentation"):
        assert varied[0][name] == plain[0][name]
    said = run(*common[:-1], "--variants", "5").out
    assert "means over 39 jobs in 5 variants" in " ".join(said.split())


def test_load_limits_and_slowdown_change_what_is_simulated(run: Run) -> None:
    common = (*WHAT_IF, "--allocators", "first", "--json")
    plain = run(*common).rows[0]
    assert run(*common, "--load", "2").rows[0]["mean_wait_s"] > plain["mean_wait_s"]
    assert run(*common, "--hop-slowdown", "1").rows[0]["makespan_s"] > plain["makespan_s"]
    assert run(*common, "--max-jobs", "5").rows[0]["jobs"] == 5
    assert run(*common, "--columns", "estimate=run", "--jobs-csv", "out").code == 0
    assert len(Path("out", "easy,first.csv").read_text(encoding="utf-8").splitlines()) == 40


def test_what_the_site_did_stands_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_record(*asked: Any, **rules: Any) -> Workload:
        read = read_workload(*asked, **rules).first(4)
        nodes = np.array(["n[01-02]", "n[01,08]", "n03", "n[05-06],gone"], dtype=object)
        return dataclasses.replace(read, recorded_start=read.submit + 100.0, recorded_nodes=nodes)

    monkeypatch.setattr("allocopt.experiments.simulations.read_workload", with_record)
    asked = (*WHAT_IF, "--allocators", "first")
    answer = run(*asked)
    assert answer.out.splitlines()[3].split()[1:6] == ["as", "recorded", "|", "100", "|"]
    assert "first under easy compared to the record: mean wait " in answer.out
    assert "1 recorded jobs ran on 1 nodes that are not in the topology (gone); these nodes are left out" in answer.out
    assert "regret of single starts: " in answer.out
    rows = run(*asked, "--json", "--report", "page.html").rows
    assert [row["allocator"] for row in rows] == ["as recorded", "first"]
    assert (rows[0]["mean_wait_change"], rows[1]["mean_wait_change"]) == (None, 0.0)
    assert "as recorded" in Path("page.html").read_text(encoding="utf-8")
    # Of other arrivals there is no record.
    assert [row["allocator"] for row in run(*asked, "--json", "--load", "2").rows] == ["first"]


RECORDS = {
    "starts alone": ("Start", ["5", "20", "7"]),
    "some starts": ("Start", ["5", "Unknown", "7"]),
    "no start": ("Start", ["Unknown"] * 3),
    "nodes": ("Start|NodeList", ["5|n[01-02]", "20|n03", "7|n[04-05]"]),
    "nodes of some": ("Start|NodeList", ["5|None assigned", "20|n03", "7|"]),
    "nodes that are gone": ("Start|NodeList", ["5|x[1-2]", "20|n03", "7|n[04-05]"]),
}
SHARED = "SelectTypeParameters=CR_Core\nNodeName=n[01-08] CPUs=4\nPartitionName=main Nodes=ALL Default=YES\n"


@pytest.mark.parametrize("machine", ["--topology topology.conf", "--cluster slurm.conf,topology.conf"])
@pytest.mark.parametrize("record", RECORDS)
def test_the_jobs_of_every_combination_are_written_whatever_the_record_knows(
    run: Run, machine: str, record: str
) -> None:
    columns, cells = RECORDS[record]
    Path("slurm.conf").write_text(SHARED, encoding="utf-8")
    rows = [f"{job}|{job}|600|{1 + job % 2}|{cell}" for job, cell in enumerate(cells, 1)]
    Path("log.txt").write_text("\n".join((f"JobID|Submit|Elapsed|NNodes|{columns}", *rows)), encoding="utf-8")
    site = ("what-if", "log.txt", *machine.split(), "--allocators", "first,best-fit", "--jobs-csv", "out", "--json")
    answer = run(*site, "--out", "rows.csv", "--report", "page.html")
    assert answer.code == 0, answer.err
    files = {"easy,first.csv", "easy,best-fit.csv"} | ({"as-recorded.csv"} if record != "no start" else set())
    assert {path.name for path in Path("out").iterdir()} == files
    for path in Path("out").iterdir():
        header, *lines = path.read_text(encoding="utf-8").splitlines()
        assert header.startswith("job_id,submit,start,end,processors,run,estimate,")
        assert len(lines) == (2 if (record, path.name) == ("some starts", "as-recorded.csv") else 3)
        assert run("report", path, "--out", "one.html").code == 0


@pytest.mark.parametrize("machine", ["--topology topology.conf", "--cluster slurm.conf"])
def test_jobs_wait_for_preceding_ones_on_every_machine(run: Run, machine: str) -> None:
    Path("slurm.conf").write_text(SHARED, encoding="utf-8")
    rows = ("JobID|Submit|Elapsed|NNodes|Dependency", "1|0|600|1|", "2|0|60|1|afterok:1", "3|0|60|1|")
    Path("log.txt").write_text("\n".join(rows), encoding="utf-8")
    site = ("what-if", "log.txt", *machine.split(), "--allocators", "first", "--jobs-csv", "out")
    assert run(*site, "--out", "rows.csv").code == 0
    lines = Path("out/easy,first.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[2] for line in lines[1:]] == ["0", "600", "0"]


@pytest.mark.parametrize(("out", "name"), [("rows.json", "rows.json"), ("folder", "folder/what-if.csv")])
def test_an_interrupted_comparison_goes_on_where_it_was(
    run: Run, monkeypatch: pytest.MonkeyPatch, out: str, name: str
) -> None:
    asked = (*WHAT_IF, "--schedulers", "easy,sjf+easy", "--allocators", "first,best-fit", "--json")
    command = (*asked, "--jobs-csv", "jobs", "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr(_WhatIfTask, "run", run_two(_WhatIfTask.run))
        interrupted = run(*command)
    assert interrupted.code == 130
    table = Path(name)
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
    alone = run(*asked, "--jobs-csv", "alone", "--workers", "2")
    assert [{**row, "runtime_s": 0} for row in alone.rows] == [{**row, "runtime_s": 0} for row in answer.rows]
    for path in Path("alone").iterdir():
        assert path.read_bytes() == Path("jobs", path.name).read_bytes()


def test_an_interrupted_comparison_prints_what_is_finished(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_WhatIfTask, "run", run_two(_WhatIfTask.run))
    interrupted = run(*WHAT_IF, "--allocators", "first,best-fit,lns")
    assert interrupted.code == 130
    assert [line.split()[1] for line in interrupted.out.splitlines()[3:5]] == ["first", "best-fit"]
    assert "lowest hop cost: " in interrupted.out
    assert interrupted.lines_of_error[-1] == "allocopt: interrupted; 2 of 3 simulations done"


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
def test_the_nrel_sample_on_a_real_topology_gives_rows_and_a_page(run: Run, shared_data: Path) -> None:
    trace = shared_data / "slurm_jobs" / "nrel_eagle_sample.csv"
    real = shared_data / "slurm_topology" / "ubhpc-medium.topology.conf"
    site = ("what-if", "--trace", trace, "--topology", real)
    record, *rows = run(*site, "--allocators", "first,best-fit,lns", "--report", "page.html", "--json").rows
    assert 100_000 < Path("page.html").stat().st_size < 5_000_000
    assert [row["jobs"] for row in (record, *rows)] == [995] * 4
    assert record["allocator"] == "as recorded"
    assert rows[1]["mean_hop_cost"] < 0.9 * rows[0]["mean_hop_cost"]
    assert rows[2]["mean_hop_cost"] < 0.9 * rows[0]["mean_hop_cost"]
    assert rows[0]["mean_wait_s"] == rows[1]["mean_wait_s"] == rows[2]["mean_wait_s"]


@pytest.mark.slow
def test_whole_nodes_for_the_small_jobs_of_a_shared_site_get_no_verdict_on_waits(run: Run, shared_data: Path) -> None:
    trace, topology = (shared_data / "sites" / "ubhpc" / name for name in ("workload_week.events.gz", "topology.conf"))
    machine = ("--topology", topology, "--processors-per-node", "32", "--allocators", "first")
    out = run("what-if", "--trace", trace, *machine, "--schedulers", "easy,sjf+easy").out
    verdict = out[out.index("overloaded under first under easy and 1 more") :]
    assert "with whole nodes, jobs hold 2.43 times the processors that they requested" in verdict
    assert "shortest mean wait: no verdict" in verdict
    assert "least slowdown: no verdict" in verdict
    assert "hop costs are means over the 1,322 of " in verdict
    assert "-87" not in verdict


def test_a_window_of_a_sites_trace_is_solved_into_hostlists(run: Run) -> None:
    site = ("--workload", "jobs.csv", "--topology", "topology.conf", "--out", "now.json")
    assert run("generate", "windows", *site, "--count", "1", "--min-jobs", "1").code == 0
    sizes = {job["id"]: job["nodes"] for job in json.loads(Path("now.json").read_text(encoding="utf-8"))["jobs"]}
    lists = nodelists(run(*SOLVE))
    assert lists.keys() == sizes.keys()
    nodes = [expand_hostlist(lists[job]) for job in sizes]
    assert [len(held) for held in nodes] == list(sizes.values())
    assert set().union(*nodes) <= {f"n{number:02d}" for number in range(1, 9)}
    assert run(*SOLVE, "--json").rows[0]["nodelists"] == lists


def test_simulate_takes_a_topology_and_a_table(run: Run) -> None:
    simulate = ("simulate", "jobs.csv", "--backfill", "easy", "--json")
    machines = (("--processors", "8"), ("--topology", "topology.conf", "--allocator", "best-fit"))
    plain, placed = (run(*simulate, *machine).rows[0] for machine in machines)
    assert placed["mean_wait_s"] == plain["mean_wait_s"]


def test_convert_takes_tables_and_topologies(run: Run) -> None:
    assert run("convert", "jobs.csv", "jobs.swf").code == 0
    assert run("simulate", "jobs.swf", "--processors", "8", "--json").rows[0]["jobs"] == 39
    assert run("convert", "topology.conf", "t.graphml").code == 0
    assert run("convert", "t.graphml", "t.conf").code == 0
    assert Path("t.conf").read_text(encoding="utf-8") == Path("topology.conf").read_text(encoding="utf-8")


def test_a_trace_is_fetched_by_name_and_simulated_without_a_network(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run("convert", "jobs.csv", "jobs.swf.gz").code == 0
    data = Path("jobs.swf.gz").read_bytes()
    fetch = ("fetch-trace", "mine", "--url", "http://127.0.0.1:1/jobs.swf.gz", "--sha256")
    checksum = hashlib.sha256(gzip.decompress(data)).hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr("allocopt.traces.fetch._download", lambda url: data)
        assert "it is another file" in run(*fetch, "0" * 64).refusal(3)
        fetched = run(*fetch, checksum)
    assert fetched.out.strip() == str(tmp_path / "cache" / "allocopt" / "traces" / "mine.swf.gz")
    assert run(*fetch, checksum, "--json").rows[0]["path"] == fetched.out.strip()
    assert run("simulate", "mine", "--processors", "8", "--json").rows[0]["jobs"] == 39


def test_known_traces_are_listed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert "KTH-SP2" in run("fetch-trace").out
    assert all(row["path"] is None for row in run("fetch-trace", "--json").rows)


def test_what_waits_now_is_a_window(run: Run) -> None:
    Path("queue.txt").write_text("12_3 2\n\n13 9\n14 3-5\n", encoding="utf-8")
    made = run(*WINDOW, "--idle", "n[01-02,05-08],n01", "--job", "11=1", "--queue", "queue.txt")
    assert made.code == 0
    assert "queue: jobs left waiting: 0" in made.lines_of_error
    assert "queue: jobs left out, larger than the machine: 1" in made.lines_of_error
    assert "queue: jobs with a range of nodes, taken with the least number: 1" in made.lines_of_error
    lists = nodelists(run(*SOLVE))
    assert {job: len(expand_hostlist(nodes)) for job, nodes in lists.items()} == {"11": 1, "12_3": 2, "14": 3}
    assert lists["12_3"] == "n[01-02]"
    assert json.loads(Path("now.json").read_text(encoding="utf-8"))["name"] == "queue"


def test_nodes_are_excluded_by_the_names_of_the_topology(run: Run) -> None:
    assert run(*WINDOW, "--job", "1=5").code == 0
    for nodes in ("n[01-02],n05", "0-1,4"):
        assert nodelists(run(*SOLVE, "--exclude-nodes", nodes, "--solver", "greedy")) == {"1": "n[03-04,06-08]"}
    unknown = run(*SOLVE, "--exclude-nodes", "n09")
    assert (unknown.code, unknown.lines_of_error[-1]) == (2, "allocopt: nodes 'n09': there is no node 'n09'")
    nameless = run("solve", "now.json", "--exclude-nodes", "n01")
    assert "must be numbers and ranges such as 3,7-9, or names together with --nodelist" in nameless.refusal(2)
    assert (
        run("solve", "now.json", "--exclude-nodes", ",".join(["0-9999999"] * 9))
        .refusal(2)
        .endswith("' are too many, must be at most 10000000")
    )


def test_a_name_that_forges_a_hostlist_is_told_before_anything_is_solved(run: Run) -> None:
    nodes = {"items": [{"metadata": {"name": name, "labels": {"k": "v"}}} for name in ("a,b", "c")]}
    Path("odd.json").write_text(json.dumps(nodes), encoding="utf-8")
    assert run(*WINDOW, "--topology", "odd.json", "--labels", "k", "--job", "1=1").code == 0
    forged = run("solve", "now.json", "--nodelist", "odd.json", "--labels", "k")
    assert (forged.code, forged.out) == (2, "")
    assert "the name 'a,b' cannot stand in a hostlist" in forged.lines_of_error[-1]
