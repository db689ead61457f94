"""Generate co-allocation problems from the workflows of the ASAX paper, or from measured pairs of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, shown
from allocopt.files.reading import parse_json, read_text
from allocopt.problems.coallocation.problem import LARGEST_SLOWDOWN, CoallocationObjective, CoallocationProblem
from allocopt.traces.applications import APPLICATIONS
from allocopt.traces.job_profile import ProfiledJob, Stage

JITTER = 0.2  # a job's demands and times are those of its application times 1 - JITTER .. 1 + JITTER
WALLTIME_FACTORS = (1.1, 3.0)
MEAN_WAIT_S = 1800.0
LONG_S = 3600.0  # run time of a measured job in seconds; any value will do, because time limits never bind


def synthetic_coallocation(
    name: str,
    rng: np.random.Generator,
    hosts: Annotated[int, typer.Option(min=1, max=100_000, help="Number of running jobs.")] = 20,
    guests: Annotated[int, typer.Option(min=1, max=100_000, help="Number of waiting jobs.")] = 10,
    objective: Annotated[
        Literal["capacity", "response", "throughput"],
        typer.Option(help="Maximize used cores, saved response time, or work done."),
    ] = "capacity",
    max_slowdown: Annotated[float, typer.Option(help="Limit the slowdown of a job to this factor, at least 1.")] = 1.5,
    max_guests: Annotated[int, typer.Option(min=1, max=9, help="Most guests on a host.")] = 1,
) -> CoallocationProblem:
    """Draw co-allocation problems: running and waiting jobs of the ASAX paper's workflows. Same seed, same files."""
    running = tuple(_running(_drawn(f"host-{number}", rng), rng) for number in range(hosts))
    drawn = (_drawn(f"guest-{number}", rng) for number in range(guests))
    waiting = tuple(replace(guest, wait_s=round(float(rng.exponential(MEAN_WAIT_S)))) for guest in drawn)
    goal = CoallocationObjective(objective)
    return CoallocationProblem(
        running, waiting, max_slowdown=max_slowdown, max_guests=max_guests, objective_name=goal, name=name
    )


def _drawn(identifier: str, rng: np.random.Generator) -> ProfiledJob:
    app = list(APPLICATIONS.values())[rng.integers(len(APPLICATIONS))]
    cores = int(rng.choice(app.sizes))
    run = round(app.runtime_s(cores) * _factor(rng))
    profile = []
    for stage in app.profile(cores):
        cpu, memory, io = (round(min(1.0, value * _factor(rng)), 4) for value in (stage.cpu, stage.memory, stage.io))
        # At least one core is busy.
        profile.append(replace(stage, cpu=max(cpu, round(1.0 / cores, 4)), memory=memory, io=io))
    return ProfiledJob(identifier, cores, tuple(profile), run, round(run * float(rng.uniform(*WALLTIME_FACTORS))))


def _factor(rng: np.random.Generator) -> float:
    return float(rng.uniform(1 - JITTER, 1 + JITTER))


