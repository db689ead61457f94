"""Policy ``asax`` of the command line: the learner by its files and numbers."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.quota.state import Allocation, QuotaView
from allocopt.simulator.scheduler import Decision
from learned.asax.agent import Asax, Loss
from learned.asax.knowledge import load_knowledge
from learned.asax.scheduler import AsaxScheduler
from learned.asax.trees import read_experts


@dataclass
class AsaxPolicy(QuotaScheduler):
    """`AsaxScheduler` with experts and knowledge from files.

    Parameters
    ----------
    experts
        File of the experts' trees; empty for those of the package.
    knowledge
        File of what was learned before; empty for nothing.
    save_knowledge
        File that `remember` writes, the same or another one; one that is there must be such a file. Empty for none.
    full_loss_at
        See `performance_loss`.
    period_s
        Seconds between two looks at jobs that share, positive.
    loss, idle_weight
        See `AsaxScheduler`.

    Raises
    ------
    BadFileError
        If a file is not what it should be.
    UsageError
        If a number is out of range, or there is no such loss.
    """

    experts: str = ""
    knowledge: str = ""
    save_knowledge: str = ""
    full_loss_at: float = 1.0
    period_s: float = 60.0
    loss: str = Loss.LIMIT
    idle_weight: float = 0.0
    inner: AsaxScheduler = field(init=False, repr=False)

    name: ClassVar[str] = "asax"

    def __post_init__(self) -> None:
        for what in ("full_loss_at", "period_s"):
            if not getattr(self, what) > 0:
                raise UsageError(f"{what} is {getattr(self, what):g}, must be positive")
        if self.loss not in list(Loss):
            raise UsageError(f"loss is {self.loss!r}, must be one of {', '.join(Loss)}")
        if not 0 <= self.idle_weight < inf:
            raise UsageError(f"idle_weight is {self.idle_weight:g}, must not be negative")
        asax = Asax.untrained(read_experts(self.experts or None), full_loss_at=self.full_loss_at)
        if self.knowledge:
            asax.knowledge = load_knowledge(self.knowledge, asax.knowledge.metrics)
        if self.save_knowledge and Path(self.save_knowledge).exists():
            # What would be lost is told before hours are simulated, and nothing else is overwritten.
            load_knowledge(self.save_knowledge, asax.knowledge.metrics)
        self.inner = AsaxScheduler(asax, self.period_s, Loss(self.loss), self.idle_weight)

    def share(self, view: QuotaView) -> Iterable[Decision]:
        """Decide; see `QuotaScheduler.share`."""
        return self.inner.share(view)

    def ended(self, view: QuotaView, allocation: Allocation) -> None:
        """Learn; see `QuotaScheduler.ended`."""
        self.inner.ended(view, allocation)

    def remember(self) -> None:
        """Write what was learned, if a file was given; see `Remembering`."""
        if self.save_knowledge:
            self.inner.asax.knowledge.save(self.save_knowledge)
