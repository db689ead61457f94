"""Scheduling a cluster as it is reported: from jobs that run there and jobs that wait to the state after one pass."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.kernels.ready import make_ready
from allocopt.simulator.kernels.events import HAPPENED
from allocopt.simulator.rules import QueueKeys
from allocopt.simulator.shared.state import UNLIMITED, Shared, SharedJobs, SharedMachine, SharedRules, new_shared
from allocopt.simulator.shared.stepping import advance_shared, occupy_shared, schedule_shared

KERNELS = (advance_shared, occupy_shared, schedule_shared)
"""Kernels that `state_after_pass` calls."""


class RunningJob(NamedTuple):
    """A running job: its nodes and its tasks on each, shape ``(k,)``, and seconds until it ends by its estimate."""

    request: ClusterRequest
    nodes: IntArray
    tasks: IntArray
    left_s: float


def state_after_pass(
    machine: SharedMachine,
    running: Sequence[RunningJob],
    waiting: Sequence[ClusterRequest],
    estimate: FloatArray,
    rules: SharedRules,
    now: float,
    run: FloatArray | None = None,
) -> Shared:
    """Return the state after one scheduling pass.

    Parameters
    ----------
    machine
        The nodes. Waiting jobs are ordered by the tiers of its partitions, then by their places in ``waiting``.
    running
        Running jobs; together they hold no more than there is.
    waiting
        What each waiting job asks for, in the order of the queue.
    estimate
        How long each waiting job runs at most, in seconds, shape ``(n,)``.
    rules
        How the pass works.
    now
        The time, in seconds.
    run
        How long each waiting job will run, in seconds, shape ``(n,)``; as its estimate if not given.

    Returns
    -------
    Shared
        The state, in which the waiting jobs have the first numbers.
    """
    make_ready(KERNELS)
    n, requests = len(waiting), [*waiting, *(one.request for one in running)]
    # Running jobs are never submitted.
    submit = np.repeat((now, np.inf), (n, len(running)))
    left = [one.left_s for one in running]
    jobs = SharedJobs(
        np.arange(len(requests)),
        submit,
        np.concatenate((estimate if run is None else run, left)),
        np.concatenate((estimate, left)),
    )
    state = new_shared(machine, requests, jobs, rules, QueueKeys.by_arrival(len(requests)))
    state.clock["now"][0] = now
    for job, one in enumerate(running, n):
        state.chosen[0, : len(one.nodes)], state.chosen[3, : len(one.nodes)] = one.nodes, one.tasks
        occupy_shared(state, job, len(one.nodes))
    advance_shared(state, now)
    schedule_shared(state, UNLIMITED)
    return state


def waits_without_arrivals(
    machine: SharedMachine,
    running: Sequence[RunningJob],
    waiting: Sequence[ClusterRequest],
    run: FloatArray,
    estimate: FloatArray,
    rules: SharedRules,
    now: float,
) -> FloatArray:
    """Return how long each waiting job goes on waiting, in seconds, if no job joins them; NaN if it never starts.

    Parameters
    ----------
    machine, running, waiting, estimate, rules, now
        As in `state_after_pass`.
    run
        How long each waiting job runs, in seconds, shape ``(n,)``.
    """
    state = state_after_pass(machine, running, waiting, estimate, rules, now, run)
    while advance_shared(state, np.inf) == HAPPENED:
        schedule_shared(state, UNLIMITED)
    waits: FloatArray = state.jobs["start"][: len(waiting)] - now
    return waits
