"""The tables of the DCAS dynamic program, and the cursor that says how far they are filled."""

from typing import Any, NamedTuple

import numpy as np
from numba import float64, int32, int64, types
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from formulations.dynamic.dcas.classes import Classes
from formulations.dynamic.dcas.sequence import Sequence

IndexArray = NDArray[np.int32]

POSITION, CLASS, NODES, NEXT, BEGIN, N_PARTS, N_FILLINGS, STAMP = range(8)
"""What the cursor holds: the step (classes from C on are fillings), where in it, and the ends of the tables."""

NOT_BEGUN = -1
"""``NEXT`` between two steps."""


class Parts(NamedTuple):
    """The right-hand parts of blocks: entries, and where those of a class, a position and a number of nodes lie.

    Parameters
    ----------
    nested
        Multiset of the blocks inside the gaps.
    in_leaf, in_pod
        Nodes of the block in the leaf and in the pod of its first position.
    value
        Excess of the nested blocks, plus prices, less savings of the part.
    excess
        Bound on the excess of the whole block and all that is nested.
    rest, gap
        Entry of the part after the first node, and filling of the gap before it; -1 for none.
    link
        Next entry of the same multiset while a list is made.
    first, last
        Entries ``first[c, p, r] .. last[c, p, r] - 1`` are the parts of ``r`` nodes that begin at position ``p``.
    """

    nested: IndexArray
    in_leaf: IndexArray
    in_pod: IndexArray
    value: FloatArray
    excess: FloatArray
    rest: IndexArray
    gap: IndexArray
    link: IndexArray
    first: IndexArray
    last: IndexArray


class Fillings(NamedTuple):
    """Exact fillings of intervals by whole blocks, the least excess of every multiset at every position.

    Parameters
    ----------
    blocks
        Multiset of all blocks in the interval.
    excess
        Their excess.
    part
        Entry of the first block.
    rest
        Filling behind the first block and what is nested in it; -1 for none.
    first, last
        Fillings ``first[p] .. last[p] - 1`` begin at position ``p``, the least excess first.
    """

    blocks: IndexArray
    excess: FloatArray
    part: IndexArray
    rest: IndexArray
    first: IndexArray
    last: IndexArray


class Scratch(NamedTuple):
    """Last entry of a multiset in the list being made, valid where the stamp is that of the list."""

    head: IndexArray
    stamp: IntArray
    saving: FloatArray
    saving_stamp: IntArray


PARTS = types.NamedTuple(
    (
        int32[::1],
        int32[::1],
        int32[::1],
        float64[::1],
        float64[::1],
        int32[::1],
        int32[::1],
        int32[::1],
        int32[:, :, ::1],
        int32[:, :, ::1],
    ),
    Parts,
)
FILLINGS = types.NamedTuple((int32[::1], float64[::1], int32[::1], int32[::1], int32[::1], int32[::1]), Fillings)
SCRATCH = types.NamedTuple((int32[::1], int64[::1], float64[::1], int64[::1]), Scratch)


def first_cursor(sequence: Sequence) -> IntArray:
    """Return the cursor of empty tables: the last position, the first class, one node."""
    cursor = np.zeros(STAMP + 1, dtype=np.int64)
    cursor[POSITION], cursor[NODES], cursor[NEXT] = len(sequence.leaf) - 1, 1, NOT_BEGUN
    return cursor


def empty_parts(sequence: Sequence, classes: Classes, capacity: int) -> Parts:
    """Allocate room for ``capacity`` parts."""
    index = (len(classes.sizes), len(sequence.leaf) + 1, int(classes.sizes.max()) + 1)
    return Parts(
        nested=np.empty(capacity, dtype=np.int32),
        in_leaf=np.empty(capacity, dtype=np.int32),
        in_pod=np.empty(capacity, dtype=np.int32),
        value=np.empty(capacity),
        excess=np.empty(capacity),
        rest=np.empty(capacity, dtype=np.int32),
        gap=np.empty(capacity, dtype=np.int32),
        link=np.empty(capacity, dtype=np.int32),
        first=np.zeros(index, dtype=np.int32),
        last=np.zeros(index, dtype=np.int32),
    )


def empty_fillings(sequence: Sequence, capacity: int) -> Fillings:
    """Allocate room for ``capacity`` fillings."""
    positions = len(sequence.leaf) + 1
    return Fillings(
        blocks=np.empty(capacity, dtype=np.int32),
        excess=np.empty(capacity),
        part=np.empty(capacity, dtype=np.int32),
        rest=np.empty(capacity, dtype=np.int32),
        first=np.zeros(positions, dtype=np.int32),
        last=np.zeros(positions, dtype=np.int32),
    )


def empty_scratch(classes: Classes) -> Scratch:
    """Allocate the working space."""
    n_states = len(classes.used)
    keys = int(classes.sizes[classes.factor > 0].max() + 1) ** 2
    return Scratch(
        head=np.zeros(n_states, dtype=np.int32),
        stamp=np.zeros(n_states, dtype=np.int64),
        saving=np.zeros(keys),
        saving_stamp=np.zeros(keys, dtype=np.int64),
    )


def longer_parts(parts: Parts, capacity: int) -> Parts:
    """Copy parts into longer tables."""
    ends: dict[str, Any] = {"first": parts.first, "last": parts.last}
    entries = {name: _longer(array, capacity) for name, array in parts._asdict().items() if name not in ends}
    return Parts(**entries, **ends)


def longer_fillings(fillings: Fillings, capacity: int) -> Fillings:
    """Copy fillings into longer tables."""
    ends: dict[str, Any] = {"first": fillings.first, "last": fillings.last}
    entries = {name: _longer(array, capacity) for name, array in fillings._asdict().items() if name not in ends}
    return Fillings(**entries, **ends)


def _longer(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    """Copy an array into a longer one."""
    longer = np.empty(capacity, dtype=array.dtype)
    longer[: len(array)] = array
    return longer
