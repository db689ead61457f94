"""A tree of groups in which similar groups are one class.

Groups below a level are merged with all others of their level under the same group of that level. A class offers what
any of its members offers, as often as it is asked; so no job finds less in a merged tree than in the tree itself.
"""

import itertools
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.problems.encoding import Encoding


class MergedTree(NamedTuple):
    """Classes of groups, those of leaves first, then level by level; the last one is the top.

    A *part* is what one job takes of one group; its row, under which its price stands, is ``first[v] + k`` for k nodes
    of a group of class v. The top has no parts. A *stock* is a number of groups of equal class and idle nodes.

    Parameters
    ----------
    first_child, children
        The children of class v are ``children[first_child[v] : first_child[v + 1]]``.
    weight
        What the squared nodes of a part of a class save, shape ``(V,)``; 0 at the top.
    members
        Number of groups of each class, shape ``(V,)``.
    widest
        Nodes of the largest part of a class, shape ``(V,)``; those of the largest job at the top.
    first
        Row of the part of 0 nodes of each class, shape ``(V + 1,)``; the last two are equal.
    stock_class, stock_idle, stock_count
        Class and idle nodes of the groups of each stock, both rising, and their number, shape ``(stocks,)``.
    worth_first
        The worth of c idle nodes of a group of class v is kept at ``worth_first[v] + c``, shape ``(V + 1,)``.
    """

    first_child: IntArray
    children: IntArray
    weight: FloatArray
    members: IntArray
    widest: IntArray
    first: IntArray
    stock_class: IntArray
    stock_idle: IntArray
    stock_count: IntArray
    worth_first: IntArray

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.first[-1])


MERGED_TREE = types.NamedTuple((int64[::1], int64[::1], float64[::1], *(int64[::1],) * 7), MergedTree)


class Merging:
    """The classes of a problem's groups.

    Parameters
    ----------
    encoding
        The problem.
    level
        Groups of this level and above stay apart, groups below are merged. Levels count from 0, the leaves, where no
        group is merged, to ``L - 1``, the top, under which all groups of a level are.
    """

    def __init__(self, encoding: Encoding, level: int) -> None:
        levels = np.vstack((encoding.groups, np.zeros((1, encoding.n_idle), dtype=np.int64)))
        labels = levels.copy()
        labels[:level] = levels[level]
        counts = labels.max(axis=1) + 1
        labels += np.concatenate(([0], np.cumsum(counts)[:-1]))[:, None]
        self.class_of_group = [_owner_of_groups(*pair) for pair in zip(levels[:-1], labels[:-1], strict=True)]
        """Class of every group, level by level below the top."""
        parent = np.full(int(counts.sum()), -1, dtype=np.int64)
        for lower, upper in itertools.pairwise(labels):
            parent[lower] = upper
        weight = np.repeat(np.append(encoding.weights, 0.0), counts)
        self.tree = _tree(parent, weight, self._stocks(encoding), int(encoding.sizes.max()))

    def _stocks(self, encoding: Encoding) -> IntArray:
        """Class, idle nodes and number of the groups of each stock, shape ``(3, stocks)``."""
        if not self.class_of_group:
            return np.zeros((3, 0), dtype=np.int64)
        idle = np.concatenate([np.bincount(groups) for groups in encoding.groups])
        pairs, count = np.unique(np.stack((np.concatenate(self.class_of_group), idle)), axis=1, return_counts=True)
        return np.vstack((pairs, count))


def _owner_of_groups(groups: IntArray, labels: IntArray) -> IntArray:
    """Class of every group, given group and class of every position."""
    owner = np.zeros(int(groups.max()) + 1, dtype=np.int64)
    owner[groups] = labels
    return owner


def _tree(parent: IntArray, weight: FloatArray, stocks: IntArray, largest: int) -> MergedTree:
    """Collect the arrays."""
    owner, idle, count = (np.ascontiguousarray(row) for row in stocks)
    n_classes = len(parent)
    children = np.argsort(parent, kind="stable")[1:]
    members, most_idle = np.zeros(n_classes, dtype=np.int64), np.zeros(n_classes, dtype=np.int64)
    np.add.at(members, owner, count)
    np.maximum.at(most_idle, owner, idle)
    widest = np.minimum(most_idle, largest)
    members[-1], widest[-1] = 1, largest
    return MergedTree(
        np.searchsorted(parent[children], np.arange(n_classes + 1)),
        children,
        weight,
        members,
        widest,
        np.concatenate(([0], np.cumsum(np.append(widest[:-1] + 1, 0)))),
        owner,
        idle,
        count,
        np.concatenate(([0], np.cumsum(most_idle + 1))),
    )
