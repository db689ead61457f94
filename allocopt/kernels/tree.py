"""The tree of groups that hold idle nodes, as kernels take it."""

from typing import NamedTuple

from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray


class GroupTree(NamedTuple):
    """Vertices are the groups with idle nodes, leaves first, then level by level; the last one is the top.

    Parameters
    ----------
    first_child, children
        The children of vertex v are ``children[first_child[v] : first_child[v + 1]]``.
    weight
        What the squared count of a job in a vertex saves, shape ``(V,)``; 0 at the top.
    idle
        Idle nodes of each vertex, shape ``(V,)``.
    leaf_positions
        Idle positions, leaf by leaf, shape ``(m,)``.
    leaf_first
        The positions of leaf v are ``leaf_positions[leaf_first[v] : leaf_first[v + 1]]``; the leaves are the
        vertices ``0 .. len(leaf_first) - 2``.
    """

    first_child: IntArray
    children: IntArray
    weight: FloatArray
    idle: IntArray
    leaf_positions: IntArray
    leaf_first: IntArray


GROUP_TREE = types.NamedTuple((int64[::1], int64[::1], float64[::1], int64[::1], int64[::1], int64[::1]), GroupTree)
"""Numba type of `GroupTree`."""
