"""The state of a simulation on shared nodes, in the form that its kernels use.

Jobs are numbered in the order of their submission, nodes in the order of their topology. Jobs with equal requests and
estimates have one *shape*. Waiting jobs of one shape form *lines*: jobs of a line never overtake one another, so only
the first jobs of lines must be compared. Amounts are in units of `allocopt.cluster.cluster.Cluster.capacity`.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.cluster import UNKNOWN_MEMORY_MIB, Cluster
from allocopt.cluster.request import ClusterRequest, mask_table
from allocopt.kernels.arrays import BoolMatrix, IntMatrix, Records, record_dtype, record_type
from allocopt.kernels.compiled import inlined
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, QueueKeys
from allocopt.simulator.scoring import Scores, new_scores
from allocopt.simulator.state import NOBODY, Event, EventClock, EventJob, PassRules, first_clock, wait_for, waiting_jobs
from allocopt.traces.workload import UNKNOWN_USER


class AllocationRule(IntEnum):
    """How nodes are chosen for a job among those with room.

    `docs/clusters.md` has the complete rules.
    """

    FIRST_FIT = 0  # lowest weight first, then lowest number
    BEST_FIT = 1  # fewest free cores first
    LEAST_LOADED = 2  # most free cores first
    LOWEST_SWITCH = 3  # below the lowest switch with room (with the least room, if several); fewest free cores first


# Tables of free amounts: the first is that of now, the last one is scratch. In between, each partition has one for the
# time at which its reservation begins.
NOW, SCRATCH = 0, -1
# As in Slurm (bf_resolution), conservative reservations begin and end at multiples of a minute.
RESOLUTION_S = 60.0
# Also as in Slurm, the search for later room releases the running jobs whose ends are in a window of time. The first
# window is half a minute long, each further one twice as long as the one before.
WINDOW_S = 30.0

ALONE = 2**40  # an exclusive job counts as this many users, so that its nodes refuse even jobs that request no amounts


NO_PASS, ALONG_QUEUE, BACKFILLING, WALK = range(4)
"""Parts of a scheduling pass: none; along the queue; in backfilling's own order, if it has one; and a walk, which is
conservative backfilling."""


class _ShapeRecord(Protocol):
    """Requests of jobs of a shape, except amounts."""

    estimate: float
    partition: int
    tasks: int
    least_nodes: int
    most_nodes: int
    most_tasks: int  # on each node
    is_exclusive: int  # whether they have their nodes exclusively, 0 or 1
    first_mask: int  # first of its rows of `Shared.masks`; a job takes all its nodes from one of these sets
    n_masks: int  # number of these rows
    union: int  # row of `Shared.allowed` with the nodes in any of these sets
    level: int  # a job stays within one group of this level; -1 for any groups
    is_limited: int  # whether the number of groups of a lower level is limited, 0 or 1; see `Shared.most_groups`
    part: int  # size of its largest segments, which divides its number of nodes; 1 for none
    is_refused: int  # whether a job of the shape did not fit in this pass, 0 or 1


class _LineRecord(Protocol):
    """A line: jobs of one shape that never overtake one another, with the list of those that wait."""

    shape: int
    tier: int  # tier of the partition; lines of higher tiers are first
    first_waiting: int  # first of the waiting jobs, -1 for none; `next_waiting` links them in their order
    last_waiting: int
    looked_at: int  # the waiting job that the pass examines next
    passed: int  # in a walk, the last job before `looked_at` that remains waiting, -1 for none
    key: float  # sorting key of the next job; the line with the lowest key is next


class _FailureRecord(Protocol):
    """Room for a shape when one of its jobs did not fit."""

    released: int  # `n_released` of the clock at that time, -1 if this never happened
    tasks: int  # upper bound of the tasks for which the nodes together had room
    nodes: int  # upper bound of the nodes with room for a task


class _JobRecord(EventJob, Protocol):
    """A job."""

    shape: int
    line: int
    next_waiting: int  # the next waiting job of its line, -1 for none
    first: int  # column of `Shared.held` in which its nodes begin
    n_nodes: int
    user: int
    order_value: float  # orders the queue (see `QueueKeys`); under ``OrderKind.ARRIVAL`` the number of earlier arrivals
    backfill_value: float  # the same for the order of backfilling


class _ClockRecord(EventClock, Protocol):
    """The numbers of a simulation that events change."""

    n_arrived: int  # jobs that have joined the queue
    n_waiting: int  # number of lines with waiting jobs
    n_released: int  # number of nodes written to `Shared.releases` so far
    next_walk: float  # time at which the next walk is due
    part: int  # part of the pass: ``NO_PASS`` etc.
    n_slots: int  # number of reservations in `Shared.slots`
    work: int  # nodes and jobs that may still be examined before the simulation pauses
    n_left: int  # lines that a part of a pass still has to examine
    shadow: float  # result of the last look ahead: when a job can start by the estimates
    ahead_tasks: int  # upper bound of its tasks for which nodes have room then
    ahead_nodes: int  # upper bound of the nodes with room for a task then
    ahead_used: int  # nodes that are chosen for it then, 0 if it does not fit
    n_chosen: int  # nodes in `Shared.chosen` for the next job of the pass, 0 if none have been chosen yet
    table: int  # table in which jobs must fit: `NOW` or `SCRATCH`
    looks_at: float  # time from which on they must fit, considering downtimes; NaN to ignore downtimes
    next_change: int  # position in `Shared.changes` of the next change
    n_changed: int  # whether nodes went down or came back at the last event, 0 or 1


class _RulesRecord(PassRules, Protocol):
    """Rules for scheduling and placing jobs."""

    allocation: int  # an `AllocationRule`
    period: float  # seconds between two walks
    is_asking: int  # whether the caller chooses the nodes of jobs of several nodes: return before these start; 0 or 1


class _PartitionRecord(Protocol):
    """The reservation of a partition's first waiting job."""

    job: int  # -1 for none
    is_blocked: int  # whether a job of the partition did not fit in this pass
    shadow: float  # when it can start by the estimates
    n_nodes: int  # number of reserved nodes
    # Whether it must be made again: since it was made, a job has ended, so that it might begin earlier, or a job has
    # started that will still hold reserved nodes when it begins.
    is_stale: int


