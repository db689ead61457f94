"""The state of a simulation on shared nodes, as its kernels take it.

Jobs are numbered in the order of their submission, nodes in the order of their topology. Jobs that ask for the same,
for as long, are of one *shape*. Amounts are those of `allocopt.cluster.cluster.Cluster.capacity`.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.cluster import Cluster
from allocopt.cluster.request import ClusterRequest, mask_table
from allocopt.kernels.arrays import BoolMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.simulator.rules import Backfill, EventOrder
from allocopt.simulator.state import NOBODY, EventClock, EventJob, EventRules, first_clock, wait_for, waiting_jobs


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


class _ShapeRecord(Protocol):
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
    union: int  # row of `Shared.allowed`: the nodes in any of them
    level: int  # a job stays within a group of it; -1 for none
    is_limited: int  # whether it may span only some groups of lower levels, 0 or 1; see `Shared.most_groups`
    part: int  # its number of nodes is a multiple of it: those of its largest segments, 1 for none
    first_waiting: int  # the waiting jobs, linked by rank, -1 for none
    last_waiting: int
    looked_at: int  # the waiting job that is next in a pass
    passed: int  # the one before it that goes on waiting, -1 for none


class _FailureRecord(Protocol):
    """How far jobs of a shape were from having room when they were looked at last."""

    released: int  # `n_released` of the clock then, -1 for never
    tasks: int  # that nodes had room for, at most
    nodes: int  # with room for a task, at most


class _JobRecord(EventJob, Protocol):
    """A job."""

    shape: int
    next_waiting: int  # the next of its shape that waits, -1 for none
    first: int  # where its nodes begin in `Shared.held`
    n_nodes: int
    rank: int  # its place in the queue among all jobs


class _ClockRecord(EventClock, Protocol):
    """The numbers of a simulation that change."""

    n_arrived: int  # jobs that have joined the queue
    n_waiting: int  # shapes of which jobs wait
    n_held: int
    n_released: int
    next_walk: float  # when the next pass that backfills conservatively is due
    is_walk: int  # whether the pass is one
    n_slots: int
    work: int  # units that are left until the simulation pauses: nodes and jobs that are looked at
    n_left: int  # shapes that a pass has still to look at
    n_chosen: int  # nodes in `Shared.chosen` for the job that is next in the pass, 0 where it has not been looked at
    table: int  # in which jobs have to fit: `NOW` or `SCRATCH`


class _RulesRecord(EventRules, Protocol):
    """How jobs are scheduled and placed."""

    allocation: int  # an `Allocation`
    backfill: int  # `Backfill.NONE`, ``EASY`` or ``CONSERVATIVE``
    period: float  # between two passes that backfill conservatively, in seconds
    is_asking: int  # whether the simulation stops where a job can start, to be told its nodes, 0 or 1
    is_by_arrival: int  # whether jobs of equal rank are in the order in which they join the queue, 0 or 1


class _PartitionRecord(Protocol):
    """The reservation of a partition's first waiting job."""

    job: int  # -1 for none
    is_blocked: int  # whether in this pass a job of the partition has found no room
    shadow: float  # when it can start by the estimates
    n_nodes: int  # that are reserved
    # Whether a job has gone since that may let it start earlier, or one has started that holds reserved nodes then.
    is_stale: int


class _SlotRecord(Protocol):
    """A reservation of whole nodes for a time."""

    since: float
    until: float


