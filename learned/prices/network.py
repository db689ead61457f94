"""Features of a window, the network's parameters as plain arrays, and its forward pass without torch.

The features are shares and ratios that do not grow with the cluster: every number of a leaf or a job is within 0 .. 1
and computed from sums over all leaves, pods (the groups directly above the leaves) and jobs. Leaves and jobs are
embedded one by one. The second layer also gets pooled embeddings: sums over all leaves and over all jobs and, for a
leaf, over the leaves of its pod. The sums are weighted by shares of nodes. So neither the numbering nor the number of
leaves, pods and jobs matters.
"""

from typing import Annotated, NamedTuple

import numpy as np
from numba import int64

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.kernels.arrays import put, record_type, stable_order
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.tree import GROUP_TREE, GroupTree

OF_VALUE = 9  # Number of features that describe the number of idle nodes of a leaf or a pod
LEAF_FEATURES, JOB_FEATURES = 2 * OF_VALUE + 16, 12
MOST_SUMMED = 24  # Most jobs whose sums of sizes are enumerated; with more, nearly every sum can be reached
WIDTH = 32  # Size of the embedding of a leaf or a job
Matrix = Annotated[Float32Array, 2]


class Features(NamedTuple):
    """Features of a window, the input of the network."""

    leaves: Matrix  # Features of every leaf, shape ``(leaves, LEAF_FEATURES)``
    jobs: Matrix  # Features of every job, shape ``(J, JOB_FEATURES)``
    pod: IntArray  # Pod of every leaf, numbered from 0, shape ``(leaves,)``
    # Idle nodes of every leaf as a share of all idle nodes, and of those of its pod, shape ``(leaves,)``
    leaf_share: Float32Array
    pod_share: Float32Array
    job_share: Float32Array  # Nodes of every job as a share of those of all jobs, shape ``(J,)``
    unit: float  # Most hops that a node can save per node of its job: the unit of prices


class _Tables(NamedTuple):
    """Sums over jobs, leaves and pods; unless noted, by a number x of nodes, ``0 .. most idle nodes of a pod``."""

    sizes: IntArray  # Sizes of the jobs, the smallest first; indexed by job
    before: FloatArray  # Sum of the nodes of the jobs before each job, and at the end of all jobs; indexed by job
    jobs: IntArray  # Number of jobs of at most x nodes
    filled: IntArray  # Largest sum of job sizes that is at most x
    # Sum of the idle nodes of all leaves, and of all pods, that have more than x idle nodes
    leaves: FloatArray
    pods: FloatArray


FEATURES = record_type(Features)


@inlined
def _ratio(a: float, b: float) -> float:
    return a / (a + b) if a + b > 0 else 0.0


@inlined
def _fill_supply(supply: FloatArray, idle: IntArray) -> None:
    for x in idle:
        supply[x - 1] += x
    for x in range(supply.size - 2, -1, -1):
        supply[x] += supply[x + 1]


@inlined
def _write_value(
    row: Float32Array,
    tables: _Tables,
    supply: FloatArray,
    x: int,
    asked: float,
    n_jobs: int,
    total: float,
    largest: int,
) -> None:
    n = tables.jobs[x]
    row[0] = (tables.before[n] + x * (n_jobs - n)) / asked
    row[1] = tables.before[n] / asked
    row[2] = tables.sizes[n - 1] / x if n > 0 else 0.0
    row[3] = x / tables.sizes[n] if n < n_jobs else 1.0
    row[4] = tables.filled[x] / x
    row[5] = supply[x] / total
    row[6] = _ratio(supply[x - 1], asked - tables.before[tables.jobs[x - 1]])
    row[7] = _ratio(x, asked / n_jobs)
    row[8] = _ratio(x, largest)


@helper(allocates=True)
def _pods_of(tree: GroupTree) -> tuple[IntArray, IntArray, float]:
    # Return the pod of every leaf, the vertex of every pod, and the unit of prices (`Features.unit`).
    n_leaves = tree.leaf_first.size - 1
    parent = np.full(tree.idle.size, tree.idle.size - 1)
    for vertex in range(tree.idle.size):
        for i in range(tree.first_child[vertex], tree.first_child[vertex + 1]):
            parent[tree.children[i]] = vertex
    number = np.full(tree.idle.size, -1)
    vertex_of = np.empty(n_leaves, dtype=np.int64)
    pod = np.empty(n_leaves, dtype=np.int64)
    n_pods = 0
    for leaf in range(n_leaves):
        vertex = parent[leaf]
        if number[vertex] < 0:
            number[vertex] = n_pods
            vertex_of[n_pods] = vertex
            n_pods += 1
        pod[leaf] = number[vertex]
    unit, vertex = 0.0, 0
    while vertex < tree.idle.size - 1:
        unit += tree.weight[vertex]
        vertex = parent[vertex]
    return pod, vertex_of[:n_pods].copy(), unit


