"""Bounds from blocks that are placed independently: a Lagrangian bound by leaf prices, and the savings still possible.

Leaves have prices, and every block takes its best reply to them, independently of the others. Subgradient steps raise
the bound.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float64, int64, void

from allocopt.arrays import FloatArray, IntArray
from allocopt.formulations.topology.dcas.window import WINDOW, DcasWindow
from allocopt.kernels.arrays import put, record_type
from allocopt.kernels.compiled import inlined, kernel
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, fill_table, insertion_state, place_job
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from allocopt.solving.budget import Clock

ITERATIONS = 120
LOOKS = 6  # number of looks at the clock in an ascent
# MOMENTUM is the weight of the last direction in the next one. After PATIENCE steps without a better bound, steps get
# shorter by the factor SLOWER.
MOMENTUM, PATIENCE, SLOWER = 0.6, 4, 0.7


class _Ascent(NamedTuple):
    price: FloatArray  # prices of the best bound so far, by leaf
    replies: FloatArray  # saving less prices of the best reply of each class to `price`
    trial: FloatArray  # prices of the current step
    direction: FloatArray  # direction of the last step
    excess: FloatArray  # nodes taken in excess of the idle ones, by leaf, at the trial prices
    trial_replies: FloatArray  # replies to the trial prices
    pace: FloatArray  # length of steps relative to Polyak's, and number of steps since the bound last rose


@kernel(float64(WINDOW, GROUP_TREE, INSERTION_STATE, record_type(_Ascent), float64, float64, int64))
def _ascend(
    window: DcasWindow,
    tree: GroupTree,  # tree of the window
    state: InsertionState,  # all nodes idle
    space: _Ascent,
    best: float,  # bound of `space.price`, or minus infinity before the first step
    upper: float,  # target of the steps, no less than the optimum, such as the cost of an allocation
    iterations: int,
) -> float:
    """Raise the bound by subgradient steps; return it, and write its prices and replies to ``space``."""
    price, trial, direction, excess, pace = space.price, space.trial, space.direction, space.excess, space.pace
    for _ in range(iterations):
        bound = 0.0
        for leaf in range(price.size):
            bound -= trial[leaf] * tree.idle[leaf]
            excess[leaf] = -tree.idle[leaf]
        for c in range(window.sizes.size):
            n, factor, reply = window.sizes[c], window.factor[c], 0.0
            if factor == 0.0:
                # Factor 0 marks the class of the leftover, the idle nodes that no job gets. It has no hop cost, so its
                # best reply is the cheapest nodes.
                for leaf in range(price.size):
                    state.take[leaf] = 0
                while n > 0:
                    cheapest, least = -1, np.inf
                    for leaf in range(price.size):
                        if state.take[leaf] == 0 and trial[leaf] < least:
                            cheapest, least = leaf, trial[leaf]
                    state.take[cheapest] = min(n, tree.idle[cheapest])
                    n -= state.take[cheapest]
            else:
                for leaf in range(price.size):
                    state.price[leaf] = trial[leaf] / factor
                for vertex in range(tree.idle.size - 1):
                    fill_table(tree, state, vertex, n)
                place_job(tree, state, n)
                for vertex in range(tree.idle.size - 1):
                    reply += factor * tree.weight[vertex] * state.take[vertex] * state.take[vertex]
            for leaf in range(price.size):
                reply -= trial[leaf] * state.take[leaf]
                excess[leaf] += window.counts[c] * state.take[leaf]
            space.trial_replies[c] = reply
            bound += window.counts[c] * (window.base[c] - reply)
        if bound > best:
            best, pace[1] = bound, 0.0
            put(trial, price)
            put(space.trial_replies, space.replies)
        else:
            pace[1] += 1.0
        if pace[1] == PATIENCE:
            pace[0], pace[1] = pace[0] * SLOWER, 0.0
        norm = 0.0
        for leaf in range(price.size):
            # A share of the last direction damps the zigzag of plain subgradients.
            direction[leaf] = excess[leaf] + MOMENTUM * direction[leaf]
            norm += direction[leaf] * direction[leaf]
        if norm == 0.0:
            break
        step = pace[0] * max(0.0, upper - bound) / norm
        for leaf in range(price.size):
            trial[leaf] += step * direction[leaf]
    return best


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices of leaves and the bound that they prove, in the unit of cost."""

    leaf: FloatArray  # price of a node of each leaf
    best: FloatArray  # saving less prices of the best reply of a block of each class
    bound: float  # lower bound on the cost of any disjoint node sets

    @classmethod
    def none(cls, window: DcasWindow) -> "Prices":
        """Return prices of zero; their bound is that of placing every block as if it were the only one."""
        return cls(np.zeros(len(window.pod)), np.zeros(len(window.sizes)), -np.inf).raised(window, np.inf)

    def raised(self, window: DcasWindow, upper: float, clock: Clock | None = None) -> "Prices":
        """Return prices with a higher bound, if found, after some steps within the time, or one step without a clock.

        ``upper`` is the cost of a known allocation.
        """
        leaf, best, bound = self.leaf.copy(), self.best.copy(), self.bound
        direction, excess = np.zeros((2, len(leaf)))
        space = _Ascent(leaf, best, leaf.copy(), direction, excess, np.zeros(len(best)), np.array([1.0, 0.0]))
        n_pods, idle = len(window.pod_start) - 1, np.diff(window.leaf_start)
        tree = GroupTree(
            first_child=np.concatenate((np.zeros(len(leaf), dtype=np.int64), window.pod_start, [len(leaf) + n_pods])),
            children=np.arange(len(leaf) + n_pods),
            weight=np.repeat([*window.weights, 0.0], (len(leaf), n_pods, 1)),
            idle=np.concatenate((idle, np.diff(window.leaf_start[window.pod_start]), [idle.sum()])),
            leaf_positions=np.arange(len(window.leaf)),
            leaf_first=window.leaf_start,
        )
        # No tie break: prices already distinguish equal leaves, and a tie break would make the bound too high.
        state = insertion_state(tree, int(window.sizes[window.factor > 0].max()))._replace(tie_break=0.0)
        for _ in range(LOOKS if clock is not None else 1):
            if (clock is not None and clock.expired()) or bound >= upper:
                break
            number = ITERATIONS // LOOKS if clock is not None else 1
            bound = _ascend(window, tree, state, space, bound, upper, number)
        return Prices(leaf, best, bound)


