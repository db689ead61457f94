"""Policies under which jobs share, by name: the entry points ``allocopt.sharing_policies`` of installed packages."""

from collections.abc import Mapping
from typing import Any, cast

from allocopt.plugins import make_plugin, plugin_names
from allocopt.simulator.quota.decisions import QuotaScheduler

GROUP = "allocopt.sharing_policies"


def sharing_policy_names() -> list[str]:
    """Names of all policies under which jobs share that are installed, sorted."""
    return plugin_names(GROUP)


def get_sharing_policy(name: str, options: Mapping[str, Any] | None = None) -> QuotaScheduler:
    """Make the policy of that name; see `allocopt.simulator.registry.get_policy`."""
    return cast(QuotaScheduler, make_plugin(GROUP, "policy", name, options))
