"""The state of a simulation on shared nodes, as its kernels take it.

Jobs are numbered in the order of their submission, nodes in the order of their topology. Jobs that ask for the same,
for as long, are of one *shape*. Waiting jobs of one shape stand in *lines*: jobs of a line never overtake one another,
so that only its first has to be compared with those of others. Amounts are those of
`allocopt.cluster.cluster.Cluster.capacity`.
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

    See `docs/clusters.md` for the rules in full.
    """

    FIRST_FIT = 0  # lowest weight first, then lowest number
    BEST_FIT = 1  # fewest free cores first
    LEAST_LOADED = 2  # most free cores first
    LOWEST_SWITCH = 3  # below the lowest switch with room, of several the one with least room; fewest free cores first


# Tables of what is free: now, when the reservation of each partition begins, and, last, scratch.
NOW, SCRATCH = 0, -1
# As in Slurm: conservative reservations begin and end at multiples of a minute (bf_resolution).
RESOLUTION_S = 60.0
# Also as in Slurm: room is looked for after windows of ends, the first half a minute long, each of the others twice as
# long as the one before.
WINDOW_S = 30.0

ALONE = 2**40  # counts as users for an exclusive job, so that jobs that ask for no amounts stay off its node, too


NO_PASS, ALONG_QUEUE, BACKFILLING, WALK = range(4)
"""Parts of a scheduling pass: none; along the queue; in the order of backfilling, if that is another one; and a walk,
which backfills conservatively."""


class _ShapeRecord(Protocol):
    """What jobs of a shape ask for, except amounts."""

    estimate: float
    partition: int
    tasks: int
    least_nodes: int
    most_nodes: int
    most_tasks: int  # on a node
    is_exclusive: int  # whether they have their nodes alone, 0 or 1
    first_mask: int  # first row of `Shared.masks`: a job takes all its nodes from one of these sets
    n_masks: int  # number of these rows
    union: int  # row of `Shared.allowed`: the nodes in any of these sets
    level: int  # a job stays within one group of this level; -1 for any groups
    is_limited: int  # whether it may span only some groups of lower levels, 0 or 1; see `Shared.most_groups`
    part: int  # size of its largest segments, which divides its number of nodes; 1 for none
    is_refused: int  # whether a job of the shape has found no room in this pass, 0 or 1


class _LineRecord(Protocol):
    """Jobs of one shape that never overtake one another, and which of them wait."""

    shape: int
    tier: int  # of the partition: lines of a higher one stand before others
    first_waiting: int  # the waiting jobs, linked in their order by `next_waiting`; -1 for none
    last_waiting: int
    looked_at: int  # the waiting job that is next in a pass
    passed: int  # in a walk, the job before it that goes on waiting, -1 for none
    key: float  # of the job that is looked at: the lowest of all is next


class _FailureRecord(Protocol):
    """How much room there was for a shape when one of its jobs found too little."""

    released: int  # `n_released` of the clock then, -1 for never
    tasks: int  # tasks that all nodes had room for, at most
    nodes: int  # nodes with room for a task, at most


class _JobRecord(EventJob, Protocol):
    """A job."""

    shape: int
    line: int
    next_waiting: int  # the next of its line that waits, -1 for none
    first: int  # where its nodes begin in `Shared.held`
    n_nodes: int
    user: int
    order_value: float  # orders the queue (see `QueueKeys`); under ``OrderKind.ARRIVAL`` how many jobs have come before
    backfill_value: float  # the same for backfilling


class _ClockRecord(EventClock, Protocol):
    """The numbers of a simulation that change."""

    n_arrived: int  # jobs that have joined the queue
    n_waiting: int  # lines in which jobs wait
    n_released: int  # nodes written to `Shared.releases` so far
    next_walk: float  # when the next pass that backfills conservatively is due
    part: int  # of the pass: ``NO_PASS`` and so on
    n_slots: int  # reservations in `Shared.slots`
    work: int  # nodes and jobs that may still be looked at before the simulation pauses
    n_left: int  # lines that a part of a pass has still to look at
    shadow: float  # what the last look ahead found: when a job can start by the estimates
    ahead_tasks: int  # tasks of that job that nodes have room for then, at most
    ahead_nodes: int  # nodes with room for a task then, at most
    ahead_used: int  # nodes that are chosen for it then, 0 for none
    n_chosen: int  # nodes in `Shared.chosen` for the next job of the pass, 0 if none have been chosen yet
    table: int  # in which jobs have to fit: `NOW` or `SCRATCH`
    looks_at: float  # from when on they have to fit, beside downtimes; NaN where these do not count
    next_change: int  # place in `Shared.changes` of the first one that has not come yet
    n_changed: int  # whether nodes have gone down or come back at the last event, 0 or 1


