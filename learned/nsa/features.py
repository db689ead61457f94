"""What a state shows of the nodes of a window."""

import numpy as np

from allocopt.arrays import Float32Array, IntArray
from allocopt.cluster.topology import FatTree, Topology
from allocopt.problems.topology import TopologyProblem

LARGEST_JOB = 40
"""Most nodes that a job of the paper's workload asks for: the scale of the third and fourth feature."""


def node_features(problem: TopologyProblem) -> Float32Array:
    """Parent switch and pod of every idle node, numbered from 1 and divided by their number, shape ``(2, m)``.

    On other trees the pod is the group just below the top; without groups all nodes are alike.
    """
    groups = problem.topology.groups_of(problem.idle_nodes)
    if not len(groups):
        return np.ones((2, len(problem.idle_nodes)), dtype=np.float32)
    counts = _group_counts(problem.topology)
    return np.stack([(groups[level] + 1) / counts[level] for level in (0, -1)]).astype(np.float32)


def _group_counts(topology: Topology) -> IntArray:
    """Return the number of groups per level below the top."""
    if isinstance(topology, FatTree):
        return np.array([topology.pods * topology.leaves_per_pod, topology.pods])
    return np.asarray(topology.groups_of(np.arange(topology.size)).max(axis=1) + 1, dtype=np.int64)
