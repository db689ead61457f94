"""Episodes of policy selection side by side, as kernels take them."""

from typing import Any, NamedTuple, Protocol

from numba import boolean, float32, float64, int64, uint64

from allocopt.arrays import FloatArray, IntArray, WordArray
from allocopt.kernels.arrays import tuple_type
from allocopt.simulator.multicore import state as multicore_state
from allocopt.simulator.multicore.state import MULTICORE, Multicore
from allocopt.simulator.state import (
    CLOCK_DTYPE,
    JOB_DTYPE,
    RULES_DTYPE,
    STATE,
    STEP_DTYPE,
    Records,
    RulesRecord,
    State,
    Step,
    record_dtype,
    records_type,
)


class Tally(Protocol):
    """Where an episode stands, and what it has come to."""

    jobset: int
    """Its jobs."""
    over: int
    """1 once all of them have ended."""
    invalid: int
    """1 where the last action was void although nothing would have happened by itself."""
    decisions: int
    """Actions so far."""
    energy_j: float
    """Of the whole machine since the first submission."""
    makespan_s: float
    """Seconds since the first submission."""
    flow_time_s: float
    square_flow_time: float
    """Sums over the jobs submitted so far of the seconds since their submission, up to their end, and of its square."""
    done: float
    """Share of the work of all jobs, submitted or not, that is done."""
    computing: float
    """Sum, over the actions so far, of the billions of cycles per second that were computed right after them."""
    reward: float
    """What the last action gained."""
    total_reward: float
    """Sum of the rewards so far."""


class Terms(Protocol):
    """What the episodes have in common."""

    reward: int
    """A `RewardKind`."""
    most_speed: float
    """Speed of the fastest core, in billions of cycles per second."""
    most_power_w: float
    """Most that an active core draws, all of what its processor's cores share counted."""


class Episode(NamedTuple):
    """One episode of ``n`` jobs with ``T`` tasks.

    Parameters
    ----------
    state, multicore
        The simulation.
    tally, terms
        Where it stands, and the rules, shape ``(1,)`` each.
    actions
        The selections of jobs and cores of each action, shape ``(A, 2)``.
    traits
        What is told of the jobs, see `allocopt.envs.policy_selection.describe.traits`, shape ``(n, 4)``.
    ranks
        The jobs in rising order of each trait, shape ``(n, 4)``.
    """

    state: State
    multicore: Multicore
    tally: Records[Tally]
    terms: Records[Terms]
    actions: IntArray
    traits: FloatArray
    ranks: IntArray


class Batch(NamedTuple):
    """``E`` episodes of at most ``n`` jobs with ``T`` tasks, out of ``S`` job sets of ``J`` jobs with ``K`` tasks.

    Parameters
    ----------
    clock, records, lists, units, held
        As in `State`, the episodes in front; ``records`` are its jobs, here the tasks, shape ``(E, T)``.
    totals, processors, nodes, tasks, jobs, core_task, dirty, word
        As in `Multicore`, the episodes in front; ``totals`` are its tally.
    tally
        Where each episode stands, shape ``(E, 1)``.
    following
        Job set with which each episode begins anew when it ends, or ``STAY``, shape ``(E,)``.
    last
        What the episode came to that was over last in each place, shape ``(E, 1)``.
    rules, steps, unpromised, least
        As in `State`, the same for all.
    terms, actions
        As in `Episode`.
    first_clock, first_units, first_totals, first_processors, first_nodes
        The same before the first event: shapes ``(1,)``, ``(3, 1)``, ``(S, 1)``, ``(S, P)`` and ``(N,)``.
    values
        As in `Multicore`, the job sets in front, shape ``(S, 6, T)``.
    pool, request, task_pool
        The tasks of all job sets before the first event, shapes ``(K,)``, ``(K, 1)`` and ``(K,)``.
    job_pool, traits, ranks
        The jobs of all sets before the first event, shapes ``(J,)``, ``(J, 4)`` and ``(J, 4)``.
    bounds, task_bounds
        Where the jobs and the tasks of each job set begin, and where those of the last one end.
    """

    clock: Any
    records: Any
    lists: IntArray
    units: IntArray
    held: IntArray
    totals: Any
    processors: Any
    nodes: Any
    tasks: Any
    jobs: Any
    core_task: IntArray
    dirty: IntArray
    word: WordArray
    tally: Any
    following: IntArray
    last: Any
    rules: Records[RulesRecord]
    steps: Records[Step]
    unpromised: IntArray
    least: FloatArray
    terms: Records[Terms]
    actions: IntArray
    first_clock: Any
    first_units: IntArray
    first_totals: Any
    first_processors: Any
    first_nodes: Any
    values: FloatArray
    pool: Any
    request: IntArray
    task_pool: Any
    job_pool: Any
    traits: FloatArray
    ranks: IntArray
    bounds: IntArray
    task_bounds: IntArray


TALLY_DTYPE, TERMS_DTYPE = record_dtype(Tally), record_dtype(Terms)
TALLIES, TERMS = records_type(TALLY_DTYPE), records_type(TERMS_DTYPE)
_LIST, _LISTS, _CUBE, _TABLE = int64[::1], int64[:, ::1], int64[:, :, ::1], float64[:, ::1]
_TOTALS, _PROCESSORS, _NODES, _TASKS, _JOBS = (
    getattr(multicore_state, f"{name}_DTYPE") for name in ("TALLY", "PROCESSOR", "NODE", "TASK", "JOB")
)

EPISODE = tuple_type((STATE, MULTICORE, TALLIES, TERMS, _LISTS, _TABLE, _LISTS), Episode)
"""Numba type of `Episode`."""
BATCH = tuple_type(
    (
        *(records_type(CLOCK_DTYPE, 2), records_type(JOB_DTYPE, 2), _CUBE, _CUBE, _CUBE),
        *(records_type(dtype, 2) for dtype in (_TOTALS, _PROCESSORS, _NODES, _TASKS, _JOBS)),
        *(_LISTS, _LISTS, uint64[:, ::1], records_type(TALLY_DTYPE, 2), _LIST, records_type(TALLY_DTYPE, 2)),
        *(records_type(RULES_DTYPE), records_type(STEP_DTYPE), _LISTS, _TABLE, TERMS, _LISTS),
        *(records_type(CLOCK_DTYPE), _LISTS, records_type(_TOTALS, 2), records_type(_PROCESSORS, 2)),
        *(records_type(_NODES), float64[:, :, ::1]),
        *(records_type(JOB_DTYPE), _LISTS, records_type(_TASKS), records_type(_JOBS)),
        *(_TABLE, _LISTS, _LIST, _LIST),
    ),
    Batch,
)
"""Numba type of `Batch`."""
OBSERVATION, OBSERVATIONS = float32[::1], float32[:, ::1]
MASK, MASKS = boolean[::1], boolean[:, ::1]
