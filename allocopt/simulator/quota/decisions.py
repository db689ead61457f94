"""The protocol of schedulers of shared allocations."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from allocopt.simulator.scheduler import PlaceGuest, SetQuota, Start

if TYPE_CHECKING:
    from allocopt.simulator.quota.state import Allocation, QuotaView

QuotaDecision = Start | PlaceGuest | SetQuota


@runtime_checkable
class QuotaScheduler(Protocol):
    """Decides which jobs start, where, and which quotas change; it is simulated with `QuotaExecution`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def period_s(self) -> float | None:
        """Seconds after which it is asked again while jobs share, though nothing happened; None for never."""

    def schedule(self, view: "QuotaView") -> Iterable[QuotaDecision]:
        """Return what is to be done now; each decision is taken, and seen in the view, before the next one."""

    def ended(self, view: "QuotaView", allocation: "Allocation") -> None:
        """Take note that the owner of an allocation has just ended; the guest that it had, if any, now owns its own."""


@runtime_checkable
class Remembering(Protocol):
    """A scheduler that keeps what it learned beyond a simulation."""

    def remember(self) -> None:
        """Keep what was learned; called once a simulation is over."""
