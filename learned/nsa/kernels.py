"""Repair as a decision process, in kernels (NSA paper, section V-B).

A state is a matrix of ``q`` nodes by 4 or 5 features, kept feature by feature: parent switch
and pod of the first q nodes of the idle sequence, numbered from 1 and divided by their number; nodes that the job asks
for; mean number that the other removed jobs ask for; both divided by the most that a job asks for. The fifth feature,
which the paper does not print, is 1 for every node. Places without a node hold 0.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64, types, void

from allocopt.arrays import Encoding, Float32Array, IntArray
from allocopt.cluster.topology import FatTree
from allocopt.kernels.arrays import tuple_type
from allocopt.kernels.compiled import helper, kernel
from allocopt.kernels.tree import ENCODING
from allocopt.problems.topology import TopologyProblem
from heuristics.topology.annealing import (
    DRAWS,
    RULES,
    WALK,
    Rules,
    Walk,
    accept_or_not,
    cost_at,
    go_back,
    insert_job,
    is_non_crossing,
    remove_jobs,
)
from learned.nsa.networks import BUFFERS, PACKED_NETWORK, Buffers, PackedNetwork, forward

LARGEST_JOB = 40.0
"""Most nodes that a job of the paper's workload asks for: the scale of the third and fourth feature."""


def node_features(problem: TopologyProblem) -> Float32Array:
    """Parent switch and pod of every idle node, numbered from 1 and divided by their number, shape ``(2, m)``.

    On other trees the pod is the group just below the top; without groups all nodes are alike.
    """
    groups = problem.topology.groups_of(problem.idle_nodes)
    if not len(groups):
        return np.ones((2, len(problem.idle_nodes)), dtype=np.float32)
    tree = problem.topology
    if isinstance(tree, FatTree):
        counts = np.array([tree.pods * tree.leaves_per_pod, tree.pods])
    else:
        counts = tree.groups_of(np.arange(tree.size)).max(axis=1) + 1
    return np.stack([(groups[level] + 1) / counts[level] for level in (0, -1)]).astype(np.float32)


class Guide(NamedTuple):
    """What the walk asks for first nodes."""

    # The policy, and working space for it
    network: PackedNetwork
    buffers: Buffers
    nodes: Float32Array  # Switch and pod of every idle position as a state shows them, shape ``(2, m)``
    # Shape of a state: 4 or 5, and q
    n_features: int
    n_actions: int
    sharpness: float  # What logits are multiplied by before an action is drawn: 1 draws as the policy was trained


GUIDE = tuple_type((PACKED_NETWORK, BUFFERS, float32[:, ::1], int64, int64, float64), Guide)


@helper(allocates=True)
def write_state(
    nodes: Float32Array, idle: IntArray, size: float, others: float, n_features: int, state: Float32Array
) -> int:
    """Write the state of a repair, shape ``(n_features * q,)``, and return how many actions are legal.

    Size and others are the third and the fourth feature; see `Guide` for the nodes.
    """
    q = state.size // n_features
    n = min(q, idle.size)
    for i in range(n):
        state[i] = nodes[0, idle[i]]
        state[q + i] = nodes[1, idle[i]]
    for feature in range(2, n_features):
        value = size if feature == 2 else (others if feature == 3 else 1.0)
        state[feature * q : feature * q + n] = value
    for feature in range(n_features):
        state[feature * q + n : (feature + 1) * q] = 0.0
    return n


@helper(allocates=True)
def asked_by_others(sizes: IntArray, jobs: IntArray) -> float:
    """Mean number of nodes of the jobs that are placed after the first one, 0 where there is none."""
    asked = 0
    for i in range(1, jobs.size):
        asked += sizes[jobs[i]]
    return asked / max(jobs.size - 1, 1)


@helper(allocates=True)
def draw_action(logits: Float32Array, sharpness: float, rng: np.random.Generator) -> int:
    """Draw an action with probability proportional to ``exp(sharpness * logit)``; overwrites the logits."""
    highest = logits.max()
    total = 0.0
    for i in range(logits.size):
        total += np.exp(sharpness * (logits[i] - highest))
        logits[i] = total
    below = rng.random() * total
    action = 0
    while action < logits.size - 1 and logits[action] <= below:
        action += 1
    return action


@helper(allocates=True)
def repair(
    window: Encoding,
    walk: Walk,
    guide: Guide,
    jobs: IntArray,
    idle: IntArray,
    n_idle: int,
    block: IntArray,
    counts: IntArray,
    state: Float32Array,
    rng: np.random.Generator,
) -> None:
    """Re-insert the removed jobs one after the other where the policy says, and write their costs."""
    for i in range(jobs.size):
        size = window.sizes[jobs[i]]
        others = asked_by_others(window.sizes, jobs[i:]) / LARGEST_JOB
        n = write_state(guide.nodes, idle[:n_idle], size / LARGEST_JOB, others, guide.n_features, state)
        logits = forward(guide.network, guide.buffers, state)[:n]
        first = draw_action(logits, guide.sharpness, rng)
        n_idle = insert_job(walk.working, jobs[i], first, idle, n_idle, block[:size])
        walk.working_costs[jobs[i]] = cost_at(window, block[:size], counts)


@kernel(void(ENCODING, WALK, RULES, GUIDE, int64, int64, types.npy_rng), allocates=True)
def anneal_guided(
    window: Encoding, walk: Walk, rules: Rules, guide: Guide, first: int, last: int, rng: np.random.Generator
) -> None:
    """Take the steps ``first .. last - 1`` of neural simulated annealing (Algorithm 1); the walk changes in place.

    Where it must be non-crossing, a move that crosses is drawn again, some times at most.
    """
    m, largest = walk.working.size, window.sizes.max()
    jobs = np.arange(window.sizes.size)
    idle = np.empty(m + largest, dtype=np.int64)
    block = np.empty(largest, dtype=np.int64)
    counts = np.zeros(m, dtype=np.int64)
    state = np.empty(guide.n_features * guide.n_actions, dtype=np.float32)
    most = min(rules.most_removed, jobs.size)
    for step in range(first, last):
        accepts = False
        for _ in range(DRAWS):
            count, n_idle = remove_jobs(window, walk, most, jobs, idle, rng)
            repair(window, walk, guide, jobs[:count], idle, n_idle, block, counts, state, rng)
            accepts = not rules.non_crossing or is_non_crossing(walk.working, window.sizes)
            if accepts:
                break
            go_back(walk)
        if accepts:
            accept_or_not(walk, rules, step, rng)
