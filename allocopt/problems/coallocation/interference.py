"""How much jobs that share cores slow each other down: means, stage by stage, and whole steps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import InvalidProblemError
from allocopt.traces.job_profile import ProfiledJob, Stage

LARGEST_COEFFICIENT = 100.0


class Sharing(StrEnum):
    """What a quota means (control groups of Linux)."""

    CAPS = "caps"
    """A job gets its quota and no more (``cfs_quota``)."""
    SHARES = "shares"
    """A job gets its quota, and what the others leave in proportion to the quotas (``cpu.shares``)."""


@dataclass(frozen=True, slots=True)
class Interference:
    """Coefficients of contention, each not negative.

    Parameters
    ----------
    cpu, memory, io
        Extra seconds per second of work where a job's own demand and the pressure of the others are both 1.
    paging
        Extra seconds per second of work where the memory is occupied twice.

    Raises
    ------
    InvalidProblemError
        If a coefficient is out of range.
    """

    cpu: float = 0.1
    memory: float = 0.3
    io: float = 1.0
    paging: float = 10.0

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "io", "paging"):
            value = getattr(self, name)
            if not 0 <= value <= LARGEST_COEFFICIENT:
                fault = f"is {value}, must be within 0 .. {LARGEST_COEFFICIENT:g}"
                raise InvalidProblemError(f"interference.{name}", fault)

    @property
    def contention(self) -> FloatArray:
        """The coefficients of cpu, memory and io, shape ``(3,)``."""
        return np.array([self.cpu, self.memory, self.io])


RESOURCES = ("cpu", "memory", "io")


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job beside others on the cores of a host, as it is now.

    Parameters
    ----------
    cores
        Cores that it asked for.
    stage
        The stage that it is in; its share is of no importance.
    quota
        Share of the host's cores that it may use, in (0, 1].
    """

    cores: int
    stage: Stage
    quota: float


def slowdowns(
    tenants: Sequence[Tenant],
    cores: int,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference = Interference(),
) -> FloatArray:
    """Seconds that a second of work takes of each job on the same cores, from 1 on; its rate of progress is 1 over it.

    Parameters
    ----------
    tenants
        The jobs; the quotas sum to at most 1.
    cores
        Cores of the host.
    sharing
        What a quota means.
    interference
        Coefficients of contention.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(tenants),)``.
    """
    size = np.array([tenant.cores / cores for tenant in tenants])
    own = np.array([[getattr(tenant.stage, name) for name in RESOURCES] for tenant in tenants]).reshape(-1, 3)
    pressure = own * size[:, None]
    quota = np.array([tenant.quota for tenant in tenants])
    used = pressure[:, 0]
    given = np.minimum(used, quota) if sharing is Sharing.CAPS else divided(used, quota)
    stalls = (own * (pressure.sum(axis=0) - pressure)) @ interference.contention
    paging = interference.paging * max(0.0, float(pressure[:, 1].sum()) - 1.0)
    return np.asarray(used / given + stalls + paging)


def divided(wanted: FloatArray, weights: FloatArray) -> FloatArray:
    """Divide one unit among jobs by their weights; nobody gets more than they want, and nothing wanted is left.

    Parameters
    ----------
    wanted
        What each job could use, positive, shape ``(n,)``.
    weights
        Weights, positive, shape ``(n,)``.
    """
    given = wanted.copy()
    if wanted.sum() <= 1.0:
        return given
    # Jobs that want the least for their weight are satisfied first.
    order = np.argsort(wanted / weights, kind="stable")
    left, weight = 1.0, float(weights.sum())
    for job in order.tolist():
        given[job] = min(wanted[job], left * weights[job] / weight)
        left -= given[job]
        weight -= weights[job]
    return given


STEPS = 10_000
"""Steps in an excess of 1 (a job takes twice as long), and in a memory."""

ROUNDING = 1e-6
"""Steps that computing with floats may lose."""


def in_steps(excess: ArrayLike) -> IntArray:
    """Return an excess, or a share of memory, in whole steps, rounded down."""
    return np.floor(np.asarray(excess) * STEPS + ROUNDING).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Demands:
    """What jobs ask for, as arrays.

    Parameters
    ----------
    cores
        Shape ``(n,)``.
    shares, cpu
        Shares of work and of busy cores by stage, filled up with stages without work, shape ``(n, stages)``.
    means
        Mean demand for cpu, memory and io, in shares of the job's own allocation, shape ``(n, 3)``.
    peaks
        Largest share of memory, shape ``(n,)``.
    """

    cores: FloatArray
    shares: FloatArray
    cpu: FloatArray
    means: FloatArray
    peaks: FloatArray

    @classmethod
    def of(cls, jobs: Sequence[ProfiledJob]) -> "Demands":
        """Collect the demands of jobs."""
        width = max((len(job.profile) for job in jobs), default=1)
        shares, cpu = np.zeros((len(jobs), width)), np.zeros((len(jobs), width))
        for row, job in enumerate(jobs):
            shares[row, : len(job.profile)] = job.column("share")
            cpu[row, : len(job.profile)] = job.column("cpu")
        means = np.array([[job.mean(name) for name in RESOURCES] for job in jobs]).reshape(-1, 3)
        peaks = np.array([job.peak_memory() for job in jobs])
        return cls(np.array([job.cores for job in jobs], dtype=np.float64), shares, cpu, means, peaks)


