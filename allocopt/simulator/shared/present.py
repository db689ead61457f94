"""Schedules a cluster from its reported state: takes running and waiting jobs, and returns the state after one pass."""

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
    """A running job: its nodes, its tasks on each, shape ``(k,)``, and the seconds until it ends by its estimate."""

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
        The nodes and partitions. Waiting jobs are ordered by the tiers of partitions, then by positions in ``waiting``.
    running
        Running jobs; their total must fit on the machine.
    waiting
        Request of each waiting job, in the order of the queue.
    estimate
        Estimate of each waiting job's run time, in seconds, shape ``(n,)``.
    rules
        Rules of the pass.
    now
        The time, in seconds.
    run
        Run time of each waiting job, in seconds, shape ``(n,)``; its estimate if not given.

    Returns
    -------
    Shared
        The state; the waiting jobs have the lowest numbers.
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
    """Return the further wait of each waiting job in seconds, if no other job is submitted; NaN if it never starts.

    Parameters
    ----------
    machine, running, waiting, estimate, rules, now
        As in `state_after_pass`.
    run
        Run time of each waiting job, in seconds, shape ``(n,)``.
    """
    state = state_after_pass(machine, running, waiting, estimate, rules, now, run)
    while advance_shared(state, np.inf) == HAPPENED:
        schedule_shared(state, UNLIMITED)
    waits: FloatArray = state.jobs["start"][: len(waiting)] - now
    return waits
