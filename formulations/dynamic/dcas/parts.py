"""Making parts: a node, a gap that is empty or holds a filling, and a part of one node less."""

import numpy as np

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import inlined
from formulations.dynamic.dcas.classes import Classes, fit
from formulations.dynamic.dcas.reach import Reach, left_saving
from formulations.dynamic.dcas.sequence import Sequence
from formulations.dynamic.dcas.tables import (
    BEGIN,
    CLASS,
    N_PARTS,
    NEXT,
    NODES,
    NOT_BEGUN,
    POSITION,
    STAMP,
    Fillings,
    Parts,
    Scratch,
)


@inlined
def _insert(parts: Parts, scratch: Scratch, cursor: IntArray, entry: int, leaf_slope: float, pod_slope: float) -> bool:
    """Put an entry on the list of its multiset, unless another is as good for every continuation; drop what it beats.

    A node more in the leaf is worth no more than ``leaf_slope``, a node more in the pod no more than ``pod_slope``.
    """
    nested, x, y, value = parts.nested[entry], parts.in_leaf[entry], parts.in_pod[entry], parts.value[entry]
    stamp = cursor[STAMP]
    head = scratch.head[nested] if scratch.stamp[nested] == stamp else -1
    other = head
    while other >= 0:
        dx, dy = x - parts.in_leaf[other], y - parts.in_pod[other]
        if parts.value[other] + max(dx, 0) * leaf_slope + max(dy, 0) * pod_slope <= value:
            return False
        if value + max(-dx, 0) * leaf_slope + max(-dy, 0) * pod_slope <= parts.value[other]:
            parts.value[other] = np.inf
        other = parts.link[other]
    parts.link[entry] = head
    scratch.head[nested] = entry
    scratch.stamp[nested] = stamp
    return True


@inlined
def _compact(parts: Parts, first: int, last: int) -> int:
    """Close up the entries that were dropped; return the end of those that are left."""
    kept = first
    for entry in range(first, last):
        if parts.value[entry] == np.inf:
            continue
        if kept < entry:
            parts.nested[kept] = parts.nested[entry]
            parts.in_leaf[kept] = parts.in_leaf[entry]
            parts.in_pod[kept] = parts.in_pod[entry]
            parts.value[kept] = parts.value[entry]
            parts.excess[kept] = parts.excess[entry]
            parts.rest[kept] = parts.rest[entry]
            parts.gap[kept] = parts.gap[entry]
        kept += 1
    return kept


@inlined
def _sort(parts: Parts, first: int, last: int) -> None:
    """Let ``link`` list the entries by rising excess, by Shell's method."""
    for entry in range(first, last):
        parts.link[entry] = entry
    stride = 1
    while stride < (last - first) // 3:
        stride = 3 * stride + 1
    while stride > 0:
        for index in range(first + stride, last):
            entry = parts.link[index]
            excess = parts.excess[entry]
            slot = index
            while slot >= first + stride and parts.excess[parts.link[slot - stride]] > excess:
                parts.link[slot] = parts.link[slot - stride]
                slot -= stride
            parts.link[slot] = entry
        stride //= 3


@inlined
def _add_part(
    sequence: Sequence,
    classes: Classes,
    reach: Reach,
    parts: Parts,
    scratch: Scratch,
    cursor: IntArray,
    limit: float,
    nested: int,
    value: float,
    x: int,
    y: int,
    rest: int,
    gap: int,
) -> None:
    """Add the part that a node at the cursor's position makes with a part of x and y nodes in its leaf and pod."""
    p, c, r, entry = cursor[POSITION], cursor[CLASS], cursor[NODES], cursor[N_PARTS]
    leaf = sequence.leaf[p]
    left = classes.sizes[c] - r
    in_leaf, in_pod = classes.factor[c] * sequence.weights[0], classes.factor[c] * sequence.weights[1]
    value += reach.price[leaf] - in_leaf * (2 * x + 1) - in_pod * (2 * y + 1)
    leaf_room = min(left, p - sequence.leaf_start[leaf])
    pod_room = min(left, p - sequence.leaf_start[sequence.pod_start[sequence.pod[leaf]]])
    # Where no node can join them the counts are of no account, and equal counts are told apart less often.
    x = x + 1 if leaf_room > 0 and in_leaf > 0 else 0
    y = y + 1 if pod_room > 0 and in_pod > 0 else 0
    parts.nested[entry], parts.in_leaf[entry], parts.in_pod[entry], parts.value[entry] = nested, x, y, value
    # Cheap before dear: the bound is looked up only for what is not beaten. What is on the list is within the bound.
    key = x * (reach.width[c] if in_pod > 0 else 1) + y
    if scratch.saving_stamp[key] != cursor[STAMP]:
        scratch.saving_stamp[key] = cursor[STAMP]
        scratch.saving[key] = left_saving(sequence, classes, reach, c, leaf, leaf_room, left, x, y)
    saving = scratch.saving[key]
    excess = value + reach.best[c] - saving
    if excess >= limit:
        return
    if not _insert(parts, scratch, cursor, entry, 2 * in_leaf * leaf_room, 2 * in_pod * pod_room):
        return
    parts.excess[entry], parts.rest[entry], parts.gap[entry] = excess, rest, gap
    cursor[N_PARTS] += 1