class _SlotRecord(Protocol):
    """A reservation of whole nodes for some time, made by a walk."""

    since: float
    until: float


class DowntimeRecord(Protocol):
    """A time in which a node takes no jobs; see `allocopt.cluster.downtime`."""

    node: int
    begin: float
    end: float
    is_announced: int  # whether it is known in advance, 0 or 1


class Shared(NamedTuple):
    """A simulation of jobs on shared nodes."""

    clock: Records[_ClockRecord]
    rules: Records[_RulesRecord]
    jobs: Records[_JobRecord]
    events: Records[Event]
    shapes: Records[_ShapeRecord]
    queue: Records[_LineRecord]  # the lines of waiting jobs
    failures: Records[_FailureRecord]  # by shape if no reservation is respected, then by shape if some are; ``(2 S,)``
    partitions: Records[_PartitionRecord]
    capacity: IntMatrix  # shape ``(m, R)``
    room: Annotated[
        IntArray, 3
    ]  # free amounts by table; that of a reservation is valid only on its nodes; ``(2 + P, m, R)``
    users: IntMatrix  # number of jobs on each node by table, an exclusive job counts as `ALONE`; ``(2 + P, m)``
    total: IntArray  # amounts of all nodes in total, 0 if not known, ``(R,)``
    held_by: IntMatrix  # total amounts of each user's running jobs, ``(U, R)``; no rows if no order needs it
    respected: BoolArray  # partitions whose reservations the examined job must respect, ``(P,)``
    respected_then: BoolMatrix  # partitions respected when room for a shape was last counted, ``(S, P)``
    reserved: BoolMatrix  # reserved nodes by partition, ``(P, m)``
    planned: IntMatrix  # the same as lists of `n_nodes` nodes each; ``(P, m)``
    slots: Records[_SlotRecord]  # reservations of the current walk
    slot_nodes: BoolMatrix  # their nodes, ``(slots, m)``
    closed: BoolArray  # nodes that a job must not get in this walk, because they are reserved or down, ``(m,)``
    per_task: IntMatrix  # amounts by shape, ``(S, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # sets of nodes, ``(M, m)``
    order: IntArray  # nodes by weight, then by number
    groups: IntMatrix  # group of every node by level, ``(L, m)``
    most_groups: IntMatrix  # number of groups of each level that jobs of a shape may span, 0 for any number, ``(S, L)``
    segments: IntMatrix  # a job's number of nodes in a group of each level is a multiple of this; 0 for any; ``(S, L)``
    held: IntMatrix  # nodes and tasks of all jobs, one job after the other, ``(2, H)``
    releases: IntArray  # ring buffer of the ``m`` nodes whose room has increased last, in order of time
    lists: IntMatrix  # lists of jobs, see `allocopt.simulator.state.RUNNING`; ``(3, n)``
    waiting: IntMatrix  # lines with waiting jobs; and the remaining lines of a part of a pass, as a heap; ``(2, L)``
    allowed: BoolMatrix  # nodes in any of the masks of a shape, see `_ShapeRecord.union`; equal rows are shared
    tasks_at: IntArray  # scratch: number of tasks for which each node has room, ``(m,)``
    chosen: IntMatrix  # scratch: chosen nodes; room in tasks by node; sort key by node; tasks on the nodes; ``(4, m)``
    sums: IntMatrix  # scratch: room of each group in tasks and in nodes, ``(2, G)``
    inside: BoolArray  # scratch: nodes that may be chosen, ``(m,)``
    downtimes: Records[DowntimeRecord]  # sorted by node
    first_downtime: IntArray  # first row of each node, then the number of rows; ``(m + 1,)``
    changes: FloatArray  # times at which downtimes end or nodes fail, ascending; the last one is infinity
    scores: Scores