class Shared(NamedTuple):
    """A simulation of jobs on shared nodes."""

    clock: Records[_ClockRecord]
    rules: Records[_RulesRecord]
    jobs: Records[_JobRecord]
    shapes: Records[_ShapeRecord]
    failures: Records[_FailureRecord]  # beside no reservation, then beside some; ``(2 S,)``
    partitions: Records[_PartitionRecord]
    capacity: IntMatrix  # shape ``(m, R)``
    room: Annotated[IntArray, 3]  # what is free by table, of reservations only on their nodes, ``(2 + P, m, R)``
    users: IntMatrix  # jobs on each node in the same tables, one that is there alone as `ALONE`; ``(2 + P, m)``
    respected: BoolArray  # partitions beside whose reservations a job that is placed has to fit, ``(P,)``
    respected_then: BoolMatrix  # the same when room was last counted for a shape beside reservations, ``(S, P)``
    reserved: BoolMatrix  # nodes by partition, ``(P, m)``
    planned: IntMatrix  # the same as numbers of nodes
    slots: Records[_SlotRecord]  # reservations of a pass that backfills conservatively
    slot_nodes: BoolMatrix  # their nodes, ``(slots, m)``
    closed: BoolArray  # nodes that a job may not get for such a reservation, ``(m,)``
    per_task: IntMatrix  # amounts by shape, ``(S, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # sets of nodes, ``(M, m)``
    order: IntArray  # nodes by weight, then by number
    groups: IntMatrix  # group of every node by level, ``(L, m)``
    most_groups: IntMatrix  # groups of each level that jobs of a shape may span, 0 for any number, ``(S, L)``
    segments: IntMatrix  # of what the nodes in a group of each level are a multiple, 0 for any number, ``(S, L)``
    held: IntMatrix  # nodes and tasks of all jobs, one job after the other, ``(2, H)``
    releases: IntArray  # nodes that have got more room, in that order; a ring of the last ``m``
    lists: IntMatrix  # lists of jobs, see `allocopt.simulator.state.EVENTS`; ``(4, n)``
    # Shapes of which jobs wait, those left in a pass as a heap, and by shape the rank of the job looked at; ``(3, S)``.
    waiting: IntMatrix
    allowed: BoolMatrix  # nodes in one of the masks of a shape, see `ShapeRecord.union`; ``(U, m)``
    tasks_at: IntArray  # scratch: tasks that every node has room for, ``(m,)``
    chosen: IntMatrix  # scratch: nodes; by node room for tasks and sort keys; tasks given, as the nodes; ``(4, m)``
    sums: IntMatrix  # scratch: tasks and nodes that a group has room for, ``(2, G)``
    inside: BoolArray  # scratch: nodes in groups that the job that is looked at may span, ``(m,)``


SHARED = record_type(Shared)
OVER, GOES_ON, ASKS = range(3)
UNLIMITED = 2**62  # work, where a simulation must not pause


class SharedRules(NamedTuple):
    """How jobs are scheduled and placed.

    Conservative backfilling looks every ``period`` seconds at the first jobs of the queue, ``depth`` at most, as Slurm
    does (bf_interval, bf_max_job_test); between, jobs start as without backfilling.
    """

    allocation: Allocation = Allocation.FIRST_FIT
    backfill: Backfill = Backfill.NONE
    period: float = 30.0
    depth: int = 500


class SharedMachine(NamedTuple):
    """Nodes that jobs share, as the engine sees them."""

    capacity: IntMatrix  # amounts by node and resource, cores first, ``(m, R)``
    groups: IntMatrix  # groups of the nodes by level below the top, ``(L, m)``
    weights: IntArray  # of the nodes, the lowest first in the order of `Allocation.FIRST_FIT`
    n_partitions: int = 1

    @classmethod
    def of(cls, cluster: Cluster) -> "SharedMachine":
        """Return the nodes of a cluster."""
        weights = np.array([node.weight for node in cluster.nodes])
        return cls(cluster.capacity, cluster.topology.tree.groups, weights, max(len(cluster.partitions), 1))


class Waits(NamedTuple):
    """Jobs that wait for others: the row of each job's preceding one, -1 for none, and seconds from its end, ``(n,)``.

    Where the queue is by arrival, ranks are multiples of the number of jobs: jobs of equal rank are in the order in
    which they join.
    """

    preceding: IntArray
    think: FloatArray
    is_by_arrival: bool


