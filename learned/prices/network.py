"""The network as plain arrays, and its forward pass without torch.

Leaves and jobs are embedded one by one; what is pooled of them (all leaves of a pod, all leaves, all jobs, each
weighted by its share of nodes) joins every one's second layer. So it does not matter how leaves, pods and jobs are
numbered, nor how many there are.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, njit, types

from allocopt.arrays import FloatArray
from allocopt.kernels.options import inlined
from learned.networks.files import Float32Array
from learned.prices.features import FEATURES, JOB_FEATURES, LEAF_FEATURES, Features

WIDTH = 32
"""Numbers in the embedding of a leaf or a job."""


class Weights(NamedTuple):
    """The parameters, matrices with one row per input; ``W`` is the width.

    Parameters
    ----------
    leaf_in, leaf_in_bias
        From the features of a leaf to its embedding, shapes ``(LEAF_FEATURES, W)`` and ``(W,)``.
    job_in, job_in_bias
        The same for jobs, shapes ``(JOB_FEATURES, W)`` and ``(W,)``.
    leaf_own, leaf_pod, leaf_all, leaf_jobs, leaf_bias
        Second layer of a leaf: its embedding, those of its pod, of all leaves, of all jobs, ``(W, W)`` each; ``(W,)``.
    job_own, job_all, job_jobs, job_bias
        Second layer of a job: its embedding, those of all leaves, of all jobs, ``(W, W)`` each; ``(W,)``.
    price, price_bias
        Heads of leaves, price and worth, shapes ``(W, 2)`` and ``(2,)``.
    scores, scores_bias
        Heads of jobs, the order and the destruction, shapes ``(W, 2)`` and ``(2,)``.
    """

    leaf_in: Float32Array
    leaf_in_bias: Float32Array
    job_in: Float32Array
    job_in_bias: Float32Array
    leaf_own: Float32Array
    leaf_pod: Float32Array
    leaf_all: Float32Array
    leaf_jobs: Float32Array
    leaf_bias: Float32Array
    job_own: Float32Array
    job_all: Float32Array
    job_jobs: Float32Array
    job_bias: Float32Array
    price: Float32Array
    price_bias: Float32Array
    scores: Float32Array
    scores_bias: Float32Array


class Prediction(NamedTuple):
    """What the network says of a window.

    Parameters
    ----------
    prices
        Hops per node of every leaf, none negative, by which the bound is computed, shape ``(leaves,)``.
    worth
        Hops per node of every leaf by which jobs are inserted: what a node there is worth to those that come later,
        up to a constant, shape ``(leaves,)``.
    order
        Jobs with higher scores are inserted first, shape ``(J,)``.
    destruction
        Jobs with higher scores are removed more often, shape ``(J,)``.
    """

    prices: FloatArray
    worth: FloatArray
    order: FloatArray
    destruction: FloatArray


SHAPES: dict[str, tuple[int, ...]] = {
    "leaf_in": (LEAF_FEATURES, WIDTH),
    "leaf_in_bias": (WIDTH,),
    "job_in": (JOB_FEATURES, WIDTH),
    "job_in_bias": (WIDTH,),
    **{f"leaf_{part}": (WIDTH, WIDTH) for part in ("own", "pod", "all", "jobs")},
    "leaf_bias": (WIDTH,),
    **{f"job_{part}": (WIDTH, WIDTH) for part in ("own", "all", "jobs")},
    "job_bias": (WIDTH,),
    "price": (WIDTH, 2),
    "price_bias": (2,),
    "scores": (WIDTH, 2),
    "scores_bias": (2,),
}
_MATRIX, _VECTOR = float32[:, ::1], float32[::1]
WEIGHTS = types.NamedTuple(tuple(_MATRIX if len(shape) == 2 else _VECTOR for shape in SHAPES.values()), Weights)
PREDICTION = types.NamedUniTuple(float64[::1], 4, Prediction)


@inlined
def _add_product(row: Float32Array, matrix: Float32Array, out: Float32Array) -> None:
    """Add ``row @ matrix`` to ``out``."""
    for i in range(row.size):
        factor = row[i]
        for k in range(WIDTH):
            out[k] += factor * matrix[i, k]


@inlined
def _set(row: Float32Array, out: Float32Array) -> None:
    """Copy a row."""
    for k in range(WIDTH):
        out[k] = row[k]


@inlined
def _set_positive(out: Float32Array) -> None:
    """Let negative numbers be 0."""
    for k in range(WIDTH):
        out[k] = max(out[k], np.float32(0.0))


@inlined
def _add_scaled(row: Float32Array, share: float, out: Float32Array) -> None:
    """Add a part of a row."""
    for k in range(WIDTH):
        out[k] += share * row[k]


@inlined
def _embed(features: Float32Array, matrix: Float32Array, bias: Float32Array, embedded: Float32Array) -> None:
    """Fill the embeddings of all leaves, or all jobs."""
    for i in range(features.shape[0]):
        _set(bias, embedded[i])
        _add_product(features[i], matrix, embedded[i])
        _set_positive(embedded[i])


@inlined
def _dot(row: Float32Array, column: Float32Array) -> "np.floating[Any]":
    """Sum of products."""
    total = np.float32(0.0)
    for k in range(WIDTH):
        total += row[k] * column[k]
    return total


@njit(PREDICTION(WEIGHTS, FEATURES), cache=True, nogil=True)
def predict(weights: Weights, features: Features) -> Prediction:
    """Say what a window's leaves are worth, and which of its jobs come first and which are to be moved.

    Parameters
    ----------
    weights
        The network.
    features
        The window.
    """
    n_leaves, n_jobs = features.leaves.shape[0], features.jobs.shape[0]
    leaves = np.empty((n_leaves, WIDTH), dtype=np.float32)
    jobs = np.empty((n_jobs, WIDTH), dtype=np.float32)
    _embed(features.leaves, weights.leaf_in, weights.leaf_in_bias, leaves)
    _embed(features.jobs, weights.job_in, weights.job_in_bias, jobs)
    n_pods = features.pod.max() + 1
    pods = np.zeros((n_pods, WIDTH), dtype=np.float32)
    pooled = np.zeros((2, WIDTH), dtype=np.float32)
    for leaf in range(n_leaves):
        _add_scaled(leaves[leaf], features.pod_share[leaf], pods[features.pod[leaf]])
        _add_scaled(leaves[leaf], features.leaf_share[leaf], pooled[0])
    for job in range(n_jobs):
        _add_scaled(jobs[job], features.job_share[job], pooled[1])
    of_window = weights.leaf_bias.copy()
    _add_product(pooled[0], weights.leaf_all, of_window)
    _add_product(pooled[1], weights.leaf_jobs, of_window)
    of_pods = np.empty((n_pods, WIDTH), dtype=np.float32)
    for pod in range(n_pods):
        _set(of_window, of_pods[pod])
        _add_product(pods[pod], weights.leaf_pod, of_pods[pod])
    out = Prediction(np.empty(n_leaves), np.empty(n_leaves), np.empty(n_jobs), np.empty(n_jobs))
    hidden = np.empty(WIDTH, dtype=np.float32)
    for leaf in range(n_leaves):
        _set(of_pods[features.pod[leaf]], hidden)
        _add_product(leaves[leaf], weights.leaf_own, hidden)
        _set_positive(hidden)
        value = np.float64(_dot(hidden, weights.price[:, 0]) + weights.price_bias[0])
        out.prices[leaf] = features.unit * (max(value, 0.0) + np.log1p(np.exp(-abs(value))))
        out.worth[leaf] = out.prices[leaf] + features.unit * (_dot(hidden, weights.price[:, 1]) + weights.price_bias[1])
    _set(weights.job_bias, of_window)
    _add_product(pooled[0], weights.job_all, of_window)
    _add_product(pooled[1], weights.job_jobs, of_window)
    for job in range(n_jobs):
        _set(of_window, hidden)
        _add_product(jobs[job], weights.job_own, hidden)
        _set_positive(hidden)
        out.order[job] = _dot(hidden, weights.scores[:, 0]) + weights.scores_bias[0] + 4.0 * features.jobs[job, 2]
        out.destruction[job] = _dot(hidden, weights.scores[:, 1]) + weights.scores_bias[1]
    return out