SHARED = record_type(Shared)
UNLIMITED = 2**62  # work of a simulation that must not pause


class SharedRules(NamedTuple):
    """Rules for events, scheduling and placing.

    Walks of conservative backfilling occur at multiples of ``period`` seconds (Slurm's bf_interval), and end after
    ``depth`` reservations. At events, jobs start as without backfilling. With ``predicts``, EASY backfilling plans with
    predicted run times.
    """

    allocation: AllocationRule = AllocationRule.FIRST_FIT
    backfill: Backfill = Backfill.NONE
    period: float = 30.0
    depth: int = 500
    event_order: EventOrder = EventOrder.BATCHED
    predicts: bool = False


class SharedMachine(NamedTuple):
    """Nodes that jobs share, in the form that the simulation uses."""

    capacity: IntMatrix  # amounts by node and resource, cores first, ``(m, R)``
    groups: IntMatrix  # groups of the nodes by level below the top, ``(L, m)``
    weights: IntArray  # weights of the nodes; `AllocationRule.FIRST_FIT` takes the lowest first
    tiers: IntArray  # tiers of the partitions, ``(P,)``

    @classmethod
    def of(cls, cluster: Cluster) -> "SharedMachine":
        """Return the nodes of a cluster in this form."""
        weights = np.array([node.weight for node in cluster.nodes])
        tiers = np.array([one.tier for one in cluster.partitions] or [1])
        return cls(cluster.capacity, cluster.topology.tree.groups, weights, tiers)

    @property
    def total(self) -> IntArray:
        """Total amounts of all nodes, 0 for a resource with unknown amounts, shape ``(R,)``."""
        known = self.capacity.max(axis=0) < UNKNOWN_MEMORY_MIB
        found: IntArray = np.where(known, self.capacity.sum(axis=0), 0)
        return found

    def without_tiers(self) -> "SharedMachine":
        """Return the same machine with equal tiers, so that no partition has priority."""
        return self._replace(tiers=np.zeros_like(self.tiers))


