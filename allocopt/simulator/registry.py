"""Policies by name: those of every installed package, queue orders with backfilling, and those of multicore machines.

Installed policies are the entry points ``allocopt.policies``.
"""

from collections.abc import Mapping
from typing import Any, cast

from allocopt.errors import UsageError
from allocopt.plugins import make_plugin, plugin_names
from allocopt.simulator.multicore.policies import ACTIONS, Action, JobSelection
from allocopt.simulator.rules import Backfill, QueueOrder
from allocopt.simulator.scheduler import ListScheduler, Scheduler

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
    """Join a policy of some name with a kind of backfilling, if one is named.

    Jobs are tried for it in the queue order named by ``tried``; None for that of the queue. With ``compression``
    reservations move forward where jobs end early, under conservative backfilling. Raises `UsageError` if there is no
    such backfilling or order, or the policy takes none.
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
