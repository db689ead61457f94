"""``allocopt simulate`` under policies that let jobs share cores."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allocopt.simulator.quota.decisions import QuotaScheduler
    from allocopt.simulator.quota.execution import QuotaExecution
    from allocopt.simulator.quota.policy import QuotaPolicy
    from allocopt.traces.executables import Executables
    from allocopt.traces.workload import Workload

REFUSED = ("fat-tree", "topology", "allocator", "backfill", "backfill-order")
"""Options that are for other policies."""


@dataclass(frozen=True, slots=True)
class SharingPolicy:
    """A scheduler of shared allocations, and what the applications ask of cores.

    Parameters
    ----------
    scheduler
        The scheduler.
    executables
        The applications.
    """

    scheduler: "QuotaScheduler"
    executables: "Executables"

    def of(self, workload: "Workload", seed: int) -> "tuple[QuotaPolicy, QuotaExecution]":
        """Return the scheduler and the execution model for the jobs of a workload."""
        import numpy as np

        from allocopt.simulator.quota.execution import QuotaExecution
        from allocopt.simulator.quota.policy import QuotaPolicy
        from allocopt.traces.executables import profiled_jobs

        jobs = profiled_jobs(workload, self.executables)
        execution = QuotaExecution(jobs, period_s=self.scheduler.period_s)
        return QuotaPolicy(self.scheduler, execution, np.random.default_rng(seed)), execution

    def remember(self) -> None:
        """Let a scheduler that learns keep what it has learned."""
        from allocopt.simulator.quota.decisions import Remembering

        if isinstance(self.scheduler, Remembering):
            self.scheduler.remember()


def sharing_policy(
    policy: str, options: list[str], profiles: Path | None, others: Sequence[object]
) -> SharingPolicy | None:
    """Make the policy of that name, if it lets jobs share.

    Parameters
    ----------
    policy, options
        Its name and options.
    profiles
        File of the profiles, if there is one.
    others
        Values of the options `REFUSED`, which must not be given.

    Raises
    ------
    UsageError
        If an option does not go with it, or profiles are given to another policy.
    """
    from allocopt.errors import UsageError
    from allocopt.plugins import plugin_names

    names = plugin_names("allocopt.sharing_policies")
    if policy not in names:
        if profiles is not None:
            raise UsageError(f"--profiles goes with the policies {', '.join(names)}, not {policy!r}")
        return None
    from allocopt.cli.solver_options import parse_options
    from allocopt.simulator.quota.registry import get_sharing_policy
    from allocopt.traces.executables import WORKFLOWS
    from allocopt.traces.profiles import read_profiles

    for name, given in zip(REFUSED, others, strict=True):
        if given is not None:
            raise UsageError(f"--{name} does not go with policy {policy!r}")
    executables = WORKFLOWS if profiles is None else read_profiles(profiles)
    return SharingPolicy(get_sharing_policy(policy, parse_options(options)), executables)
