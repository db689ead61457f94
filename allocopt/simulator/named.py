"""Policies as they are written in a word: an order, an order with backfilling, or backfilling alone."""

from allocopt.errors import UsageError
from allocopt.simulator.order import QueueOrder
from allocopt.simulator.registry import Policy, get_policy
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler

BACKFILLS = {kind.name.lower().replace("_", "-"): kind for kind in Backfill}


def policy_of(name: str) -> Policy:
    """Make the policy that a word names.

    ``sjf`` is a policy, ``sjf+easy`` a queue order with backfilling, and a kind of backfilling alone, such as ``easy``,
    goes with the order of arrival.

    Raises
    ------
    UsageError
        If there is no such policy or backfilling, or the policy takes none.
    MissingPackageError
        If the policy needs a package that is not installed.
    """
    order, plus, kind = ("fcfs", "+", name) if name in BACKFILLS else name.partition("+")
    policy = get_policy(order)
    if not plus:
        return policy
    if kind not in BACKFILLS:
        raise UsageError(f"scheduler {name!r}: there is no backfilling {kind!r}; there are {', '.join(BACKFILLS)}")
    if not isinstance(policy, QueueOrder):
        raise UsageError(f"scheduler {name!r}: policy {order!r} is a scheduler of its own, it takes no backfilling")
    return ListScheduler(policy, BACKFILLS[kind])