class SharedJobs(NamedTuple):
    """Jobs in the order of their submission, arrays of shape ``(n,)``, times in seconds.

    Without ``limit`` jobs run as long as ``run``; without ``preceding`` no job waits for another one.
    """

    request: IntArray  # number of the job's request in the sequence of requests
    submit: FloatArray
    run: FloatArray
    estimate: FloatArray
    limit: FloatArray | None = None  # time after its start at which a job is killed
    user: IntArray | None = None  # `UNKNOWN_USER` if unknown; None if all are unknown
    preceding: IntArray | None = None  # row of the job that has to end first, -1 for none
    think: FloatArray | None = None  # seconds from the end of the preceding job until this one joins the queue


def new_shared(
    machine: SharedMachine,
    requests: Sequence[ClusterRequest],
    submitted: SharedJobs,
    rules: SharedRules,
    order: QueueKeys,
    backfill_order: QueueKeys | None = None,
    downtimes: Any = None,
) -> Shared:
    """Return the state of a simulation before its first event; `downtime_records` makes ``downtimes``."""
    if downtimes is None:
        downtimes = np.zeros(0, dtype=record_dtype(DowntimeRecord))
    request, submit, run, estimate, limit, user, preceding, think = submitted
    user = np.full(len(submit), UNKNOWN_USER) if user is None else user
    # Equal jobs have equal predicted run times only if they are of one user.
    alike = (request, estimate, user) if rules.predicts else (request, estimate)
    kinds, shape_of = np.unique(np.stack(alike), axis=1, return_inverse=True)
    asked = [requests[int(number)] for number in kinds[0]]
    n, m, parts = len(submit), len(machine.capacity), len(machine.tiers)
    slots = min(rules.depth, n)
    tried = order if backfill_order is None else backfill_order
    jobs = waiting_jobs(_JobRecord, submit, run, estimate)
    jobs["shape"], jobs["next_waiting"] = shape_of.reshape(-1), NOBODY
    jobs["limit"] = np.inf if limit is None else limit
    jobs["user"] = np.unique(user, return_inverse=True)[1].reshape(-1)
    jobs["order_value"], jobs["backfill_value"] = order.values, tried.values
    if preceding is not None and think is not None:
        wait_for(jobs, preceding, think)
    rejoins = bool((downtimes["is_announced"] == 0).any())
    shape_of_line, jobs["line"] = _lines(jobs, order, backfill_order, rejoins=rejoins)
    followed, shapes, lines, failures, partitions, reservations = (
        np.zeros(size, dtype=record_dtype(record))
        for record, size in (
            (_RulesRecord, 1),
            (_ShapeRecord, len(asked)),
            (_LineRecord, len(shape_of_line)),
            (_FailureRecord, 2 * len(asked)),
            (_PartitionRecord, parts),
            (_SlotRecord, slots),
        )
    )
    clock = first_clock(_ClockRecord)
    clock["next_walk"] = np.inf
    followed["track_running"] = True
    for name in ("allocation", "backfill", "period", "event_order", "predicts"):
        followed[name] = getattr(rules, name)
    followed["order"], followed["backfill_order"] = order.kind, tried.kind
    followed["own_backfill_order"] = backfill_order is not None
    shapes["estimate"] = kinds[1]
    lines["shape"], lines["first_waiting"] = shape_of_line, NOBODY
    lines["tier"] = machine.tiers[[asked[shape].partition for shape in shape_of_line.tolist()]]
    partitions["job"] = NOBODY
    shares = OrderKind.FAIR_SHARE in (order.kind, tried.kind)
    n_users = int(jobs["user"].max(initial=0)) + 1 if shares else 0
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
    groups, total = machine.groups.copy(), machine.total
    amounts = np.zeros((0, 0), dtype=np.int64)
    if rules.predicts or OrderKind.SCORED in (order.kind, tried.kind):
        amounts = np.stack([amounts_asked(one, machine.capacity) for one in asked])[shape_of.reshape(-1)]
    segments = [one.segments or (0,) * len(groups) for one in asked]
    # Give each job as many columns as it can have nodes, so that they suffice whenever it starts.
    most_held = np.array([min(one.most_nodes, m) for one in requests])[request]
    jobs["first"] = np.cumsum(most_held) - most_held
    return Shared(
        clock,
        followed,
        jobs,
        np.zeros(n, dtype=record_dtype(Event)),
        shapes,
        lines,
        failures,
        partitions,
        machine.capacity.copy(),
        np.repeat(machine.capacity[None], 2 + parts, axis=0),
        np.zeros((2 + parts, m), dtype=np.int64),
        total,
        np.zeros((n_users, machine.capacity.shape[1]), dtype=np.int64),
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
        np.zeros((2, int(most_held.sum())), dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros((3, n), dtype=np.int64),
        np.zeros((2, len(lines)), dtype=np.int64),
        np.stack([asked[number].masks.any(axis=0) for number in some.tolist()]),
        np.zeros(m, dtype=np.int64),
        np.zeros((4, m), dtype=np.int64),
        np.zeros((2, int(groups.max()) + 1 if groups.size else 1), dtype=np.int64),
        np.zeros(m, dtype=np.bool_),
        downtimes,
        np.searchsorted(downtimes["node"], np.arange(m + 1)),
        times_of_change(downtimes),
        new_scores(order, backfill_order, estimate, amounts, total, user, predicts=rules.predicts),
    )


def amounts_asked(request: ClusterRequest, capacity: IntArray) -> IntArray:
    """Return a job's request over all nodes, shape ``(R,)``, if it gets the fewest nodes that it accepts.

    An exclusive job holds whole nodes: for each of them, it counts at least the smallest amounts of its allowed nodes.
    """
    asked: IntArray = request.least_nodes * request.per_node + request.tasks * request.per_task
    allowed = capacity[request.masks.any(axis=0)]
    # A job may be allowed on no node, for example because of a reservation.
    if request.is_exclusive and len(allowed):
        asked = np.maximum(asked, request.least_nodes * allowed.min(axis=0))
    return asked


def times_of_change(downtimes: Any) -> FloatArray:
    """Return the times at which nodes come back or fail, in ascending order, followed by infinity."""
    failures = downtimes["begin"][downtimes["is_announced"] == 0]
    return np.unique(np.concatenate((downtimes["end"], failures, [np.inf])))


@inlined
def release(s: Shared, node: int) -> None:
    """Record that a node has more room than before."""
    s.releases[s.clock[0].n_released % s.releases.size] = node
    s.clock[0].n_released += 1


def _lines(
    jobs: Any, order: QueueKeys, backfill_order: QueueKeys | None, *, rejoins: bool
) -> tuple[IntArray, IntArray]:
    """Return the shape of each line, ``(L,)``, and the line of each job, ``(n,)``.

    Jobs of one shape share a line if none ever overtakes another. In a fixed order, or by arrival, this is always true.
    By age, it is true if their values are equal; by shares, if they are of one user. By scores, jobs of one user keep
    the order in which they join the queue, and only the first of a line is scored.

    If backfilling has its own order, the jobs of a line must be equal in both orders, and are sorted by submission.
    Jobs join the queue in another order if some have dependencies, or are requeued after failures of nodes
    (``rejoins``). In these cases every job gets its own line.
    """
    columns = [jobs["shape"].astype(np.float64)]
    for keys, values in ((order, jobs["order_value"]), (backfill_order, jobs["backfill_value"])):
        if keys is not None and keys.kind >= OrderKind.FAIR_SHARE:
            columns.append(jobs["user"].astype(np.float64))
        elif keys is not None and (keys.kind is OrderKind.AGEING or backfill_order is not None):
            columns.append(values)
    if backfill_order is not None and (rejoins or (jobs["preceding"] != NOBODY).any()):
        columns = [np.arange(len(jobs), dtype=np.float64)]
    _, first, line = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    return jobs["shape"][first], line.reshape(-1)
