"""The tree of groups that hold idle nodes, built from a problem's encoding."""

import numpy as np

from allocopt.kernels.tree import GroupTree
from allocopt.problems.encoding import Encoding


def group_tree(encoding: Encoding) -> GroupTree:
    """Return the tree of a problem's groups; a tree of one level has the top as its only leaf."""
    top = np.zeros((1, encoding.n_idle), dtype=np.int64)
    levels = np.vstack((encoding.groups, top))
    counts = np.append(encoding.n_groups, 1)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    parent = np.full(offsets[-1], -1, dtype=np.int64)
    for level in range(len(levels) - 1):
        parent[levels[level] + offsets[level]] = levels[level + 1] + offsets[level + 1]
    children = np.argsort(parent, kind="stable")[1:]
    leaf_positions = np.argsort(levels[0], kind="stable")
    return GroupTree(
        first_child=np.searchsorted(parent[children], np.arange(len(parent) + 1)),
        children=children,
        weight=np.repeat(np.append(encoding.weights, 0.0), counts),
        idle=np.concatenate([np.bincount(level) for level in levels]),
        leaf_positions=leaf_positions,
        leaf_first=np.searchsorted(levels[0][leaf_positions], np.arange(int(counts[0]) + 1)),
    )
