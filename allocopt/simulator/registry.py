"""Scheduling policies by name, found through the entry points ``allocopt.policies`` of every installed package."""

from collections.abc import Mapping
from typing import Any, cast

from allocopt.plugins import make_plugin, plugin_names
from allocopt.simulator.order import QueueOrder
from allocopt.simulator.scheduler import ListScheduler, Scheduler

GROUP = "allocopt.policies"

Policy = QueueOrder | ListScheduler | Scheduler
"""What a name may stand for: a queue order, one with backfilling, or a scheduler of its own."""


def policy_names() -> list[str]:
    """Names of all policies that are installed, sorted."""
    return plugin_names(GROUP)


def get_policy(name: str, options: Mapping[str, Any] | None = None) -> Policy:
    """Make the policy of that name.

    Parameters
    ----------
    name
        One of `policy_names`.
    options
        Values for the policy's own parameters.

    Raises
    ------
    UsageError
        If there is no such policy or parameter, or the policy refuses a value.
    MissingPackageError
        If the policy needs a package that is not installed.
    """
    return cast(Policy, make_plugin(GROUP, "policy", name, options))
