"""The interface of schedulers, which see the queue and the machine, and decide which jobs start; policies by name.

Names are those of every installed package, the entry points ``allocopt.policies``, of queue orders with backfilling,
and of policies of multicore machines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from allocopt.arrays import IntArray
from allocopt.errors import PluginError, UsageError
from allocopt.plugins import Fence, make_plugin, plugin_names
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.multicore.policies import ACTIONS, Action, JobSelection
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


class SchedulerError(PluginError):
    """A scheduler, allocator or execution model that breaks a rule of the simulation, or raises; it is named."""


class Blame(Fence):
    """A `Fence` around schedulers, allocators and execution models."""

    __slots__ = ()

    error = SchedulerError


class Start(NamedTuple):
    """Start a waiting job now, on the nodes given; None leaves these to the allocator, where the platform has nodes."""

    job: int
    nodes: IntArray | None = None


class Reserve(NamedTuple):
    """Promise a waiting job a start time, in seconds and later than now; the scheduler is called again at that time.

    A promise is a note: it is kept by the scheduler, not by the simulator.
    """

    job: int
    time: float


class Wait(NamedTuple):
    """Call the scheduler again at a time, in seconds and later than now, though nothing may have happened."""

    until: float


class PlaceGuest(NamedTuple):
    """Start a waiting job on units that a running one holds; an execution model says how they slow each other down.

    The host has no guest and is none, and holds at least what the guest asks for, who may use a share of the host's
    units: above 0 and at most 90 percent. The guest holds nothing of its own. When its host ends it holds what it asks
    for, and the rest becomes free.
    """

    job: int
    host: int
    percent: int


class SetQuota(NamedTuple):
    """Change the quota of the guest of a job: the share of the host's units, above 0 and at most 90 percent."""

    host: int
    percent: int


Decision = Start | Reserve | Wait | PlaceGuest | SetQuota


@runtime_checkable
class Scheduler(Protocol):
    """Decides at every scheduling point which jobs start."""

    def schedule(self, view: View) -> Iterable[Decision]:
        """Return what is to be done now, in this order; the view shows every decision as soon as it has been taken."""


@runtime_checkable
class WithExecution(Protocol):
    """A scheduler that an execution model of its own goes with, unless another one is given.

    Where the rules say nothing, jobs then are not killed at their limits.
    """

    def execution(self, workload: Workload) -> ExecutionModel:
        """Return the execution model of the jobs of a workload."""


@dataclass(frozen=True, slots=True)
class ListScheduler:
    """A queue order with backfilling: the built-in schedulers, which run wholly compiled.

    Raises `UsageError` if these are not what they should be.

    Parameters
    ----------
    backfill_order
        Order in which jobs are tried for backfilling; None for that of the queue.
    compression
        Whether conservative backfilling plans all reservations anew when a job ends before its estimate. Without it
        reservations never move, and where users overestimate the machine stands idle for them.
    """

    order: QueueOrder
    backfill: Backfill = Backfill.NONE
    backfill_order: QueueOrder | None = None
    compression: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.backfill, Backfill):
            choices = ", ".join(f"Backfill.{kind.name}" for kind in Backfill)
            raise UsageError(f"backfill is {self.backfill!r}, must be one of {choices}")
        for order in (self.order, self.backfill_order):
            if order is not None and not isinstance(order, QueueOrder):
                raise UsageError(f"{order!r} is no queue order: it needs a name and a method `keys`")
        if self.backfill_order is not None and self.backfill not in (Backfill.EASY, Backfill.FIRST_FIT):
            raise UsageError("an order of backfilling goes with EASY and first-fit backfilling only")


GROUP = "allocopt.policies"

BACKFILLS = {kind.name.lower().replace("_", "-"): kind for kind in Backfill}

AnyScheduler = ListScheduler | Scheduler

Policy = QueueOrder | AnyScheduler | Action
"""What a name may stand for; an action is a pair of selections for the tasks of a multicore machine."""


def policy_names() -> list[str]:
    """Names of all policies, sorted; a queue order also goes with backfilling, as in ``sjf+easy``."""
    return sorted([*plugin_names(GROUP), *(action.name for action in ACTIONS if action.jobs is not None)])


def get_policy(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """Make the policy of that name.

    Parameters
    ----------
    name
        One of `policy_names`; a queue order with backfilling, such as ``sjf+easy``; or a kind of backfilling alone,
        such as ``easy``, which goes with the order of arrival.
    options
        Values for the policy's own parameters.

    Raises
    ------
    UsageError
        If there is no such policy, backfilling or parameter, the policy takes no backfilling, or refuses a value.
    MissingPackageError
        If the policy needs a package that is not installed.
    """
    order, plus, kind = ("fcfs", "+", name) if name in BACKFILLS else name.partition("+")
    installed = plugin_names(GROUP)
    if order not in installed and order.partition("-")[0].upper() in JobSelection.__members__:
        if options:
            raise UsageError(f"policy {order!r} has no options")
        found: Policy = Action.named(order)
    else:
        found = cast(Policy, make_plugin(GROUP, "policy", order, options))
    return backfilled(order, found, kind if plus else None)


def backfilled(
    name: str, policy: Policy, kind: str | None, tried: str | None = None, *, compression: bool = True
) -> Policy:
    """Join a policy with a kind of backfilling, if one is named, in which jobs are tried in the order of ``tried``.

    Raises `UsageError` if there is no such backfilling or order, or the policy takes none.
    """
    if kind is None and tried is None:
        return policy
    if kind is not None and kind not in BACKFILLS:
        raise UsageError(f"scheduler {name!r}: there is no backfilling {kind!r}; there are {', '.join(BACKFILLS)}")
    if not isinstance(policy, QueueOrder):
        raise UsageError(f"policy {name!r} is a scheduler of its own: it takes no backfilling")
    order = None if tried is None else get_policy(tried)
    if not isinstance(order, QueueOrder | None):
        raise UsageError(f"the order of backfilling {tried!r} is no queue order")
    return ListScheduler(policy, BACKFILLS[kind or "none"], order, compression)
