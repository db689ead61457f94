"""Real executions under OAR of some 800 jobs on 32 nodes, and the workload files they were started from."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allocopt.traces.workload import Workload

SIZE = 32


@dataclass(frozen=True)
class Execution:
    """What OAR did: the jobs as it got them, and when it started and ended each, in seconds after the first."""

    jobs: Workload
    profiles: list[str]
    start: np.ndarray
    end: np.ndarray

    @property
    def makespan(self) -> float:
        return float(self.end.max() - self.jobs.submit.min())

    @property
    def mean_wait(self) -> float:
        return float((self.start - self.jobs.submit).mean())


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
