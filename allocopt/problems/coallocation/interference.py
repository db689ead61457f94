"""Model of the slowdown of jobs that share cores, in floats for simulations and in whole steps for problems.

The *excess* of a job is its slowdown less 1. A step is an excess of 1 / `STEPS`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.base import check_range
from allocopt.traces.job_profile import ProfiledJob, Stage

LARGEST_COEFFICIENT = 100.0
RESOURCES = ("cpu", "memory", "io")
STEPS = 10_000  # steps in an excess of 1 (a job takes twice as long), and in the memory of a host
ROUNDING = 1e-6  # tolerance in steps for rounding errors of floats


class Sharing(StrEnum):
    """Meaning of a quota (as in control groups of Linux)."""

    CAPS = "caps"  # a job uses at most its quota (``cfs_quota``)
    SHARES = "shares"  # a job gets at least its quota; jobs divide idle cores in proportion to quotas (``cpu.shares``)


@dataclass(frozen=True, slots=True)
class Interference:
    """Coefficients of contention; raises `InvalidProblemError` unless each is within 0 .. 100."""

    # Extra seconds per second of work if a job's own demand and the pressure of the others are both 1.
    cpu: float = 0.1
    memory: float = 0.3
    io: float = 1.0
    paging: float = 10.0  # extra seconds per second of work if jobs demand twice the memory of the host

    def __post_init__(self) -> None:
        for name in (*RESOURCES, "paging"):
            check_range(f"interference.{name}", getattr(self, name), 0.0, LARGEST_COEFFICIENT)

    @property
    def contention(self) -> FloatArray:
        """The coefficients of cpu, memory and io, shape ``(3,)``."""
        return np.array([self.cpu, self.memory, self.io])


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job on a shared host: its current stage, and its quota, the share in (0, 1] of the host's cores."""

    cores: int
    stage: Stage
    quota: float


def slowdowns(
    tenants: Sequence[Tenant],
    cores: int,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference = Interference(),
) -> FloatArray:
    """Return the slowdown of each job on a host, at least 1, shape ``(tenants,)``.

    The slowdown is the time that a second of work takes, in seconds. The quotas must sum to at most 1.
    """
    size = np.array([tenant.cores / cores for tenant in tenants])
    own = np.array([[getattr(tenant.stage, name) for name in RESOURCES] for tenant in tenants]).reshape(-1, 3)
    pressure = own * size[:, None]
    quota = np.array([tenant.quota for tenant in tenants])
    used = pressure[:, 0]
    given = np.minimum(used, quota) if sharing is Sharing.CAPS else divided(used, quota)
    # Only the pressure of other jobs stalls a job; its own is already part of its run time.
    stalls = (own * (pressure.sum(axis=0) - pressure)) @ interference.contention
    paging = interference.paging * max(0.0, float(pressure[:, 1].sum()) - 1.0)
    return np.asarray(used / given + stalls + paging)


def divided(wanted: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the shares of one unit, divided among jobs by positive weights.

    No job gets more than it wants, and nothing stays unused while a job wants more.
    """
    given = wanted.copy()
    if wanted.sum() <= 1.0:
        return given
    # Jobs that want least relative to their weight are satisfied first.
    order = np.argsort(wanted / weights, kind="stable")
    left, weight = 1.0, float(weights.sum())
    for job in order.tolist():
        given[job] = min(wanted[job], left * weights[job] / weight)
        left -= given[job]
        weight -= weights[job]
    return given


def in_steps(excess: ArrayLike) -> IntArray:
    """Return an excess, or a share of memory, in whole steps, rounded down."""
    return np.floor(np.asarray(excess) * STEPS + ROUNDING).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """Demands of n jobs as arrays."""

    cores: FloatArray
    shares: FloatArray  # share of work of each stage, padded with stages without work, shape (n, stages)
    cpu: FloatArray  # share of busy cores in each stage, shape (n, stages)
    means: FloatArray  # mean demand for cpu, memory and io, in shares of the job's own allocation, shape (n, 3)
    peaks: FloatArray  # largest share of memory, shape (n,)

    @classmethod
    def of(cls, jobs: Sequence[ProfiledJob]) -> "Demands":
        """Return the demands of jobs."""
        shares, cpu = np.zeros((2, len(jobs), max((len(job.profile) for job in jobs), default=1)))
        for row, job in enumerate(jobs):
            shares[row, : len(job.profile)] = job.column("share")
            cpu[row, : len(job.profile)] = job.column("cpu")
        means = np.array([[job.mean(name) for name in RESOURCES] for job in jobs]).reshape(-1, 3)
        peaks = np.array([job.peak_memory() for job in jobs])
        return cls(np.array([job.cores for job in jobs], dtype=np.float64), shares, cpu, means, peaks)

    def capped_host_steps(self, host: IntArray, percent: IntArray) -> IntArray:
        """Return the CPU excess of hosts in steps, given the percent of their cores that guests hold.

        The arrays broadcast.
        """
        return self._capped_steps(host, np.divide(100.0 - percent, 100.0))

    def _capped_steps(self, rows: IntArray, room: FloatArray) -> IntArray:
        # ``room`` is the ratio of the cores that a job may use to those that it asked for.
        longer = np.maximum(0.0, self.cpu[rows] / room[..., None] - 1.0)
        return in_steps((self.shares[rows] * longer).sum(axis=-1))

    def contention_steps(
        self, rows: IntArray, other: "Demands", others: IntArray, cores: FloatArray, interference: Interference
    ) -> IntArray:
        """Return how much contention with another job on the host lengthens each job.

        The result is in steps of 1 / `STEPS` of the job's run time. The arrays broadcast.
        """
        pressure = other.means[others] * (other.cores[others] / cores)[..., None]
        return in_steps((self.means[rows] * pressure * interference.contention).sum(axis=-1))

    def cpu_steps(
        self, guests: "Demands", host: IntArray, guest: IntArray, percent: IntArray, sharing: Sharing
    ) -> tuple[IntArray, IntArray]:
        """Return the CPU excess, in steps, of hosts and of the guest on each host; the arrays broadcast."""
        if sharing is Sharing.SHARES:
            quota = (percent / 100.0)[..., None, None]
            weights = self.shares[host][..., :, None] * guests.shares[guest][..., None, :]
            mine = self.cpu[host][..., :, None]
            size = (guests.cores[guest] / self.cores[host])[..., None, None]
            theirs = guests.cpu[guest][..., None, :] * size
            # In each pair of stages, a job gets its quota or what the other job leaves, whichever is more.
            of_host = weights * np.maximum(0.0, mine / np.maximum(1.0 - quota, 1.0 - theirs) - 1.0)
            of_guest = weights * np.maximum(0.0, theirs / np.maximum(quota, 1.0 - mine) - 1.0)
            return in_steps(of_host.sum(axis=(-1, -2))), in_steps(of_guest.sum(axis=(-1, -2)))
        of_hosts = self.capped_host_steps(host, percent)
        # A guest's excess depends only on the size of the host. There are few sizes, so compute it once for each.
        sizes, which = np.unique(self.cores[host], return_inverse=True)
        if host.ndim == 1 or len(sizes) == host.size:
            return of_hosts, guests._capped_steps(guest, percent / 100.0 * self.cores[host] / guests.cores[guest])
        room = percent / 100.0 * sizes[:, None, None] / guests.cores[guest]
        return of_hosts, guests._capped_steps(guest, room)[which.ravel()]
