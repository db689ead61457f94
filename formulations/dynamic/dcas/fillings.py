"""Making fillings: a block with all that is nested in it, and a filling behind it."""

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import inlined
from formulations.dynamic.dcas.classes import Classes, fit
from formulations.dynamic.dcas.sequence import Sequence
from formulations.dynamic.dcas.tables import (
    CLASS,
    N_FILLINGS,
    NEXT,
    NOT_BEGUN,
    POSITION,
    STAMP,
    Fillings,
    Parts,
    Scratch,
)


@inlined
def _offer_filling(
    fillings: Fillings, scratch: Scratch, cursor: IntArray, blocks: int, excess: float, part: int, rest: int
) -> None:
    """Keep a filling if it is the first of its multiset at the cursor's position, or better than the one kept."""
    stamp = cursor[STAMP]
    if scratch.stamp[blocks] != stamp:
        scratch.stamp[blocks], scratch.head[blocks] = stamp, cursor[N_FILLINGS]
        cursor[N_FILLINGS] += 1
    elif fillings.excess[scratch.head[blocks]] <= excess:
        return
    entry = scratch.head[blocks]
    fillings.blocks[entry], fillings.excess[entry] = blocks, excess
    fillings.part[entry], fillings.rest[entry] = part, rest


@inlined
def sort_fillings(fillings: Fillings, first: int, last: int) -> None:
    """Sort by rising excess, by Shell's method."""
    stride = 1
    while stride < (last - first) // 3:
        stride = 3 * stride + 1
    while stride > 0:
        for index in range(first + stride, last):
            blocks, excess = fillings.blocks[index], fillings.excess[index]
            part, rest = fillings.part[index], fillings.rest[index]
            slot = index
            while slot >= first + stride and fillings.excess[slot - stride] > excess:
                fillings.blocks[slot] = fillings.blocks[slot - stride]
                fillings.excess[slot] = fillings.excess[slot - stride]
                fillings.part[slot] = fillings.part[slot - stride]
                fillings.rest[slot] = fillings.rest[slot - stride]
                slot -= stride
            fillings.blocks[slot], fillings.excess[slot] = blocks, excess
            fillings.part[slot], fillings.rest[slot] = part, rest
        stride //= 3


@inlined
def make_fillings(
    sequence: Sequence,
    classes: Classes,
    parts: Parts,
    fillings: Fillings,
    scratch: Scratch,
    cursor: IntArray,
    limit: float,
    most_work: int,
) -> int:
    """Make the fillings that begin with a block of the cursor's class; return the work done, or -1 if full.

    The cursor's ``NEXT`` is the next of the block's parts, and ``NOT_BEGUN`` before and after.
    """
    p, m, c = cursor[POSITION], sequence.leaf.size, cursor[CLASS] - classes.sizes.size
    n, stride = classes.sizes[c], classes.strides[c]
    work = 1
    if cursor[NEXT] == NOT_BEGUN:
        cursor[NEXT] = parts.first[c, p, n]
    while cursor[NEXT] < parts.last[c, p, n]:
        part = cursor[NEXT]
        blocks, excess = parts.nested[part] + stride, parts.excess[part]
        after = p + classes.used[blocks]
        first, last = (fillings.first[after], fillings.last[after]) if after < m else (0, 0)
        if cursor[N_FILLINGS] + last - first + 1 > fillings.blocks.size:
            return -1
        _offer_filling(fillings, scratch, cursor, blocks, excess, part, -1)
        for rest in range(first, last):
            total = excess + fillings.excess[rest]
            if total >= limit:
                break
            more = fillings.blocks[rest]
            if fit(classes, classes.packed[blocks], classes.packed[more]):
                _offer_filling(fillings, scratch, cursor, blocks + more, total, part, rest)
        work += last - first + 1
        cursor[NEXT] += 1
        if work >= most_work:
            return int(work)
    cursor[NEXT] = NOT_BEGUN
    return int(work)
