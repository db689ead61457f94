"""The recursion of the DCAS dynamic program, position by position from the right.

A *part* is the right-hand end of a block: its last r nodes, beginning at a position, with whole blocks nested in the
gaps between them. A *filling* is an interval filled exactly by whole blocks. A part of r nodes is a node, a gap that is
empty or holds a filling, and a part of r - 1 nodes; a filling is a part of all nodes of a block and a filling behind
it. What is kept and compared is the *excess*: cost and prices beyond what the blocks would cost alone. It is never
negative, so that whatever reaches ``limit`` can be left out.
"""

from numba import float64, int64

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import inlined, kernel
from formulations.dynamic.dcas.classes import CLASSES, Classes
from formulations.dynamic.dcas.fillings import make_fillings, sort_fillings
from formulations.dynamic.dcas.parts import make_parts
from formulations.dynamic.dcas.reach import REACH, Reach
from formulations.dynamic.dcas.sequence import SEQUENCE, Sequence
from formulations.dynamic.dcas.tables import (
    BEGIN,
    CLASS,
    FILLINGS,
    N_FILLINGS,
    NEXT,
    NODES,
    NOT_BEGUN,
    PARTS,
    POSITION,
    SCRATCH,
    STAMP,
    Fillings,
    Parts,
    Scratch,
)

DONE, PAUSED, FULL = 0, 1, 2
"""How `advance` ends: at the end, after the work it was given, or when its tables are full."""


@inlined
def _turn(classes: Classes, fillings: Fillings, cursor: IntArray) -> None:
    """Move the cursor on after a step: first all parts of a position, class by class, then all its fillings."""
    n_classes = classes.sizes.size
    if cursor[CLASS] < n_classes:
        cursor[NODES] += 1
        if cursor[NODES] > classes.sizes[cursor[CLASS]]:
            cursor[CLASS] += 1
            cursor[NODES] = 1
        if cursor[CLASS] == n_classes:
            cursor[STAMP] += 1
            cursor[BEGIN] = cursor[N_FILLINGS]
        return
    cursor[CLASS] += 1
    if cursor[CLASS] == 2 * n_classes:
        p = cursor[POSITION]
        sort_fillings(fillings, cursor[BEGIN], cursor[N_FILLINGS])
        fillings.first[p], fillings.last[p] = cursor[BEGIN], cursor[N_FILLINGS]
        cursor[POSITION] -= 1
        cursor[CLASS] = 0


@kernel(int64(SEQUENCE, CLASSES, REACH, PARTS, FILLINGS, SCRATCH, int64[::1], float64, int64))
def advance(
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
    """Go on with the recursion from the cursor for about ``most_work`` steps; return how it ended.

    Parameters
    ----------
    sequence, classes, reach
        The window, and bounds on what blocks can save.
    parts, fillings
        The tables, written in place.
    scratch, cursor
        Working space, and where the recursion stands; it begins at the last position with class 0 and one node.
    limit
        Excess that is too much.
    most_work
        Entries looked at before it pauses.
    """
    work = 0
    while cursor[POSITION] >= 0:
        if work >= most_work:
            return PAUSED
        left = most_work - work
        if cursor[CLASS] < classes.sizes.size:
            done = make_parts(sequence, classes, reach, parts, fillings, scratch, cursor, limit, left)
        else:
            done = make_fillings(sequence, classes, parts, fillings, scratch, cursor, limit, left)
        if done < 0:
            return FULL
        work += done
        if cursor[NEXT] == NOT_BEGUN:
            _turn(classes, fillings, cursor)
    return DONE
