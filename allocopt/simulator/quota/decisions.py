"""What schedulers of shared allocations decide, and the protocol that they follow."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from allocopt.simulator.quota.state import Allocation, QuotaView


class StartJob(NamedTuple):
    """Start a waiting job on free cores, which it owns from now on."""

    job: int


class PlaceGuest(NamedTuple):
    """Start a waiting job on an allocation that has no guest, at a quota in percent of its cores."""

    job: int
    allocation: int
    percent: int


class SetQuota(NamedTuple):
    """Change the quota of the guest of an allocation."""

    allocation: int
    percent: int


QuotaDecision = StartJob | PlaceGuest | SetQuota


class QuotaScheduler(Protocol):
    """Decides which jobs start, where, and which quotas change."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def period_s(self) -> float | None:
        """Seconds after which it is asked again while jobs share, though nothing happened; None for never."""

    def schedule(self, view: QuotaView) -> Iterable[QuotaDecision]:
        """Return what is to be done now; each decision is taken, and seen in the view, before the next one."""

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        """Take note that the owner of an allocation has just ended; it is still there, with its guest."""
