"""Faults that trials found, on the files of the trials: silent wrong answers, crashes, hostile and large inputs."""

import ast
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.against_references import engine_rows, slow_rows
from support.program import Run, Start
from support.random_clusters import Case

from allocopt.child_process import child_environment, module_command
from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.reading import read_cluster, read_topology
from allocopt.cluster.request import Request
from allocopt.files.cache import cache_folder
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

pytestmark = pytest.mark.slow

Enter = Callable[[str], Path]


@pytest.fixture
def enter(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Enter:
    """Work in a copy of a folder of the trial."""

    def inside(name: str) -> Path:
        here = tmp_path / "trial"
        shutil.copytree(shared_data / "faults3" / name, here)
        monkeypatch.chdir(here)
        return here

    return inside


def starts_of(path: Path) -> dict[str, float]:
    """Return starts by job of a file of --jobs-csv."""
    header, *lines = (line.split(",") for line in path.read_text(encoding="utf-8").splitlines())
    job, start = header.index("job_id"), header.index("start")
    return {line[job]: float(line[start]) for line in lines}


# -- Silent wrong answers


@pytest.mark.parametrize(("name", "optimum"), [("bound_exclusive", 21.0), ("bound_exclusive2", 82.1666666667)])
def test_tasks_of_exclusive_jobs_are_priced_once(run: Run, shared_data: Path, name: str, optimum: float) -> None:
    path = shared_data / "faults3" / f"{name}.json"
    for seed in ("0", "1", "2"):
        for solver in ("auto", "highs"):
            row = run("solve", path, "--solver", solver, "--seed", seed, "--json", "--certify").rows[0]
            assert (row["status"], row["objective"]) == ("OPTIMAL", pytest.approx(optimum))
        row = run("solve", path, "--solver", "lns", "--seed", seed, "--json", "--certify").rows[0]
        assert row["bound"] <= optimum + 1e-6 <= row["objective"] + 2e-6


def test_reservations_are_made_anew_when_a_job_ahead_has_started(run: Run, enter: Enter) -> None:
    here = enter("easy")
    asked = ("--cluster", "slurm.conf", "--policy", "fcfs", "--backfill", "easy", "--jobs-csv", "o.csv")
    assert run("simulate", "t.csv", *asked).code == 0
    starts = starts_of(here / "o.csv")
    assert (starts["4"], starts["10"]) == (5, 11)


def request_of(text: str) -> Request:
    """Read a request as Python prints it."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    return Request(**{str(one.arg): ast.literal_eval(one.value) for one in call.keywords})


@pytest.mark.parametrize("name", ["sim2_2_2", "sim2_2_17", "sim2_2_32"])
def test_traces_with_reservations_out_of_date_are_scheduled_by_the_documented_rule(
    shared_data: Path, name: str
) -> None:
    held = json.loads((shared_data / "faults3" / f"{name}.min.json").read_text(encoding="utf-8"))
    described = zip(held["nodes"], held["feats"], held["weights"], strict=True)
    nodes = []
    for at, (node, features, weight) in enumerate(described):
        gpus = {"": node["gpus"] // 1000} if node["gpus"] else {}
        nodes.append(ClusterNode(f"n{at}", node["cores"] / 1000, node["mem"], gpus, frozenset(features), weight))
    partitions = [Partition(part, tuple(of), tier=tier, is_exclusive=alone) for part, of, tier, alone in held["parts"]]
    jobs = held["jobs"] if isinstance(held["jobs"], list) else ast.literal_eval(held["jobs"])
    requests, ids = np.empty(len(jobs), dtype=object), np.array([job["id"] for job in jobs])
    requests[:] = [request_of(job["req"]) for job in jobs]
    submit, run, estimate = (np.array([job[name] for job in jobs]) for name in ("submit", "run", "est"))
    workload = Workload(name, ids, submit, run, np.ones_like(ids), estimate, requests=requests)
    assert held["forest"] is None
    case = Case(Cluster.of(nodes, None, partitions), workload, held["policy"], held["rule"], held["kill"])
    assert engine_rows(case) == slow_rows(case, Counter())


@pytest.mark.parametrize("busy", [(0, 4, 8, 12), (0, 1, 2, 3)])
def test_a_job_on_blocks_spans_no_more_than_slurm_lets_it(enter: Enter, busy: tuple[int, ...]) -> None:
    topology = read_topology(enter("blocks") / "topology4.conf")
    names = topology.nodes
    jobs = [(0, 100, Request(least_nodes=1, required=names[node], is_exclusive=True)) for node in busy]
    jobs.append((1, 50, Request(least_nodes=8, is_exclusive=True)))
    requests, ids = np.empty(5, dtype=object), np.arange(5)
    requests[:] = [job[2] for job in jobs]
    submit, run = (np.array([job[column] for job in jobs], dtype=float) for column in range(2))
    workload = Workload("jobs", ids, submit, run, np.ones_like(ids), run, requests=requests)
    cluster = Cluster.of([ClusterNode(name, 2) for name in names], topology)
    case = Case(cluster, workload, "fcfs", "least-loaded", kill_at_limit=True)
    *_, (_, start, _, held) = engine_rows(case)
    assert engine_rows(case) == slow_rows(case, Counter())
    # It may span two blocks of four; with a node busy in each of the four it has to wait.
    assert (start, len({node // 4 for node in held})) == (100.0 if busy == (0, 4, 8, 12) else 1.0, 2)


def test_amounts_beyond_64_bits_are_no_solution(run: Run, enter: Enter) -> None:
    enter("hostile")
    assert "is too large" in run("solve", "wrap.json").err or run("solve", "wrap.json").code == 3


def test_schedules_count_cores_and_the_machine_does_too(run: Run, enter: Enter) -> None:
    here = enter("blocks")
    run("simulate", "t.csv", "--cluster", "slurm.conf", "--swf", "o.swf", "--jobs-csv", "o.csv")
    again = read_workload(here / "o.swf")
    table = (here / "o.csv").read_text(encoding="utf-8").splitlines()
    column = table[0].split(",").index("processors")
    assert again.processors.tolist() == [int(line.split(",")[column]) for line in table[1:]]
    assert again.processors.max() > 8


def test_names_and_comments_of_jobs_say_nothing_of_what_they_ask_for(run: Run, enter: Enter) -> None:
    here = enter("hostile")
    asked = ("generate", "window", "--cluster", "slurm.conf", "--idle", "n[1-4]", "--out", "window.json", "--queue")
    forged = run(*asked, "inj2.txt")
    assert forged.code == 2
    assert "jobs left out, as their user may have forged the record: 1" in forged.err
    assert run(*asked, "inj.txt").code == 0
    jobs = json.loads((here / "window.json").read_text(encoding="utf-8"))["jobs"]
    assert [job["tasks"] for job in jobs] == [1] * len(jobs)
    assert all(job.get("least_nodes", 1) == 1 for job in jobs)


# -- Crashes


@pytest.mark.parametrize("solver", ["auto", "highs", "scip", "cp-sat", "cons-tres", "best-fit", "first-fit", "lns"])
def test_a_limit_of_two_groups_alone_is_kept_by_every_solver(run: Run, shared_data: Path, solver: str) -> None:
    answer = run("solve", shared_data / "faults3" / "groups2.json", "--solver", solver, "--json")
    assert answer.code == 0
    assert answer.rows[0]["objective"] is not None


@pytest.mark.parametrize("allocator", ["lns", "highs", "cons-tres"])
def test_constraints_of_several_alternatives_go_with_solvers(run: Run, enter: Enter, allocator: str) -> None:
    enter("forder")
    assert run("simulate", "t.csv", "--cluster", "slurm.conf", "--allocator", allocator).code == 0


@pytest.mark.parametrize("name", ["never1.csv", "never2.csv", "never3.csv"])
@pytest.mark.parametrize("more", [(), ("--backfill", "easy"), ("--json",)])
def test_a_job_that_no_blocks_can_hold_is_named(run: Run, enter: Enter, name: str, more: tuple[str, ...]) -> None:
    enter("blocks")
    answer = run("simulate", name, "--topology", "never.conf", *more)
    assert answer.code == 3
    assert "asks for more than" in answer.err
    assert "nan" not in answer.out


def test_a_trace_with_recorded_starts_is_compared_and_written(run: Run, enter: Enter) -> None:
    here = enter("wi")
    answer = run("what-if", "jobs.txt", "--topology", "topo.conf", "--allocators", "first", "--jobs-csv", "jc")
    assert answer.code == 0, answer.err
    assert (here / "jc" / "as-recorded.csv").exists()


# -- Robustness


@pytest.mark.parametrize("name", ["no_state.jsonl", "no_proved.jsonl", "cut.jsonl", "empty.jsonl", "deep.jsonl"])
@pytest.mark.parametrize("command", ["status", "replay"])
def test_a_journal_that_is_none_is_refused_in_a_line(run: Run, enter: Enter, name: str, command: str) -> None:
    here = enter("live")
    (here / "deep.jsonl").write_text('{"event":' * 100_000, encoding="utf-8")
    answer = run("live", command, name)
    assert answer.code in (0, 3)
    assert answer.code == 0 or len(answer.lines_of_error) == 1


def test_a_device_is_no_journal(run: Run) -> None:
    assert "/dev/zero" in run("live", "status", "/dev/zero").refusal(3)


def test_sigterm_is_answered_while_a_long_queue_is_walked(start: Start, enter: Enter) -> None:
    here = enter("wi")
    # Its nodes have 16 CPUs, and a job of more tasks on one node is refused.
    rng, n = np.random.default_rng(3), 20_000
    drawn = zip(range(n), rng.integers(60, 90_000, n), rng.integers(1, 17, n), strict=True)
    rows = [f"{job},2026-01-01T00:00:00,{run},{run // 60 + 1},1,{tasks},COMPLETED" for job, run, tasks in drawn]
    header = "JobIDRaw,Submit,ElapsedRaw,TimelimitRaw,NNodes,NTasks,State"
    (here / "big.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    process = start("simulate", "big.csv", "--cluster", "bigslurm.conf", "--backfill", "conservative", cwd=here)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(8)
    process.send_signal(signal.SIGTERM)
    # On a busy machine this takes longer than the half second of a quiet one.
    assert process.wait(15) == 130


@pytest.mark.parametrize("name", ["bigmem.csv", "paren.csv", "biggpu.csv", "overflow.events"])
def test_amounts_and_constraints_beyond_all_measure_are_refused_in_a_line(run: Run, enter: Enter, name: str) -> None:
    enter("hostile")
    answer = run("simulate", name, "--cluster", "slurm.conf", "--policy", "fcfs")
    assert (answer.code, len(answer.lines_of_error)) == (3, 1), answer.err


def test_paths_of_a_hundred_thousand_names_are_refused(run: Run, enter: Enter) -> None:
    here = enter("hostile")
    path = "/".join(f"a{level}" for level in range(100_000))
    graph = {
        "graph": {
            "nodes": [{"id": "1", "metadata": {"type": "node", "name": "n1", "paths": {"containment": f"/{path}"}}}],
            "edges": [],
        }
    }
    (here / "deep.json").write_text(json.dumps(graph), encoding="utf-8")
    answer = run("simulate", "t.csv", "--topology", "deep.json")
    assert (answer.code, len(answer.lines_of_error)) == (3, 1)


def test_a_node_beyond_64_bits_is_no_solution(run: Run, tmp_path: Path) -> None:
    solved = run("solve", "@placements", "--solver", "cons-tres", "--solution", tmp_path)
    assert solved.code == 0
    path = tmp_path / "tiny-shared.json"
    held = json.loads(path.read_text(encoding="utf-8"))
    held["placed"] = {next(iter(held["placed"])): {"99999999999999999999": 1}}
    path.write_text(json.dumps(held), encoding="utf-8")
    from allocopt.problems.instances import instance_path

    answer = run("verify", instance_path(Path("@placements")), path)
    assert (answer.code, len(answer.lines_of_error)) == (3, 1)


@pytest.mark.parametrize("command", [("solvers",), ("doctor", "--help"), ("solve", "@tiny")])
def test_closed_standard_output_is_no_crash(command: tuple[str, ...]) -> None:
    words = " ".join([sys.executable, "-m", "allocopt", *command])
    done = subprocess.run(["bash", "-c", f"{words} >&-"], capture_output=True, text=True)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)


def test_a_name_of_two_hundred_thousand_spaces_takes_no_longer_than_reading_it(run: Run, enter: Enter) -> None:
    here = enter("hostile")
    spaces = " " * 200_000
    (here / "job.txt").write_text(f"JobId=1 JobName=x{spaces}y\n   NumNodes=1 NumTasks=1\n", encoding="utf-8")
    asked = ("--cluster", "slurm.conf", "--idle", "n[1-4]", "--queue", "job.txt", "--out", "w.json")
    answer = run("generate", "window", *asked)
    assert answer.code in (0, 3)


def test_rows_of_a_table_that_unpack_a_thousandfold_are_refused(run: Run, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    text = pyarrow.array(["x" * 100_000] * 2_000)
    number = pyarrow.array([1] * 2_000)
    parquet.write_table(pyarrow.table({"id": number, "note": text}), path, compression="zstd")
    answer = run("simulate", path, "--processors", "10")
    assert answer.code == 3
    assert "more than" in answer.err


@pytest.mark.parametrize(
    "change",
    [
        "update runs set started = 1e18", "update runs set started = 'x'", "update runs set pid = 100000000000000",
        "insert or replace into meta values ('setting', '[')", "update cells set row = '[' where rowid = 1",
        "update cells set row = x'ff' where rowid = 1", "drop table cells",
    ],
)  # fmt: skip
def test_a_damaged_store_of_rows_is_said_to_be(run: Run, enter: Enter, change: str) -> None:
    here = enter("store")
    (here / "grid.toml").write_text(
        'seeds = [0]\n[[instances]]\nfiles = ["@tiny"]\n[[solvers]]\nname = "greedy"\n', encoding="utf-8"
    )
    assert run("sweep", "grid.toml", "--out", "x.csv").code == 0
    with sqlite3.connect(here / "x.csv.sqlite") as file:
        file.execute(change)
    for more in ((), ("--status",)):
        answer = run("sweep", "grid.toml", "--out", "x.csv", *more)
        assert answer.code in (0, 3)
        assert answer.code == 0 or "damaged" in answer.err or "cannot be used" in answer.err


# -- Security


def test_a_module_in_the_current_folder_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    for module, *arguments in (["allocopt.kernels.ready"], ["allocopt", "--help"]):
        command = module_command(module, *arguments)
        done = subprocess.run(command, cwd=tmp_path, env=child_environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("variables", [{}, {"XDG_CACHE_HOME": "cache"}, {"HOME": "~"}, {"HOME": "here"}])
def test_a_user_without_a_home_has_no_cache_in_the_current_folder(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr("pwd.getpwuid", unknown)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() is None


def test_what_is_run_again_writes_nothing_and_reads_no_device(run: Run, site: Path) -> None:
    assert run("simulate", "jobs.csv", "--topology", "topology.conf", "--out", "r.json").code == 0
    held = json.loads((site / "r.json").read_text(encoding="utf-8"))
    held["specification"]["trace"] = "/dev/zero"
    (site / "r.json").write_text(json.dumps(held), encoding="utf-8")
    answer = run("rerun", "r.json")
    assert answer.code == 3
    assert "/dev/zero" in answer.err


# -- Load


def test_a_gres_file_of_many_lines_for_all_nodes_is_counted_once(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("slurm.conf", "gres.conf")]
    nodes = "NodeName=n[1-10000] CPUs=64 Gres=gpu:20000\nPartitionName=main Nodes=n[1-10000]\n"
    files[0].write_text(nodes, encoding="utf-8")
    files[1].write_text("Name=gpu Type=a100 File=/dev/nvidia0\n" * 20_000, encoding="utf-8")
    cluster = read_cluster(files)
    assert {tuple(node.gpus.items()) for node in cluster.nodes} == {(("a100", 20_000),)}


def test_a_pass_without_backfilling_ends_where_every_partition_is_blocked() -> None:
    names = tuple(f"n{number}" for number in range(20))
    cluster = Cluster.of([ClusterNode(name, 8) for name in names], None, [Partition("a", names), Partition("b", names)])
    n = 20_000
    rng = np.random.default_rng(1)
    estimate = 60.0 * rng.integers(1, 2001, n)
    requests = np.empty(n, dtype=object)
    requests[:] = [Request(tasks=8)] * n
    ids = np.arange(n)
    workload = Workload("many", ids, 0.0 * ids, estimate, np.ones(n, dtype=np.int64), estimate, requests=requests)
    schedule = simulate(workload, cluster, "fcfs")
    assert (np.diff(schedule.start) >= 0).all()