class _RulesRecord(PassRules, Protocol):
    """How jobs are scheduled and placed."""

    allocation: int  # an `AllocationRule`
    period: float  # between two passes that backfill conservatively, in seconds
    is_asking: int  # whether to stop before a job of several nodes starts, so that the caller may choose these, 0 or 1


class _PartitionRecord(Protocol):
    """The reservation of a partition's first waiting job."""

    job: int  # -1 for none
    is_blocked: int  # whether in this pass a job of the partition has found no room
    shadow: float  # when it can start by the estimates
    n_nodes: int  # that are reserved
    # Whether a job has ended since that may let it start earlier, or one has started that holds reserved nodes then.
    is_stale: int


class _SlotRecord(Protocol):
    """A reservation of whole nodes for a time, made by a walk."""

    since: float
    until: float


class DowntimeRecord(Protocol):
    """A time in which a node takes no jobs."""

    node: int
    begin: float
    end: float
    is_announced: int  # whether it is known before, 0 or 1


class Shared(NamedTuple):
    """A simulation of jobs on shared nodes."""

    clock: Records[_ClockRecord]
    rules: Records[_RulesRecord]
    jobs: Records[_JobRecord]
    events: Records[Event]
    shapes: Records[_ShapeRecord]
    queue: Records[_LineRecord]  # the lines of waiting jobs
    failures: Records[_FailureRecord]  # beside no reservation, then beside some; ``(2 S,)``
    partitions: Records[_PartitionRecord]
    capacity: IntMatrix  # shape ``(m, R)``
    room: Annotated[IntArray, 3]  # what is free by table; a reservation's only holds on its nodes; ``(2 + P, m, R)``
    users: IntMatrix  # jobs on each node by table, an exclusive one counted as `ALONE`; ``(2 + P, m)``
    total: IntArray  # what all nodes have together, 0 where that is not known, ``(R,)``
    held_by: IntMatrix  # what each user's running jobs hold together, ``(U, R)``; no rows unless an order needs it
    respected: BoolArray  # partitions beside whose reservations a job that is placed has to fit, ``(P,)``
    respected_then: BoolMatrix  # those respected when room was last counted for a shape beside reservations, ``(S, P)``
    reserved: BoolMatrix  # nodes by partition, ``(P, m)``
    planned: IntMatrix  # the same as lists of nodes, of `n_nodes` each; ``(P, m)``
    slots: Records[_SlotRecord]  # reservations of the present walk
    slot_nodes: BoolMatrix  # their nodes, ``(slots, m)``
    closed: BoolArray  # nodes that a job may not get because of such reservations, ``(m,)``
    per_task: IntMatrix  # amounts by shape, ``(S, R)``
    per_node: IntMatrix
    masks: BoolMatrix  # sets of nodes, ``(M, m)``
    order: IntArray  # nodes by weight, then by number
    groups: IntMatrix  # group of every node by level, ``(L, m)``
    most_groups: IntMatrix  # groups of each level that jobs of a shape may span, 0 for any number, ``(S, L)``
    segments: IntMatrix  # segment sizes by level: they divide the nodes in a group, 0 for any number; ``(S, L)``
    held: IntMatrix  # nodes and tasks of all jobs, one job after the other, ``(2, H)``
    releases: IntArray  # nodes that have got more room, in that order; a ring of the last ``m``
    lists: IntMatrix  # lists of jobs, see `allocopt.simulator.state.RUNNING`; ``(3, n)``
    waiting: IntMatrix  # lines in which jobs wait, and those left in a part of a pass as a heap; ``(2, L)``
    allowed: BoolMatrix  # nodes in any of the masks of a shape, see `_ShapeRecord.union`; one row for equal ones
    tasks_at: IntArray  # scratch: tasks that every node has room for, ``(m,)``
    chosen: IntMatrix  # scratch: nodes; by node its room in tasks; by node its sort key; tasks on the nodes; ``(4, m)``
    sums: IntMatrix  # scratch: tasks and nodes that a group has room for, ``(2, G)``
    inside: BoolArray  # scratch: nodes among which nodes are chosen, ``(m,)``
    downtimes: Records[DowntimeRecord]  # by node
    first_downtime: IntArray  # of each node, and their number; ``(m + 1,)``
    changes: FloatArray  # times at which downtimes end or nodes fail, ascending, and infinity
    scores: Scores


SHARED = record_type(Shared)
UNLIMITED = 2**62  # work of a simulation that must not pause


