"""Scores of waiting jobs: features of job, user and queue, and the arrays from which kernels compute them.

A score is the output of a network with one hidden layer, plus a linear function of the features. Its weights are a
matrix of shape ``(F + 2, H + 1)``: one row for each of the `F` features, one row of biases, and one row with the weight
of each neuron in the output. The first column is the linear function, the others are the `H` hidden neurons, whose
activation is ``x / (1 + |x|)``. The job with the lowest score is first.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.kernels.arrays import FloatMatrix
from allocopt.simulator.rules import QueueKeys
from allocopt.traces.workload import UNKNOWN_USER

FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "limit": "ln of the job's limit, which is its estimate, in seconds",
        "share": "ln of its largest requested share of the machine over all resources",
        "predicted": "ln of its predicted run time in seconds",
        "wait": "ln of its wait in seconds + 60",
        "wait_per_limit": "ln of (wait + 60) / limit",
        "wait_per_predicted": "ln of (wait + 60) / predicted run time",
        "limit_in_queue": "ln of its limit over the mean limit of the waiting jobs",
        "share_in_queue": "ln of its share over the mean share of the waiting jobs",
        "wait_in_queue": "its wait over the longest wait of a waiting job; 0 if no job has waited",
        "used_of_limit": "run time over limit of its user's ended jobs: a running mean of weight 0.5 that begins "
        "at 0.5",
        "fits": "1 if its request is idle now, else 0",
        "wait_to_mean": "ln of (wait + 600) over (mean wait + 600); the mean wait of started jobs is a running mean "
        "of weight 0.01, for the first hundred jobs the plain mean",
        "starving": "wait_to_mean minus ln 10 if that is positive, else 0",
        "work": "ln of (waiting work, by limits, in hours of the whole machine, + 0.1)",
        "waiting": "ln of the number of waiting jobs",
        "longest_wait": "ln of (longest wait of a waiting job in hours + 0.1)",
        "idle": "idle share of the machine, for the resource with the smallest idle share",
    }
)
"""Features of a score, in order. A job that requests the whole machine has a share of 1."""

N_FEATURES = len(FEATURES)
BIAS, OUTPUT, N_ROWS = N_FEATURES, N_FEATURES + 1, N_FEATURES + 2
"""Rows of a network after those of the features, and the number of rows."""
LAST, LAST_BUT_ONE, USED, N_ENDED = range(4)
"""Columns of `Scores.history`: run times of the user's last two ended jobs, ``used_of_limit``, and the number of ended
jobs."""
LN_LIMIT, LN_SHARE, SHARE, USER, ASKED = range(5)
"""Columns of `Scores.jobs`: logarithms of limit and share; the share; the row of its user in `Scores.history`, -1 for
unknown; and from ``ASKED`` on the requested units of each resource."""
IDLE, TOTAL, IDLE_THEN, WAITING, INPUTS, BIASES, NEURONS = range(7)
"""Rows of `Scores.now`.

- ``IDLE``, ``TOTAL``: idle units of each resource, and all units.
- ``IDLE_THEN``: idle units when this part of a pass began.
- ``WAITING``: values of the queue, see `LIMITS`.
- ``INPUTS``, ``NEURONS``: the features and the neurons of the score that is computed.
- ``BIASES``: the biases of the neurons plus the contribution of the features that are equal for all jobs.
"""
LIMITS, SHARES, WORK, MEAN_WAIT, N_STARTED, LN_MEAN_LIMIT, LN_MEAN_SHARE, LONGEST_WAIT, STARTED_WAIT = range(9)
"""Columns of the row ``WAITING``.

- ``LIMITS``, ``SHARES``, ``WORK``: sums of limits, shares and their products over the waiting jobs.
- ``MEAN_WAIT``, ``N_STARTED``: running mean of the waits of started jobs, and number of these jobs.
- The others are values from the beginning of this part of a pass: logarithms of the mean limit and the mean share of
  the waiting jobs, their longest wait, and ``MEAN_WAIT``.
"""


def no_history(users: int) -> FloatArray:
    """Return `Scores.history` of a number of users without ended jobs."""
    history = np.zeros((users, N_ENDED + 1))
    history[:, USED] = 0.5
    return history


def linear_network(weights: Mapping[str, float]) -> FloatArray:
    """Return the network of a linear score, shape ``(F + 2, 1)``, with weights for some features."""
    network = np.zeros((N_ROWS, 1))
    network[[list(FEATURES).index(name) for name in weights], 0] = list(weights.values())
    network[OUTPUT, 0] = 1.0
    return network


class Scores(NamedTuple):
    """Arrays from which scores and predicted run times are computed; only resources with a known total are included.

    All arrays are empty if no order is scored and no run time is predicted.
    """

    networks: FloatMatrix  # weights for the queue, then those for backfilling, ``(2 (F + 2), H + 1)``
    history: FloatMatrix  # values of each user's ended jobs, ``(U, 4)``; see `LAST`
    jobs: FloatMatrix  # ``(n, 4 + R)``; see `LN_LIMIT`
    now: FloatMatrix  # seven rows, as many columns as the longest row needs; see `IDLE`


def new_scores(
    order: QueueKeys,
    backfill_order: QueueKeys | None,
    limit: FloatArray,  # of each job in seconds, shape ``(n,)``
    asked: IntArray,  # units of each resource, shape ``(n, R)``
    total: IntArray,  # units of the machine, 0 for a resource that is not included, shape ``(R,)``
    users: IntArray,  # of the jobs, `UNKNOWN_USER` if unknown, shape ``(n,)``
    *,
    predicts: bool = False,  # whether run times are predicted even if no order is scored
) -> Scores:
    """Return the arrays of scores before the first event; raise `UsageError` if a network has a wrong shape.

    A request that exceeds the machine counts as the whole machine.
    """
    given = [None if keys is None else keys.network for keys in (order, backfill_order)]
    sizes = {network.shape for network in given if network is not None}
    if predicts and not sizes:
        sizes = {(N_ROWS, 1)}
    if not sizes:
        return Scores(*(np.zeros((0, 0)) for _ in Scores._fields))
    if any(len(shape) != 2 or shape[0] != N_ROWS or shape[1] < 1 for shape in sizes):
        shape = next(iter(sizes))
        raise UsageError(
            f"the network that scores jobs has the shape {shape}, must have {N_ROWS} rows and at least one column"
        )
    columns = max(shape[1] for shape in sizes)
    networks = np.zeros((2, N_ROWS, columns))
    for at, network in enumerate(given):
        if network is not None:
            networks[at, :, : network.shape[1]] = network
    counted = np.flatnonzero(total > 0)
    asked = np.minimum(asked[:, counted], total[counted])
    share = (asked / total[counted]).max(axis=1, initial=0.0)
    # A job that requests none of the included resources counts as the smallest possible job.
    share[share == 0] = 1.0 / max(1, int(total.max(initial=1)))
    known, row = np.unique(users[users != UNKNOWN_USER], return_inverse=True)
    rows = np.full(len(users), -1)
    rows[users != UNKNOWN_USER] = row.reshape(-1)
    history = no_history(len(known))
    now = np.zeros((7, max(STARTED_WAIT + 1, N_FEATURES, columns, len(counted))))
    now[IDLE, : len(counted)] = now[TOTAL, : len(counted)] = total[counted]
    jobs = np.concatenate((np.stack([np.log(limit), np.log(share), share, rows], axis=1), asked), axis=1)
    return Scores(np.concatenate(networks), history, jobs, now)
