"""The network as plain arrays, and its forward pass without torch.

Leaves and jobs are embedded one by one; what is pooled of them (all leaves of a pod, all leaves, all jobs, each
weighted by its share of nodes) joins every one's second layer. So it does not matter how leaves, pods and jobs are
numbered, nor how many there are.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import float32, float64, types
from numba.experimental import structref

from allocopt.arrays import Float32Array, FloatArray
from allocopt.errors import BadFileError
from allocopt.kernels.compiled import helper, inlined, kernel
from learned.prices.features import FEATURES, JOB_FEATURES, LEAF_FEATURES, Features
from learned.weights import FOLDER, SUFFIX, read_weights

SHIPPED = "lns-prices"
"""Name of the weights that come with the package."""
WIDTH = 32
"""Numbers in the embedding of a leaf or a job."""


class Weights(NamedTuple):
    """The parameters, matrices with one row per input; ``W`` is the width."""

    # From the features of a leaf to its embedding, shapes ``(LEAF_FEATURES, W)`` and ``(W,)``
    leaf_in: Float32Array
    leaf_in_bias: Float32Array
    # The same for jobs, shapes ``(JOB_FEATURES, W)`` and ``(W,)``
    job_in: Float32Array
    job_in_bias: Float32Array
    # Second layer of a leaf: its embedding, those of its pod, of all leaves, of all jobs, ``(W, W)`` each;
    # ``(W,)``
    leaf_own: Float32Array
    leaf_pod: Float32Array
    leaf_all: Float32Array
    leaf_jobs: Float32Array
    leaf_bias: Float32Array
    # Second layer of a job: its embedding, those of all leaves, of all jobs, ``(W, W)`` each; ``(W,)``
    job_own: Float32Array
    job_all: Float32Array
    job_jobs: Float32Array
    job_bias: Float32Array
    # Heads of leaves, price and worth, shapes ``(W, 2)`` and ``(2,)``
    price: Float32Array
    price_bias: Float32Array
    # Heads of jobs, the order and the destruction, shapes ``(W, 2)`` and ``(2,)``
    scores: Float32Array
    scores_bias: Float32Array


class Prediction(NamedTuple):
    """What the network says of a window."""

    # Hops per node of every leaf, none negative, by which the bound is computed, shape ``(leaves,)``
    prices: FloatArray
    # Hops per node of every leaf by which jobs are inserted: what a node there is worth to those that come
    # later, up to a constant, shape ``(leaves,)``
    worth: FloatArray
    order: FloatArray  # Jobs with higher scores are inserted first, shape ``(J,)``
    destruction: FloatArray  # Jobs with higher scores are removed more often, shape ``(J,)``


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


@structref.register
class _NetworkType(types.StructRef):
    pass


class Network(structref.StructRefProxy):
    """The parameters in one place that kernels are handed by a pointer."""

    weights: Weights


structref.define_proxy(Network, _NetworkType, ["weights"])
NETWORK = _NetworkType((("weights", WEIGHTS),))  # type: ignore[no-untyped-call]


@kernel(NETWORK(WEIGHTS), allocates=True)
def network_of(weights: Weights) -> Network:
    """Put parameters in one place."""
    network: Network = Network(weights)  # type: ignore[no-untyped-call]
    return network


@inlined
def _add_product(row: Float32Array, matrix: Float32Array, out: Float32Array) -> None:
    for i in range(row.size):
        factor = row[i]
        for k in range(WIDTH):
            out[k] += factor * matrix[i, k]


@inlined
def _add_columns(matrix: Float32Array, columns: Float32Array, out: Float32Array) -> None:
    # With all leaves on the inside, vector instructions have enough to do.
    for k in range(WIDTH):
        target = out[k]
        for i in range(columns.shape[0]):
            factor, column = matrix[i, k], columns[i]
            for leaf in range(column.size):
                target[leaf] += factor * column[leaf]


@inlined
def _set(row: Float32Array, out: Float32Array) -> None:
    for k in range(WIDTH):
        out[k] = row[k]


@inlined
def _set_positive(out: Float32Array) -> None:
    for k in range(WIDTH):
        # `max` minds numbers that are none, and is no vector instruction.
        out[k] = out[k] if out[k] > np.float32(0.0) else np.float32(0.0)


@inlined
def _set_positive_columns(out: Float32Array) -> None:
    for k in range(out.shape[0]):
        row = out[k]
        for leaf in range(row.size):
            row[leaf] = row[leaf] if row[leaf] > np.float32(0.0) else np.float32(0.0)


@inlined
def _add_head(hidden: Float32Array, head: Float32Array, out: Float32Array) -> None:
    for k in range(WIDTH):
        factor, row = head[k], hidden[k]
        for leaf in range(out.size):
            out[leaf] += factor * row[leaf]


@inlined
def _heads(hidden: Float32Array, head: Float32Array, bias: Float32Array) -> "tuple[np.floating[Any], np.floating[Any]]":
    first, second = bias[0], bias[1]
    for k in range(WIDTH):
        first += hidden[k] * head[k, 0]
        second += hidden[k] * head[k, 1]
    return first, second


@helper(allocates=True)
def _pooled(features: Features, leaves: Float32Array, jobs: Float32Array) -> tuple[Float32Array, Float32Array]:
    # Sums over the leaves of every pod, and those over all leaves and all jobs.
    n_leaves, n_jobs = leaves.shape[1], jobs.shape[0]
    n_pods = features.pod.max() + 1
    pods = np.zeros((n_pods, WIDTH), dtype=np.float32)
    pooled = np.zeros((2, WIDTH), dtype=np.float32)
    for k in range(WIDTH):
        for leaf in range(n_leaves):
            pods[features.pod[leaf], k] += features.pod_share[leaf] * leaves[k, leaf]
            pooled[0, k] += features.leaf_share[leaf] * leaves[k, leaf]
    for job in range(n_jobs):
        for k in range(WIDTH):
            pooled[1, k] += features.job_share[job] * jobs[job, k]
    return pods, pooled


@kernel(PREDICTION(WEIGHTS, FEATURES), allocates=True)
def predict(weights: Weights, features: Features) -> Prediction:
    """Say what a window's leaves are worth, and which of its jobs come first and which are to be moved."""
    n_leaves, n_jobs = features.leaves.shape[0], features.jobs.shape[0]
    leaves = np.empty((WIDTH, n_leaves), dtype=np.float32)
    for k in range(WIDTH):
        leaves[k] = weights.leaf_in_bias[k]
    _add_columns(weights.leaf_in, features.leaves.T.copy(), leaves)
    _set_positive_columns(leaves)
    jobs = np.empty((n_jobs, WIDTH), dtype=np.float32)
    for job in range(n_jobs):
        _set(weights.job_in_bias, jobs[job])
        _add_product(features.jobs[job], weights.job_in, jobs[job])
        _set_positive(jobs[job])
    pods, pooled = _pooled(features, leaves, jobs)
    of_window = weights.leaf_bias.copy()
    _add_product(pooled[0], weights.leaf_all, of_window)
    _add_product(pooled[1], weights.leaf_jobs, of_window)
    of_pods = np.empty_like(pods)
    for pod in range(pods.shape[0]):
        _set(of_window, of_pods[pod])
        _add_product(pods[pod], weights.leaf_pod, of_pods[pod])
    hidden = np.empty((WIDTH, n_leaves), dtype=np.float32)
    for k in range(WIDTH):
        for leaf in range(n_leaves):
            hidden[k, leaf] = of_pods[features.pod[leaf], k]
    _add_columns(weights.leaf_own, leaves, hidden)
    _set_positive_columns(hidden)
    value, worth = np.full(n_leaves, weights.price_bias[0]), np.full(n_leaves, weights.price_bias[1])
    _add_head(hidden, weights.price[:, 0], value)
    _add_head(hidden, weights.price[:, 1], worth)
    out = Prediction(np.empty(n_leaves), np.empty(n_leaves), np.empty(n_jobs), np.empty(n_jobs))
    for leaf in range(n_leaves):
        x = np.float64(value[leaf])
        out.prices[leaf] = features.unit * (max(x, 0.0) + np.log1p(np.exp(-abs(x))))
        out.worth[leaf] = out.prices[leaf] + features.unit * worth[leaf]
    _set(weights.job_bias, of_window)
    _add_product(pooled[0], weights.job_all, of_window)
    _add_product(pooled[1], weights.job_jobs, of_window)
    of_job = np.empty(WIDTH, dtype=np.float32)
    for job in range(n_jobs):
        _set(of_window, of_job)
        _add_product(jobs[job], weights.job_own, of_job)
        _set_positive(of_job)
        order, out.destruction[job] = _heads(of_job, weights.scores, weights.scores_bias)
        out.order[job] = order + 4.0 * features.jobs[job, 2]
    return out


def load_parameters(name: str) -> Weights:
    """Return the shipped parameters, or those of a file, read once as long as it does not change.

    Raises `BadFileError` if the file cannot be read, or holds another network.
    """
    return _load(*_place(name))[0]


def load_network(name: str) -> Network:
    """Return `load_parameters` as kernels are handed them."""
    return _load(*_place(name))[1]


def _place(name: str) -> tuple[Path, int]:
    if name == SHIPPED:
        return FOLDER / f"{SHIPPED}{SUFFIX}", 0
    path = Path(name)
    # Unlike `Path.exists` it takes a name that is too long for one that is not there.
    return path, path.stat().st_mtime_ns if os.path.exists(path) else 0


@lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int) -> tuple[Weights, Network]:
    arrays, _ = read_weights(path)
    for name, shape in SHAPES.items():
        if name not in arrays:
            raise BadFileError(f"{path}: has no array {name!r}, was not written by allocopt train lns-prices")
        if arrays[name].shape != shape:
            raise BadFileError(f"{path}: {name} has shape {arrays[name].shape}, must be {shape}: train it again")
    weights = Weights(*(np.ascontiguousarray(arrays[name]) for name in SHAPES))
    return weights, network_of(weights)