def new_shared(
    machine: SharedMachine,
    requests: Sequence[ClusterRequest],
    request: IntArray,
    submit: FloatArray,
    run: FloatArray,
    estimate: FloatArray,
    rank: IntArray,
    rules: SharedRules,
    waits: Waits | None = None,
) -> Shared:
    """Return the state of a simulation before its first event; jobs are in the order of submission."""
    kinds, shape_of = np.unique(np.stack((request, estimate)), axis=1, return_inverse=True)
    asked = [requests[int(number)] for number in kinds[0]]
    n, m, parts = len(submit), len(machine.capacity), machine.n_partitions
    slots = min(rules.depth, n)
    followed, shapes, failures, partitions, reservations = (
        np.zeros(size, dtype=record_dtype(record))
        for record, size in (
            (_RulesRecord, 1),
            (_ShapeRecord, len(asked)),
            (_FailureRecord, 2 * len(asked)),
            (_PartitionRecord, parts),
            (_SlotRecord, slots),
        )
    )
    clock = first_clock(_ClockRecord)
    clock["next_walk"] = np.inf
    followed["event_order"], followed["track_running"] = EventOrder.BATCHED, True
    for name in ("allocation", "backfill", "period"):
        followed[name] = getattr(rules, name)
    jobs = waiting_jobs(_JobRecord, submit, run, estimate)
    jobs["rank"], jobs["shape"], jobs["next_waiting"] = rank, shape_of.reshape(-1), NOBODY
    if waits is not None:
        wait_for(jobs, waits.preceding, waits.think)
        followed["is_by_arrival"] = waits.is_by_arrival
    shapes["estimate"], shapes["first_waiting"] = kinds[1], -1
    partitions["job"] = -1
    masks, first_mask = mask_table(asked)
    _, some, union = np.unique(first_mask, return_index=True, return_inverse=True)
    shapes["first_mask"], shapes["union"] = first_mask, union.reshape(-1)
    for shape, one in zip(shapes, asked, strict=True):
        level = one.level
        shape["tasks"], shape["least_nodes"], shape["most_nodes"] = one.tasks, one.least_nodes, one.most_nodes
        shape["most_tasks"], shape["is_exclusive"], shape["partition"] = one.most_tasks, one.is_exclusive, one.partition
        shape["n_masks"], shape["part"] = len(one.masks), one.part
        shape["level"], shape["is_limited"] = level, any(one.most_groups[: level if level >= 0 else None])
    failures["released"] = -1
    groups = machine.groups.copy()
    segments = [one.segments or (0,) * len(groups) for one in asked]
    held = int(np.array([min(one.most_nodes, m) for one in requests])[request].sum())
    return Shared(
        clock,
        followed,
        jobs,
        shapes,
        failures,
        partitions,
        machine.capacity.copy(),
        np.repeat(machine.capacity[None], 2 + parts, axis=0),
        np.zeros((2 + parts, m), dtype=np.int64),
        np.zeros(parts, dtype=np.bool_),
        np.zeros((len(asked), parts), dtype=np.bool_),
        np.zeros((parts, m), dtype=np.bool_),
        np.zeros((parts, m), dtype=np.int64),
        reservations,
        np.zeros((slots if rules.backfill is Backfill.CONSERVATIVE else 1, m), dtype=np.bool_),
        np.zeros(m, dtype=np.bool_),
        np.stack([one.per_task for one in asked]),
        np.stack([one.per_node for one in asked]),
        masks,
        np.lexsort((np.arange(m), machine.weights)),
        groups,
        np.array([one.most_groups for one in asked], dtype=np.int64).reshape(len(asked), len(groups)),
        np.array(segments, dtype=np.int64).reshape(len(asked), len(groups)),
        np.zeros((2, held), dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros((4, n), dtype=np.int64),
        np.zeros((3, len(asked)), dtype=np.int64),
        np.stack([asked[number].masks.any(axis=0) for number in some.tolist()]),
        np.zeros(m, dtype=np.int64),
        np.zeros((4, m), dtype=np.int64),
        np.zeros((2, int(groups.max()) + 1 if groups.size else 1), dtype=np.int64),
        np.zeros(m, dtype=np.bool_),
    )
