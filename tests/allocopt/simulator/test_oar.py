"""Conservative backfilling against real executions under OAR, which plans anew when a job ends early."""

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from allocopt.cluster.platform import Platform
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

SIZE = 32


class Execution(NamedTuple):
    """What OAR did: the jobs as it got them, and when it started and ended each, in seconds after the first."""

    jobs: Workload
    profiles: list[str]
    start: np.ndarray
    end: np.ndarray


def summary(jobs: Workload, start: np.ndarray, end: np.ndarray) -> tuple[float, float]:
    """Return makespan and mean wait in seconds."""
    return float(end.max() - jobs.submit.min()), float((start - jobs.submit).mean())


def workload_file(shared_data: Path, seed: int) -> Path:
    """Path of the workload of a seed."""
    return shared_data / "g5k_oar" / "workloads" / f"g5k_workload_delay_seed{seed}_size{SIZE}.json.gz"


def profiles_in_file(shared_data: Path, seed: int) -> list[str]:
    """Name of the profile of every job, in the order of submission."""
    jobs = _read(workload_file(shared_data, seed))["jobs"]
    return [job["profile"] for job in sorted(jobs, key=lambda job: (job["subtime"], int(job["id"])))]


def executed(shared_data: Path, seed: int) -> Execution:
    """Read what ran; run times are the calibrated delays of the commands."""
    (run,) = (shared_data / "g5k_oar" / "measured").iterdir()
    gantt = _read(run / f"oar_gant_g5k_workload_delay_seed{seed}_size{SIZE}.json.gz")["jobs"]
    rows = [(int(number), job) for number, job in sorted(gantt.items(), key=lambda item: int(item[0]))]
    # The last word of a command is the benchmark, after which its profile is called.
    names = ["delay_" + job["command"].split()[-1] for _, job in rows]
    delays = _read(workload_file(shared_data, seed))["profiles"]
    first = min(job["submission_time"] for _, job in rows)
    jobs = Workload(
        f"oar-{seed}",
        np.array([number for number, _ in rows]),
        _seconds(rows, "submission_time") - first,
        np.array([delays[name]["delay"] for name in names], dtype=np.float64),
        np.array([len(job["resources"]) for _, job in rows]),
        _seconds(rows, "walltime"),
    )
    by_submission = np.lexsort((np.array([number for number, _ in rows]), _seconds(rows, "submission_time")))
    start, end = (_seconds(rows, field)[by_submission] - first for field in ("start_time", "stop_time"))
    return Execution(jobs, [names[row] for row in by_submission], start, end)


def _seconds(rows: list[tuple[int, dict[str, Any]]], field: str) -> np.ndarray:
    return np.array([job[field] for _, job in rows], dtype=np.float64)


def _read(path: Path) -> Any:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


OAR = ListScheduler(FirstComeFirstServed(), Backfill.CONSERVATIVE, compression=True)


def run(jobs: Workload) -> tuple[float, float]:
    """Simulate OAR on whole nodes; return makespan and mean wait in seconds."""
    made = simulate(jobs, Platform.whole_nodes(SIZE), OAR)
    return summary(jobs, made.start, made.end)


@pytest.mark.parametrize(
    ("seed", "measured", "simulated", "different"),
    [
        # Seed 0 did not run what is in its file.
        (0, ("11778", "241.0"), None, 761),
        (1, ("11309", "13.6"), ("11307", "9.6"), 0),
        (2, ("10970", "27.6"), ("10952", "22.7"), 0),
        (3, ("11145", "12.1"), ("11146", "9.4"), 0),
        (4, ("11194", "25.8"), ("11193", "21.8"), 0),
    ],
)
def test_makespan_and_mean_wait_are_as_published_and_near_the_measured_ones(
    shared_data: Path, seed: int, measured: tuple[str, str], simulated: tuple[str, str] | None, different: int
) -> None:
    ran, in_file = executed(shared_data, seed), profiles_in_file(shared_data, seed)
    real = summary(ran.jobs, ran.start, ran.end)
    assert (f"{real[0]:.0f}", f"{real[1]:.1f}") == measured
    assert len(in_file) == len(ran.profiles) == 800
    assert sum(a != b for a, b in zip(ran.profiles, in_file, strict=True)) == different
    if simulated is not None:
        makespan, wait = run(read_workload(workload_file(shared_data, seed)))
        assert (f"{makespan:.0f}", f"{wait:.1f}") == simulated
        assert makespan == pytest.approx(real[0], rel=0.005)
        assert wait == pytest.approx(real[1], abs=10)


def test_seed_0_as_it_ran_is_as_explained(shared_data: Path) -> None:
    # Makespan 1.8 % and mean wait 10 % below the measured ones, which hang on two decisions late in a saturated run.
    made = run(executed(shared_data, 0).jobs)
    assert (f"{made[0]:.1f}", f"{made[1]:.1f}") == ("11566.0", "217.4")
