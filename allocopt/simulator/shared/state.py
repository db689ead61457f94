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


# Tables of what is free: now, when the reservation of each partition begins, and, last, scratch.
NOW, SCRATCH = 0, -1
# As in Slurm: conservative reservations begin and end at multiples of a minute (bf_resolution).
RESOLUTION_S = 60.0
# And after the jobs of a window have ended it is looked for room, first of half a minute, then of twice as much.
WINDOW_S = 30.0

ALONE = 2**40  # counts for a job that has its node alone: one that asks for no amounts is kept off by it only


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
    looked_at: int  # the waiting job that is next in a pass
    passed: int  # the one before it that goes on waiting, -1 for none


class FailureRecord(Protocol):
    """How far jobs of a shape were from having room when they were looked at last."""

    released: int  # `ClockRecord.n_released` then, -1 for never
    tasks: int  # that nodes had room for, at most
    nodes: int  # with room for a task, at most


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
    next_walk: float  # when the next pass that backfills conservatively is due
    is_walk: int  # whether the pass is one
    n_slots: int
    n_left: int  # shapes that a pass has still to look at
    n_chosen: int  # nodes in `Shared.chosen` for the job that is next in the pass, 0 where it has not been looked at
    table: int  # in which jobs have to fit: `NOW` or `SCRATCH`


class RulesRecord(Protocol):
    """How jobs are scheduled and placed."""

    allocation: int  # an `Allocation`
    backfill: int  # `Backfill.NONE`, ``EASY`` or ``CONSERVATIVE``
    period: float  # between two passes that backfill conservatively, in seconds
    is_asking: int  # whether the simulation stops where a job can start, to be told its nodes, 0 or 1


class PartitionRecord(Protocol):
    """The reservation of a partition's first waiting job."""

    job: int  # -1 for none
    is_blocked: int  # whether in this pass a job of the partition has found no room
    shadow: float  # when it can start by the estimates
    n_nodes: int  # that are reserved
    is_stale: int  # whether a job has gone since that may let it start earlier


class SlotRecord(Protocol):
    """A reservation of whole nodes for a time."""

    since: float
    until: float


class Shared(NamedTuple):
    """A simulation of jobs on shared nodes."""

    clock: Records[ClockRecord]
    rules: Records[RulesRecord]
    jobs: Records[JobRecord]
    shapes: Records[ShapeRecord]
    failures: Records[FailureRecord]  # beside no reservation, then beside some; ``(2 S,)``
    partitions: Records[PartitionRecord]
    capacity: IntMatrix  # shape ``(m, R)``
    room: Annotated[IntArray, 3]  # what is free by table, of reservations only on their nodes, ``(2 + P, m, R)``
    users: IntMatrix  # jobs on each node in the same tables, one that is there alone as `ALONE`; ``(2 + P, m)``
    respected: BoolArray  # partitions beside whose reservations a job that is placed has to fit, ``(P,)``
    respected_then: BoolMatrix  # the same at the failures of each shape beside reservations, ``(S, P)``
    reserved: BoolMatrix  # nodes by partition, ``(P, m)``
    planned: IntMatrix  # the same as numbers of nodes
    slots: Records[SlotRecord]  # reservations of a pass that backfills conservatively
    slot_nodes: BoolMatrix  # their nodes, ``(slots, m)``
    closed: BoolArray  # nodes that a job may not get for such a reservation, ``(m,)``
    per_task: IntMatrix  # amounts by shape, ``(S, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # sets of nodes, ``(M, m)``
    order: IntArray  # nodes by weight, then by number
    groups: IntMatrix  # group of every node by level, ``(L, m)``
    held: IntMatrix  # nodes and tasks of all jobs, one job after the other, ``(2, H)``
    releases: IntArray  # nodes that have got more room, in that order; a ring of the last ``m``
    lists: IntMatrix  # running jobs as a heap by end, and by expected end; ``(2, n)``
    waiting: IntMatrix  # shapes of which jobs wait, and those left in a pass as a heap by rank; ``(2, S)``
    allowed: BoolMatrix  # nodes in one of the masks of each shape, ``(S, m)``
    tasks_at: IntArray  # scratch: tasks that every node has room for, ``(m,)``
    chosen: IntMatrix  # scratch: nodes, room for tasks, sort keys, and tasks given, ``(4, m)``
    sums: IntMatrix  # scratch: tasks and nodes that a group has room for, and whether it is allowed, ``(3, G)``


SHARED = record_type(Shared)
ENDS, RUNNING = range(2)
ENDED, GOES_ON, ASKS = range(3)
