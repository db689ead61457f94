"""How short the queue of the ASAX paper can be at all, with one guest a host: a linear program."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from allocopt.arrays import FloatArray
from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, slowdowns
from allocopt.report.table import Cell, aligned_table
from allocopt.simulator.quota.scheduler import SpaceSharing
from allocopt.traces.applications import CLUSTER_SIZES
from allocopt.traces.asax_queue import QueuedJob
from allocopt.traces.job_profile import ProfiledJob, Stage
from papers.asax.configuration import queue_of, simulated

RUN_FACTORS = (1.1, 1.5)
QUOTAS = tuple(range(10, 100, 10))
ROUNDING = 1e-9


@dataclass
class Kind:
    """Stages that are alike: of jobs of one workflow and size, with the seconds that all of them take alone."""

    job: ProfiledJob
    stage: Stage
    work_s: float = 0.0


class Use(NamedTuple):
    """A second in which one kind has an allocation, alone or beside another: what is done of each, and who is there."""

    done: dict[int, float]
    cores: int
    present: int


def kinds_of(queue: Sequence[QueuedJob]) -> list[Kind]:
    """Collect the stages of a queue."""
    kinds: dict[tuple[str, int, int], Kind] = {}
    for one in queue:
        for place, stage in enumerate(one.job.profile):
            kind = kinds.setdefault((one.application, one.job.cores, place), Kind(one.job, stage))
            kind.work_s += stage.share * one.job.remaining_s
    return list(kinds.values())


def uses_of(kinds: Sequence[Kind]) -> Iterator[Use]:
    """Yield every way in which an allocation can be used; ways that are alike once."""
    for host, owner in enumerate(kinds):
        yield Use({host: 1.0}, owner.job.cores, 1)
        for guest, other in enumerate(kinds):
            size = other.job.cores / owner.job.cores
            if size <= 1 and owner.job.peak_memory() + size * other.job.peak_memory() <= 1 + ROUNDING:
                for speeds in {_speeds(owner, other, percent) for percent in QUOTAS}:
                    done = {host: speeds[0]}
                    done[guest] = done.get(guest, 0.0) + speeds[1]
                    yield Use(done, owner.job.cores, 2)


def _speeds(host: Kind, guest: Kind, percent: int) -> tuple[float, float]:
    quotas = (1 - percent / 100, percent / 100)
    tenants = [Tenant(one.job.cores, one.stage, quota) for one, quota in zip((host, guest), quotas, strict=True)]
    slow = slowdowns(tenants, host.job.cores, Sharing.SHARES, Interference())
    return round(float(1 / slow[0]), 9), round(float(1 / slow[1]), 9)


def least_core_s(queue: Sequence[QueuedJob], run_factor: float) -> float:
    """Return the core-seconds that allocations take at least.

    All work is done in allocations of one job, or of one and a guest, at the rates of the execution model; which stages
    meet, when and for how long is free, jobs may be interrupted, and run times together grow by a factor at most.
    """
    kinds = kinds_of(queue)
    uses = list(uses_of(kinds))
    entries = [(kind, column, speed) for column, use in enumerate(uses) for kind, speed in use.done.items()]
    rows, columns, speeds = zip(*entries, strict=True)
    done = coo_array((speeds, (rows, columns)), shape=(len(kinds), len(uses))).toarray()
    work = np.array([kind.work_s for kind in kinds])
    present: FloatArray = np.array([[use.present for use in uses]], dtype=np.float64)
    found = linprog(
        [use.cores for use in uses], present, [run_factor * work.sum()], done, work, method="highs", bounds=(0, None)
    )
    assert found.fun is not None, found.message
    return float(found.fun)


def least_makespan_s(queue: Sequence[QueuedJob], cores: int, run_factor: float) -> float:
    """Return a bound on the makespan: by the cores, and by the job that would end last alone."""
    last = max(one.submit_s + one.job.remaining_s for one in queue) - min(one.submit_s for one in queue)
    return max(least_core_s(queue, run_factor) / cores, last)


def bounds(seeds: Sequence[int]) -> str:
    """Return how far utilization can rise, and the makespan fall, against space sharing."""
    lines: list[list[Cell]] = []
    for cores in CLUSTER_SIZES:
        for factor in RUN_FACTORS:
            gains, changes = [], []
            for seed in seeds:
                queue = queue_of(seed, cores)
                base = simulated(queue, cores, SpaceSharing(), seed)
                ratio = least_makespan_s(queue, cores, factor) / base.makespan_s
                changes.append(100 * (ratio - 1))
                gains.append(100 * base.cpu_utilization * (1 / ratio - 1))
            shown = (f"{np.mean(values):.1f} ± {np.std(values):.1f}" for values in (gains, changes))
            lines.append([cores, f"{100 * (factor - 1):.0f}", *shown])
    header = ("cores", "run time at most +%", "CPU over space sharing, at most + points", "makespan, at least +%")
    return aligned_table(header, lines, (None,) * len(header))
