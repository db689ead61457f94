"""Policy ``two-level``: queue orders as the selector of two-level scheduling."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from allocopt.errors import UsageError
from allocopt.simulator.order import QueueOrder
from allocopt.simulator.registry import get_policy
from allocopt.simulator.scheduler import Decision
from allocopt.simulator.two_level import PAPER_WINDOW, TwoLevelLog, TwoLevelScheduler
from allocopt.simulator.two_level_rules import Reservations
from allocopt.simulator.view import View
from heuristics.two_level import InOrder


@dataclass(frozen=True, slots=True)
class TwoLevelOrders:
    """Jobs are started, reserved and backfilled by queue orders; a reservation is kept where EASY would renew it.

    Parameters
    ----------
    order
        Name of the queue order at level 1.
    fill
        Name of that of backfilling.
    window
        Waiting jobs among which is chosen, at least 1.
    reservations
        ``kept``, ``renewed`` or ``none``; see `allocopt.simulator.two_level_rules.Reservations`.
    seed
        Fixes an order that is drawn.

    Raises
    ------
    UsageError
        If a value is not one of these.
    """

    name: ClassVar[str] = "two-level"

    order: str = "wfp3"
    fill: str = "sjf"
    window: int = PAPER_WINDOW
    reservations: str = "kept"
    seed: int = 0
    _scheduler: TwoLevelScheduler = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {kind.name.lower(): kind for kind in Reservations}
        if self.reservations not in kinds:
            raise UsageError(f"reservations is {self.reservations!r}, must be one of {', '.join(kinds)}")
        if self.seed < 0:
            raise UsageError(f"the seed is {self.seed}, must not be negative")
        selector = InOrder(_order(self.order), _order(self.fill), self.seed)
        scheduler = TwoLevelScheduler(selector, self.window, kinds[self.reservations])
        object.__setattr__(self, "_scheduler", scheduler)

    @property
    def log(self) -> TwoLevelLog:
        """What happened in the last simulation."""
        return self._scheduler.log

    def schedule(self, view: View) -> Iterator[Decision]:
        """See `allocopt.simulator.two_level.TwoLevelScheduler.schedule`."""
        return self._scheduler.schedule(view)


def _order(name: str) -> QueueOrder:
    """Return the queue order of that name."""
    order = get_policy(name)
    if not isinstance(order, QueueOrder):
        raise UsageError(f"policy {name!r} is no queue order")
    return order
