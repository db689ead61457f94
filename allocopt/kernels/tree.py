"""Windows in the form that kernels take: arrays of a problem, groups of a tree, circular blocks of nodes."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.kernels.arrays import record_type, tuple_type
from allocopt.kernels.compiled import kernel

ENCODING = tuple_type((int64[:, ::1], int64[::1], float64[::1], float64, float64, float64, int64[::1]), Encoding)
"""Numba type of `allocopt.arrays.Encoding`."""


class GroupTree(NamedTuple):
    """Tree of the groups with idle nodes; vertices are numbered leaves first, then level by level, the top last."""

    first_child: IntArray
    children: IntArray  # the children of vertex v are children[first_child[v] : first_child[v + 1]]
    weight: FloatArray  # saving per squared count of a job in a vertex, shape (V,); 0 at the top
    idle: IntArray  # idle nodes of each vertex, shape (V,)
    leaf_positions: IntArray  # idle positions, leaf by leaf, shape (m,)
    # The positions of leaf v are leaf_positions[leaf_first[v] : leaf_first[v + 1]]; the leaves are the vertices
    # 0 .. len(leaf_first) - 2.
    leaf_first: IntArray


GROUP_TREE = record_type(GroupTree)


@kernel(float64[:, ::1](ENCODING, int64[::1]), allocates=True)
def circular_block_costs(encoding: Encoding, sizes: IntArray) -> FloatArray:
    """Return the cost of the block of ``sizes[r]`` idle positions that begins at i and wraps around, shape ``(R, m)``.

    Sizes are in ``1 .. m``. Each takes O(m L) time: if the block moves by one position, only two counts change.
    """
    groups = encoding.groups
    n_levels, m = groups.shape
    costs = np.empty((sizes.size, m))
    for r in range(sizes.size):
        n = sizes[r]
        # Hops are integers, which floats represent exactly; only the scaling at the end rounds.
        costs[r, :] = encoding.top * n * n - encoding.bottom * n
        for level in range(n_levels):
            counts = np.zeros(encoding.n_groups[level], dtype=np.int64)
            squares = 0
            for i in range(n):
                group = groups[level, i]
                squares += 2 * counts[group] + 1
                counts[group] += 1
            for i in range(m):
                costs[r, i] -= encoding.weights[level] * squares
                leaving = groups[level, i]
                counts[leaving] -= 1
                squares -= 2 * counts[leaving] + 1
                entering = groups[level, (i + n) % m]
                squares += 2 * counts[entering] + 1
                counts[entering] += 1
        for i in range(m):
            costs[r, i] *= encoding.scale / n
    return costs