class Reach(NamedTuple):
    """Largest savings less prices of a block's nodes left of a leaf, wherever the block's other nodes are.

    The value for ``rest`` nodes left of leaf g, if ``inside`` other nodes are in the pod of leaf g - 1, is entry
    ``offset[c] + (g * (n_c + 1) + rest) * width[c] + inside`` of the tables. The width of the leftover is 1.
    """

    price: FloatArray  # `Prices.leaf`
    best: FloatArray  # `Prices.best`
    tables: FloatArray
    offset: IntArray
    width: IntArray


REACH = record_type(Reach)


@inlined
def left_saving(window: DcasWindow, reach: Reach, c: int, leaf: int, room: int, rest: int, x: int, y: int) -> float:
    """Return the most that ``rest`` nodes save, less prices, in ``room`` nodes of a leaf and in the leaves left of it.

    The block has x nodes in the leaf already, and y in its pod.
    """
    n, width = window.sizes[c], reach.width[c]
    in_leaf, in_pod = window.factor[c] * window.weights[0], window.factor[c] * window.weights[1]
    inside = 1 if width > 1 and leaf > 0 and window.pod[leaf - 1] == window.pod[leaf] else 0
    start = reach.offset[c] + (leaf * (n + 1) + rest) * width + inside * y
    best = -np.inf
    for t in range(min(rest, room) + 1):
        value = t * (in_leaf * (2 * x + t) + in_pod * (2 * y + t) - reach.price[leaf])
        value += reach.tables[start + t * (inside - width)]
        if value > best:
            best = value
    return best


@kernel(void(WINDOW, REACH, int64, int64))
def fill_reach(window: DcasWindow, reach: Reach, c: int, leaf: int) -> None:
    """Fill ``reach.tables`` for a class and a leaf; the tables of earlier leaves must be filled already."""
    n, width = window.sizes[c], reach.width[c]
    for rest in range(n + 1):
        start = reach.offset[c] + (leaf * (n + 1) + rest) * width
        for inside in range(min(width, n - rest + 1)):
            if leaf == 0:
                reach.tables[start + inside] = 0.0 if rest == 0 else -np.inf
                continue
            room = window.leaf_start[leaf] - window.leaf_start[leaf - 1]
            reach.tables[start + inside] = left_saving(window, reach, c, leaf - 1, room, rest, 0, inside)


BOUND_KERNELS = (_ascend, fill_reach, insertion_state)  # compiled functions that bounds call from Python
