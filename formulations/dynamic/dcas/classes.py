"""The blocks of the partition: jobs of equal size as one class, and the leftover as a class of weight nothing."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined
from allocopt.problems.encoding import Encoding
from formulations.dynamic.multisets import Multisets


class Classes(NamedTuple):
    """Classes of equal blocks, and the multisets of them.

    Parameters
    ----------
    sizes
        Nodes of a block of each class, shape ``(C,)``; the leftover, if there is any, is the last class.
    counts
        Blocks of each class.
    factor
        Cost of one hop of a block: 0 for the leftover.
    base
        Cost of a block of each class that saves nothing.
    strides
        Distance between a multiset's number and that of the one with one more block of the class.
    packed
        The counts of each multiset in bit fields with a free bit on top of each, shape ``(S,)``.
    free_bits
        Those free bits.
    room
        The multiset of all blocks, packed, with its free bits set.
    used
        Nodes of each multiset, shape ``(S,)``.
    """

    sizes: IntArray
    counts: IntArray
    factor: FloatArray
    base: FloatArray
    strides: IntArray
    packed: IntArray
    free_bits: int
    room: int
    used: IntArray


CLASSES = types.NamedTuple(
    (
        int64[::1],
        int64[::1],
        float64[::1],
        float64[::1],
        int64[::1],
        int64[::1],
        int64,
        int64,
        int64[::1],
    ),
    Classes,
)
"""Numba type of `Classes`."""


def bits_of(counts: IntArray) -> int:
    """Bits that a packed multiset takes."""
    return sum(int(count).bit_length() + 1 for count in counts)


def class_sizes(encoding: Encoding) -> tuple[IntArray, IntArray]:
    """Sizes of the classes, and blocks of each: rising sizes of jobs, then the leftover if there is any."""
    sizes, counts = np.unique(encoding.sizes, return_counts=True)
    left = encoding.n_idle - int(encoding.sizes.sum())
    if left > 0:
        sizes, counts = np.append(sizes, left), np.append(counts, 1)
    return sizes, counts.astype(np.int64)


def classes_of(encoding: Encoding) -> Classes:
    """Return the classes of a window's jobs and of its leftover."""
    sizes, counts = class_sizes(encoding)
    factor = encoding.scale / sizes
    factor[len(np.unique(encoding.sizes)) :] = 0.0
    # All nodes of a job lie in the group of a level that has one group only: it saves the same for every allocation.
    top = encoding.top - encoding.weights[encoding.n_groups == 1].sum()
    base = factor * (top * sizes * sizes - encoding.bottom * sizes)
    multisets = Multisets.of(sizes, counts)
    packed = np.zeros(multisets.full + 1, dtype=np.int64)
    free_bits, shift = 0, 0
    for digit, count in zip(multisets.digits, counts.tolist(), strict=True):
        packed += digit << shift
        shift += count.bit_length() + 1
        free_bits |= 1 << (shift - 1)
    return Classes(
        sizes,
        counts,
        factor,
        base,
        multisets.strides.astype(np.int64),
        packed,
        free_bits,
        int(packed[-1]) | free_bits,
        multisets.used.astype(np.int64),
    )


@inlined
def fit(classes: Classes, one: int, other: int) -> bool:
    """Whether the sum of two packed multisets is one."""
    return (classes.room - one - other) & classes.free_bits == classes.free_bits