def cpu_excess(shares: FloatArray, cpu: FloatArray, room: FloatArray) -> FloatArray:
    """Excess of jobs that have so much room.

    Parameters
    ----------
    shares, cpu
        Shares of work and of busy cores by stage, shape ``(.., stages)``.
    room
        Cores that a job may use over those that it asked for, positive, shape ``(..)``.
    """
    longer = np.maximum(0.0, cpu / room[..., None] - 1.0)
    return np.asarray((shares * longer).sum(axis=-1))


def capped_host_steps(hosts: Demands, host: IntArray, percent: IntArray) -> IntArray:
    """CPU excess of hosts in steps where guests hold so many percent of their cores; the arrays broadcast."""
    room = (100.0 - percent) / 100.0 + 0.0 * host
    return in_steps(cpu_excess(hosts.shares[host], hosts.cpu[host], room))


def capped_guest_steps(cores: FloatArray, guests: Demands, guest: IntArray, percent: IntArray) -> IntArray:
    """CPU excess of guests in steps that hold so many percent of hosts of so many cores; the arrays broadcast."""
    room = percent / 100.0 * cores / guests.cores[guest]
    return in_steps(cpu_excess(guests.shares[guest], guests.cpu[guest], room))


def shared_steps(
    hosts: Demands, guests: Demands, host: IntArray, guest: IntArray, percent: IntArray
) -> tuple[IntArray, IntArray]:
    """CPU excess in steps of one guest on each host and of its host, where they may use what the other leaves.

    Returns
    -------
    tuple
        Excess of the hosts and of the guests; the arrays broadcast.
    """
    quota = (percent / 100.0)[..., None, None]
    weights = hosts.shares[host][..., :, None] * guests.shares[guest][..., None, :]
    mine = hosts.cpu[host][..., :, None]
    size = (guests.cores[guest] / hosts.cores[host])[..., None, None]
    theirs = guests.cpu[guest][..., None, :] * size
    of_host = weights * np.maximum(0.0, mine / np.maximum(1.0 - quota, 1.0 - theirs) - 1.0)
    of_guest = weights * np.maximum(0.0, theirs / np.maximum(quota, 1.0 - mine) - 1.0)
    return in_steps(of_host.sum(axis=(-1, -2))), in_steps(of_guest.sum(axis=(-1, -2)))


def contention_steps(
    job: Demands, rows: IntArray, other: Demands, others: IntArray, cores: FloatArray, interference: Interference
) -> IntArray:
    """Excess in steps that each job has from another one on a host of so many cores; the arrays broadcast."""
    pressure = other.means[others] * (other.cores[others] / cores)[..., None]
    return in_steps((job.means[rows] * pressure * interference.contention).sum(axis=-1))


def cpu_steps(
    hosts: Demands, guests: Demands, host: IntArray, guest: IntArray, percent: IntArray, sharing: Sharing
) -> tuple[IntArray, IntArray]:
    """CPU excess in steps of one guest on each host and of its host; the arrays broadcast.

    Returns
    -------
    tuple
        Excess of the hosts and of the guests.
    """
    if sharing is Sharing.SHARES:
        return shared_steps(hosts, guests, host, guest, percent)
    of_hosts = capped_host_steps(hosts, host, percent)
    # Hosts of one size are one to a guest, and they come in few sizes.
    sizes, which = np.unique(hosts.cores[host], return_inverse=True)
    if host.ndim == 1 or len(sizes) == host.size:
        return of_hosts, capped_guest_steps(hosts.cores[host], guests, guest, percent)
    return of_hosts, capped_guest_steps(sizes[:, None, None], guests, guest, percent)[which.ravel()]


LEAST_S = 1e-9
"""Seconds of work below which a stage is over."""


@dataclass
class _Running:
    """A job that goes on: its stages with the seconds of work that are left of each."""

    number: int
    job: ProfiledJob
    quota: float
    left: list[tuple[Stage, float]]


def finish_times(
    jobs: Sequence[ProfiledJob],
    quotas: Sequence[float],
    cores: int,
    sharing: Sharing = Sharing.SHARES,
    interference: Interference | None = None,
) -> FloatArray:
    """Return when each job ends, in seconds from now.

    The quota of a job that has ended goes to those that go on, in proportion to theirs: whoever is left alone has all.

    Parameters
    ----------
    jobs
        The jobs that begin to share now, or go on to.
    quotas
        Shares of the cores, positive, summing to at most 1.
    cores
        Cores that they share.
    sharing
        What a quota means.
    interference
        Coefficients of contention; None for the default ones.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(jobs),)``.
    """
    running = [
        _Running(number, job, quota, [(stage, stage.share * job.remaining_s) for stage in job.profile])
        for number, (job, quota) in enumerate(zip(jobs, quotas, strict=True))
    ]
    ends, now = np.zeros(len(jobs)), 0.0
    how = interference or Interference()
    while running:
        total = sum(one.quota for one in running)
        tenants = [Tenant(one.job.cores, one.left[0][0], one.quota / total) for one in running]
        slow = slowdowns(tenants, cores, sharing, how)
        step = min(one.left[0][1] * slow[place] for place, one in enumerate(running))
        now += step
        for place, one in enumerate(running):
            stage, left = one.left[0]
            one.left[0] = (stage, left - step / slow[place])
            if one.left[0][1] <= LEAST_S:
                one.left.pop(0)
                ends[one.number] = now
        running = [one for one in running if one.left]
    return ends
