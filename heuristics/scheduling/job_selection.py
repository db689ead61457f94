"""The baselines of CuSH: a list that selects the next job of the queue, and a policy that selects its nodes.

A list orders the jobs. Whenever jobs can start, the first job of the list that is in the queue and fits starts (CuSH,
section 4.1). Only first come, first served is backfilled as in batch systems (EASY): no job may delay the first one.
Orders that do not depend on the machine are in `allocopt.heuristics.scheduling.queue_orders`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, RandomOrder, ShortestJobFirst
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder
from allocopt.traces.workload import Workload

# Selection of the job: the first that arrived, the shortest, the one with the smallest dominant share, a random one.
RULES = ("fcfs", "sjf", "drf", "random")
# Selection of nodes: few nodes, many nodes, or the better of both for each job, the ideal of a policy selector.
POLICIES = ("depth-first", "breadth-first", "oracle")


def _keys_of(rule: str, jobs: JobSet, workload: Workload, machine: Machine, rng: np.random.Generator) -> QueueKeys:
    """Return the keys that order the jobs of a set by a rule; raise `UsageError` for an unknown rule."""
    if rule not in RULES:
        raise UsageError(f"there is no rule {rule!r}; choose from {', '.join(RULES)}")
    if rule == "drf":
        # The dominant share is the largest of a job's shares of the machine's resources. CuSH calls this dominant
        # resource fairness: every job stands for a user without running jobs.
        return QueueKeys(OrderKind.FIXED, (jobs.request / np.array(machine.total)).max(axis=1))
    orders: dict[str, QueueOrder] = {"fcfs": FirstComeFirstServed(), "sjf": ShortestJobFirst(), "random": RandomOrder()}
    return orders[rule].keys(workload, rng)


def _policies_of(policy: str, jobs: JobSet) -> IntArray:
    """Return the `Policy` of each job, shape ``(n,)``; raise `UsageError` for an unknown policy."""
    if policy not in POLICIES:
        raise UsageError(f"there is no policy {policy!r}; choose from {', '.join(POLICIES)}")
    if policy == "oracle":
        return jobs.better
    return np.full(len(jobs), Policy[policy.upper().replace("-", "_")], dtype=np.int64)


def baseline_episodes(
    jobsets: Sequence[JobSet],
    machine: Machine,
    rule: str,
    policy: str,
    seed: int = 0,
    backfill: Backfill | None = None,
    options: CushOptions | None = None,
) -> Iterator[CushEpisodes]:
    """Schedule job sets by one of `RULES` and one of `POLICIES`, and yield the episodes at the end of each.

    By default, backfilling is that of the rule, and options have their default values. If jobs are planned ahead, first
    come, first served is not backfilled, so that no job delays a planned one.
    """
    episodes, rng = CushEpisodes(jobsets, machine, options=options), np.random.default_rng(seed)
    if backfill is None:
        first = Backfill.NONE if episodes.options.plans_ahead else Backfill.EASY
        backfill = first if rule == "fcfs" else Backfill.FIRST_FIT
    for number, jobs in enumerate(jobsets):
        # Each start uses the next row of values. The random rule has a row per job, so that each start draws anew.
        workload, n_rows = jobs.workload(), len(jobs) if rule == "random" else 1
        keys = [_keys_of(rule, jobs, workload, machine, rng) for _ in range(n_rows)]
        values = [workload.submit if one.kind == OrderKind.ARRIVAL else one.values for one in keys]
        episodes.follow_list(number, np.array(values), _policies_of(policy, jobs), backfill)
        yield episodes


def run_baseline(
    jobsets: Sequence[JobSet],
    machine: Machine,
    rule: str,
    policy: str,
    seed: int = 0,
    backfill: Backfill | None = None,
    options: CushOptions | None = None,
) -> dict[str, FloatArray]:
    """Return the `CushEpisodes.metrics` of `baseline_episodes`, one value per job set."""
    episodes = baseline_episodes(jobsets, machine, rule, policy, seed, backfill, options)
    rows = [one.metrics() for one in episodes]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
