"""The idle sequence as DCAS sees it: leaves within pods, each an interval of a sequence cut at a good place."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import Encoding

MOST_LEVELS = 2
"""Levels of groups that tell nodes apart, below the top."""


class Sequence(NamedTuple):
    """Idle positions in circular order, cut between two pods, as intervals of leaves within intervals of pods.

    Parameters
    ----------
    leaf
        Leaf of each position, rising from 0, shape ``(m,)``.
    leaf_start
        First position of each leaf, and ``m`` at the end.
    pod
        Pod of each leaf, rising from 0.
    pod_start
        First leaf of each pod, and the number of leaves at the end.
    weights
        What the squared count of a job in a leaf and in a pod saves, in hops, shape ``(2,)``.
    """

    leaf: IntArray
    leaf_start: IntArray
    pod: IntArray
    pod_start: IntArray
    weights: FloatArray


SEQUENCE = types.NamedTuple((int64[::1], int64[::1], int64[::1], int64[::1], float64[::1]), Sequence)
"""Numba type of `Sequence`."""


def distinct_levels(encoding: Encoding) -> tuple[IntArray, FloatArray]:
    """Return groups and weights of the levels that tell nodes apart; equal ones are added up, lowest first.

    A level whose only group holds all idle nodes is left out: it saves the same for every allocation (see
    `formulations.dynamic.dcas.classes.classes_of`).
    """
    groups: list[IntArray] = []
    weights: list[float] = []
    for row, weight, count in zip(encoding.groups, encoding.weights, encoding.n_groups, strict=True):
        if count == 1:
            continue
        if groups and count == groups[-1].max() + 1:
            # Levels are nested: as many groups are the same groups.
            weights[-1] += float(weight)
            continue
        groups.append(row)
        weights.append(float(weight))
    return np.array(groups, dtype=np.int64).reshape(len(groups), encoding.n_idle), np.array(weights)


def cuts(groups: IntArray) -> IntArray:
    """Positions before which the circle can be cut so that all groups are intervals; none where there is no such."""
    if len(groups) == 0:
        return np.zeros(1, dtype=np.int64)
    begins = groups != np.roll(groups, 1, axis=1)
    if (begins.sum(axis=1) != groups.max(axis=1) + 1).any():
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(begins[-1]).astype(np.int64)


def sequence_from(groups: IntArray, weights: FloatArray, cut: int) -> Sequence:
    """Cut the circle before position ``cut``, which is one of `cuts`."""
    m = groups.shape[1]
    rolled = np.zeros((MOST_LEVELS, m), dtype=np.int64)
    padded = np.zeros(MOST_LEVELS)
    padded[: len(weights)] = weights
    for level, row in enumerate(np.roll(groups, -cut, axis=1)):
        rolled[level, 1:] = np.cumsum(row[1:] != row[:-1])
    leaf, pod_of = rolled
    leaf_start = np.concatenate(([0], np.flatnonzero(np.diff(leaf)) + 1, [m]))
    pod = pod_of[leaf_start[:-1]]
    pod_start = np.concatenate(([0], np.flatnonzero(np.diff(pod)) + 1, [len(pod)]))
    return Sequence(leaf, leaf_start, pod, pod_start, padded)
