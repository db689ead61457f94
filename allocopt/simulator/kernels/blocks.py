"""An index over a long queue: which of its blocks may hold a job that may be backfilled.

The queue is cut into blocks of so many columns. A column of `State.least` has lower bounds for the jobs of a block: the
least units that one asks for of the first resource, and for ``k = 0, 1, ...`` the least estimate of those that ask for
less than ``2**k`` units. A job that leaves does not raise the bounds of its block; who looks through it in vain does.

Nothing moves up when a job leaves an indexed queue: its complement stays and keeps the order, until there are more of
those than jobs.
"""

import numpy as np
from numba import void

from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import EXTRA, FREE, QUEUE, STATE, State

EASY = int(Backfill.EASY)

BLOCK, SIZE_CLASSES = 128, 24
"""Columns of a block; jobs of ``2**(SIZE_CLASSES - 2)`` units and more are of one class."""

LONG, SHORT = 1024, 256
"""Waiting jobs from which on there is an index, and below which there is none: a short queue is read faster."""


@inlined
def end_of_queue(state: State) -> int:
    """Return the column after the last job."""
    clock = state.clock[0]
    return int(clock.first + clock.n_queued + clock.n_gone)


@inlined
def _size_class(units: int) -> int:
    """Return the number of binary digits, at most that of the last class."""
    digits = 0
    while units > 0 and digits < SIZE_CLASSES - 1:
        units >>= 1
        digits += 1
    return digits


@helper()
def tighten(state: State, block: int) -> None:
    """Set the bounds of a block to what its jobs ask for."""
    least, clock = state.least, state.clock[0]
    least[:, block] = np.inf
    for column in range(max(clock.first, block * BLOCK), min(end_of_queue(state), (block + 1) * BLOCK)):
        job = state.lists[QUEUE, column]
        if job >= 0:
            k = 1 + _size_class(state.request[job, 0])
            least[0, block] = min(least[0, block], state.request[job, 0])
            least[k, block] = min(least[k, block], state.jobs[job].estimate)
    for k in range(2, 1 + SIZE_CLASSES):
        least[k, block] = min(least[k, block], least[k - 1, block])


@helper()
def _include(state: State, block: int, job: int) -> None:
    least, estimate = state.least, state.jobs[job].estimate
    least[0, block] = min(least[0, block], state.request[job, 0])
    k = 1 + _size_class(state.request[job, 0])
    # No class has a higher bound than one of smaller jobs.
    while k <= SIZE_CLASSES and estimate < least[k, block]:
        least[k, block] = estimate
        k += 1


@helper()
def insert_indexed(state: State, at: int, job: int) -> None:
    """Put a job at a column; those after it make room up to the next one that is left, or the end."""
    jobs, clock, end = state.lists[QUEUE], state.clock[0], end_of_queue(state)
    room = at
    while room < end and jobs[room] >= 0:
        room += 1
    clock.n_gone -= room < end
    for column in range(room, at, -1):
        jobs[column] = jobs[column - 1]
        if column % BLOCK == 0:
            _include(state, column // BLOCK, jobs[column])
    jobs[at] = job
    _include(state, at // BLOCK, job)


@inlined
def is_untidy(state: State) -> bool:
    """Whether an index is to begin, to be renewed or to end."""
    clock = state.clock[0]
    if clock.indexed:
        return bool(clock.n_gone > clock.n_queued or clock.n_queued < SHORT)
    return bool(clock.n_queued > LONG and state.least.size > 0)


@kernel(void(STATE))
def tidy_queue(state: State) -> None:
    """Begin, renew or end the index; afterwards no column is left."""
    clock, jobs, end = state.clock[0], state.lists[QUEUE], end_of_queue(state)
    at = clock.first
    for column in range(clock.first, end):
        if jobs[column] >= 0:
            jobs[at] = jobs[column]
            at += 1
    clock.n_gone = 0
    clock.indexed = clock.n_queued >= SHORT
    if clock.indexed:
        for block in range(clock.first // BLOCK, (at - 1) // BLOCK + 1):
            tighten(state, block)


@inlined
def next_block(state: State, block: int, end: int) -> int:
    """Return the first block from one on that may hold a job that fits and does not delay the head, or ``end``."""
    least, free = state.least, state.units[FREE, 0]
    if state.rules[0].backfill != EASY:
        while block < end and least[0, block] > free:
            block += 1
        return block
    now, shadow = state.clock[0].now, state.clock[0].shadow
    small, k = min(free, state.units[EXTRA, 0]), 1 + _size_class(free)
    while block < end and least[0, block] > small and (least[0, block] > free or now + least[k, block] > shadow):
        block += 1
    return block
