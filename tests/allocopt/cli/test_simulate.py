"""allocopt simulate: the row, the files, platforms, shared cores, and refusals."""

import csv
import json
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.multicore import PLATFORM
from support.program import Run

from allocopt.learned.asax.scheduler import AsaxPolicy
from allocopt.simulator.kernels.conservative import conservative_pass
from allocopt.simulator.kernels.conservative import run_conservative as kernel
from allocopt.simulator.pool import BUILT_IN
from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.simulate import simulate
from allocopt.simulator.state import State
from allocopt.traces.applications import WORKFLOWS, profiled_jobs, queue_workload
from allocopt.traces.reading import read_workload
from allocopt.traces.variants import varied_run_times

KEYS = "jobs mean_wait_s max_wait_s mean_bounded_slowdown utilization makespan_s runtime_s jobs_per_s".split()
JOBS = [
    # id, submit, run, processors, estimate
    (1, 0, 100, 3, 100),
    (2, 10, 50, 4, 60),
    (3, 20, 30, 1, 40),
    (4, 30, 500, 1, 600),
    (5, 40, 20, 1, 30),
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Five jobs on four processors: job 2 heads the queue until 100 s, job 3 can be backfilled, job 4 cannot."""
    lines = [f"{job} {at} -1 {run} -1 -1 -1 {size} {limit}{' -1' * 9}" for job, at, run, size, limit in JOBS]
    path = tmp_path / "log.swf"
    path.write_text("\n".join(["; MaxProcs: 4", *lines]))
    return path


def starts(path: Path) -> list[int]:
    """Read the start times from a schedule's CSV file."""
    with path.open() as file:
        return [int(row["start"]) for row in csv.DictReader(file)]


def test_the_row_has_the_fields_that_other_tools_read(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--json")
    row = json.loads(answer.out)
    assert (answer.code, list(row)) == (0, KEYS)
    assert (row["jobs"], row["makespan_s"]) == (5, 650)


def test_variants_are_those_that_python_draws_with_the_seed(run: Run, trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "row.json"
    answer = run("simulate", trace, "--policy", "sjf+easy", "--variants", "4", "--seed", "3", "--json", "--out", out)
    row = json.loads(answer.out)
    assert (answer.code, list(row)) == (0, [*KEYS, "variants", "of_variants"])
    jobs, rng, waits = read_workload(trace), np.random.default_rng(3), []
    for _ in range(4):
        schedule = simulate(varied_run_times(jobs, rng), 4, "sjf+easy")
        waits.append(float((schedule.start - schedule.release).mean()))
    assert row["of_variants"]["mean_wait_s"][0] == pytest.approx(np.mean(waits))
    assert all(low <= mean <= high for mean, low, high in row["of_variants"].values())
    # What is kept for `rerun` is the row of the trace itself.
    assert run("rerun", out).code == 0
    assert "over 4 variants" in run("simulate", trace, "--variants", "4").out


def test_one_variant_and_variants_of_tasks_are_refused(run: Run, on_platform: Run, trace: Path) -> None:
    assert "there are 1 variants, must be at least 2" in run("simulate", trace, "--variants", "1").err
    assert "cannot be combined with variants" in on_platform("--variants", "3").err


CONSERVATIVE = ("--backfill", "conservative", "--set")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--backfill", "none"), [0, 100, 150, 150, 150]),
        (("--backfill", "easy"), [0, 100, 20, 150, 50]),
        (("--backfill", "first-fit"), [0, 550, 20, 50, 100]),
        (("--backfill", "conservative"), [0, 100, 20, 150, 50]),
        # A reservation stays where it is.
        ((*CONSERVATIVE, "conservative_compression=false"), [0, 100, 20, 160, 60]),
        # The scheduler knows the run times.
        ((*CONSERVATIVE, "exact_estimates=true"), [0, 100, 20, 150, 50]),
    ],
)
def test_every_backfilling_gives_the_schedule_worked_out_by_hand(
    run: Run, trace: Path, options: tuple[str, ...], expected: list[int]
) -> None:
    out = trace.parent / "jobs.csv"
    assert run("simulate", trace, *options, "--jobs-csv", out).code == 0
    assert starts(out) == expected
    # Other programs know these columns by their place; those behind them by their names.
    assert out.read_text().startswith("job_id,submit,start,end,processors,run,estimate,")


def test_why_a_job_waited_is_said_pass_by_pass(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--backfill", "easy", "--explain", "4", "--json")
    assert json.loads(answer.out)["jobs"] == 5
    assert answer.lines_of_error[1:] == [
        "job 4: submitted at 30 s, started at 150 s, waited 120 s",
        "  30 s to 50 s (3 passes): number 2 in the queue, asks for 1 processor with 0 processors free",
        "  70 s: number 2 in the queue, would fit, but run until 670 s, beyond 100 s, when the head, job 2, is to "
        "start with 0 processors to spare",
        "  100 s: first in the queue, asks for 1 processor with 0 processors free; fits at 160 s by the estimates, "
        "after 2",
    ]


@pytest.mark.parametrize(
    ("backfill", "said"),
    [
        (
            "none",
            "number 3 in the queue, no job overtakes its head, job 2, which asks for 4 processors with 1 processor",
        ),
        ("first-fit", "number 2 in the queue, asks for 1 processor with 0 processors free"),
        ("conservative", "has a reservation for 160 s, the first time that leaves 1 processor for 600 s"),
    ],
)
def test_the_reason_is_that_of_the_backfilling(run: Run, trace: Path, backfill: str, said: str) -> None:
    assert said in run("simulate", trace, "--backfill", backfill, "--explain", "4").out


def test_nodes_of_a_fat_tree_are_given_out_and_hop_costs_measured(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--fat-tree", "1,2,2", "--allocator", "greedy")
    assert answer.code == 0
    assert "fragmentation of idle nodes, level 1" in answer.out


def test_jobs_larger_than_the_machine_are_skipped_and_counted_on_request(run: Run, trace: Path) -> None:
    answer = run("simulate", trace, "--processors", "3", "--set", "skip_oversized=true", "--json")
    assert json.loads(answer.out)["jobs"] == 4
    assert "allocopt: log: jobs dropped, larger than the machine: 1" in answer.lines_of_error


def test_a_machine_of_another_size_than_the_traces_own_is_remarked(run: Run, trace: Path) -> None:
    assert "own machine" not in run("simulate", trace).err
    other = run("simulate", trace, "--processors", "100").lines_of_error
    assert "allocopt: log: the trace's own machine has size 4, this one 100" in other


@pytest.mark.parametrize("size", ["1,024", "1e3", "many"])
def test_a_header_that_is_no_whole_number_says_nothing_of_the_machine(run: Run, trace: Path, size: str) -> None:
    trace.write_text(trace.read_text().replace("MaxProcs: 4", f"MaxProcs: {size}"))
    assert "does not say how large" in run("simulate", trace).lines_of_error[-1]


@pytest.mark.slow
def test_an_interrupt_ends_a_long_simulation(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{job} 0 -1 100 -1 -1 -1 3 200{' -1' * 9}" for job in range(1, 100_001)]
    (tmp_path / "log.swf").write_text("\n".join(["; MaxProcs: 10", *lines]))

    def interrupted(state: State, passes: int) -> int:
        assert kernel(state, passes) == passes, "the kernel has done a minute's work at once"
        raise KeyboardInterrupt

    monkeypatch.setitem(BUILT_IN, Backfill.CONSERVATIVE, (interrupted, conservative_pass))
    monkeypatch.setattr(import_module("allocopt.simulator.simulate"), "make_ready", lambda entries: kernel.load())
    monkeypatch.setattr("allocopt.experiments.simulations.make_ready", lambda entries: None)
    arguments = ("--policy", "sjf", "--backfill", "conservative")
    assert run("simulate", tmp_path / "log.swf", *arguments).code == 130


PROFILE = {"req_ops": 2e10, "ipc": 1, "req_time": 5, "mem": 1, "mem_vol": 500_000}


@pytest.fixture
def platform(tmp_path: Path) -> Path:
    path = tmp_path / "platform.toml"
    path.write_text(PLATFORM, encoding="utf-8")
    return path


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.json"
    jobs = [{"id": f"job{number}", "subtime": 0, "res": 1, "profile": "p"} for number in (7, 8, 9)]
    path.write_text(json.dumps({"jobs": jobs, "profiles": {"p": PROFILE}}), encoding="utf-8")
    return path


@pytest.fixture
def on_platform(run: Run, workload: Path, platform: Path) -> Run:
    """Simulate the workload on the platform."""
    return partial(run, "simulate", workload, "--platform", platform)


def test_jobs_run_and_their_energy_is_written(on_platform: Run, tmp_path: Path) -> None:
    out, energy = tmp_path / "jobs.csv", tmp_path / "energy.csv"
    files = ("--jobs-csv", out, "--energy-csv", energy)
    answer = on_platform("--policy", "first-high_cores", "--json", *files)
    assert answer.code == 0
    (row,) = answer.rows
    assert row["jobs"] == 3
    assert (row["policy"], row["execution"]) == ("first-high_cores", "contention")
    assert row["makespan_s"] == pytest.approx(20.0)
    with out.open(encoding="utf-8") as lines:
        assert [line["job_id"] for line in csv.DictReader(lines)] == ["7", "8", "9"]
    with energy.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert [line["part"] for line in rows] == ["job"] * 3 + ["node"] * 2 + ["cluster", "machine"]
    assert [line["name"] for line in rows][3:5] == ["left", "right"]
    assert float(rows[-1]["energy_j"]) == pytest.approx(row["energy_j"])
    # Left: two cores for 20 s; right: one core for 10 s, then idle.
    assert row["energy_j"] == pytest.approx(20 * 17 + 10 * 11 + 10 * 1)
    assert row["energy_delay_js"] == pytest.approx(20 * row["energy_j"])


def test_the_baseline_knows_no_contention_and_jobs_are_killed_only_when_asked_for(on_platform: Run) -> None:
    (row,) = on_platform("--set", "execution=baseline", "--json").rows
    assert (row["makespan_s"], row["energy_j"]) == (pytest.approx(10.0), pytest.approx(3 * 10 * 6))
    assert on_platform("--kill-at-limit", "--json").rows[0]["makespan_s"] == pytest.approx(5.0)
    answer = on_platform("--max-jobs", "2")
    assert (answer.code, "energy " in answer.out, "2 jobs measured" in answer.out) == (0, True, True)


def test_jobs_start_where_and_when_a_file_says(on_platform: Run, tmp_path: Path) -> None:
    placed = tmp_path / "placed.csv"
    placed.write_text("job_id,node,start_s,duration_s\n7,left,0,10\n8,right,1,10\n9,right,12,8\n", encoding="utf-8")
    (row,) = on_platform("--set", f"placement={placed}", "--json").rows
    assert row["policy"] is None
    assert row["makespan_s"] == pytest.approx(22.0)
    assert row["mean_duration_error"] == pytest.approx(0.25 / 3)
    assert row["max_duration_error"] == pytest.approx(0.25)
    assert "differ from the measured ones by 8.3%" in on_platform("--set", f"placement={placed}").out
    assert on_platform("--set", f"placement={placed}", "--max-jobs", "2", "--json").rows[0]["jobs"] == 2


@pytest.mark.slow
def test_a_job_of_very_many_tasks_is_not_searched_for_task_by_task(
    on_platform: Run, workload: Path, platform: Path
) -> None:
    platform.write_text(PLATFORM.replace("cores = 2", "cores = 200000"), encoding="utf-8")
    job = {"subtime": 0, "res": 200_000, **PROFILE, "mem_vol": 0}
    workload.write_text(json.dumps({"jobs": [job]}), encoding="utf-8")
    (row,) = on_platform("--json").rows
    assert row["utilization"] == pytest.approx(0.5)


HALVES = """
[[application]]
executable = 5
name = "half"
stages = [{share = 1.0, cpu = 0.5}]
"""


def sharing_policy(name: str, options: dict[str, Any] | None = None) -> QuotaScheduler:
    """Make a policy by which jobs share."""
    policy = get_policy(name, options)
    assert isinstance(policy, QuotaScheduler)
    return policy


@pytest.fixture
def queue(run: Run, tmp_path: Path) -> Path:
    """Draw the first 20 jobs of a queue of the ASAX paper."""
    path = tmp_path / "queue.swf"
    model = ("--model", "asax", "--jobs", "20", "--processors", "64", "--seed", "4")
    assert run("generate", "workload", path, *model).code == 0
    return path


def ends(path: Path) -> list[float]:
    """Read the end times from a schedule's CSV file."""
    with path.open() as file:
        return [float(row["end"]) for row in csv.DictReader(file)]


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """Write two jobs of 100 s with limits of 150 s on all eight processors, and what asks for."""
    lines = [f"{job} 0 -1 100 8 -1 -1 8 150 -1 1 -1 -1 5 -1 -1 -1 -1" for job in (1, 2)]
    path = tmp_path / "halves.swf"
    path.write_text("\n".join(["; MaxProcs: 8", *lines]))
    (tmp_path / "halves.toml").write_text(HALVES)
    return path


def test_jobs_that_share_are_killed_at_their_limits_if_asked_for(run: Run, halves: Path) -> None:
    table = halves.with_suffix(".toml")
    table.write_text(HALVES.replace("0.5", "1.0"))
    out, given = halves.parent / "jobs.csv", ("--policy", "static-50", "--set", f"profiles={table}")
    assert run("simulate", halves, *given, "--jobs-csv", out).code == 0
    assert ends(out) == pytest.approx([210.0, 210.0])
    assert run("simulate", halves, *given, "--kill-at-limit", "--jobs-csv", out).code == 0
    assert ends(out) == [150.0, 150.0]


@pytest.mark.slow
def test_going_on_from_saved_knowledge_is_one_longer_run(run: Run, queue: Path, tmp_path: Path) -> None:
    kept = tmp_path / "knowledge.json"
    given = ("--policy", "asax", "--option", "full_loss_at=0.2")
    longer = sharing_policy("asax", {"full_loss_at": 0.2})
    for seed, load in ((2, ()), (3, ("--option", f"knowledge={kept}")), (4, ("--option", f"knowledge={kept}"))):
        out = tmp_path / "jobs.csv"
        save = ("--option", f"save_knowledge={kept}")
        assert run("simulate", queue, *given, *load, *save, "--seed", seed, "--jobs-csv", out).code == 0
        jobs = profiled_jobs(read_workload(queue), WORKFLOWS)
        done = simulate(queue_workload(jobs), 64, longer, seed=seed, execution=QuotaExecution(jobs))
        assert ends(out) == pytest.approx(done.end.tolist())
        assert isinstance(longer, AsaxPolicy)
        longer.save_knowledge = str(tmp_path / "longer.json")
        longer.remember()
        assert kept.read_text() == (tmp_path / "longer.json").read_text()
    assert any(weights.rounds for weights in longer.asax.knowledge.applications.values())


def test_a_schedule_keeps_the_applications_of_its_jobs(run: Run, queue: Path, tmp_path: Path) -> None:
    out = tmp_path / "schedule.swf"
    assert run("simulate", queue, "--policy", "static-50", "--swf", out).code == 0
    assert read_workload(out).executables.tolist() == read_workload(queue).executables.tolist()
    assert run("simulate", out, "--policy", "asax").code == 0
