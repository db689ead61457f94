"""A window for DCAS: leaves within pods on a line, and classes of equal blocks."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allocopt.arrays import Encoding, FloatArray, IntArray
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import inlined
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode
from allocopt.solving.base import rounded

MOST_LEVELS = 2  # most levels of groups, below the top, that distinguish idle nodes
LARGEST_INDEX = 20_000_000  # most entries of the tables whose size is known beforehand: 160 MB
BITS = 62  # bits of a packed multiset: 64 less the sign and one bit for the carry of a sum


@dataclass(frozen=True, slots=True, eq=False)
class Multisets:
    """All S multisets of at most ``counts[r]`` jobs of each of R sizes."""

    strides: IntArray  # increase of a multiset's number for one more job of each size, shape (R,)
    digits: IntArray  # number of jobs of each size in each multiset, shape (R, S)
    used: IntArray  # nodes that each multiset takes, shape (S,)

    @classmethod
    def of(cls, sizes: IntArray, counts: IntArray) -> "Multisets":
        """Return the multisets of at most ``counts[r]`` jobs of size ``sizes[r]``."""
        strides = np.concatenate(([1], np.cumprod(counts + 1)[:-1]))
        digits = np.arange(np.prod(counts + 1)) // strides[:, None] % (counts[:, None] + 1)
        return cls(strides, digits, sizes @ digits)


class Levels(NamedTuple):
    """The levels that distinguish idle nodes, lowest first; levels with equal groups are joined."""

    groups: IntArray  # group of each position by level, shape (L, m)
    weights: FloatArray  # hops saved per squared count of a job in a group of each level, shape (L,)

    @classmethod
    def of(cls, encoding: Encoding) -> "Levels":
        """Return the levels of a problem, without levels of a single group, which save the same in every allocation."""
        groups, weights = np.zeros((0, encoding.n_idle), dtype=np.int64), np.zeros(0)
        for row, weight, count in zip(encoding.groups, encoding.weights, encoding.n_groups, strict=True):
            if len(groups) and count == groups[-1].max() + 1:
                # Levels are nested, so an equal number of groups means equal groups.
                weights[-1] += weight
            elif count > 1:
                groups, weights = np.vstack((groups, row)), np.append(weights, weight)
        return cls(groups, weights)

    @property
    def cuts(self) -> IntArray:
        """Positions before which the circle can be cut so that all groups are intervals; there may be none."""
        begins = self.groups != np.roll(self.groups, 1, axis=1)
        if (begins.sum(axis=1) != self.groups.max(axis=1, initial=0) + 1).any():
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(begins[-1]) if len(begins) else np.zeros(1, dtype=np.int64)


class DcasWindow(NamedTuple):
    """Idle positions as intervals of leaves within intervals of pods, and the blocks to be placed on them.

    Jobs of equal size are one class of blocks; the leftover, if there is any, is a block of the last class.
    """

    leaf: IntArray  # leaf of each position, increasing from 0, shape (m,)
    leaf_start: IntArray  # first position of each leaf, and m at the end
    pod: IntArray  # pod of each leaf, increasing from 0
    pod_start: IntArray  # first leaf of each pod, and the number of leaves at the end
    weights: FloatArray  # hops saved per squared count of a job in a leaf and in a pod, shape (2,)
    sizes: IntArray  # nodes of a block of each class, shape (C,)
    counts: IntArray  # number of blocks of each class, shape (C,)
    factor: FloatArray  # cost of one hop of a block of each class, 0 for the leftover
    base: FloatArray  # cost of a block of each class that saves nothing
    strides: IntArray  # `Multisets.strides` of the blocks, by class
    packed: IntArray  # counts of each multiset in bit fields with a free bit on top of each, shape (S,)
    free_bits: int  # mask of all these free bits
    room: int  # the multiset of all blocks, packed, with its free bits set
    used: IntArray  # nodes of each multiset, shape (S,)

    @classmethod
    def of(cls, encoding: Encoding, levels: Levels, cut: int) -> "DcasWindow":
        """Return the window with its circle cut before position ``cut``, one of ``levels.cuts``."""
        groups, weights = levels
        m, missing = groups.shape[1], MOST_LEVELS - len(weights)
        rolled = np.roll(np.pad(groups, ((0, missing), (0, 0))), -cut, axis=1)
        leaf, pod_of = np.cumsum(np.diff(rolled, axis=1, prepend=rolled[:, :1]) != 0, axis=1)
        leaf_start = np.concatenate(([0], np.flatnonzero(np.diff(leaf)) + 1, [m]))
        pod = pod_of[leaf_start[:-1]]
        pod_start = np.concatenate(([0], np.flatnonzero(np.diff(pod)) + 1, [len(pod)]))

        sizes, counts = _class_sizes(encoding)
        factor = encoding.scale / sizes
        factor[len(np.unique(encoding.sizes)) :] = 0.0
        # A level with a single group saves the same for every allocation, so the saving goes into the base cost.
        top = encoding.top - encoding.weights[encoding.n_groups == 1].sum()
        base = factor * (top * sizes * sizes - encoding.bottom * sizes)
        multisets = Multisets.of(sizes, counts)
        packed, free_bits, shift = np.zeros_like(multisets.used), 0, 0
        for digit, count in zip(multisets.digits, counts.tolist(), strict=True):
            packed += digit << shift
            shift += count.bit_length() + 1
            free_bits |= 1 << (shift - 1)
        return cls(
            *(leaf, leaf_start, pod, pod_start, np.pad(weights, (0, missing)), sizes, counts, factor, base),
            *(multisets.strides, packed, free_bits, int(packed[-1]) | free_bits, multisets.used),
        )


WINDOW = record_type(DcasWindow)


def _class_sizes(encoding: Encoding) -> tuple[IntArray, IntArray]:
    # Sizes of jobs, increasing, then the leftover if there is one, and the number of blocks of each.
    sizes, counts = np.unique(encoding.sizes, return_counts=True)
    left = encoding.n_idle - int(encoding.sizes.sum())
    if left > 0:
        sizes, counts = np.append(sizes, left), np.append(counts, 1)
    return sizes, counts.astype(np.int64)


def dcas_refusal(problem: TopologyProblem) -> str | None:
    """Return why the dynamic program cannot solve DCAS for a problem; None if it can."""
    encoding = encode(problem)
    levels = Levels.of(encoding)
    groups = levels.groups
    if len(groups) > MOST_LEVELS:
        return f"its idle nodes differ on {len(groups)} levels below the top, dcas supports at most {MOST_LEVELS}"
    if len(levels.cuts) == 0:
        return "the idle nodes of a switch are not consecutive in the circular sequence; dcas requires that they are"
    sizes, counts = _class_sizes(encoding)
    bits = sum(count.bit_length() + 1 for count in counts.tolist())
    if bits > BITS:
        return f"counting its jobs by size takes {bits} bits, dcas supports at most {BITS}"
    n_leaves = 1 if len(groups) == 0 else int(groups[0].max()) + 1
    largest = int(encoding.sizes.max()) + 1
    entries = len(sizes) * (n_leaves * largest * largest + encoding.n_idle * (int(sizes.max()) + 1))
    if entries > LARGEST_INDEX:
        return f"its dcas tables would have {rounded(entries)} entries, at most {LARGEST_INDEX:,} are supported"
    return None


@inlined
def fit(window: DcasWindow, one: int, other: int) -> bool:
    """Return whether the sum of two packed multisets is a multiset of the window."""
    # If the sum is subtracted from all blocks, a count that is too large borrows the free bit above its field.
    return (window.room - one - other) & window.free_bits == window.free_bits