@inlined
def _extend(
    sequence: Sequence,
    classes: Classes,
    reach: Reach,
    parts: Parts,
    scratch: Scratch,
    cursor: IntArray,
    limit: float,
    gap: int,
    inside: int,
    gap_excess: float,
) -> int:
    """Put a node and a gap before all parts behind the gap; return the work done, or -1 if the tables are full."""
    p, c, r = cursor[POSITION], cursor[CLASS], cursor[NODES]
    after = p + 1 + classes.used[inside]
    first, last = parts.first[c, after, r - 1], parts.last[c, after, r - 1]
    if first == last:
        return 1
    # The block itself is one of its class, beside what is nested in it.
    taken = classes.packed[inside] + classes.packed[classes.strides[c]]
    same_leaf = sequence.leaf[after] == sequence.leaf[p]
    same_pod = sequence.pod[sequence.leaf[after]] == sequence.pod[sequence.leaf[p]]
    for place in range(first, last):
        rest = parts.link[place]
        if parts.excess[rest] + gap_excess >= limit:
            break
        if inside > 0 and not fit(classes, taken, classes.packed[parts.nested[rest]]):
            continue
        if cursor[N_PARTS] == parts.nested.size:
            return -1
        x = parts.in_leaf[rest] if same_leaf else 0
        y = parts.in_pod[rest] if same_pod else 0
        _add_part(
            sequence,
            classes,
            reach,
            parts,
            scratch,
            cursor,
            limit,
            parts.nested[rest] + inside,
            parts.value[rest] + gap_excess,
            x,
            y,
            rest,
            gap,
        )
    return int(last - first)


@inlined
def make_parts(
    sequence: Sequence,
    classes: Classes,
    reach: Reach,
    parts: Parts,
    fillings: Fillings,
    scratch: Scratch,
    cursor: IntArray,
    limit: float,
    most_work: int,
) -> int:
    """Make the parts of the cursor's class, position and number of nodes; return the work done, or -1 if full.

    The cursor's ``NEXT`` is the next gap, and ``NOT_BEGUN`` before and after.
    """
    p, c, r = cursor[POSITION], cursor[CLASS], cursor[NODES]
    work, done = 1, 0
    if cursor[NEXT] == NOT_BEGUN:
        cursor[STAMP] += 1
        cursor[BEGIN] = cursor[N_PARTS]
        if r == 1 and cursor[N_PARTS] == parts.nested.size:
            return -1
        if r == 1:
            _add_part(sequence, classes, reach, parts, scratch, cursor, limit, 0, 0.0, 0, 0, -1, -1)
        else:
            done = _extend(sequence, classes, reach, parts, scratch, cursor, limit, -1, 0, 0.0)
        if done < 0:
            cursor[N_PARTS] = cursor[BEGIN]
            return -1
        cursor[NEXT] = fillings.first[p + 1]
    unit = classes.packed[classes.strides[c]]
    while r > 1 and cursor[NEXT] < fillings.last[p + 1] and fillings.excess[cursor[NEXT]] < limit:
        work += done
        gap = cursor[NEXT]
        inside = fillings.blocks[gap]
        done = 1
        if p + 1 + classes.used[inside] < sequence.leaf.size and fit(classes, classes.packed[inside], unit):
            done = _extend(sequence, classes, reach, parts, scratch, cursor, limit, gap, inside, fillings.excess[gap])
        if done < 0:
            return -1
        cursor[NEXT] += 1
        if work + done >= most_work:
            return work + done
    cursor[N_PARTS] = _compact(parts, cursor[BEGIN], cursor[N_PARTS])
    _sort(parts, cursor[BEGIN], cursor[N_PARTS])
    parts.first[c, p, r], parts.last[c, p, r] = cursor[BEGIN], cursor[N_PARTS]
    cursor[NEXT] = NOT_BEGUN
    return work + done
