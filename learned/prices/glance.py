"""One glance at a window: everything that the guided search begins with, in one kernel."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import put, stable_order
from allocopt.kernels.compiled import helper, kernel
from allocopt.kernels.insertion import fill_tables, idle_state, single_job_savings
from allocopt.kernels.random import folded
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from heuristics.topology.lns.state import (
    MOVES,
    STATE,
    Holdings,
    Moves,
    State,
    Window,
    begin_at,
    no_holdings,
    note_nodes,
)
from learned.prices.features import features_of
from learned.prices.insertion import bound_alone, insert_priced
from learned.prices.network import NETWORK, Network, Prediction, Weights, predict

FEW_JOBS, TOLERANCE = 30, 0.15
"""Number of jobs up to which every job is charged exactly, and the relative error of the charge beyond."""
BEGUN = types.Tuple((STATE, float64))


class Glance(NamedTuple):
    """What is seen of a window at one glance."""

    prediction: Prediction  # Prices, worths and scores
    alone: FloatArray  # What each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``
    # The same less what it would pay at the predicted prices; as ``alone`` where no bound was asked for
    priced: FloatArray
    most: float  # No allocation saves more, by the predicted prices, in hops; infinity where that was not asked for
    saving: float  # What the first allocation saves, in hops
    holdings: Holdings  # Who holds what in it; savings are not computed


@helper(allocates=True)
def follow(tree: GroupTree, sizes: IntArray, prediction: Prediction, fading: float, is_bounded: bool) -> Glance:
    """Insert jobs of these sizes as a prediction says, and compute the bounds, that of its prices if asked for."""
    largest = sizes.max()
    state = idle_state(tree, largest, 0.0)
    fill_tables(tree, state, largest)
    alone = single_job_savings(tree, state, largest)
    for size in range(1, largest + 1):
        alone[size] /= size
    most, priced = np.inf, alone.copy()
    if is_bounded:
        of_size = np.bincount(sizes)
        distinct = np.flatnonzero(of_size)
        values = np.empty(distinct.size)
        most = bound_alone(tree, state, distinct, of_size[distinct], prediction.prices, values)
        for r in range(distinct.size):
            priced[distinct[r]] = values[r]
    counts = np.empty((sizes.size, prediction.worth.size), dtype=np.int64)
    order = stable_order(-prediction.order)
    tolerance = 0.0 if sizes.size <= FEW_JOBS else TOLERANCE
    saving = insert_priced(tree, state, sizes, order, prediction.worth, fading, tolerance, counts)
    holdings = no_holdings(sizes)
    for job in range(sizes.size):
        note_nodes(holdings, counts[job], job)
    return Glance(prediction, alone[sizes], priced[sizes], most, saving, holdings)


@helper(allocates=True)
def glance(tree: GroupTree, sizes: IntArray, weights: Weights, fading: float, is_bounded: bool) -> Glance:
    """Ask the network, and follow it; see `follow`."""
    return follow(tree, sizes, predict(weights, features_of(tree, sizes)), fading, is_bounded)


@helper(allocates=True)
def begin_following(
    tree: GroupTree,
    sizes: IntArray,
    prediction: Prediction,
    fading: float,
    hunt: float,
    most_removed: int,
    moves: Moves,
    seed: int,
) -> tuple[State, float]:
    """Begin the guided search as a prediction says; return its state, and what no allocation saves more than, in hops.

    Destruction scores are multiplied by ``hunt``; see `insert_priced` for ``fading``, and `begin_at` for the rest.
    """
    seen = follow(tree, sizes, prediction, fading, True)
    state = begin_at(tree, sizes, seen.holdings, seen.priced, most_removed, moves, seed)
    put(prediction.worth, state.groups.worth)
    put(prediction.prices, state.groups.price)
    put(hunt * prediction.destruction, state.search.eagerness)
    return state, min(seen.alone.sum(), seen.most)


@kernel(
    types.Tuple((STATE, float64))(GROUP_TREE, int64[::1], NETWORK, float64, float64, int64, MOVES, int64),
    allocates=True,
)
def begin_guided(
    tree: GroupTree,
    sizes: IntArray,
    network: Network,
    fading: float,
    hunt: float,
    most_removed: int,
    moves: Moves,
    seed: int,
) -> tuple[State, float]:
    """Ask the network, and begin as it says; see `begin_following`."""
    prediction = predict(network.weights, features_of(tree, sizes))
    return begin_following(tree, sizes, prediction, fading, hunt, most_removed, moves, seed)


def guided_state(
    window: Window, network: Network, fading: float, hunt: float, most_removed: int, moves: Moves, seed: int
) -> tuple[State, float]:
    """Begin the guided search of a window; see `begin_following`."""
    sizes = window.encoding.sizes
    state, most = begin_guided(window.tree, sizes, network, fading, hunt, most_removed, moves, folded(seed))
    return state, float(most)