class SharedRules(NamedTuple):
    """How events are taken, and jobs scheduled and placed.

    Walks of conservative backfilling come at multiples of ``period`` seconds (Slurm's bf_interval), and end after
    ``depth`` reservations. At events jobs start as without backfilling. EASY backfilling plans with predicted run times
    if it ``predicts``.
    """

    allocation: AllocationRule = AllocationRule.FIRST_FIT
    backfill: Backfill = Backfill.NONE
    period: float = 30.0
    depth: int = 500
    event_order: EventOrder = EventOrder.BATCHED
    predicts: bool = False


class SharedMachine(NamedTuple):
    """Nodes that jobs share, as the simulation sees them."""

    capacity: IntMatrix  # amounts by node and resource, cores first, ``(m, R)``
    groups: IntMatrix  # groups of the nodes by level below the top, ``(L, m)``
    weights: IntArray  # of the nodes; `AllocationRule.FIRST_FIT` takes the lowest first
    tiers: IntArray  # of the partitions, ``(P,)``

    @classmethod
    def of(cls, cluster: Cluster) -> "SharedMachine":
        """Return the nodes of a cluster."""
        weights = np.array([node.weight for node in cluster.nodes])
        tiers = np.array([one.tier for one in cluster.partitions] or [1])
        return cls(cluster.capacity, cluster.topology.tree.groups, weights, tiers)

    @property
    def total(self) -> IntArray:
        """What all nodes have together, 0 of a resource of which that is not known, shape ``(R,)``."""
        known = self.capacity.max(axis=0) < UNKNOWN_MEMORY_MIB
        found: IntArray = np.where(known, self.capacity.sum(axis=0), 0)
        return found

    def without_tiers(self) -> "SharedMachine":
        """Return the same machine with equal tiers: no partition goes before another."""
        return self._replace(tiers=np.zeros_like(self.tiers))


class SharedJobs(NamedTuple):
    """Jobs in the order of their submission, arrays of shape ``(n,)``, times in seconds.

    Without ``limit`` jobs run as long as ``run``; without ``preceding`` no job waits for another one.
    """

    request: IntArray  # number of its request in a sequence of these
    submit: FloatArray
    run: FloatArray
    estimate: FloatArray
    limit: FloatArray | None = None  # time after its start at which a job is killed
    user: IntArray | None = None  # `UNKNOWN_USER` where unknown; None if all are
    preceding: IntArray | None = None  # row of the job that has to end first, -1 for none
    think: FloatArray | None = None  # seconds from its end until this one joins the queue


def new_shared(
    machine: SharedMachine,
    requests: Sequence[ClusterRequest],
    submitted: SharedJobs,
    rules: SharedRules,
    order: QueueKeys,
    backfill_order: QueueKeys | None = None,
    downtimes: Any = None,
) -> Shared:
    """Return the state of a simulation before its first event; `downtime_records` returns downtimes."""
    if downtimes is None:
        downtimes = np.zeros(0, dtype=record_dtype(DowntimeRecord))
    request, submit, run, estimate, limit, user, preceding, think = submitted
    user = np.full(len(submit), UNKNOWN_USER) if user is None else user
    # Run times of equal jobs are predicted alike if they are one user's.
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
    # Room for the nodes of each job, whichever they are and however often it starts.
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
    """Return what a job asks for on all nodes together, shape ``(R,)``, if it gets as few as it may.

    A job that has its nodes alone asks for at least all that is in the smallest nodes that it may get.
    """
    asked: IntArray = request.least_nodes * request.per_node + request.tasks * request.per_task
    allowed = capacity[request.masks.any(axis=0)]
    # A reservation may keep a job off all nodes.
    if request.is_exclusive and len(allowed):
        asked = np.maximum(asked, request.least_nodes * allowed.min(axis=0))
    return asked


def times_of_change(downtimes: Any) -> FloatArray:
    """Return when nodes come back or fail, ascending, and then infinity."""
    failures = downtimes["begin"][downtimes["is_announced"] == 0]
    return np.unique(np.concatenate((downtimes["end"], failures, [np.inf])))


@inlined
def release(s: Shared, node: int) -> None:
    """Note that a node has more room than before."""
    s.releases[s.clock[0].n_released % s.releases.size] = node
    s.clock[0].n_released += 1


def _lines(
    jobs: Any, order: QueueKeys, backfill_order: QueueKeys | None, *, rejoins: bool
) -> tuple[IntArray, IntArray]:
    """Return the shape of each line, ``(L,)``, and the line of each job, ``(n,)``; ``rejoins`` if nodes may fail.

    Jobs of one shape share a line if none ever overtakes another. In a fixed order, or by arrival, this is always so.
    By age it is if their values are equal, and by shares if they are one user's. By scores, one user's jobs keep the
    order in which they join: only the first of a line is scored. With an order of backfilling of its own the jobs of a
    line must be equal in both orders: then they stand by submission. That is not the order in which they join if some
    wait for other jobs or join again; then every job has a line of its own.
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
