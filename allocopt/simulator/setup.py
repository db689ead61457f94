"""From a workload to the state before the first event."""

from typing import Any

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.simulator.kernels.queue import BLOCK, SIZE_CLASSES
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.state import (
    CAPACITY,
    CLOCK_DTYPE,
    FREE,
    JOB_DTYPE,
    NOBODY,
    RULES_DTYPE,
    STEP_DTYPE,
    State,
)
from allocopt.traces.workload import Workload


def new_state(
    workload: Workload,
    request: IntArray,
    capacity: IntArray,
    rules: Rules,
    backfill: Backfill,
    order: QueueKeys,
    backfill_order: QueueKeys | None = None,
    *,
    compression: bool = False,
    track_running: bool = False,
) -> State:
    """Return the state before the first event.

    Parameters
    ----------
    workload
        The jobs.
    request
        Units of each resource that each job holds, shape ``(n, R)``.
    capacity
        Units of each resource that there are, shape ``(R,)``.
    rules
        How events are taken, and whether jobs are killed.
    backfill
        Which jobs the built-in scheduler lets overtake others.
    order, backfill_order
        Order of the queue, and of backfilling if that is another one.
    compression
        Whether conservative backfilling plans all reservations anew when a job ends early.
    track_running
        Whether the running jobs are listed by their expected ends although backfilling does not need it.
    """
    n, n_resources = request.shape
    users, user = np.unique(workload.users, return_inverse=True)
    steps = 2 * n + 3 if backfill is Backfill.CONSERVATIVE else 0
    has_index = (
        backfill in (Backfill.EASY, Backfill.FIRST_FIT) and backfill_order is None and order.kind <= OrderKind.FIXED
    )
    units = np.zeros((3, n_resources), dtype=np.int64)
    units[FREE] = units[CAPACITY] = capacity
    numbers = _rules(rules, backfill, order, backfill_order)
    numbers["compression"] = compression
    # Between two early ends, which undo all of it, a plan in the order of arrival comes out the same made later: jobs
    # start where they were promised to. Who looks at the running jobs may look at the reservations, too.
    numbers["plan_ahead"] = (
        track_running or not compression or not rules.kill_at_limit or order.kind is not OrderKind.ARRIVAL
    )
    numbers["track_running"] = track_running or backfill >= Backfill.EASY
    return State(
        clock=_clock(),
        rules=numbers,
        jobs=_jobs(workload, user, rules, order, order if backfill_order is None else backfill_order),
        request=np.ascontiguousarray(request),
        lists=np.zeros((6, n), dtype=np.int64),
        units=units,
        held=np.zeros((len(users), n_resources), dtype=np.int64),
        steps=np.full(steps, -np.inf).view(STEP_DTYPE),
        unpromised=np.tile(capacity, (steps, 1)),
        least=np.zeros((1 + SIZE_CLASSES, n // BLOCK + 1 if has_index else 0)),
    )


def _clock() -> Any:
    clock = np.zeros(1, dtype=CLOCK_DTYPE)
    clock["now"] = -np.inf
    clock["wake"] = np.inf
    clock["n_profile"] = 1
    return clock


def _rules(rules: Rules, backfill: Backfill, order: QueueKeys, backfill_order: QueueKeys | None) -> Any:
    numbers = np.zeros(1, dtype=RULES_DTYPE)
    numbers["event_order"] = rules.event_order
    numbers["order"] = order.kind
    numbers["backfill_order"] = order.kind if backfill_order is None else backfill_order.kind
    numbers["own_backfill_order"] = backfill_order is not None
    numbers["backfill"] = backfill
    return numbers


def _jobs(workload: Workload, user: IntArray, rules: Rules, order: QueueKeys, backfill_order: QueueKeys) -> Any:
    jobs = np.zeros(len(workload), dtype=JOB_DTYPE)
    for field in ("submit", "run", "estimate"):
        jobs[field] = getattr(workload, field)
    jobs["limit"] = workload.estimate if rules.kill_at_limit else np.inf
    jobs["think"] = workload.think_s
    jobs["preceding"] = workload.preceding_rows() if rules.dependencies else NOBODY
    jobs["dependent"], jobs["next_dependent"] = _dependents(jobs["preceding"])
    jobs["user"] = user
    jobs["order_value"], jobs["order_rank"] = order.values, _ranks(order.values)
    ranks = jobs["order_rank"] if backfill_order is order else _ranks(backfill_order.values)
    jobs["backfill_value"], jobs["backfill_rank"] = backfill_order.values, ranks
    for field in ("release", "start", "end", "event", "expected_end"):
        jobs[field] = np.nan
    jobs["reserved"] = np.inf
    jobs["speed"] = 1.0
    return jobs


def _ranks(values: FloatArray) -> IntArray:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(values, kind="stable")] = np.arange(len(values))
    return ranks


def _dependents(preceding: IntArray) -> tuple[IntArray, IntArray]:
    """Chain the jobs that wait for the same job, in their order: the first of each chain, and the next of each job."""
    first = np.full(len(preceding), NOBODY)
    following = np.full(len(preceding), NOBODY)
    for job in np.flatnonzero(preceding != NOBODY)[::-1].tolist():
        following[job] = first[preceding[job]]
        first[preceding[job]] = job
    return first, following
