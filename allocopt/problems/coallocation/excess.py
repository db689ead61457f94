"""Excess: how much longer a job takes beside others, counted in whole steps, for many pairs of jobs at once.

A job's excess is its slowdown less 1, a mean over its stages; stages of different jobs meet by chance. Every term of it
is rounded down to a step, so that all who add the terms up, a solver, a checker and a file's reader, get one number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.coallocation.interference import RESOURCES, Interference, Sharing
from allocopt.problems.coallocation.profile import ProfiledJob

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
