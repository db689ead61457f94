"""Real deep-learning jobs that share a GPU in pairs, as they were measured.

The file is the one of the Gavel scheduler (Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia,
"Heterogeneity-aware cluster scheduling policies for deep learning workloads", OSDI 2020): throughputs of every job
alone and beside every other one. It is read at run time and does not come with the package.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json, read_text
from allocopt.problems.coallocation.problem import LARGEST_SLOWDOWN, CoallocationObjective, CoallocationProblem
from allocopt.traces.job_profile import ProfiledJob, Stage

ALONE = "null"
HALF = 0.5
"""The quota of measured pairs: two jobs take turns on a GPU."""
LONG_S = 3600.0
"""Seconds that a job takes; a limit is no matter here."""


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPairs:
    """What was measured of jobs on one type of GPU.

    Parameters
    ----------
    names
        The jobs.
    speeds
        ``speeds[i, j]``: throughput of job i beside job j over that alone; 0 where they do not run together, shape
        ``(n, n)``.
    """

    names: tuple[str, ...]
    speeds: FloatArray

    def totals(self) -> FloatArray:
        """Throughput of each pair together, in jobs that run alone, shape ``(n, n)``."""
        return np.asarray(self.speeds + self.speeds.T)

    def slowdowns(self, host: int, guest: int) -> tuple[float, float] | None:
        """Slowdowns of two jobs that share, from 1 on; None where they do not run together."""
        own, other = float(self.speeds[host, guest]), float(self.speeds[guest, host])
        if min(own, other) * LARGEST_SLOWDOWN <= 1.0:
            return None
        return max(1.0, 1.0 / own), max(1.0, 1.0 / other)

    def problem(
        self, hosts: Sequence[int], guests: Sequence[int], max_slowdown: float = 3.0, name: str = "measured"
    ) -> CoallocationProblem:
        """Return the problem of which running jobs share their GPUs with which waiting ones, for most throughput.

        Parameters
        ----------
        hosts, guests
            Which jobs they are.
        max_slowdown
            Most that a job may be slowed down.
        name
            Name of the instance.
        """
        running = tuple(_job(f"host-{number}") for number in range(len(hosts)))
        waiting = tuple(_job(f"guest-{number}") for number in range(len(guests)))
        measured = {
            (running[row].id, waiting[column].id): slowdowns
            for row, host in enumerate(hosts)
            for column, guest in enumerate(guests)
            if (slowdowns := self.slowdowns(host, guest)) is not None
        }
        return CoallocationProblem(
            running,
            waiting,
            quotas=(HALF,),
            max_slowdown=max_slowdown,
            objective_name=CoallocationObjective.THROUGHPUT,
            measured=measured,
            name=name,
        )

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Draw jobs, each equally likely."""
        return rng.integers(0, len(self.names), count)


def read_pairs(path: Path | str, gpu_type: str, gpus: int = 1) -> MeasuredPairs:
    """Read the pairs of one type of GPU.

    Parameters
    ----------
    path
        The file.
    gpu_type
        Such as ``v100``.
    gpus
        GPUs on which the jobs of a pair run both.

    Raises
    ------
    BadFileError
        If the file cannot be read or does not hold throughputs.
    UsageError
        If there is no such type, or no job was measured on so many GPUs.
    """
    path = Path(path)
    found = parse_json(read_text(path), path)
    if not isinstance(found, dict):
        raise bad_file(path, "top level", f"is {shown(found)}, must be an object")
    if gpu_type not in found or not isinstance(found[gpu_type], dict):
        raise UsageError(f"no GPU {gpu_type!r} was measured; there are {', '.join(sorted(found))}")
    table = {job: row for job, row in found[gpu_type].items() if job.endswith(f", {gpus})")}
    alone = {job: _throughput(path, job, row) for job, row in table.items()}
    names = sorted(job for job, throughput in alone.items() if throughput > 0)
    if not names:
        raise UsageError(f"no job was measured on {gpus} GPUs of type {gpu_type!r}")
    speeds = np.zeros((len(names), len(names)))
    for row, job in enumerate(names):
        for column, other in enumerate(names):
            speeds[row, column] = _beside(path, table, job, other) / alone[job]
    speeds[(speeds == 0) | (speeds.T == 0)] = 0.0
    return MeasuredPairs(tuple(names), speeds)


def _throughput(path: Path, job: str, row: object) -> float:
    """Return the throughput of a job alone."""
    alone = row.get(ALONE) if isinstance(row, dict) else None
    if not isinstance(alone, int | float) or isinstance(alone, bool) or alone < 0:
        raise bad_file(path, job, f"{ALONE} is {shown(alone)}, must be a throughput")
    return float(alone)


def _beside(path: Path, table: dict[str, dict[str, object]], job: str, other: str) -> float:
    """Return the throughput of a job beside another one, 0 where they were not measured."""
    pair = table[job].get(other, [0.0, 0.0])
    if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(one, int | float) for one in pair):
        raise bad_file(path, job, f"{other} is {shown(pair)}, must be two throughputs")
    return float(pair[0])


def _job(identifier: str) -> ProfiledJob:
    """Return a job on one GPU; what was measured stands for its profile."""
    return ProfiledJob(identifier, 1, (Stage(1.0, 1.0),), LONG_S, LARGEST_SLOWDOWN * LONG_S)
