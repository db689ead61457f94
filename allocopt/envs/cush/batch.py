"""Episodes of the CuSH environment side by side, as kernels take them."""

from typing import Any, NamedTuple, Protocol

from numba import boolean, float32, float64, int64

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import tuple_type
from allocopt.simulator.state import Records, record_dtype, records_type

NOBODY = -1
"""Stands where there is no job."""


class Tally(Protocol):
    """Where an episode stands, and what it has come to."""

    jobset: int
    """Its jobs."""
    over: int
    """1 once all of them have ended."""
    now: int
    """The timestep."""
    arrived: int
    """Jobs that have arrived so far: the first ones of the job set."""
    admitted: int
    """Jobs that have come into the queue so far; those between wait in the backlog."""
    started: int
    ended: int
    running: int
    """Jobs that have started and ended so far, and that run now."""
    free_cpus: int
    free_gpus: int
    """Units that nobody holds."""
    steps: int
    """Actions so far."""
    invalid: int
    """1 where the last action named a job that cannot start."""
    wait: float
    service: float
    turnaround: float
    normalized_turnaround: float
    penalty: float
    """Sums over the jobs that have started."""
    makespan: int
    """Timestep by which the last of them has ended."""
    reward: float
    """What the last action gained."""
    total_reward: float
    """Sum of the rewards so far."""
    local_reward: float
    """Sum of the paper's local rewards so far, whatever is paid."""


class Terms(Protocol):
    """What the episodes have in common."""

    nodes: int
    cpus: int
    gpus: int
    """The fields of `Machine`."""
    skips_forced: int
    """Whether time passes by itself where nothing can be chosen."""
    waiting: float
    normalized_turnaround: float
    penalty: float
    """The fields of `Weights`."""


class Episode(NamedTuple):
    """One episode of ``n`` jobs.

    Parameters
    ----------
    tally, terms
        Where it stands, and the rules, shape ``(1,)``.
    slots
        Jobs in the queue, ``NOBODY`` in an empty slot, shape ``(Q,)``.
    list
        The running jobs, those that end first in front, as many as run; shape ``(n,)``.
    start, end, policy
        Timestep in which each job started, ``NOBODY`` before; the one from which on its units are free; and how it was
        allocated, shape ``(n,)``.
    holder, until
        Who held each unit last, and the timestep from which on it is free, shape ``(U,)``: the CPUs node by node, then
        the GPUs.
    room
        For a number per node.
    arrival, length, request, service, traits
        The jobs, see `JobSet`.
    """

    tally: Records[Tally]
    terms: Records[Terms]
    slots: IntArray
    list: IntArray
    start: IntArray
    end: IntArray
    policy: IntArray
    holder: IntArray
    until: IntArray
    room: IntArray
    arrival: IntArray
    length: FloatArray
    request: IntArray
    service: FloatArray
    traits: FloatArray


class Batch(NamedTuple):
    """``E`` episodes, out of job sets of ``J`` jobs in all.

    Parameters
    ----------
    tally, slots, list, start, end, policy, holder, until
        As in `Episode`, the episodes in front.
    following
        Job set with which each episode begins anew when it ends, or ``STAY``, shape ``(E,)``.
    last
        What the episode came to that was over last in each place, shape ``(E, 1)``.
    terms, room
        As in `Episode`.
    arrival, length, request, service, traits
        The jobs of all sets.
    bounds
        Where each job set begins, and where the last one ends.
    """

    tally: Any
    slots: IntArray
    list: IntArray
    start: IntArray
    end: IntArray
    policy: IntArray
    holder: IntArray
    until: IntArray
    following: IntArray
    last: Any
    terms: Records[Terms]
    room: IntArray
    arrival: IntArray
    length: FloatArray
    request: IntArray
    service: FloatArray
    traits: FloatArray
    bounds: IntArray


TALLY_DTYPE, TERMS_DTYPE = record_dtype(Tally), record_dtype(Terms)
TALLIES, TERMS = records_type(TALLY_DTYPE), records_type(TERMS_DTYPE)
_LIST, _LISTS, _NUMBERS, _TABLE = int64[::1], int64[:, ::1], float64[::1], float64[:, ::1]
_JOBS = (_LIST, _NUMBERS, _LISTS, _TABLE, _TABLE)
EPISODE = tuple_type((TALLIES, TERMS, *(_LIST,) * 8, *_JOBS), Episode)
"""Numba type of `Episode`."""
_TALLIES = records_type(TALLY_DTYPE, 2)
BATCH = tuple_type((_TALLIES, *(_LISTS,) * 7, _LIST, _TALLIES, TERMS, _LIST, *_JOBS, _LIST), Batch)
"""Numba type of `Batch`."""
SLOTS, ALL_SLOTS = float32[:, ::1], float32[:, :, ::1]
IMAGE, IMAGES = float32[:, :, ::1], float32[:, :, :, ::1]
MASK, MASKS = boolean[::1], boolean[:, ::1]
