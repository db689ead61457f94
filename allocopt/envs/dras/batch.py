"""Episodes of two-level scheduling side by side, as kernels take them."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import boolean, float32, float64, int64
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import tuple_type
from allocopt.simulator.state import (
    CLOCK_DTYPE,
    JOB_DTYPE,
    RULES_DTYPE,
    STATE,
    STEP_DTYPE,
    JobRecord,
    Records,
    RulesRecord,
    State,
    Step,
    record_dtype,
    records_type,
)

Observations = NDArray[np.float32]


class Instance(Protocol):
    """A scheduling instance: what is to be chosen now."""

    level: int
    """A `Level`."""
    n_slots: int
    """Occupied slots of the window."""
    holder: int
    """The job that has the reservation, or ``NOBODY``."""
    shadow: float
    """When that job starts at the latest, by the estimates."""
    spare: int
    """Processors that a job may hold beyond that time."""


class Tally(Protocol):
    """What an episode has come to."""

    jobset: int
    """Its jobs."""
    episode: int
    """Episodes before it in its place."""
    over: int
    """1 once all of them have started."""
    invalid: int
    """1 where the last action was not legal."""
    started: int
    """Jobs started so far."""
    instances: int
    """Scheduling instances so far."""
    choices: int
    """Actions so far."""
    wait_s: float
    square_wait: float
    longest_wait_s: float
    """Sum of the waits so far, of those who wait too; of their squares, where these are paid for; the longest."""
    bounded_slowdown: float
    """Sum over the jobs started so far."""
    makespan_s: float
    """From the first submission to the last end."""
    total_reward: float
    """Sum of the rewards so far."""
    reward: float
    """What the last action gained."""


class Terms(Protocol):
    """What the episodes have in common: the fields of `Weights`, and what follows."""

    oldest: float
    size: float
    used: float
    capacity: float
    mean_wait: float
    mean_square_wait: float
    longest_wait: float
    bounded_slowdown: float
    unit_s: float
    reservations: int
    """A `Reservations`."""
    skips_forced: int
    """Whether a choice is made by itself where only one action is legal."""


class Episode(NamedTuple):
    """One episode of ``n`` jobs.

    Parameters
    ----------
    state
        The simulation; its list ``CANDIDATES`` is not used.
    instance, tally, terms
        What is to be chosen, what it has come to, and the rules; shape ``(1,)`` each.
    modes
        The `Mode` of each job, shape ``(n,)``.
    slots
        Places in the queue of the jobs in the window, shape ``(W,)``.
    traits
        What is known of each job beforehand, see `allocopt.envs.dras.describe.traits`, shape ``(n, 2)``.
    ladder
        Room for as many numbers as there are jobs.
    """

    state: State
    instance: Records[Instance]
    tally: Records[Tally]
    terms: Records[Terms]
    modes: IntArray
    slots: IntArray
    traits: FloatArray
    ladder: IntArray


class Batch(NamedTuple):
    """``E`` episodes of at most ``n`` jobs each, out of jobsets of ``N`` jobs in all.

    Parameters
    ----------
    clock, jobs, lists, units, held
        As in `State`, the episodes in front: ``(E, 1)``, ``(E, n)``, ``(E, 6, n)``, ``(E, 3, 1)``, ``(E, 1, 1)``.
    instance, tally, modes, slots
        As in `Episode`, the episodes in front.
    following
        Jobset that each episode begins with when it ends, or ``STAY``, shape ``(E,)``.
    last
        What the episode came to that was over last in each place, shape ``(E, 1)``.
    rules, steps, unpromised, least
        As in `State`, the same for all.
    terms, ladder
        As in `Episode`.
    pool, request, traits
        The jobs of all jobsets before the first event: ``(N,)``, ``(N, 1)``, ``(N, 2)``.
    bounds
        Where each jobset begins, and where the last one ends.
    """

    clock: Any
    jobs: Any
    lists: IntArray
    units: IntArray
    held: IntArray
    instance: Any
    tally: Any
    modes: IntArray
    slots: IntArray
    following: IntArray
    last: Any
    rules: Records[RulesRecord]
    steps: Records[Step]
    unpromised: IntArray
    least: FloatArray
    terms: Records[Terms]
    ladder: IntArray
    pool: Records[JobRecord]
    request: IntArray
    traits: FloatArray
    bounds: IntArray


INSTANCE_DTYPE, TALLY_DTYPE, TERMS_DTYPE = map(record_dtype, (Instance, Tally, Terms))

INSTANCES, TALLIES, TERMS = (records_type(dtype) for dtype in (INSTANCE_DTYPE, TALLY_DTYPE, TERMS_DTYPE))
_LIST, _TABLE = int64[::1], float64[:, ::1]
EPISODE = tuple_type((STATE, INSTANCES, TALLIES, TERMS, _LIST, _LIST, _TABLE, _LIST), Episode)
"""Numba type of `Episode`."""
BATCH = tuple_type(
    (
        *(records_type(CLOCK_DTYPE, 2), records_type(JOB_DTYPE, 2)),
        *(int64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1]),
        *(records_type(INSTANCE_DTYPE, 2), records_type(TALLY_DTYPE, 2), int64[:, ::1], int64[:, ::1], _LIST),
        *(records_type(TALLY_DTYPE, 2), records_type(RULES_DTYPE), records_type(STEP_DTYPE), int64[:, ::1]),
        *(_TABLE, TERMS, _LIST, records_type(JOB_DTYPE), int64[:, ::1], _TABLE, _LIST),
    ),
    Batch,
)
"""Numba type of `Batch`."""
OBSERVATION, OBSERVATIONS = float32[:, ::1], float32[:, :, ::1]
MASK, MASKS = boolean[::1], boolean[:, ::1]
