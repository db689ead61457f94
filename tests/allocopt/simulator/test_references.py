"""Schedules equal those published, job by job; means to the printed digits."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, ShortestJobFirst
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Backfill, EventOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload


def published_starts(path: Path) -> dict[int, float]:
    """Return start times by job number, of a table of ``job_id`` and ``start``."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {int(row["job_id"]): float(row["start"]) for row in csv.DictReader(lines)}


def published_waits(path: Path) -> dict[int, float]:
    """Return waits by job number, of a schedule in the Standard Workload Format."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.split() for line in lines if line.strip() and not line.startswith(";")]
    return {int(row[0]): float(row[2]) for row in rows}


FCFS = FirstComeFirstServed()
SEQUENTIAL = Rules(EventOrder.SEQUENTIAL)
PLAIN, EASY = ListScheduler(FCFS), ListScheduler(FCFS, Backfill.EASY)
CONSERVATIVE = ListScheduler(FCFS, Backfill.CONSERVATIVE)
SHORTEST_BACKFILLED = ListScheduler(FCFS, Backfill.EASY, ShortestJobFirst())
CLAIRVOYANT = "scheduler_predictorclairvoyant_throw_an_error"
USERS, EXACT, SJBF = (
    "easy_backfill_scheduler_None_None",
    f"easy_prediction_backfill_{CLAIRVOYANT}",
    f"easy_plus_plus_{CLAIRVOYANT}",
)

START_TIMES = [
    ("lublin_256_first1000_fcfs", "lublin_256", 256, PLAIN, Rules()),
    ("lublin_256_first1000_easy", "lublin_256", 256, EASY, Rules()),
    ("lublin_256_first1000_conservative", "lublin_256", 256, CONSERVATIVE, Rules()),
    ("lublin_256_est_first1000_easy", "lublin_256_est", 256, EASY, Rules()),
    ("lublin_256_est_first1000_easy_sequential", "lublin_256_est", 256, EASY, SEQUENTIAL),
    ("theta_killed_easy", "Theta-2018-01", 4360, EASY, Rules()),
]
SC15 = [
    ("KTH-SP2", 100, USERS, EASY, 28_481, "92.57653973"),
    ("KTH-SP2", 100, EXACT, EASY, 28_481, "71.72238511"),
    ("KTH-SP2", 100, SJBF, SHORTEST_BACKFILLED, 28_481, "49.84771893"),
    ("SDSC-SP2", 128, USERS, EASY, 54_006, "87.87032419"),
    ("SDSC-SP2", 128, EXACT, EASY, 54_006, "70.47794197"),
    ("SDSC-SP2", 128, SJBF, SHORTEST_BACKFILLED, 54_006, "56.83622127"),
    ("CEA-curie", 80_640, USERS, EASY, 295_540, "202.13316166"),
]


def trace(shared_data: Path, name: str) -> Workload:
    return read_workload(shared_data / "traces" / f"{name}.swf.gz")


@pytest.mark.parametrize(
    ("name", "log", "machine", "scheduler", "rules"), START_TIMES, ids=lambda value: str(value)[:40]
)
def test_every_job_starts_when_the_reference_says(
    shared_data: Path, name: str, log: str, machine: int, scheduler: ListScheduler, rules: Rules
) -> None:
    published = published_starts(shared_data / "reference" / "start_times" / f"{name}.csv.gz")
    jobs = trace(shared_data, log)
    made = simulate(jobs.first(1000) if "first1000" in name else jobs, machine, scheduler, rules)
    assert dict(zip(made.workload.ids.tolist(), made.start.tolist(), strict=True)) == published


def test_every_reference_is_compared(shared_data: Path) -> None:
    tables = {f"start_times/{name}.csv.gz" for name, *_ in START_TIMES}
    logs = {f"{log}.{name}.swf.gz" for log, _, name, *_ in SC15}
    folder = shared_data / "reference"
    assert tables | logs == {str(path.relative_to(folder)) for path in folder.rglob("*.gz")}


@pytest.mark.slow
@pytest.mark.parametrize(("log", "machine", "name", "scheduler", "n_jobs", "slowdown"), SC15)
def test_every_job_waits_as_in_the_schedules_of_gaussier_et_al(
    shared_data: Path, log: str, machine: int, name: str, scheduler: ListScheduler, n_jobs: int, slowdown: str
) -> None:
    path = shared_data / "reference" / f"{log}.{name}.swf.gz"
    jobs = read_workload(path).killed_at_limit()
    made = simulate(jobs if name == USERS else jobs.with_exact_estimates(), machine, scheduler, SEQUENTIAL)
    waits = dict(zip(made.workload.ids.tolist(), (made.start - made.release).tolist(), strict=True))
    assert waits == published_waits(path)
    assert len(waits) == n_jobs
    assert f"{made.job_times.bounded_slowdown.mean():.8f}" == slowdown


@pytest.mark.slow
def test_jobs_of_ctc_with_a_requested_time_wait_as_published(shared_data: Path, tmp_path: Path) -> None:
    with gzip.open(shared_data / "traces" / "CTC-SP2-1996-3.1-cln.swf.gz", "rt", encoding="utf-8") as lines:
        kept = [line for line in lines if line.startswith(";") or float(line.split()[8]) > 0]
    asked = tmp_path / "asked.swf"
    asked.write_text("".join(kept), encoding="utf-8")
    made = simulate(read_workload(asked), 338, EASY, SEQUENTIAL)
    assert len(made.workload) == 77_199
    assert f"{made.job_times.bounded_slowdown.mean():.8f}" == "49.57129022"


@pytest.mark.parametrize(
    ("log", "n_jobs", "machine", "scheduler", "published"),
    [
        ("lublin_256", 1000, 256, PLAIN, ("158270.95", "4159.6091", "0.538446", "1519735")),
        ("lublin_256", 1000, 256, EASY, ("11045.205", "60.7841", "0.707421", "1156731")),
        ("Theta-2018-01", 10**9, 4360, EASY, ("3952.8980", "7.8123", "0.665840", "2510100")),
    ],
    ids=["fcfs", "easy", "theta"],
)
def test_the_published_means_come_out(
    shared_data: Path, log: str, n_jobs: int, machine: int, scheduler: ListScheduler, published: tuple[str, ...]
) -> None:
    made = measure(simulate(trace(shared_data, log).first(n_jobs), machine, scheduler))
    jobs, machine_use = made.jobs, made.machine
    found = (f"{jobs.wait_s.mean:.4f}", f"{jobs.bounded_slowdown.mean:.4f}", f"{machine_use.utilization:.6f}")
    # One wait is printed to two digits, one to three.
    assert found[0].startswith(published[0])
    assert (*found[1:], f"{machine_use.makespan_s:.0f}") == published[1:]


@pytest.mark.parametrize(("log", "different"), [("lublin_256_est", 7_982), ("lublin_256", 0)])
def test_event_orders_differ_with_estimates_only(shared_data: Path, log: str, different: int) -> None:
    jobs = trace(shared_data, log)
    assert len(jobs) == 10_000
    batched, sequential = (simulate(jobs, 256, EASY, Rules(event_order)).start for event_order in EventOrder)
    assert np.count_nonzero(batched != sequential) == different


@pytest.mark.parametrize(("first", "seconds"), [(1, 93), (301, 207), (601, 195)])
def test_fcfs_waits_as_the_nsa_paper_says(shared_data: Path, first: int, seconds: int) -> None:
    jobs = read_workload(shared_data / "tjap" / "data_large_1800_40.txt.gz")
    # 300 jobs alone, by their numbers.
    run = jobs.subset(np.flatnonzero((jobs.ids >= first) & (jobs.ids < first + 300)))
    made = simulate(run, 1000, "fcfs")
    assert int((made.start - made.release).mean()) == seconds


def test_the_same_schedule_comes_step_by_step_on_a_real_log(shared_data: Path) -> None:
    jobs = trace(shared_data, "lublin_256_est").first(2000)
    passes: list[float] = []
    made: Schedule = simulate(jobs, 256, EASY, observer=lambda simulation: passes.append(simulation.view.now))
    assert made.start.tolist() == simulate(jobs, 256, EASY).start.tolist()
    assert passes == sorted(set(passes))
