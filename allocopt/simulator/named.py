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
    return backfilled(order, get_policy(order), kind if plus else None)


def backfilled(
    name: str, policy: Policy, kind: str | None, tried: str | None = None, *, compression: bool = True
) -> Policy:
    """Join a policy with backfilling, if any is asked for.

    Parameters
    ----------
    name, policy
        The policy, and what it is called.
    kind
        Name of the kind of backfilling; None for none.
    tried
        Name of the queue order in which jobs are tried for it; None for that of the queue.
    compression
        Whether reservations move forward where jobs end early, under conservative backfilling.

    Raises
    ------
    UsageError
        If there is no such backfilling or order, or the policy takes none.
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
