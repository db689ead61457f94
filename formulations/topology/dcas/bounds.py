"""Bounds on blocks that are placed alone: the Lagrangian bound of leaf prices, and what a block can still save.

Leaves have prices, and every block is placed alone at its best reply; subgradient steps raise the bound.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put
from allocopt.kernels.compiled import inlined, kernel
from allocopt.solving.budget import Clock
from formulations.topology.dcas.window import CLASSES, SEQUENCE, Classes, Sequence

MOMENTUM, PATIENCE, SLOWER = 0.6, 4, 0.7
"""Part of the last direction in the next; steps without a better bound before they become shorter, and by what."""


class ReplySpace(NamedTuple):
    """Working space for best replies: products over the leaves of a pod and over the pods, and what they chose."""

    in_pod: FloatArray
    in_pod_choice: IntArray
    over_pods: FloatArray
    over_pods_choice: IntArray
    counts: IntArray


REPLY_SPACE = types.NamedTuple((float64[:, ::1], int64[:, ::1], float64[:, ::1], int64[:, ::1], int64[::1]), ReplySpace)


def reply_space(sequence: Sequence, largest: int) -> ReplySpace:
    """Allocate the space for jobs of at most ``largest`` nodes."""
    n_leaves, n_pods = len(sequence.pod), len(sequence.pod_start) - 1
    return ReplySpace(
        np.empty((n_leaves + n_pods, largest + 1)),
        np.empty((n_leaves, largest + 1), dtype=np.int64),
        np.empty((n_pods + 1, largest + 1)),
        np.empty((n_pods, largest + 1), dtype=np.int64),
        np.zeros(n_leaves, dtype=np.int64),
    )


@inlined
def _fill_pod(sequence: Sequence, price: FloatArray, n: int, factor: float, space: ReplySpace, pod: int) -> int:
    """Combine the leaves of a pod; return the most nodes it can give."""
    reach = 0
    space.in_pod[sequence.pod_start[pod] + pod, 0] = 0.0
    for leaf in range(sequence.pod_start[pod], sequence.pod_start[pod + 1]):
        before, after = space.in_pod[leaf + pod], space.in_pod[leaf + pod + 1]
        idle = sequence.leaf_start[leaf + 1] - sequence.leaf_start[leaf]
        reached = min(reach + idle, n)
        for k in range(reached + 1):
            best, choice = -np.inf, 0
            for t in range(max(0, k - reach), min(idle, k) + 1):
                value = before[k - t] + t * (factor * sequence.weights[0] * t - price[leaf])
                if value > best:
                    best, choice = value, t
            after[k] = best
            space.in_pod_choice[leaf, k] = choice
        reach = reached
    return reach


@inlined
def _trace(sequence: Sequence, n: int, space: ReplySpace) -> None:
    """Write what the best reply takes of every leaf to ``space.counts``."""
    k = n
    for pod in range(sequence.pod_start.size - 2, -1, -1):
        left = space.over_pods_choice[pod, k]
        k -= left
        for leaf in range(sequence.pod_start[pod + 1] - 1, sequence.pod_start[pod] - 1, -1):
            taken = space.in_pod_choice[leaf, left]
            space.counts[leaf] = taken
            left -= taken


@inlined
def best_reply(sequence: Sequence, price: FloatArray, n: int, factor: float, space: ReplySpace) -> float:
    """Largest saving, less prices, of a job of ``n`` nodes alone; its nodes by leaf go to ``space.counts``."""
    n_pods = sequence.pod_start.size - 1
    # A pod's rows of the leaf products begin with a row of their own, which is the pod's number further on.
    reach = 0
    space.over_pods[0, 0] = 0.0
    for pod in range(n_pods):
        most = _fill_pod(sequence, price, n, factor, space, pod)
        values = space.in_pod[sequence.pod_start[pod + 1] + pod]
        reached = min(reach + most, n)
        for k in range(reached + 1):
            best, choice = -np.inf, 0
            for t in range(max(0, k - reach), min(most, k) + 1):
                value = space.over_pods[pod, k - t] + values[t] + factor * sequence.weights[1] * t * t
                if value > best:
                    best, choice = value, t
            space.over_pods[pod + 1, k] = best
            space.over_pods_choice[pod, k] = choice
        reach = reached
    _trace(sequence, n, space)
    return float(space.over_pods[n_pods, n])


@inlined
def cheapest_nodes(sequence: Sequence, price: FloatArray, n: int, counts: IntArray) -> float:
    """Return minus the least total price of ``n`` nodes; the nodes by leaf go to ``counts``."""
    total, left = 0.0, n
    for leaf in range(counts.size):
        counts[leaf] = -1
    while left > 0:
        cheapest, least = -1, np.inf
        for leaf in range(counts.size):
            if counts[leaf] < 0 and price[leaf] < least:
                cheapest, least = leaf, price[leaf]
        taken = min(left, sequence.leaf_start[cheapest + 1] - sequence.leaf_start[cheapest])
        counts[cheapest] = taken
        total += taken * least
        left -= taken
    for leaf in range(counts.size):
        counts[leaf] = max(counts[leaf], 0)
    return -total


@inlined
def _bound_and_excess(
    sequence: Sequence, classes: Classes, price: FloatArray, replies: FloatArray, excess: FloatArray, space: ReplySpace
) -> float:
    """Bound by these prices; nodes asked for beyond the idle ones, by leaf, go to ``excess``."""
    bound = 0.0
    for leaf in range(price.size):
        idle = sequence.leaf_start[leaf + 1] - sequence.leaf_start[leaf]
        bound -= price[leaf] * idle
        excess[leaf] = -idle
    for c in range(classes.sizes.size):
        if classes.factor[c] == 0.0:
            replies[c] = cheapest_nodes(sequence, price, classes.sizes[c], space.counts)
        else:
            replies[c] = best_reply(sequence, price, classes.sizes[c], classes.factor[c], space)
        bound += classes.counts[c] * (classes.base[c] - replies[c])
        for leaf in range(price.size):
            excess[leaf] += classes.counts[c] * space.counts[leaf]
    return bound


@kernel(
    float64(
        SEQUENCE,
        CLASSES,
        float64[::1],
        float64[::1],
        float64[::1],
        float64[::1],
        float64[::1],
        REPLY_SPACE,
        float64[::1],
        float64,
        float64,
        int64,
    )
)
def ascend(
    sequence: Sequence,
    classes: Classes,
    price: FloatArray,
    replies: FloatArray,
    trial: FloatArray,
    direction: FloatArray,
    excess: FloatArray,
    space: ReplySpace,
    pace: FloatArray,
    best: float,
    upper: float,
    iterations: int,
) -> float:
    """Raise the bound by subgradient steps from ``price``; return it, with its prices and replies in place.

    Parameters
    ----------
    sequence, classes
        The window.
    price
        Prices of the best bound ``best`` so far, by leaf, written in place.
    replies
        Saving less prices of the best reply of each class to ``price``, written in place.
    trial, direction, excess
        Working space by leaf; ``trial`` holds the prices to go on from, ``direction`` the last direction.
    space
        Working space of the best replies.
    pace
        Length of the steps relative to Polyak's, and steps since the bound rose last; kept from call to call.
    best
        The bound of ``price``, or minus infinity.
    upper
        A target no less than the optimum.
    iterations
        Number of steps.
    """
    spare = excess[price.size :]
    for _ in range(iterations):
        bound = _bound_and_excess(sequence, classes, trial, spare, excess[: price.size], space)
        if bound > best:
            best, pace[1] = bound, 0.0
            put(trial, price)
            put(spare, replies)
        else:
            pace[1] += 1.0
        if pace[1] == PATIENCE:
            pace[0], pace[1] = pace[0] * SLOWER, 0.0
        norm = 0.0
        for leaf in range(price.size):
            direction[leaf] = excess[leaf] + MOMENTUM * direction[leaf]
            norm += direction[leaf] * direction[leaf]
        if norm == 0.0:
            break
        step = pace[0] * max(0.0, upper - bound) / norm
        for leaf in range(price.size):
            trial[leaf] += step * direction[leaf]
    return best


ITERATIONS = 120
LOOKS = 6
"""Looks at the clock while the bound rises."""


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices of leaves and what they prove.

    Parameters
    ----------
    leaf
        Price of a node of each leaf, in the unit of cost.
    best
        Saving less prices of a block of each class alone.
    bound
        Bound on the cost of any disjoint node sets.
    """

    leaf: FloatArray
    best: FloatArray
    bound: float


