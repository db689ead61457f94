"""Scheduler ``static-50``: the ASAX paper's *Static*, every allocation shared half and half, whatever runs on it."""

from collections.abc import Iterator
from dataclasses import dataclass

from allocopt.errors import UsageError
from allocopt.problems.coallocation.problem import LARGEST_PERCENT
from allocopt.simulator.quota.execution import QuotaView
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.scheduler import Decision, PlaceGuest


@dataclass(frozen=True, slots=True)
class StaticSharing(QuotaScheduler):
    """Share space, and place each job that still waits beside the first one that has the cores and no guest."""

    percent: int = 50  # quota of every guest, above 0 and at most 90; any other is a `UsageError`
    heeds_memory: bool = False  # whether the first one must have the memory, too: what the paper's does not look at

    def __post_init__(self) -> None:
        if not 0 < self.percent <= LARGEST_PERCENT:
            raise UsageError(f"the quota is {self.percent} %, must be above 0 and at most {LARGEST_PERCENT} %")

    @property
    def name(self) -> str:
        """Its name: the quota behind ``static-``."""
        return f"static-{self.percent}{'-memory' if self.heeds_memory else ''}"

    def share(self, view: QuotaView) -> Iterator[Decision]:
        """Start what EASY starts, then place guests; see `QuotaScheduler.share`."""
        yield from view.easy_starts()
        for job in list(view.queue):
            host = next((one for one in view.allocations if one.takes(view.jobs[job].job, self.heeds_memory)), None)
            if host is not None:
                yield PlaceGuest(job, host.number, self.percent)
