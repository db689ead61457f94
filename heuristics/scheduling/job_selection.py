"""The baselines of CuSH: which job of the queue starts next, by a list, and by which policy it is allocated.

A list orders the jobs; whenever something can start, the first job of the list that is in the queue and fits does
(CuSH, section 4.1). Only first come first served lets no job pass that would delay the first one: it is backfilled as
batch systems do (EASY). Orders that do not know the machine are those of `heuristics.scheduling.queue_orders`.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed, RandomOrder, ShortestJobFirst

# Which job: the first that arrived, the shortest, the one with the smallest dominant share, a random one.
RULES = ("fcfs", "sjf", "drf", "random")
# Where: on few nodes, on many, or as is better for each job: the most that a policy selector can give.
POLICIES = ("depth-first", "breadth-first", "oracle")


def _keys_of(rule: str, jobs: JobSet, workload: Workload, machine: Machine, rng: np.random.Generator) -> QueueKeys:
    """Return what orders the jobs of a set by a rule; raise `UsageError` where there is no such rule."""
    if rule not in RULES:
        raise UsageError(f"there is no rule {rule!r}; there are {', '.join(RULES)}")
    if rule == "drf":
        # The dominant share is the largest of a job's shares of the machine's resources. CuSH calls this dominant
        # resource fairness: every job stands for a user who holds nothing yet.
        return QueueKeys(OrderKind.FIXED, (jobs.request / np.array(machine.total)).max(axis=1))
    orders: dict[str, QueueOrder] = {"fcfs": FirstComeFirstServed(), "sjf": ShortestJobFirst(), "random": RandomOrder()}
    return orders[rule].keys(workload, rng)


def _policies_of(policy: str, jobs: JobSet) -> IntArray:
    """Return the `Policy` of each job, shape ``(n,)``; raise `UsageError` where it cannot be chosen in that way."""
    if policy not in POLICIES:
        raise UsageError(f"there is no policy {policy!r}; there are {', '.join(POLICIES)}")
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

    Backfilling is the rule's own, and options are the defaults, unless they are given. Where jobs are planned ahead,
    first come first served lets no job pass that would delay one that is planned, and has no EASY.
    """
    episodes, rng = CushEpisodes(jobsets, machine, options=options), np.random.default_rng(seed)
    if backfill is None:
        first = Backfill.NONE if episodes.options.plans_ahead else Backfill.EASY
        backfill = first if rule == "fcfs" else Backfill.FIRST_FIT
    for number, jobs in enumerate(jobsets):
        # Rows of values take turns after each start: a random job is drawn anew every time.
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
    """Return the `CushEpisodes.metrics` of `baseline_episodes`, a value for each job set."""
    episodes = baseline_episodes(jobsets, machine, rule, policy, seed, backfill, options)
    rows = [one.metrics() for one in episodes]
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
