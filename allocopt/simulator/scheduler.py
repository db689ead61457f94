"""The interface of schedulers, which see queue and machine and decide which jobs start; and policies by name.

A name is that of an entry point ``allocopt.policies`` of an installed package, a queue order with backfilling, or a
policy of multicore machines.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from allocopt.errors import PluginError, UsageError
from allocopt.plugins import Fence, make_plugin, plugin_names
from allocopt.simulator.decisions import Decision
from allocopt.simulator.execution import ExecutionModel
from allocopt.simulator.multicore.policies import ACTIONS, Action, JobSelection
from allocopt.simulator.rules import Backfill, QueueKeys, QueueOrder
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload


def name_of(part: object) -> str:
    """Return the name of a scheduler or model for messages."""
    return str(getattr(part, "name", type(part).__name__))


class SchedulerError(PluginError):
    """A scheduler, allocator or execution model broke a rule of the simulation, or raised; the message names it."""


class Blame(Fence):
    """A `Fence` around schedulers, allocators and execution models."""

    __slots__ = ()

    error = SchedulerError


@runtime_checkable
class Scheduler(Protocol):
    """Decides at every scheduling point which jobs start."""

    def schedule(self, view: View) -> Iterable[Decision]:
        """Return the decisions of a pass in order; if they are yielded, the view shows the effect of earlier ones."""


@runtime_checkable
class WithExecution(Protocol):
    """A scheduler with its own execution model, which is used if no other one is given.

    Then, if no rules are given, jobs are not killed at their limits.
    """

    def execution(self, workload: Workload) -> ExecutionModel:
        """Return the execution model for the jobs of a workload."""


@dataclass(frozen=True, slots=True)
class ListScheduler:
    """A queue order with backfilling: the built-in schedulers, whose passes are compiled.

    Raises `UsageError` if a parameter has a wrong type, or ``backfill`` does not support the other parameters.

    Parameters
    ----------
    order
        Order of the queue.
    backfill
        Which jobs may overtake a job that does not fit.
    backfill_order
        Order in which jobs are tried for backfilling; None for the order of the queue.
    compression
        Whether conservative backfilling plans all reservations again when a job ends before its estimate. If not,
        reservations never move, and units stay idle for them if users overestimate. Ignored on a cluster.
    predicts
        Whether EASY backfilling plans with run times predicted from the user's earlier jobs instead of estimates; see
        docs/simulator.md, section Predicted run times.
    """

    order: QueueOrder
    backfill: Backfill = Backfill.NONE
    backfill_order: QueueOrder | None = None
    compression: bool = True
    predicts: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.backfill, Backfill):
            choices = ", ".join(f"Backfill.{kind.name}" for kind in Backfill)
            raise UsageError(f"backfill is {self.backfill!r}, must be one of {choices}")
        for order in (self.order, self.backfill_order):
            if order is not None and not isinstance(order, QueueOrder):
                raise UsageError(f"{order!r} is not a queue order, which needs a name and a method `keys`")
        if self.backfill_order is not None and self.backfill not in (Backfill.EASY, Backfill.FIRST_FIT):
            raise UsageError("only EASY and first-fit backfilling take a backfill order")
        if self.predicts and self.backfill is not Backfill.EASY:
            raise UsageError("only EASY backfilling takes predicted run times")


@runtime_checkable
class OverBuiltIn(Protocol):
    """A scheduler on top of a built-in one, ``base``, which orders the queue; the decision `Pass` runs its pass."""

    @property
    def base(self) -> ListScheduler:
        """The built-in scheduler."""

    def schedule(self, view: View) -> Iterable[Decision]:
        """Return the decisions of this pass; see `Scheduler.schedule`."""


GROUP = "allocopt.policies"

BACKFILLS = {kind.name.lower().replace("_", "-"): kind for kind in Backfill}

AnyScheduler = ListScheduler | Scheduler


def built_in_of(scheduler: AnyScheduler) -> ListScheduler | None:
    """Return the scheduler itself if it is built in, or its built-in ``base``; None for other schedulers."""
    if isinstance(scheduler, OverBuiltIn) and isinstance(scheduler.base, ListScheduler):
        return scheduler.base
    return scheduler if isinstance(scheduler, ListScheduler) else None


Policy = QueueOrder | AnyScheduler | Action
"""Anything that a policy name may denote; an action is a pair of selections for tasks of a multicore machine."""


def policy_names() -> list[str]:
    """Return the names of all policies, sorted; queue orders may also have backfilling, as in ``sjf+easy``."""
    return sorted([*plugin_names(GROUP), *(action.name for action in ACTIONS if action.jobs is not None)])


def get_policy(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """Return a new policy by its name.

    Parameters
    ----------
    name
        One of `policy_names`; a queue order with backfilling, such as ``sjf+easy``; or only a kind of backfilling:
        ``easy`` means ``fcfs+easy``.
    options
        Values for the policy's own parameters.

    Raises
    ------
    UsageError
        If there is no such policy, backfilling or parameter, the policy takes no backfilling, or a value is wrong.
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
    """Return a policy with a kind of backfilling and an order ``tried`` of backfilling, if these are given.

    Raises `UsageError` if there is no such backfilling or order, or the policy takes no backfilling.
    """
    if kind is None and tried is None:
        return policy
    if kind is not None and kind not in BACKFILLS:
        raise UsageError(f"scheduler {name!r}: there is no backfilling {kind!r}; there are {', '.join(BACKFILLS)}")
    if not isinstance(policy, QueueOrder):
        raise UsageError(f"policy {name!r} is a scheduler, not a queue order: it takes no backfilling")
    order = None if tried is None else get_policy(tried)
    if not isinstance(order, QueueOrder | None):
        raise UsageError(f"the backfill order {tried!r} is not a queue order")
    return ListScheduler(policy, BACKFILLS[kind or "none"], order, compression)


def keys_of(order: QueueOrder, workload: Workload, rng: np.random.Generator) -> QueueKeys:
    """Return the keys of a queue order; raise `SchedulerError` if it raises, or does not give one value per job."""
    name = f"queue order {order.name!r}"
    with Blame(name):
        keys = order.keys(workload, rng)
    if not isinstance(keys, QueueKeys) or np.shape(keys.values) != (len(workload),):
        raise SchedulerError(f"{name} must return QueueKeys with one value for each of the {len(workload)} jobs")
    return keys
