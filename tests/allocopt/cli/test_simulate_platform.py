"""``allocopt simulate --platform``."""

import csv
import json
from pathlib import Path

import pytest
from support.multicore import PLATFORM, examples
from support.program import Run

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


def test_jobs_run_and_their_energy_is_written(run: Run, workload: Path, platform: Path, tmp_path: Path) -> None:
    out, energy = tmp_path / "jobs.csv", tmp_path / "energy.csv"
    answer = run(
        *("simulate", workload, "--platform", platform, "--policy", "first-high_cores", "--json"),
        *("--jobs-csv", out, "--energy-csv", energy),
    )
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


def test_the_baseline_knows_no_contention(run: Run, workload: Path, platform: Path) -> None:
    (row,) = run("simulate", workload, "--platform", platform, "--set", "execution=baseline", "--json").rows
    assert row["makespan_s"] == pytest.approx(10.0)
    assert row["energy_j"] == pytest.approx(3 * 10 * 6)


def test_jobs_are_killed_only_when_asked_for(run: Run, workload: Path, platform: Path) -> None:
    (row,) = run("simulate", workload, "--platform", platform, "--kill-at-limit", "--json").rows
    assert row["makespan_s"] == pytest.approx(5.0)


def test_tables_are_printed_with_the_energy(run: Run, workload: Path, platform: Path) -> None:
    answer = run("simulate", workload, "--platform", platform, "--max-jobs", "2")
    assert answer.code == 0
    assert "energy " in answer.out
    assert "2 jobs measured" in answer.out


def test_jobs_start_where_and_when_a_file_says(run: Run, workload: Path, platform: Path, tmp_path: Path) -> None:
    placed = tmp_path / "placed.csv"
    placed.write_text("job_id,node,start_s,duration_s\n7,left,0,10\n8,right,1,10\n9,right,12,8\n", encoding="utf-8")
    (row,) = run("simulate", workload, "--platform", platform, "--set", f"placement={placed}", "--json").rows
    assert row["policy"] is None
    assert row["makespan_s"] == pytest.approx(22.0)
    assert row["mean_duration_error"] == pytest.approx(0.25 / 3)
    assert row["max_duration_error"] == pytest.approx(0.25)
    assert (
        "differ from the measured ones by 8.3%"
        in run("simulate", workload, "--platform", platform, "--set", f"placement={placed}").out
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("job_id,node\n7,left\n", "line 1: has no column start_s; the columns are job_id, node, start_s"),
        ("job_id,node,start_s\n5,left,0\n", "line 2: job_id is '5', the workload has no such job"),
        ("job_id,node,start_s\n7,left,0\n7,left,0\n", "line 3: job_id is '7', which comes twice"),
        ("job_id,node,start_s\n7,left,x\n", "line 2: start_s is 'x', must be a time in seconds, not negative"),
        ("job_id,node,start_s\n7,left\n", "line 2: does not have 3 columns as line 1"),
        ("job_id,node,start_s\n7,left,0\n", "job 'job8': is not among the jobs that were started"),
        (
            "job_id,node,start_s\n7,up,0\n8,left,0\n9,left,0\n",
            "placed.csv: job 'job7': was started on 'up', there is no such node",
        ),
        ("job_id,node,start_s,duration_s\n7,left,0,0\n", "line 2: duration_s is '0', must be positive"),
    ],
    ids=["column", "job", "twice", "time", "columns", "missing", "node", "duration"],
)
def test_a_wrong_file_of_starts_is_told(
    run: Run, workload: Path, platform: Path, tmp_path: Path, text: str, fault: str
) -> None:
    placed = tmp_path / "placed.csv"
    placed.write_text(text, encoding="utf-8")
    assert fault in run("simulate", workload, "--platform", platform, "--set", f"placement={placed}").refusal(3)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--backfill", "easy"], "backfill: does not go with platform"),
        (["--processors", "4"], "processors: does not go with platform"),
        (["--set", "backfill_order=sjf"], "backfill_order: does not go with platform"),
        (["--set", "exact_estimates=true"], "exact_estimates: does not go with platform"),
        (["--event-order", "sequential"], "event_order: does not go with platform"),
        (["--policy", "void"], "policy 'void' starts no job, so that none would ever end"),
        (["--policy", "sjf"], "there is no policy 'sjf' of a multicore platform"),
        (["--set", "sharing=0"], "sharing: is 0.0, must be greater than 0"),
    ],
)
def test_options_that_do_not_go_together_are_told(
    run: Run, workload: Path, platform: Path, arguments: list[str], fault: str
) -> None:
    assert fault in run("simulate", workload, "--platform", platform, *arguments).refusal(2)


