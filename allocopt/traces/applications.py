"""The four workflows of the ASAX paper as staged jobs: profiles and run times that meet its Table 2.

Table 2 gives, for space sharing on 64, 128 and 256 cores, the mean run time over the job sizes with its spread, and the
CPU and memory utilization. From it follow

- the run time on c cores, ``serial_h + parallel_h / c`` (Amdahl): the paper says that the spread shows how an
  application scales, so that ``parallel_h`` is the spread over that of 1 / c, and the mean gives ``serial_h``;
- the busy cores of a parallel stage: a sequential stage keeps one core busy, and the mean of both over time and job
  sizes is the utilization.

Which share of the time is sequential, and how much of it is I/O, the paper tells in words (section 4.2); the numbers
for it are this module's.
"""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from allocopt.errors import UsageError
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind

SIZES = (8, 16, 32, 64)
"""Cores of the jobs of Montage, BLAST and Statistics; Synthetic leaves out the first (section 4.4)."""

CLUSTER_SIZES = (64, 128, 256)
LEAST_BUSY, HOUR_S = 0.01, 3600.0


@dataclass(frozen=True, slots=True)
class Published:
    """A line of Table 2: hours and their spread, percent of CPU and memory, under space sharing."""

    runtime_h: float
    spread: float
    cpu_percent: float
    memory_percent: float


@dataclass(frozen=True, slots=True)
class Application:
    """A workflow.

    Parameters
    ----------
    name
        Its name.
    sizes
        Cores of its jobs.
    stages
        Kind, share of the time and share of I/O of each stage, in order.
    published
        Its line of Table 2 by cores of the cluster.
    """

    name: str
    sizes: tuple[int, ...]
    stages: tuple[tuple[StageKind, float, float], ...]
    published: MappingProxyType[int, Published]

    def runtime_s(self, cores: int, cluster: int = 64) -> float:
        """Run time alone on so many cores, in seconds."""
        line, inverse = self._line(cluster), 1.0 / np.array(self.sizes)
        parallel_h = line.spread * line.runtime_h / float(inverse.std())
        serial_h = line.runtime_h - parallel_h * float(inverse.mean())
        return HOUR_S * (max(0.0, serial_h) + parallel_h / cores)

    def profile(self, cores: int, cluster: int = 64) -> tuple[Stage, ...]:
        """Return the stages of a job of so many cores."""
        line = self._line(cluster)
        busy, memory = self._busy(cluster), line.memory_percent / 100
        return tuple(
            Stage(share, 1.0 / cores if kind is StageKind.SEQUENTIAL else busy, memory, io, kind)
            for kind, share, io in self.stages
        )

    def job(self, identifier: str, cores: int, walltime_factor: float = 2.0, cluster: int = 64) -> ProfiledJob:
        """Return a job that has not begun, with a limit of so many times its run time."""
        run = self.runtime_s(cores, cluster)
        return ProfiledJob(identifier, cores, self.profile(cores, cluster), run, walltime_factor * run)

    def _busy(self, cluster: int) -> float:
        """Share of its cores that a parallel stage keeps busy."""
        sequential = sum(share for kind, share, _ in self.stages if kind is StageKind.SEQUENTIAL)
        alone = sequential * float((1.0 / np.array(self.sizes)).mean())
        busy = (self._line(cluster).cpu_percent / 100 - alone) / (1.0 - sequential)
        return min(1.0, max(LEAST_BUSY, busy))

    def _line(self, cluster: int) -> Published:
        """Return the line of Table 2 for a cluster."""
        if cluster not in self.published:
            known = ", ".join(map(str, self.published))
            raise UsageError(f"Table 2 has no cluster of {cluster} cores; it has {known}")
        return self.published[cluster]


def _application(
    name: str,
    sizes: tuple[int, ...],
    stages: tuple[tuple[StageKind, float, float], ...],
    *lines: tuple[float, float, float, float],
) -> Application:
    """Make an application from its lines of Table 2."""
    table = {cluster: Published(*line) for cluster, line in zip(CLUSTER_SIZES, lines, strict=True)}
    return Application(name, sizes, stages, MappingProxyType(table))


_S, _P = StageKind.SEQUENTIAL, StageKind.PARALLEL

MONTAGE = _application(
    "montage", SIZES, ((_P, 0.3, 0.5), (_S, 0.2, 0.4), (_P, 0.3, 0.5), (_S, 0.2, 0.4)),
    (0.35, 0.04, 45, 10), (0.32, 0.04, 33, 7), (0.29, 0.04, 21, 5),
)  # fmt: skip
"""I/O-intensive; nine stages, grouped into two parallel and two sequential ones."""

BLAST = _application(
    "blast", SIZES, ((_P, 0.97, 0.05), (_S, 0.03, 0.05)),
    (0.71, 0.21, 96, 44), (0.72, 0.22, 95, 45), (0.70, 0.21, 91, 42),
)  # fmt: skip
"""Compute-intensive; one parallel stage, then a sequential one."""

STATISTICS = _application(
    "statistics", SIZES, ((_S, 0.25, 0.3), (_P, 0.25, 0.4), (_S, 0.25, 0.3), (_P, 0.25, 0.4)),
    (0.69, 0.10, 26, 5), (0.70, 0.10, 16, 1), (0.72, 0.10, 10, 1),
)  # fmt: skip
"""I/O- and network-intensive; two sequential and two parallel stages."""

SYNTHETIC = _application(
    "synthetic", SIZES[1:], ((_S, 0.01, 0.2), (_P, 0.99, 0.05)),
    (0.49, 0.15, 99, 95), (0.50, 0.15, 99, 93), (0.48, 0.14, 99, 92),
)  # fmt: skip
"""Data- and compute-intensive; a sequential stage that fills the memory, then a parallel one."""

APPLICATIONS = MappingProxyType({app.name: app for app in (MONTAGE, BLAST, STATISTICS, SYNTHETIC)})
"""The four workflows by name."""


def application(name: str) -> Application:
    """Return the workflow of that name.

    Raises
    ------
    UsageError
        If there is none.
    """
    if name not in APPLICATIONS:
        raise UsageError(f"there is no application {name!r}; there are {', '.join(APPLICATIONS)}")
    return APPLICATIONS[name]
