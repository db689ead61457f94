"""The state of a simulation on shared nodes, as its kernels take it.

Jobs are numbered in the order of their submission, nodes in the order of their topology. Jobs that ask for the same,
for as long, are of one *shape*. Amounts are those of `allocopt.cluster.cluster.Cluster.capacity`.
"""

from enum import IntEnum
from typing import Annotated, NamedTuple, Protocol

from allocopt.arrays import BoolArray, IntArray
from allocopt.kernels.arrays import BoolMatrix, IntMatrix, Records, record_type


class Allocation(IntEnum):
    """How nodes are chosen for a job among those with room.

    By weight, then by number; by the fewest free cores; by the most; within the lowest switch below which the job fits,
    that with the least room left, the fewest free cores first.
    """

    FIRST_FIT = 0
    BEST_FIT = 1
    LEAST_LOADED = 2
    LOWEST_SWITCH = 3


NOW = 0  # the table of what is free now; the others are those of reservations, a partition each


class ShapeRecord(Protocol):
    """What jobs of a shape ask for beside amounts, and which of them wait."""

    estimate: float
    partition: int
    tasks: int
    least_nodes: int
    most_nodes: int
    most_tasks: int  # on a node
    is_exclusive: int  # whether they have their nodes alone, 0 or 1
    first_mask: int  # row of `Shared.masks`, of so many: sets of nodes of which a job takes all its nodes from one
    n_masks: int
    level: int  # a job stays within a group of it; -1 for none
    most_below: int  # groups of the level below that a job may span, 0 for any number
    first_waiting: int  # the waiting jobs, linked by rank, -1 for none
    last_waiting: int
    failed: int  # length of `Shared.releases` when no node had room last, -1 for not known
    long_failed: int  # the same where reservations were respected too, and `ClockRecord.plan` then
    long_plan: int


class JobRecord(Protocol):
    """A job."""

    submit: float
    run: float  # until it ends or is killed
    expected_end: float  # by its estimate
    start: float  # NaN before
    end: float
    shape: int
    next_waiting: int  # the next of its shape that waits, -1 for none
    first: int  # where its nodes begin in `Shared.held`
    n_nodes: int
    rank: int  # its place in the queue among all jobs


class ClockRecord(Protocol):
    """The numbers of a simulation that change."""

    now: float
    next_submission: int
    n_waiting: int  # shapes of which jobs wait
    n_events: int
    n_running: int
    n_held: int
    n_released: int
    plan: int  # rises when a reservation changes


class RulesRecord(Protocol):
    """How jobs are scheduled and placed."""

    allocation: int  # an `Allocation`
    is_easy: int  # whether others are backfilled, 0 or 1


class PartitionRecord(Protocol):
    """The reservation of a partition's first waiting job."""

    job: int  # -1 for none
    is_blocked: int  # whether in this pass a job of the partition has found no room
    shadow: float  # when it can start by the estimates
    is_stale: int  # whether a job has gone since that may let it start earlier


class Shared(NamedTuple):
    """A simulation of jobs on shared nodes."""

    clock: Records[ClockRecord]
    rules: Records[RulesRecord]
    jobs: Records[JobRecord]
    shapes: Records[ShapeRecord]
    partitions: Records[PartitionRecord]
    capacity: IntMatrix  # shape ``(m, R)``
    room: Annotated[IntArray, 3]  # free now, at each partition's shadow time, and scratch, ``(2 + P, m, R)``
    users: IntMatrix  # jobs on each node at the same times, shape ``(2 + P, m)``
    respected: BoolArray  # in which of these but the scratch the job that is placed has to fit, ``(1 + P,)``
    per_task: IntMatrix  # amounts by shape, ``(S, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # sets of nodes, ``(M, m)``
    order: IntArray  # nodes by weight, then by number
    groups: IntMatrix  # group of every node by level, ``(L, m)``
    held: IntMatrix  # nodes and tasks of all jobs, one job after the other, ``(2, H)``
    releases: IntArray  # nodes from which a job has gone, in that order
    lists: IntMatrix  # running jobs as a heap by end, and by expected end; ``(2, n)``
    waiting: IntMatrix  # shapes of which jobs wait, and those left in a pass as a heap by rank; ``(2, S)``
    allowed: BoolMatrix  # nodes in one of the masks of each shape, ``(S, m)``
    tasks_at: IntArray  # scratch: tasks that every node has room for, ``(m,)``
    chosen: IntMatrix  # scratch: nodes, room for tasks, sort keys, and tasks given, ``(4, m)``
    sums: IntMatrix  # scratch: tasks and nodes that a group has room for, and whether it is allowed, ``(3, G)``


SHARED = record_type(Shared)
ENDS, RUNNING = range(2)
