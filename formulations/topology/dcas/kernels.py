"""The recursion of the DCAS dynamic program, position by position from the right.

A *part* is the right-hand end of a block: its last r nodes, beginning at a position, with whole blocks nested in the
gaps between them. A *filling* is an interval filled exactly by whole blocks. A part of r nodes consists of a node, a
gap that is empty or holds a filling, and a part of r - 1 nodes. A filling consists of a part with all nodes of a block
and a filling behind it. The tables store and compare the *excess*: cost plus prices, less those of each block's best
reply. It is never negative, so everything whose excess reaches ``limit`` can be left out.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.formulations.topology.dcas.bounds import REACH, Reach, left_saving
from allocopt.formulations.topology.dcas.window import WINDOW, DcasWindow, fit
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import inlined, kernel

IndexArray = NDArray[np.int32]

# Fields of the cursor. POSITION, CLASS and NODES are the step; CLASS C + c means fillings that begin with class c. NEXT
# is the next gap or part within the step. BEGIN is where the step's entries begin, N_PARTS and N_FILLINGS are where the
# tables end. STAMP marks what belongs to the present step.
POSITION, CLASS, NODES, NEXT, BEGIN, N_PARTS, N_FILLINGS, STAMP = range(8)

NOT_BEGUN = -1  # value of ``NEXT`` between two steps
DONE, PAUSED, FULL = 0, 1, 2  # results of `advance`: all done, the granted work is done, or the tables are full


class _Parts(NamedTuple):
    """Parts as entries of arrays, and the range of the entries for class c, position p and r nodes."""

    nested: IndexArray  # multiset of the blocks inside the gaps
    in_leaf: IndexArray  # nodes of the part in the leaf of its first position
    in_pod: IndexArray  # nodes of the part in the pod of its first position
    value: FloatArray  # excess of the nested blocks, plus the prices of the part, less its savings
    excess: FloatArray  # lower bound on the excess of the whole block and all nested blocks
    rest: IndexArray  # entry of the part after the first node; -1 for none
    gap: IndexArray  # filling of the gap before that part; -1 for none
    link: IndexArray  # next entry of the same multiset while a list is built; later, entries by increasing excess
    first: Annotated[IndexArray, 3]  # parts are the entries first[c, p, r] .. last[c, p, r] - 1
    last: Annotated[IndexArray, 3]


class _Fillings(NamedTuple):
    """Fillings as entries of arrays, and the range of the entries for position p: one of least excess per multiset."""

    blocks: IndexArray  # multiset of all blocks in the interval
    excess: FloatArray
    part: IndexArray  # entry of the first block
    rest: IndexArray  # filling behind the first block and its nested blocks; -1 for none
    order: IndexArray  # the entries of a position by increasing excess
    first: IndexArray  # fillings are the entries first[p] .. last[p] - 1
    last: IndexArray


class Tables(NamedTuple):
    """The tables of a window with S multisets."""

    parts: _Parts
    fillings: _Fillings
    head: IndexArray  # last entry of a multiset in the list that is being built, shape (S,)
    stamp: IntArray  # a head is valid if its stamp is that of the list
    saving: FloatArray  # largest further saving of a block, by its nodes in leaf and pod
    saving_stamp: IntArray  # a saving is valid if its stamp is that of the list
    cursor: IntArray  # state of the recursion

    @classmethod
    def empty(cls, window: DcasWindow, capacity: int) -> "Tables":
        """Return tables with room for ``capacity`` parts, and a quarter as many fillings."""
        positions, n_states = len(window.leaf) + 1, len(window.used)
        index = (len(window.sizes), positions, int(window.sizes.max()) + 1)
        keys = int(window.sizes[window.factor > 0].max() + 1) ** 2
        nested, in_leaf, in_pod, rest, gap, link = (np.empty(capacity, dtype=np.int32) for _ in range(6))
        value, excess = np.empty(capacity), np.empty(capacity)
        first, last = (np.zeros(index, dtype=np.int32) for _ in range(2))
        parts = _Parts(nested, in_leaf, in_pod, value, excess, rest, gap, link, first, last)
        blocks, part, rest, order = (np.empty(capacity // 4, dtype=np.int32) for _ in range(4))
        begin, end = (np.zeros(positions, dtype=np.int32) for _ in range(2))
        fillings = _Fillings(blocks, np.empty(capacity // 4), part, rest, order, begin, end)
        return cls(
            parts,
            fillings,
            head=np.zeros(n_states, dtype=np.int32),
            stamp=np.zeros(n_states, dtype=np.int64),
            saving=np.zeros(keys),
            saving_stamp=np.zeros(keys, dtype=np.int64),
            cursor=np.zeros(STAMP + 1, dtype=np.int64),
        )

    def longer(self, capacity: int) -> "Tables":
        """Return longer tables with the same entries."""

        def longer(record: _Parts | _Fillings, length: int) -> dict[str, NDArray[Any]]:
            entries = {}
            for name, array in record._asdict().items():
                # The ranges of positions keep their size.
                if name not in ("first", "last"):
                    entries[name] = np.empty(length, dtype=array.dtype)
                    entries[name][: len(array)] = array
            return entries

        parts = self.parts._replace(**longer(self.parts, capacity))
        return self._replace(parts=parts, fillings=self.fillings._replace(**longer(self.fillings, capacity // 4)))

    def restart(self, window: DcasWindow) -> None:
        """Reset the recursion to its beginning: the last position, the first class and one node."""
        for array in (self.stamp, self.saving_stamp, self.cursor):
            array[:] = 0
        self.cursor[POSITION], self.cursor[NODES], self.cursor[NEXT] = len(window.leaf) - 1, 1, NOT_BEGUN


@inlined
def _sort(order: IndexArray, excess: FloatArray, first: int, last: int) -> None:
    # Shell's method: sorts the entries by increasing excess into `order`.
    for entry in range(first, last):
        order[entry] = entry
    stride = 1
    while stride < (last - first) // 3:
        stride = 3 * stride + 1
    while stride > 0:
        for index in range(first + stride, last):
            entry, slot = order[index], index
            while slot >= first + stride and excess[order[slot - stride]] > excess[entry]:
                order[slot] = order[slot - stride]
                slot -= stride
            order[slot] = entry
        stride //= 3


@inlined
def _add_part(
    window: DcasWindow,
    reach: Reach,
    tables: Tables,
    limit: float,
    nested: int,
    value: float,
    x: int,
    y: int,
    rest: int,
    gap: int,
) -> None:
    """Add the part that consists of a node at the cursor's position and the part ``rest``, -1 for none.

    ``rest`` has x nodes in the leaf of the new node, and y in its pod.
    """
    parts, cursor = tables.parts, tables.cursor
    p, c, r, entry = cursor[POSITION], cursor[CLASS], cursor[NODES], cursor[N_PARTS]
    leaf = window.leaf[p]
    left = window.sizes[c] - r
    in_leaf, in_pod = window.factor[c] * window.weights[0], window.factor[c] * window.weights[1]
    value += reach.price[leaf] - in_leaf * (2 * x + 1) - in_pod * (2 * y + 1)
    leaf_room = min(left, p - window.leaf_start[leaf])
    pod_room = min(left, p - window.leaf_start[window.pod_start[window.pod[leaf]]])
    # If no further node can join the leaf or pod, its count does not matter; 0 makes more parts comparable.
    x = x + 1 if leaf_room > 0 and in_leaf > 0 else 0
    y = y + 1 if pod_room > 0 and in_pod > 0 else 0
    parts.nested[entry], parts.in_leaf[entry], parts.in_pod[entry], parts.value[entry] = nested, x, y, value
    # Drop the part if even with the largest further saving its excess reaches the limit.
    key = x * (reach.width[c] if in_pod > 0 else 1) + y
    if tables.saving_stamp[key] != cursor[STAMP]:
        tables.saving_stamp[key] = cursor[STAMP]
        tables.saving[key] = left_saving(window, reach, c, leaf, leaf_room, left, x, y)
    saving = tables.saving[key]
    excess = value + reach.best[c] - saving
    if excess >= limit:
        return
    # Put the part on the list of its multiset, unless another part is as good for every continuation; drop the parts
    # that it dominates. One more node in the leaf is worth at most `leaf_slope`, one more in the pod `pod_slope`.
    leaf_slope, pod_slope = 2 * in_leaf * leaf_room, 2 * in_pod * pod_room
    head = tables.head[nested] if tables.stamp[nested] == cursor[STAMP] else -1
    other = head
    while other >= 0:
        dx, dy = x - parts.in_leaf[other], y - parts.in_pod[other]
        if parts.value[other] + max(dx, 0) * leaf_slope + max(dy, 0) * pod_slope <= value:
            return
        if value + max(-dx, 0) * leaf_slope + max(-dy, 0) * pod_slope <= parts.value[other]:
            parts.value[other] = np.inf
        other = parts.link[other]
    parts.link[entry], tables.head[nested], tables.stamp[nested] = head, entry, cursor[STAMP]
    parts.excess[entry], parts.rest[entry], parts.gap[entry] = excess, rest, gap
    cursor[N_PARTS] += 1


@inlined
def _extend(
    window: DcasWindow, reach: Reach, tables: Tables, limit: float, gap: int, inside: int, gap_excess: float
) -> int:
    """Add the parts that consist of a node, the gap and a part behind it; return the work done, or -1 if full."""
    parts, cursor = tables.parts, tables.cursor
    p, c, r = cursor[POSITION], cursor[CLASS], cursor[NODES]
    after = p + 1 + window.used[inside]
    first, last = parts.first[c, after, r - 1], parts.last[c, after, r - 1]
    if first == last:
        return 1
    # The block counts as one of its class, in addition to the nested blocks.
    taken = window.packed[inside] + window.packed[window.strides[c]]
    same_leaf = window.leaf[after] == window.leaf[p]
    same_pod = window.pod[window.leaf[after]] == window.pod[window.leaf[p]]
    for place in range(first, last):
        rest = parts.link[place]
        # Parts are sorted by increasing excess, so none of the later ones stays below the limit.
        if parts.excess[rest] + gap_excess >= limit:
            break
        if inside > 0 and not fit(window, taken, window.packed[parts.nested[rest]]):
            continue
        if cursor[N_PARTS] == parts.nested.size:
            return -1
        x = parts.in_leaf[rest] if same_leaf else 0
        y = parts.in_pod[rest] if same_pod else 0
        nested, value = parts.nested[rest] + inside, parts.value[rest] + gap_excess
        _add_part(window, reach, tables, limit, nested, value, x, y, rest, gap)
    return int(last - first)


@inlined
def _make_parts(window: DcasWindow, reach: Reach, tables: Tables, limit: float, most_work: int) -> int:
    """Make the parts at the cursor, from the gap ``NEXT`` on; return the work done, or -1 if the tables are full."""
    parts, fillings, cursor = tables.parts, tables.fillings, tables.cursor
    p, c, r = cursor[POSITION], cursor[CLASS], cursor[NODES]
    work, done = 1, 0
    if cursor[NEXT] == NOT_BEGUN:
        cursor[STAMP] += 1
        cursor[BEGIN] = cursor[N_PARTS]
        if r == 1 and cursor[N_PARTS] == parts.nested.size:
            return -1
        if r == 1:
            _add_part(window, reach, tables, limit, 0, 0.0, 0, 0, -1, -1)
        else:
            done = _extend(window, reach, tables, limit, -1, 0, 0.0)
        if done < 0:
            cursor[N_PARTS] = cursor[BEGIN]
            return -1
        cursor[NEXT] = fillings.first[p + 1]
    unit = window.packed[window.strides[c]]
    while r > 1 and cursor[NEXT] < fillings.last[p + 1]:
        gap = fillings.order[cursor[NEXT]]
        # Fillings are sorted by increasing excess, too.
        if fillings.excess[gap] >= limit:
            break
        work += done
        inside = fillings.blocks[gap]
        done = 1
        if p + 1 + window.used[inside] < window.leaf.size and fit(window, window.packed[inside], unit):
            done = _extend(window, reach, tables, limit, gap, inside, fillings.excess[gap])
        if done < 0:
            return -1
        cursor[NEXT] += 1
        if work + done >= most_work:
            return work + done
    # Remove entries that later ones dominate; their value is infinite.
    kept = cursor[BEGIN]
    for entry in range(cursor[BEGIN], cursor[N_PARTS]):
        if parts.value[entry] == np.inf:
            continue
        if kept < entry:
            parts.nested[kept], parts.value[kept] = parts.nested[entry], parts.value[entry]
            parts.excess[kept] = parts.excess[entry]
            parts.in_leaf[kept], parts.in_pod[kept] = parts.in_leaf[entry], parts.in_pod[entry]
            parts.rest[kept], parts.gap[kept] = parts.rest[entry], parts.gap[entry]
        kept += 1
    cursor[N_PARTS] = kept
    _sort(parts.link, parts.excess, cursor[BEGIN], cursor[N_PARTS])
    parts.first[c, p, r], parts.last[c, p, r] = cursor[BEGIN], cursor[N_PARTS]
    cursor[NEXT] = NOT_BEGUN
    return work + done


@inlined
def _offer_filling(tables: Tables, blocks: int, excess: float, part: int, rest: int) -> None:
    fillings, cursor, stamp = tables.fillings, tables.cursor, tables.cursor[STAMP]
    if tables.stamp[blocks] != stamp:
        tables.stamp[blocks], tables.head[blocks] = stamp, cursor[N_FILLINGS]
        cursor[N_FILLINGS] += 1
    elif fillings.excess[tables.head[blocks]] <= excess:
        return
    entry = tables.head[blocks]
    fillings.blocks[entry], fillings.excess[entry] = blocks, excess
    fillings.part[entry], fillings.rest[entry] = part, rest


@inlined
def _make_fillings(window: DcasWindow, tables: Tables, limit: float, most_work: int) -> int:
    """Make the fillings that begin with a block of the cursor's class, where ``NEXT`` is the next of its parts.

    Return the work done, or -1 if the tables are full.
    """
    parts, fillings, cursor = tables.parts, tables.fillings, tables.cursor
    p, m, c = cursor[POSITION], window.leaf.size, cursor[CLASS] - window.sizes.size
    n, stride = window.sizes[c], window.strides[c]
    work = 1
    if cursor[NEXT] == NOT_BEGUN:
        cursor[NEXT] = parts.first[c, p, n]
    while cursor[NEXT] < parts.last[c, p, n]:
        part = cursor[NEXT]
        blocks, excess = parts.nested[part] + stride, parts.excess[part]
        after = p + window.used[blocks]
        first, last = (fillings.first[after], fillings.last[after]) if after < m else (0, 0)
        if cursor[N_FILLINGS] + last - first + 1 > fillings.blocks.size:
            return -1
        _offer_filling(tables, blocks, excess, part, -1)
        for place in range(first, last):
            rest = fillings.order[place]
            total = excess + fillings.excess[rest]
            if total >= limit:
                break
            more = fillings.blocks[rest]
            if fit(window, window.packed[blocks], window.packed[more]):
                _offer_filling(tables, blocks + more, total, part, rest)
        work += last - first + 1
        cursor[NEXT] += 1
        if work >= most_work:
            return int(work)
    cursor[NEXT] = NOT_BEGUN
    return int(work)


@kernel(int64(WINDOW, REACH, record_type(Tables), float64, int64))
def advance(window: DcasWindow, reach: Reach, tables: Tables, limit: float, most_work: int) -> int:
    """Continue from the cursor for about ``most_work`` entries with excess below ``limit``.

    Return ``DONE``, ``PAUSED`` or ``FULL``.
    """
    work, fillings, cursor, n_classes = 0, tables.fillings, tables.cursor, window.sizes.size
    while cursor[POSITION] >= 0:
        if work >= most_work:
            return PAUSED
        makes_parts = cursor[CLASS] < n_classes
        if makes_parts:
            done = _make_parts(window, reach, tables, limit, most_work - work)
        else:
            done = _make_fillings(window, tables, limit, most_work - work)
        if done < 0:
            return FULL
        work += done
        if cursor[NEXT] != NOT_BEGUN:
            continue
        if makes_parts and cursor[NODES] < window.sizes[cursor[CLASS]]:
            cursor[NODES] += 1
            continue
        cursor[CLASS] += 1
        cursor[NODES] = 1
        if cursor[CLASS] == n_classes:
            cursor[STAMP] += 1
            cursor[BEGIN] = cursor[N_FILLINGS]
        elif cursor[CLASS] == 2 * n_classes:
            p = cursor[POSITION]
            _sort(fillings.order, fillings.excess, cursor[BEGIN], cursor[N_FILLINGS])
            fillings.first[p], fillings.last[p] = cursor[BEGIN], cursor[N_FILLINGS]
            cursor[POSITION] -= 1
            cursor[CLASS] = 0
    return DONE