def test_the_measured_run_is_replayed_from_the_command_line(run: Run, shared_data: Path) -> None:
    folder = examples(shared_data) / "cal" / "job_4_cal_str_19314_log2_v1"
    measured = shared_data / "irmasim" / "derived_measured_jobs.csv"
    fields = ("--set", "sharing=0.7", "--set", f"placement={measured}")
    (row,) = run("simulate", folder / "workload.json", "--platform", folder / "platform.json", *fields, "--json").rows
    assert row["mean_duration_error"] <= 0.07
    assert row["max_duration_error"] <= 0.15
    assert row["energy_j"] == pytest.approx(9514, rel=0.1)


@pytest.mark.parametrize("option", ["--energy-csv", "--jobs-csv", "--swf"])
@pytest.mark.parametrize("read", ["workload.json", "platform.toml", "placed.csv"])
def test_no_output_overwrites_what_is_read(
    run: Run, workload: Path, platform: Path, tmp_path: Path, option: str, read: str
) -> None:
    placed = tmp_path / "placed.csv"
    placed.write_text("job_id,node,start_s\n7,left,0\n8,left,0\n9,right,0\n", encoding="utf-8")
    before = (tmp_path / read).read_bytes()
    # Another spelling of the same file.
    target = tmp_path / "missing" / ".." / read
    answer = run("simulate", workload, "--platform", platform, "--set", f"placement={placed}", option, target)
    assert "is named twice: what is read and what is written must be different files" in answer.refusal(2)
    assert (tmp_path / read).read_bytes() == before


def test_names_are_quoted_in_the_file_of_energies(run: Run, workload: Path, platform: Path, tmp_path: Path) -> None:
    name, energy = 'a,"b"', tmp_path / "energy.csv"
    workload.write_text(json.dumps({"jobs": [{"id": name, "subtime": 0, "res": 1, **PROFILE}]}), encoding="utf-8")
    assert run("simulate", workload, "--platform", platform, "--energy-csv", energy).code == 0
    with energy.open(encoding="utf-8", newline="") as lines:
        assert [row["name"] for row in csv.DictReader(lines)] == [name, "left", "right", "c", "pair"]


def test_the_first_jobs_start_where_a_file_of_all_says(
    run: Run, workload: Path, platform: Path, tmp_path: Path
) -> None:
    placed = tmp_path / "placed.csv"
    placed.write_text("job_id,node,start_s\n7,left,0\n8,right,1\n9,right,12\n", encoding="utf-8")
    arguments = ("simulate", workload, "--platform", platform, "--set", f"placement={placed}")
    assert run(*arguments, "--max-jobs", "2", "--json").rows[0]["jobs"] == 2
    assert "policy: does not go with placement" in run(*arguments, "--policy", "shortest-random").refusal(2)


@pytest.mark.slow
def test_a_job_of_very_many_tasks_is_not_searched_for_task_by_task(run: Run, workload: Path, platform: Path) -> None:
    platform.write_text(PLATFORM.replace("cores = 2", "cores = 200000"), encoding="utf-8")
    job = {"subtime": 0, "res": 200_000, **PROFILE, "mem_vol": 0}
    workload.write_text(json.dumps({"jobs": [job]}), encoding="utf-8")
    (row,) = run("simulate", workload, "--platform", platform, "--json").rows
    assert row["utilization"] == pytest.approx(0.5)


def test_a_job_that_can_never_start_is_told_with_its_file(run: Run, workload: Path, platform: Path) -> None:
    workload.write_text(json.dumps({"jobs": [{"id": "a", "subtime": 0, "res": 3, **PROFILE}]}), encoding="utf-8")
    answer = run("simulate", workload, "--platform", platform)
    assert answer.code == 3
    assert answer.err.startswith(f"allocopt: {workload}: job 'a': asks for 1 node with 3 cores")
