"""How much longer jobs take that share the cores of an allocation.

A second of work of a job, alone, takes one second plus three stalls beside others:

- *CPU*: a job that keeps u cores busy and gets a < u of them takes u / a. What it gets is its quota of the cores, and
  under ``shares`` also what the others leave;
- *contention* for caches, memory bandwidth, file system and network: ``beta_k * a_k * p_k`` for every resource k,
  where a_k is the job's own demand and p_k the pressure of all others, the share of the host's resource that they ask
  for. With beta = 1 two jobs that both always do I/O take twice as long, which is sharing it fairly;
- *paging*: ``paging`` times what all of them occupy beyond the memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import InvalidProblemError
from allocopt.problems.coallocation.profile import Stage

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