def _running(job: ProfiledJob, rng: np.random.Generator) -> ProfiledJob:
    # The job has run for a random share of its time; finished stages are dropped.
    done = float(rng.uniform(0.0, 0.9))
    given = job.column("share")
    left = np.minimum(given, np.cumsum(given) - done)
    shares = np.round(np.where(left > 1e-9, left, 0.0) / (1.0 - done), 4)
    # After rounding, the shares may not sum to 1; the largest share absorbs the difference.
    shares[int(shares.argmax())] += 1.0 - shares.sum()
    pairs = zip(job.profile, shares.tolist(), strict=True)
    profile = tuple(replace(stage, share=round(share, 4)) for stage, share in pairs if share > 0)
    elapsed = done * job.remaining_s
    remaining_s, walltime_s = (max(1, round(total - elapsed)) for total in (job.remaining_s, job.walltime_s))
    return replace(job, profile=profile, remaining_s=remaining_s, walltime_s=walltime_s)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPairs:
    """Measurements of n real deep-learning jobs that share a GPU of one type in pairs.

    The file has the throughput of every job with and without every other job, in the format of the Gavel scheduler
    (Narayanan, Santhanam, Kazhamiaka, Phanishayee and Zaharia, "Heterogeneity-aware cluster scheduling policies for
    deep learning workloads", OSDI 2020). Gavel's file does not come with the package.
    """

    names: tuple[str, ...]
    # Throughput of job i beside job j, divided by its throughput without sharing; 0 if the two do not run together,
    # shape ``(n, n)``.
    speeds: FloatArray

    @classmethod
    def read(cls, path: Path | str, gpu_type: str, gpus: int = 1) -> "MeasuredPairs":
        """Read the pairs that ran on this number of GPUs of a type such as ``v100``.

        Raises `BadFileError` if the file cannot be read or does not hold throughputs, and `UsageError` if nothing was
        measured on such GPUs.
        """
        path = Path(path)
        found = parse_json(read_text(path), path)
        if not isinstance(found, dict):
            raise bad_file(path, "top level", f"is {shown(found)}, must be an object")
        if gpu_type not in found or not isinstance(found[gpu_type], dict):
            raise UsageError(f"no GPU {gpu_type!r} was measured; choose from {', '.join(sorted(found))}")
        table = {job: row for job, row in found[gpu_type].items() if job.endswith(f", {gpus})")}
        alone: dict[str, float] = {}
        for job, row in table.items():
            throughput = row.get("null") if isinstance(row, dict) else None
            if not isinstance(throughput, int | float) or isinstance(throughput, bool) or throughput < 0:
                raise bad_file(path, job, f"null is {shown(throughput)}, must be a throughput")
            alone[job] = float(throughput)
        names = sorted(job for job, throughput in alone.items() if throughput > 0)
        if not names:
            raise UsageError(f"no job was measured on {gpus} GPUs of type {gpu_type!r}")
        speeds = np.zeros((len(names), len(names)))
        for (i, job), (j, other) in product(enumerate(names), repeat=2):
            match table[job].get(other, [0.0, 0.0]):
                case [int() | float() as throughput, int() | float()]:
                    speeds[i, j] = throughput / alone[job]
                case pair:
                    raise bad_file(path, job, f"{other} is {shown(pair)}, must be two throughputs")
        # A pair ran together only if both jobs have a throughput.
        speeds[(speeds == 0) | (speeds.T == 0)] = 0.0
        return cls(tuple(names), speeds)

    def totals(self) -> FloatArray:
        """Return the total throughput of each pair, in units of jobs without sharing, shape ``(n, n)``."""
        return np.asarray(self.speeds + self.speeds.T)

    def slowdowns(self, host: int, guest: int) -> tuple[float, float] | None:
        """Return the slowdowns, at least 1, of two jobs that share; None if they do not run together."""
        own, other = float(self.speeds[host, guest]), float(self.speeds[guest, host])
        if min(own, other) * LARGEST_SLOWDOWN <= 1.0:
            return None
        return max(1.0, 1.0 / own), max(1.0, 1.0 / other)

    def problem(
        self, hosts: Sequence[int], guests: Sequence[int], max_slowdown: float = 3.0, name: str = "measured"
    ) -> CoallocationProblem:
        """Return the problem of sharing GPUs with the most throughput; hosts and guests are indices into `names`."""
        # The profiles are placeholders: measured slowdowns replace them.
        running, waiting = (
            tuple(
                ProfiledJob(f"{name}-{number}", 1, (Stage(1.0, 1.0),), LONG_S, LARGEST_SLOWDOWN * LONG_S)
                for number in range(len(jobs))
            )
            for name, jobs in (("host", hosts), ("guest", guests))
        )
        measured = {
            (running[row].id, waiting[column].id): slowdowns
            for row, host in enumerate(hosts)
            for column, guest in enumerate(guests)
            if (slowdowns := self.slowdowns(host, guest)) is not None
        }
        goal = CoallocationObjective.THROUGHPUT
        # Two jobs take turns on a GPU, so the quota is a half.
        return CoallocationProblem(
            running, waiting, (0.5,), max_slowdown, objective_name=goal, measured=measured, name=name
        )

    def draw(self, count: int, rng: np.random.Generator) -> IntArray:
        """Return ``count`` indices into `names`, drawn uniformly with repetition."""
        return rng.integers(0, len(self.names), count)
