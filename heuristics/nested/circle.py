"""The circle of idle positions: who owns each, and the ring of those that are left over.

Left-over positions are linked to the next and the previous one of them around the circle. The nodes of a job are kept
as a *chain*: in the order in which they follow one another from the gap that holds the leftover to that gap again.
What lies in the other gaps are whole jobs, which are nested in it.
"""

from typing import NamedTuple

from numba import float64, int64, types

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.compiled import inlined

NOBODY = -1
"""Owner of a position that is left over."""


class Circle(NamedTuple):
    """What does not change.

    Parameters
    ----------
    groups
        Group of each position at each level that tells idle nodes apart, the groups of all levels numbered through,
        shape ``(M, levels)``; M is one more than the idle nodes where the jobs take all of them.
    weights
        What a squared count saves at each level, in hops, shape ``(levels,)``.
    sizes
        Nodes of each job, shape ``(J,)``.
    offset
        The chain of job j is ``chains[offset[j] : offset[j + 1]]``.
    barrier
        Position that is nobody's for ever, or -1: where no node is left over, it keeps the ring from being empty. A
        block of one position crosses no other, so that it forbids nothing.
    """

    groups: IntArray
    weights: FloatArray
    sizes: IntArray
    offset: IntArray
    barrier: int


class Ring(NamedTuple):
    """What changes.

    Parameters
    ----------
    owners
        Job of each position, or `NOBODY`, shape ``(M,)``.
    after, before
        Next and previous left-over position of each left-over one, shape ``(M,)``.
    chains
        Positions of the jobs, chain by chain.
    idle
        Number of positions left over, shape ``(1,)``.
    """

    owners: IntArray
    after: IntArray
    before: IntArray
    chains: IntArray
    idle: IntArray


CIRCLE = types.NamedTuple((int64[:, ::1], float64[::1], int64[::1], int64[::1], int64), Circle)
RING = types.NamedUniTuple(int64[::1], 5, Ring)


@inlined
def first_of(circle: Circle, ring: Ring, job: int) -> int:
    """First position of a job's chain."""
    return int(ring.chains[circle.offset[job]])


@inlined
def last_of(circle: Circle, ring: Ring, job: int) -> int:
    """Last position of a job's chain."""
    return int(ring.chains[circle.offset[job + 1] - 1])


@inlined
def left_of(ring: Ring, position: int) -> int:
    """Return the position before one, around the circle."""
    return position - 1 if position > 0 else ring.owners.size - 1


@inlined
def right_of(ring: Ring, position: int) -> int:
    """Return the position behind one, around the circle."""
    return position + 1 if position < ring.owners.size - 1 else 0


@inlined
def parent_of(circle: Circle, ring: Ring, job: int) -> int:
    """Innermost job in a gap of which a job lies, or `NOBODY`.

    Leftwards from the job lie whole jobs until a node of the leftover, or of the parent: there it is not the last one.
    """
    position = first_of(circle, ring, job)
    while True:
        position = left_of(ring, position)
        owner = ring.owners[position]
        if owner == NOBODY:
            return NOBODY
        if last_of(circle, ring, owner) != position:
            return int(owner)
        position = first_of(circle, ring, owner)


@inlined
def left_over_before(circle: Circle, ring: Ring, position: int) -> int:
    """Last left-over position before one, or that one itself."""
    while ring.owners[position] != NOBODY:
        position = left_of(ring, first_of(circle, ring, ring.owners[position]))
    return position


@inlined
def link_chain(circle: Circle, ring: Ring, job: int, previous: int) -> None:
    """Give a job's chain to the leftover, behind one of its positions."""
    following = ring.after[previous]
    for index in range(circle.offset[job], circle.offset[job + 1]):
        position = ring.chains[index]
        ring.owners[position] = NOBODY
        ring.after[previous] = position
        ring.before[position] = previous
        previous = position
    ring.after[previous] = following
    ring.before[following] = previous
    ring.idle[0] += circle.sizes[job]


@inlined
def unlink_chain(circle: Circle, ring: Ring, job: int) -> None:
    """Give a job its chain, which is consecutive in the ring."""
    previous = ring.before[first_of(circle, ring, job)]
    following = ring.after[last_of(circle, ring, job)]
    ring.after[previous] = following
    ring.before[following] = previous
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.owners[ring.chains[index]] = job
    ring.idle[0] -= circle.sizes[job]


@inlined
def take_window(circle: Circle, ring: Ring, job: int, start: int) -> None:
    """Give a job the positions of the ring from a first one on."""
    position = start
    for index in range(circle.offset[job], circle.offset[job + 1]):
        ring.chains[index] = position
        position = ring.after[position]
    unlink_chain(circle, ring, job)


@inlined
def remove(circle: Circle, ring: Ring, job: int) -> None:
    """Give the nodes of a job that has no parent to the leftover, which stays non-crossing with all other jobs."""
    link_chain(circle, ring, job, left_over_before(circle, ring, left_of(ring, first_of(circle, ring, job))))
