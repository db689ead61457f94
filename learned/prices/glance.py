"""One glance at a window: everything that the guided search begins with, in one kernel."""

from typing import NamedTuple

import numpy as np
from numba import boolean, float64, int64, njit, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.insertion import INSERTION_STATE, InsertionState, combine_children, fill_table
from allocopt.kernels.tree import GROUP_TREE, GroupTree
from learned.prices.dual import dual_bound
from learned.prices.features import features_of
from learned.prices.insertion import insert_priced
from learned.prices.network import PREDICTION, WEIGHTS, Prediction, Weights, predict

FEW_JOBS, TOLERANCE = 30, 0.15
"""Number of jobs up to which every job is charged exactly, and the relative error of the charge beyond."""


class Glance(NamedTuple):
    """What is seen of a window at one glance.

    Parameters
    ----------
    prediction
        Prices, worths and scores.
    alone
        What each job would save if it had all idle nodes for itself, in hops, shape ``(J,)``.
    priced
        The same less what it would pay at the predicted prices; as ``alone`` where no bound was asked for.
    most
        No allocation saves more, by the predicted prices, in hops; infinity where that was not asked for.
    saving
        What the first allocation saves, in hops.
    first, length, leaf, nodes
        Who holds what in it: see `heuristics.lns.state.Holdings`.
    """

    prediction: Prediction
    alone: FloatArray
    priced: FloatArray
    most: float
    saving: float
    first: IntArray
    length: IntArray
    leaf: IntArray
    nodes: IntArray


GLANCE = types.NamedTuple((PREDICTION, float64[::1], float64[::1], float64, float64, *[int64[::1]] * 4), Glance)


@njit(INSERTION_STATE(GROUP_TREE, int64), cache=True, nogil=True)
def untied_state(tree: GroupTree, largest: int) -> InsertionState:
    """Allocate a state without tie break in which all nodes are idle; its tables are not filled.

    Parameters
    ----------
    tree
        The groups.
    largest
        Nodes of the largest job.
    """
    n_vertices, widest = tree.idle.size, 1
    offset = np.zeros(n_vertices + 1, dtype=np.int64)
    for vertex in range(n_vertices):
        offset[vertex + 1] = offset[vertex] + min(tree.idle[vertex], largest) + 1
        widest = max(widest, tree.first_child[vertex + 1] - tree.first_child[vertex])
    return InsertionState(
        tree.idle.copy(),
        offset,
        np.empty(offset[n_vertices]),
        np.empty((widest + 1, largest + 1)),
        np.zeros(n_vertices, dtype=np.int64),
        np.zeros(widest + 1, dtype=np.int64),
        tree.idle.copy(),
        np.zeros(tree.leaf_first.size - 1),
        0.0,
    )


@njit(float64[::1](GROUP_TREE, INSERTION_STATE, int64), cache=True, nogil=True)
def savings_alone(tree: GroupTree, state: InsertionState, largest: int) -> FloatArray:
    """Return what a job of 0 .. ``largest`` nodes saves that has the tree for itself, in hops."""
    top = tree.idle.size - 1
    for vertex in range(top):
        fill_table(tree, state, vertex, largest)
    savings = np.zeros(largest + 1)
    n_children = tree.first_child[top + 1] - tree.first_child[top]
    if n_children > 0:
        combine_children(tree, state, top, largest)
        for k in range(1, largest + 1):
            savings[k] = state.prefix[n_children, k] / k
    return savings


@njit(GLANCE(GROUP_TREE, int64[::1], PREDICTION, float64, boolean), cache=True, nogil=True)
def follow(tree: GroupTree, sizes: IntArray, prediction: Prediction, fading: float, is_bounded: bool) -> Glance:
    """Compute the bounds and insert the jobs, as a prediction says.

    Parameters
    ----------
    tree
        The groups.
    sizes
        Nodes of each job, shape ``(J,)``.
    prediction
        What to follow.
    fading
        See `learned.prices.insertion.insert_priced`.
    is_bounded
        Whether to compute the bound of the predicted prices.
    """
    largest = sizes.max()
    state = untied_state(tree, largest)
    alone = savings_alone(tree, state, largest)
    most, priced = np.inf, alone.copy()
    if is_bounded:
        of_size = np.bincount(sizes)
        distinct = np.flatnonzero(of_size)
        spare, values = np.empty(prediction.prices.size), np.empty(distinct.size)
        most = dual_bound(tree, state, distinct, of_size[distinct], prediction.prices, spare, values)
        for r in range(distinct.size):
            priced[distinct[r]] = values[r]
    counts = np.empty((sizes.size, prediction.worth.size), dtype=np.int64)
    order = np.argsort(-prediction.order, kind="mergesort")
    tolerance = 0.0 if sizes.size <= FEW_JOBS else TOLERANCE
    saving = insert_priced(tree, state, sizes, order, prediction.worth, fading, tolerance, counts)
    first = np.zeros(sizes.size + 1, dtype=np.int64)
    first[1:] = np.cumsum(sizes)
    length, leaf, nodes = (
        np.zeros(sizes.size, dtype=np.int64),
        np.zeros(first[-1], dtype=np.int64),
        np.zeros(first[-1], dtype=np.int64),
    )
    for job in range(sizes.size):
        for vertex in range(counts.shape[1]):
            if counts[job, vertex] > 0:
                entry = first[job] + length[job]
                leaf[entry], nodes[entry] = vertex, counts[job, vertex]
                length[job] += 1
    return Glance(prediction, alone[sizes], priced[sizes], most, saving, first, length, leaf, nodes)


@njit(GLANCE(GROUP_TREE, int64[::1], WEIGHTS, float64, boolean), cache=True, nogil=True)
def glance(tree: GroupTree, sizes: IntArray, weights: Weights, fading: float, is_bounded: bool) -> Glance:
    """Ask the network, and follow it; see `follow`."""
    return follow(tree, sizes, predict(weights, features_of(tree, sizes)), fading, is_bounded)
