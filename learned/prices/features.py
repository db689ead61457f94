"""What the network sees of a window: shares and ratios, none of which grows with the cluster.

Every number of a leaf or a job is within 0 .. 1 and made of sums over all leaves, pods (the groups next above the
leaves) and jobs: renumbering any of them renumbers the features and changes nothing else.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64, types

from allocopt.arrays import Float32Array, FloatArray, IntArray
from allocopt.kernels.arrays import put, stable_order
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.kernels.tree import GROUP_TREE, GroupTree

OF_VALUE = 9
"""Features of a number of idle nodes, which leaves and pods have alike."""
LEAF_FEATURES, JOB_FEATURES = 2 * OF_VALUE + 16, 12
MOST_SUMMED = 24
"""Jobs of which sums of sizes are made; more of them reach nearly every sum."""


class Features(NamedTuple):
    """What the network sees."""

    leaves: Float32Array  # Features of every leaf, shape ``(leaves, LEAF_FEATURES)``
    jobs: Float32Array  # Features of every job, shape ``(J, JOB_FEATURES)``
    pod: IntArray  # Pod of every leaf, numbered from 0, shape ``(leaves,)``
    # Idle nodes of every leaf as a share of all and of its pod's, shape ``(leaves,)``
    leaf_share: Float32Array
    pod_share: Float32Array
    job_share: Float32Array  # Nodes of every job as a share of all that are asked for, shape ``(J,)``
    unit: float  # Hops that a node saves at most per node of its job: the unit of prices


class Tables(NamedTuple):
    """What there is of every number x of nodes, ``0 .. most idle nodes of a pod``."""

    # Jobs of at most x nodes, and their nodes together
    jobs: IntArray
    nodes: FloatArray
    # The largest job of at most x nodes, and the smallest of more; 0 if there is none
    below: IntArray
    above: IntArray
    filled: IntArray  # Largest sum of job sizes that is at most x
    # Idle nodes of all leaves, and of all pods, that have more than x
    leaves: FloatArray
    pods: FloatArray


FEATURES = types.NamedTuple(
    (float32[:, ::1], float32[:, ::1], int64[::1], float32[::1], float32[::1], float32[::1], float64), Features
)


@inlined
def _ratio(a: float, b: float) -> float:
    return a / (a + b) if a + b > 0 else 0.0


@inlined
def _fill_sizes(tables: Tables, sizes: IntArray) -> None:
    most = tables.jobs.size - 1
    over = 0
    for size in sizes:
        if size <= most:
            tables.jobs[size] += 1
        elif over == 0 or size < over:
            over = size
    tables.above[most] = over
    for x in range(most - 1, -1, -1):
        tables.above[x] = x + 1 if tables.jobs[x + 1] > 0 else tables.above[x + 1]
    for x in range(1, most + 1):
        tables.below[x] = x if tables.jobs[x] > 0 else tables.below[x - 1]
        tables.nodes[x] = tables.nodes[x - 1] + tables.jobs[x] * x
        tables.jobs[x] += tables.jobs[x - 1]


@inlined
def _fill_sums(filled: IntArray, sizes: IntArray) -> None:
    most = filled.size - 1
    for x in range(1, most + 1):
        filled[x] = -1
    stride = (sizes.size + MOST_SUMMED - 1) // MOST_SUMMED
    for j in range(0, sizes.size, stride):
        for x in range(most, sizes[j] - 1, -1):
            if filled[x - sizes[j]] >= 0:
                filled[x] = x
    for x in range(1, most + 1):
        filled[x] = max(filled[x], filled[x - 1])


@inlined
def _fill_supply(supply: FloatArray, idle: IntArray) -> None:
    for x in idle:
        supply[x - 1] += x
    for x in range(supply.size - 2, -1, -1):
        supply[x] += supply[x + 1]


@inlined
def _write_value(
    row: Float32Array, tables: Tables, supply: FloatArray, x: int, asked: float, n_jobs: int, total: float, largest: int
) -> None:
    row[0] = (tables.nodes[x] + x * (n_jobs - tables.jobs[x])) / asked
    row[1] = tables.nodes[x] / asked
    row[2] = tables.below[x] / x
    row[3] = x / tables.above[x] if tables.above[x] > 0 else 1.0
    row[4] = tables.filled[x] / x
    row[5] = supply[x] / total
    row[6] = _ratio(supply[x - 1], asked - tables.nodes[x - 1])
    row[7] = _ratio(x, asked / n_jobs)
    row[8] = _ratio(x, largest)


@inlined
def _write_job(
    row: Float32Array, tables: Tables, n: int, asked: float, total: float, largest: int, most_leaf: int
) -> None:
    most = tables.jobs.size - 1
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
    row[9] = 1.0 - tables.nodes[n] / asked if fits else 0.0


@helper(allocates=True)
def pods_of(tree: GroupTree) -> tuple[IntArray, IntArray, float]:
    """Return the pod of every leaf, the vertex of every pod, and the most hops that a node saves of those per node."""
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
    """Look at a window of jobs of these sizes, shape ``(J,)``."""
    n_leaves, n_jobs = tree.leaf_first.size - 1, sizes.size
    pod, vertex_of, unit = pods_of(tree)
    n_pods = vertex_of.size
    leaf_idle, pod_idle = tree.idle[:n_leaves], tree.idle[vertex_of]
    total, asked, largest = float(tree.idle[-1]), float(sizes.sum()), sizes.max()
    most, most_leaf = pod_idle.max(), leaf_idle.max()
    whole, real = np.zeros((4, most + 1), dtype=np.int64), np.zeros((3, most + 1))
    tables = Tables(whole[0], real[0], whole[1], whole[2], whole[3], real[1], real[2])
    _fill_sizes(tables, sizes)
    _fill_sums(tables.filled, sizes[stable_order(sizes)])
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
    out = Features(
        np.empty((n_leaves, LEAF_FEATURES), dtype=np.float32),
        np.empty((n_jobs, JOB_FEATURES), dtype=np.float32),
        pod,
        np.empty(n_leaves, dtype=np.float32),
        np.empty(n_leaves, dtype=np.float32),
        np.empty(n_jobs, dtype=np.float32),
        unit,
    )
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
        row[24] = tables.nodes[rest] / asked
        row[25] = tables.filled[rest] / rest if rest > 0 else 1.0
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
        _write_job(row, tables, sizes[j], asked, total, largest, most_leaf)
        row[10] = asked / total
        row[11] = jobs_hhi
        out.job_share[j] = sizes[j] / asked
    return out