def no_prices(sequence: Sequence, classes: Classes) -> Prices:
    """Return the bound without prices: every block alone."""
    nothing = Prices(np.zeros(len(sequence.pod)), np.zeros(len(classes.sizes)), -np.inf)
    return _ascent(sequence, classes, nothing, np.inf, [1])


def good_prices(sequence: Sequence, classes: Classes, prices: Prices, upper: float, clock: Clock) -> Prices:
    """Raise the bound by a fixed number of subgradient steps, or fewer if the time runs out.

    Parameters
    ----------
    sequence, classes
        The window.
    prices
        To begin with.
    upper
        Cost of a known allocation.
    clock
        The running time.
    """
    steps = itertools.takewhile(lambda _: not clock.expired(), itertools.repeat(ITERATIONS // LOOKS, LOOKS))
    return _ascent(sequence, classes, prices, upper, steps)


def _ascent(sequence: Sequence, classes: Classes, prices: Prices, upper: float, steps: Iterable[int]) -> Prices:
    """Make some steps, and some more, until the bound reaches ``upper``."""
    leaf, best, bound = prices.leaf.copy(), prices.best.copy(), prices.bound
    trial, direction = leaf.copy(), np.zeros(len(leaf))
    excess = np.zeros(len(leaf) + len(best))
    pace = np.array([1.0, 0.0])
    space = reply_space(sequence, int(classes.sizes[classes.factor > 0].max()))
    for number in steps:
        if bound >= upper:
            break
        bound = ascend(sequence, classes, leaf, best, trial, direction, excess, space, pace, bound, upper, number)
    return Prices(leaf, best, bound)


class Reach(NamedTuple):
    """What a block can still save to the left of a leaf, prices paid.

    Parameters
    ----------
    price
        Price of a node of each leaf.
    best
        Largest saving less prices of a block of each class alone.
    tables
        Largest such saving for ``rest`` nodes left of leaf g, ``inside`` nodes of the block lying in the pod that ends
        there: entry ``offset[c] + (g * (n_c + 1) + rest) * width[c] + inside``.
    offset, width
        Shape ``(C,)``; the width of the leftover is 1, it saves nothing by lying close.
    """

    price: FloatArray
    best: FloatArray
    tables: FloatArray
    offset: IntArray
    width: IntArray


REACH = types.NamedTuple((float64[::1], float64[::1], float64[::1], int64[::1], int64[::1]), Reach)
"""Numba type of `Reach`."""


def empty_reach(sequence: Sequence, classes: Classes, price: FloatArray, best: FloatArray) -> Reach:
    """Allocate the tables of a window's prices, to be filled by `fill_reach`."""
    width = np.where(classes.factor > 0, classes.sizes + 1, 1)
    ends = np.cumsum(len(sequence.pod) * (classes.sizes + 1) * width)
    return Reach(price, best, np.empty(int(ends[-1])), np.concatenate(([0], ends[:-1])), width)


@inlined
def left_saving(
    sequence: Sequence, classes: Classes, reach: Reach, c: int, leaf: int, room: int, rest: int, x: int, y: int
) -> float:
    """Most that ``rest`` more nodes of a block can save, prices paid, on ``room`` positions of a leaf and left of it.

    The block has x nodes in the leaf already and y in its pod.
    """
    n, width = classes.sizes[c], reach.width[c]
    in_leaf, in_pod = classes.factor[c] * sequence.weights[0], classes.factor[c] * sequence.weights[1]
    inside = 1 if width > 1 and leaf > 0 and sequence.pod[leaf - 1] == sequence.pod[leaf] else 0
    start = reach.offset[c] + (leaf * (n + 1) + rest) * width + inside * y
    best = -np.inf
    for t in range(min(rest, room) + 1):
        value = t * (in_leaf * (2 * x + t) + in_pod * (2 * y + t) - reach.price[leaf])
        value += reach.tables[start + t * (inside - width)]
        if value > best:
            best = value
    return best


@kernel(void(SEQUENCE, CLASSES, REACH, int64, int64))
def fill_reach(sequence: Sequence, classes: Classes, reach: Reach, c: int, leaf: int) -> None:
    """Fill ``reach.tables`` for a class and a leaf; those of the leaves before are filled."""
    n, width = classes.sizes[c], reach.width[c]
    for rest in range(n + 1):
        start = reach.offset[c] + (leaf * (n + 1) + rest) * width
        for inside in range(min(width, n - rest + 1)):
            if leaf == 0:
                reach.tables[start + inside] = 0.0 if rest == 0 else -np.inf
                continue
            room = sequence.leaf_start[leaf] - sequence.leaf_start[leaf - 1]
            reach.tables[start + inside] = left_saving(sequence, classes, reach, c, leaf - 1, room, rest, 0, inside)
