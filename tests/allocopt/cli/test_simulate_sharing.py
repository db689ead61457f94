"""``allocopt simulate`` under policies that let jobs share cores."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from support.program import Run

from allocopt.simulator.quota.execution import QuotaExecution
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.registry import get_policy, policy_names
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import queue_workload
from allocopt.traces.executables import WORKFLOWS, profiled_jobs
from allocopt.traces.reading import read_workload
from learned.asax.scheduler import AsaxPolicy

SHARING = [name for name in policy_names() if isinstance(get_policy(name), QuotaScheduler)]

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


@pytest.mark.parametrize("policy", SHARING)
def test_a_policy_gives_the_schedule_that_it_gives_as_a_library(run: Run, queue: Path, policy: str) -> None:
    out = queue.parent / "jobs.csv"
    row = json.loads(run("simulate", queue, "--policy", policy, "--seed", "2", "--jobs-csv", out, "--json").out)
    jobs = profiled_jobs(read_workload(queue), WORKFLOWS)
    done = simulate(queue_workload(jobs), 64, sharing_policy(policy), seed=2, execution=QuotaExecution(jobs))
    assert ends(out) == pytest.approx(done.end.tolist())
    held = sum(one.job.cores * seconds for one, seconds in zip(jobs, done.accounts.owned_s.tolist(), strict=True))
    assert row["utilization"] == pytest.approx(held / (64 * done.makespan_s))
    assert row["mean_wait_s"] == pytest.approx(done.wait_s.mean())
    assert bool(done.accounts.guests.any()) is (policy != "space-sharing")


def test_space_sharing_is_fcfs_with_easy(run: Run, queue: Path) -> None:
    rows = []
    for options in (("--policy", "space-sharing"), ("--policy", "fcfs", "--backfill", "easy", "--no-kill-at-limit")):
        row = json.loads(run("simulate", queue, *options, "--json").out)
        rows.append([row[key] for key in ("mean_wait_s", "max_wait_s", "utilization", "makespan_s")])
    assert rows[0] == pytest.approx(rows[1])


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """Write two jobs of 100 s with limits of 150 s on all eight processors, and what they ask for."""
    lines = [f"{job} 0 -1 100 8 -1 -1 8 150 -1 1 -1 -1 5 -1 -1 -1 -1" for job in (1, 2)]
    path = tmp_path / "halves.swf"
    path.write_text("\n".join(["; MaxProcs: 8", *lines]))
    (tmp_path / "halves.toml").write_text(HALVES)
    return path


def test_a_table_of_ones_own_says_what_jobs_ask_for(run: Run, halves: Path) -> None:
    out, table = halves.parent / "jobs.csv", halves.with_suffix(".toml")
    answer = run("simulate", halves, "--policy", "static-50", "--set", f"profiles={table}", "--jobs-csv", out)
    # Each keeps half of the cores busy beside the other one: contention for caches alone, 0.1 x 0.5 x 0.5.
    assert answer.code == 0
    assert ends(out) == pytest.approx([102.5, 102.5])


def test_jobs_that_share_are_killed_at_their_limits_if_asked_for(run: Run, halves: Path) -> None:
    table = halves.with_suffix(".toml")
    table.write_text(HALVES.replace("0.5", "1.0"))
    out, given = halves.parent / "jobs.csv", ("--policy", "static-50", "--set", f"profiles={table}")
    assert run("simulate", halves, *given, "--jobs-csv", out).code == 0
    assert ends(out) == pytest.approx([210.0, 210.0])
    assert run("simulate", halves, *given, "--kill-at-limit", "--jobs-csv", out).code == 0
    assert ends(out) == [150.0, 150.0]


@pytest.mark.parametrize(
    ("options", "code", "fault"),
    [
        (("--policy", "asax"), 3, "job 1: its executable is 5, there are profiles of 1 montage"),
        (
            ("--policy", "static-50", "--backfill", "easy"),
            2,
            "'static-50' is a scheduler of its own: it takes no backfilling",
        ),
        (("--policy", "asax", "--fat-tree", "2,2,2"), 2, "fat_tree: does not go with policy 'asax'"),
        (
            ("--policy", "sjf", "--set", "profiles=t.toml"),
            2,
            "profiles: goes with policies by which jobs share",
        ),
        (("--policy", "asax", "--set", "profiles=none.toml"), 3, "none.toml: "),
        (("--policy", "asax", "--option", "period_s=0"), 2, "period_s is 0, must be positive"),
        (("--policy", "asax", "--option", "experts=none.toml"), 3, "none.toml: "),
        (("--policy", "asax", "--option", "loss=money"), 2, "must be one of limit, degradation"),
        (("--policy", "asax", "--option", "idle_weight=-1"), 2, "idle_weight is -1, must not be negative"),
        (("--policy", "static-50", "--option", "percent=95"), 2, "the quota is 95 %"),
    ],
)
def test_a_wrong_request_is_told(run: Run, halves: Path, options: tuple[str, ...], code: int, fault: str) -> None:
    answer = run("simulate", halves, *options)
    assert (answer.code, answer.out) == (code, "")
    assert fault in answer.lines_of_error[-1]


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


def test_knowledge_does_not_overwrite_another_file(run: Run, queue: Path) -> None:
    before = queue.read_text()
    answer = run("simulate", queue, "--policy", "asax", "--option", f"save_knowledge={queue}")
    assert (answer.code, answer.out) == (3, "")
    assert queue.name in answer.lines_of_error[-1]
    assert queue.read_text() == before


def test_a_schedule_keeps_the_applications_of_its_jobs(run: Run, queue: Path, tmp_path: Path) -> None:
    out = tmp_path / "schedule.swf"
    assert run("simulate", queue, "--policy", "static-50", "--swf", out).code == 0
    assert read_workload(out).executables.tolist() == read_workload(queue).executables.tolist()
    assert run("simulate", out, "--policy", "asax").code == 0
