"""The baselines of CuSH: which job of the queue starts next, by a list, and by which policy it is allocated.

A list orders the jobs; whenever something can start, the first job of the list that is in the queue and fits does
(CuSH, section 4.1). Only first come first served lets no job pass that would delay the first one: it is backfilled as
batch systems do (EASY). Orders that do not know the machine are those of `heuristics.scheduling.queue_orders`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.envs.cush.jobsets import JobSet, Machine
from allocopt.envs.cush.task import Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.locality import Policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed, RandomOrder, ShortestJobFirst


@dataclass(frozen=True, slots=True, eq=False)
class _SmallestDominantShare:
    """``drf``: the job first whose dominant share, the largest of its shares of the machine's resources, is smallest.

    CuSH calls this dominant resource fairness: every job stands for a user who holds nothing yet.
    """

    shares: FloatArray  # of each job, shape (n,)
    name: ClassVar[str] = "drf"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        """Return the shares."""
        return QueueKeys(OrderKind.FIXED, self.shares)


def order_of(rule: str, jobs: JobSet, machine: Machine) -> QueueOrder:
    """Return the queue order of a rule for a job set; raise `UsageError` where there is no such rule."""
    if rule == _SmallestDominantShare.name:
        return _SmallestDominantShare((jobs.request / np.array(machine.total)).max(axis=1))
    if rule not in RULES:
        raise UsageError(f"there is no rule {rule!r}; there are {', '.join(RULES)}")
    orders: dict[str, QueueOrder] = {"fcfs": FirstComeFirstServed(), "sjf": ShortestJobFirst(), "random": RandomOrder()}
    return orders[rule]


RULES = ("fcfs", "sjf", "drf", "random")
"""Which job: the first that arrived, the shortest, the one with the smallest dominant share, a random one."""
BACKFILLS: Mapping[str, Backfill] = MappingProxyType(
    {rule: Backfill.EASY if rule == FirstComeFirstServed.name else Backfill.FIRST_FIT for rule in RULES}
)
"""Which jobs may start where the first of the list does not fit."""
POLICIES = ("depth-first", "breadth-first", "oracle")
"""Where: on few nodes, on many, or as is better for each job: the most that a policy selector can give."""


def list_values(rule: str, jobs: JobSet, machine: Machine, rng: np.random.Generator) -> FloatArray:
    """Return values of each job, shape ``(k, n)``: the job in the queue with the lowest starts, the first of equals.

    The rows take turns after each start, since a random job is drawn anew every time.
    """
    order, workload = order_of(rule, jobs, machine), jobs.workload()
    draws = len(jobs) if rule == RandomOrder.name else 1
    keys = [order.keys(workload, rng) for _ in range(draws)]
    return np.array([workload.submit if one.kind == OrderKind.ARRIVAL else one.values for one in keys])


def policies_of(policy: str, jobs: JobSet) -> IntArray:
    """Return the `Policy` of each job, shape ``(n,)``; raise `UsageError` where it cannot be chosen in that way."""
    if policy not in POLICIES:
        raise UsageError(f"there is no policy {policy!r}; there are {', '.join(POLICIES)}")
    if policy == "oracle":
        return jobs.better
    return np.full(len(jobs), Policy[policy.upper().replace("-", "_")], dtype=np.int64)


def run_baseline(
    jobsets: Sequence[JobSet],
    machine: Machine,
    rule: str,
    policy: str,
    seed: int = 0,
    options: Options | None = None,
    backfill: Backfill | None = None,
) -> dict[str, FloatArray]:
    """Schedule job sets by one of `RULES` and one of `POLICIES`; return the `Episodes.metrics`, a value for each.

    Options are the paper's, and backfilling is the rule's own, unless they are given.
    """
    episodes, rng = Episodes(jobsets, machine, 1, options), np.random.default_rng(seed)
    how = BACKFILLS.get(rule, Backfill.FIRST_FIT) if backfill is None else backfill
    rows = []
    for number, jobs in enumerate(jobsets):
        episodes.follow_list(number, list_values(rule, jobs, machine, rng), policies_of(policy, jobs), how)
        rows.append(episodes.metrics())
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
