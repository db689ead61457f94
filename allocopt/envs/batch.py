"""Independent episodes side by side, as kernels take them: the arrays of `State` with the episodes in front."""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import float32, float64, int8, int64
from numpy.typing import NDArray

from allocopt.arrays import FloatArray, IntArray
from allocopt.kernels.arrays import tuple_type
from allocopt.simulator.state import (
    CLOCK_DTYPE,
    JOB_DTYPE,
    RULES_DTYPE,
    STEP_DTYPE,
    JobRecord,
    Records,
    RulesRecord,
    Step,
    record_dtype,
    records_type,
)

N_FEATURES = 8
"""Numbers that describe a slot; see `allocopt.envs.kernels.describe`."""

Observations = NDArray[np.float32]
Masks = NDArray[np.int8]


class Tally(Protocol):
    """What an episode has come to."""

    offset: int
    """First job of the episode in the workload."""
    over: int
    """1 once all its jobs have started."""
    invalid: int
    """1 where the last action was a slot nobody waited in."""
    started: int
    """Jobs started so far; what follows is over these."""
    bounded_slowdown: float
    """Sum of bounded slowdowns."""
    wait_s: float
    """Sum of waits."""
    area: float
    """Processor-seconds held."""
    makespan_s: float
    """Last end; the first submission is at 0."""
    reward: float
    """What the last action gained."""


class Goal(Protocol):
    """What an agent is rewarded for: the fields of `Reward`."""

    kind: int
    unit_s: float


class Batch(NamedTuple):
    """Episodes of ``n`` jobs each, ``B`` of them, of a workload of ``N`` jobs.

    Parameters
    ----------
    clock, jobs, lists, units, held
        As in `State`, the episodes in front: shapes ``(B, 1)``, ``(B, n)``, ``(B, 6, n)``, ``(B, 3, 1)``,
        ``(B, 1, 1)``.
    tally
        What each episode has come to, shape ``(B, 1)``.
    rules, steps, unpromised, least
        As in `State`, the same for all episodes.
    goal
        What the agent is rewarded for, shape ``(1,)``.
    pool
        The jobs of the workload before the first event, shape ``(N,)``.
    request
        Processors of each of them, shape ``(N, 1)``.
    """

    clock: Any
    jobs: Any
    lists: IntArray
    units: IntArray
    held: IntArray
    tally: Any
    rules: Records[RulesRecord]
    steps: Records[Step]
    unpromised: IntArray
    least: FloatArray
    goal: Records[Goal]
    pool: Records[JobRecord]
    request: IntArray


TALLY_DTYPE, GOAL_DTYPE = record_dtype(Tally), record_dtype(Goal)


TALLIES, GOALS = records_type(TALLY_DTYPE), records_type(GOAL_DTYPE)
BATCH = tuple_type(
    (
        *(records_type(CLOCK_DTYPE, 2), records_type(JOB_DTYPE, 2)),
        *(int64[:, :, ::1], int64[:, :, ::1], int64[:, :, ::1]),
        *(records_type(TALLY_DTYPE, 2), records_type(RULES_DTYPE), records_type(STEP_DTYPE), int64[:, ::1]),
        *(float64[:, ::1], GOALS, records_type(JOB_DTYPE), int64[:, ::1]),
    ),
    Batch,
)
"""Numba type of `Batch`."""
OBSERVATION, OBSERVATIONS = float32[:, ::1], float32[:, :, ::1]
MASK, MASKS = int8[::1], int8[:, ::1]