@kernel(FEATURES(GROUP_TREE, int64[::1]), allocates=True)
def features_of(tree: GroupTree, sizes: IntArray) -> Features:
    """Return the features of a window of jobs of these sizes, shape ``(J,)``."""
    n_leaves, n_jobs = tree.leaf_first.size - 1, sizes.size
    pod, vertex_of, unit = _pods_of(tree)
    n_pods = vertex_of.size
    leaf_idle, pod_idle = tree.idle[:n_leaves], tree.idle[vertex_of]
    total, asked, largest = float(tree.idle[-1]), float(sizes.sum()), sizes.max()
    most, most_leaf = pod_idle.max(), leaf_idle.max()
    ordered, before, supply = sizes[stable_order(sizes)], np.zeros(n_jobs + 1), np.zeros((2, most + 1))
    before[1:] = np.cumsum(ordered)
    up_to = np.searchsorted(ordered, np.arange(most + 1), side="right")
    filled = np.full(most + 1, -1)
    filled[0] = 0
    for j in range(0, n_jobs, (n_jobs + MOST_SUMMED - 1) // MOST_SUMMED):
        for x in range(most, ordered[j] - 1, -1):
            if filled[x - ordered[j]] >= 0:
                filled[x] = x
    for x in range(1, most + 1):
        filled[x] = max(filled[x], filled[x - 1])
    tables = _Tables(ordered, before, up_to, filled, supply[0], supply[1])
    _fill_supply(tables.leaves, leaf_idle)
    _fill_supply(tables.pods, pod_idle)
    most_of_pod, squares = np.zeros(n_pods, dtype=np.int64), np.zeros(n_pods)
    leaves_of = np.zeros(n_pods)
    for leaf in range(n_leaves):
        leaves_of[pod[leaf]] += 1
        most_of_pod[pod[leaf]] = max(most_of_pod[pod[leaf]], leaf_idle[leaf])
        squares[pod[leaf]] += float(leaf_idle[leaf]) ** 2
    of_pods = np.empty((n_pods, OF_VALUE), dtype=np.float32)
    for i in range(n_pods):
        _write_value(of_pods[i], tables, tables.pods, pod_idle[i], asked, n_jobs, total, largest)
    pods_hhi = (pod_idle / total * (pod_idle / total)).sum()
    jobs_hhi = ((sizes / asked) ** 2).sum()
    leaf_share, pod_share = np.empty(n_leaves, dtype=np.float32), np.empty(n_leaves, dtype=np.float32)
    leaves, jobs = np.empty((n_leaves, LEAF_FEATURES), np.float32), np.empty((n_jobs, JOB_FEATURES), np.float32)
    out = Features(leaves, jobs, pod, leaf_share, pod_share, np.empty(n_jobs, np.float32), unit)
    for leaf in range(n_leaves):
        row, i, x = out.leaves[leaf], pod[leaf], leaf_idle[leaf]
        rest = pod_idle[i] - x
        _write_value(row, tables, tables.leaves, x, asked, n_jobs, total, largest)
        put(of_pods[i], row[OF_VALUE : 2 * OF_VALUE])
        row[18] = x / pod_idle[i]
        row[19] = 1.0 / leaves_of[i]
        row[20] = x / most_of_pod[i]
        row[21] = squares[i] / (float(pod_idle[i]) * pod_idle[i])
        row[22] = x / most_leaf
        row[23] = pod_idle[i] / most
        row[24] = before[up_to[rest]] / asked
        row[25] = filled[rest] / rest if rest > 0 else 1.0
        row[26] = tree.weight[leaf] / unit if unit > 0 else 0.0
        row[27] = asked / total
        row[28] = largest / asked
        row[29] = jobs_hhi
        row[30] = pods_hhi
        row[31] = pod_idle[i] / total
        row[32] = _ratio(most, largest)
        row[33] = _ratio(most_leaf, largest)
        out.leaf_share[leaf] = x / total
        out.pod_share[leaf] = x / pod_idle[i]
    for j in range(n_jobs):
        row = out.jobs[j]
        n = sizes[j]
        fits = n <= most
        row[0] = n / asked
        row[1] = n / total
        row[2] = n / largest
        row[3] = _ratio(n, most_leaf)
        row[4] = _ratio(n, most)
        row[5] = tables.leaves[n - 1] / total if fits else 0.0
        row[6] = tables.pods[n - 1] / total if fits else 0.0
        row[7] = (tables.leaves[n - 1] - tables.leaves[n]) / total if fits else 0.0
        row[8] = (tables.pods[n - 1] - tables.pods[n]) / total if fits else 0.0
        row[9] = 1.0 - before[up_to[n]] / asked if fits else 0.0
        row[10] = asked / total
        row[11] = jobs_hhi
        out.job_share[j] = n / asked
    return out


class Weights(NamedTuple):
    """The parameters, with the shapes of `SHAPES`; matrices have one row per input."""

    # From the features of leaves and of jobs to their embeddings
    leaf_in: Matrix
    leaf_in_bias: Float32Array
    job_in: Matrix
    job_in_bias: Float32Array
    # Second layer of a leaf: inputs are the embedding of the leaf, and those pooled over its pod, all leaves, all jobs
    leaf_own: Matrix
    leaf_pod: Matrix
    leaf_all: Matrix
    leaf_jobs: Matrix
    leaf_bias: Float32Array
    # Second layer of a job: inputs are the embedding of the job, and those pooled over all leaves and all jobs
    job_own: Matrix
    job_all: Matrix
    job_jobs: Matrix
    job_bias: Float32Array
    # Heads of leaves: price and worth; heads of jobs: order and destruction
    price: Matrix
    price_bias: Float32Array
    scores: Matrix
    scores_bias: Float32Array


class Prediction(NamedTuple):
    """Prices and scores that the network predicts for a window."""

    prices: FloatArray  # Prices for the bound: hops per node of every leaf, not negative
    # Prices for the insertion of jobs: what a node of every leaf is worth to later jobs, in hops, up to a constant
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
WEIGHTS, PREDICTION = record_type(Weights), record_type(Prediction)


@inlined
def _add_product(row: Float32Array, matrix: Float32Array, out: Float32Array) -> None:
    for i in range(row.size):
        factor = row[i]
        for k in range(WIDTH):
            out[k] += factor * matrix[i, k]


@inlined
def _set_positive(row: Float32Array) -> None:
    for i in range(row.size):
        # `max` handles NaN and cannot be vectorized.
        row[i] = row[i] if row[i] > np.float32(0.0) else np.float32(0.0)


@inlined
def _finish_columns(matrix: Float32Array, columns: Float32Array, out: Float32Array) -> None:
    # Add the product, then replace negative values by 0. The inner loop runs over all leaves, which vectorizes well.
    for k in range(WIDTH):
        target = out[k]
        for i in range(columns.shape[0]):
            factor, column = matrix[i, k], columns[i]
            for leaf in range(column.size):
                target[leaf] += factor * column[leaf]
        _set_positive(target)


@inlined
def _add_head(hidden: Float32Array, head: Float32Array, out: Float32Array) -> None:
    for k in range(WIDTH):
        factor, row = head[k], hidden[k]
        for leaf in range(out.size):
            out[leaf] += factor * row[leaf]


@helper(allocates=True)
def _pooled(features: Features, leaves: Float32Array, jobs: Float32Array) -> tuple[Float32Array, Float32Array]:
    # Return sums over the leaves of every pod, and the sums over all leaves and over all jobs.
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
    """Predict prices and worths of a window's leaves, and order and destruction scores of its jobs."""
    n_leaves, n_jobs = features.leaves.shape[0], features.jobs.shape[0]
    leaves = np.empty((WIDTH, n_leaves), dtype=np.float32)
    for k in range(WIDTH):
        leaves[k] = weights.leaf_in_bias[k]
    _finish_columns(weights.leaf_in, features.leaves.T.copy(), leaves)
    jobs = np.empty((n_jobs, WIDTH), dtype=np.float32)
    for job in range(n_jobs):
        put(weights.job_in_bias, jobs[job])
        _add_product(features.jobs[job], weights.job_in, jobs[job])
        _set_positive(jobs[job])
    pods, pooled = _pooled(features, leaves, jobs)
    of_window = weights.leaf_bias.copy()
    _add_product(pooled[0], weights.leaf_all, of_window)
    _add_product(pooled[1], weights.leaf_jobs, of_window)
    of_pods = np.empty_like(pods)
    for pod in range(pods.shape[0]):
        put(of_window, of_pods[pod])
        _add_product(pods[pod], weights.leaf_pod, of_pods[pod])
    hidden = np.empty((WIDTH, n_leaves), dtype=np.float32)
    for k in range(WIDTH):
        for leaf in range(n_leaves):
            hidden[k, leaf] = of_pods[features.pod[leaf], k]
    _finish_columns(weights.leaf_own, leaves, hidden)
    value, worth = np.full(n_leaves, weights.price_bias[0]), np.full(n_leaves, weights.price_bias[1])
    _add_head(hidden, weights.price[:, 0], value)
    _add_head(hidden, weights.price[:, 1], worth)
    out = Prediction(np.empty(n_leaves), np.empty(n_leaves), np.empty(n_jobs), np.empty(n_jobs))
    for leaf in range(n_leaves):
        x = np.float64(value[leaf])
        out.prices[leaf] = features.unit * (max(x, 0.0) + np.log1p(np.exp(-abs(x))))
        out.worth[leaf] = out.prices[leaf] + features.unit * worth[leaf]
    put(weights.job_bias, of_window)
    _add_product(pooled[0], weights.job_all, of_window)
    _add_product(pooled[1], weights.job_jobs, of_window)
    of_job = np.empty(WIDTH, dtype=np.float32)
    for job in range(n_jobs):
        put(of_window, of_job)
        _add_product(jobs[job], weights.job_own, of_job)
        _set_positive(of_job)
        order, destruction = weights.scores_bias[0], weights.scores_bias[1]
        for k in range(WIDTH):
            order += of_job[k] * weights.scores[k, 0]
            destruction += of_job[k] * weights.scores[k, 1]
        out.order[job], out.destruction[job] = order + 4.0 * features.jobs[job, 2], destruction
    return out
