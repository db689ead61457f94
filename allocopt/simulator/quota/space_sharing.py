"""Scheduler ``space-sharing``: first come first served with EASY backfilling, every job on cores of its own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from allocopt.simulator.quota.decisions import QuotaDecision
from allocopt.simulator.quota.state import Allocation, QuotaView
from allocopt.simulator.scheduler import Start


def easy_starts(view: QuotaView) -> Iterator[Start]:
    """Start jobs in order while they fit; then those behind that do not delay the first one that does not.

    Estimates are the limits; a job beyond its limit is expected to end now, and a guest after its host.
    """
    while view.queue and view.jobs[view.queue[0]].job.cores <= view.free_cores:
        yield Start(view.queue[0])
    if not view.queue:
        return
    shadow, extra = _reservation(view, view.jobs[view.queue[0]].job.cores)
    for job in list(view.queue[1:]):
        asked = view.jobs[job].job
        in_time = view.now + asked.walltime_s <= shadow
        if asked.cores <= view.free_cores and (in_time or asked.cores <= extra):
            extra -= 0 if in_time else asked.cores
            yield Start(job)


def _reservation(view: QuotaView, cores: int) -> tuple[float, int]:
    """When so many cores are expected to be free, and how many more are then."""
    releases = sorted(release for one in view.allocations for release in _releases(view.now, one))
    free = view.free_cores
    for time, released in releases:
        free += released
        if free >= cores:
            return time, free - cores
    return float("inf"), 0


def _releases(now: float, allocation: Allocation) -> Iterator[tuple[float, int]]:
    """Yield when an allocation is expected to give back cores, and how many: a guest keeps its own."""
    guest = allocation.guest
    kept = 0 if guest is None else guest.queued.job.cores
    host_end = max(now, allocation.host.start_s + allocation.host.queued.job.walltime_s)
    yield host_end, allocation.cores - kept
    if guest is not None:
        yield max(host_end, guest.start_s + guest.queued.job.walltime_s), kept


@dataclass(frozen=True, slots=True)
class SpaceSharing:
    """What batch systems do: no job shares."""

    name: ClassVar[str] = "space-sharing"
    period_s: ClassVar[float | None] = None

    def schedule(self, view: QuotaView) -> Iterable[QuotaDecision]:
        """Start what EASY starts; see `QuotaScheduler.schedule`."""
        return easy_starts(view)

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        """Learn nothing."""
