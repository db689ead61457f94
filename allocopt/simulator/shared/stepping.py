"""Steps of a simulation on shared nodes: the kernels that Python calls between two events."""

from numba import float64, int64, void

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import inlined, kernel
from allocopt.simulator.kernels.events import advance, change_speed
from allocopt.simulator.shared.allocation import choose
from allocopt.simulator.shared.downtimes import requeue_on_nodes
from allocopt.simulator.shared.passes import end_pass, find_room, forget_empty_lines, schedule, start_on_chosen
from allocopt.simulator.shared.queue import order_lines, put_in_place
from allocopt.simulator.shared.reservations import find_shadow, look_at, reserve
from allocopt.simulator.shared.state import NOW, SHARED, Shared
from allocopt.simulator.state import NOBODY


@kernel(int64(SHARED, float64))
def advance_shared(s: Shared, until: float) -> int:
    """End the pass, and advance to the next scheduling point, but not beyond ``until``; see `advance`."""
    end_pass(s)
    for partition in range(s.partitions.size):
        s.partitions[partition].is_blocked = 0
    return advance(s, until)


@kernel(int64(SHARED, int64))
def schedule_shared(s: Shared, work: int) -> int:
    """Continue the passes of this time until ``work`` is done; return the same values as `simulate_shared`."""
    s.clock[0].work = work
    return schedule(s)


@kernel(void(SHARED, int64, float64))
def change_speed_shared(s: Shared, job: int, speed: float) -> None:
    """Change the speed of a running job from now on; see `change_speed`."""
    change_speed(s, job, speed)


@kernel(void(SHARED, int64))
def requeue_shared(s: Shared, job: int) -> None:
    """Stop a running job and put it into the queue again; see `requeue_on_nodes`."""
    # Remove empty lines first: the job's line may be one of them, and is added again when the job joins the queue.
    forget_empty_lines(s)
    requeue_on_nodes(s, job)


@kernel(int64(SHARED, int64[::1]))
def queue_shared(s: Shared, jobs: IntArray) -> int:
    """Fill an array with the first waiting jobs in the order of the queue; return how many there are."""
    _look_behind(s, NOBODY)
    n, clock = 0, s.clock[0]
    while n < jobs.size and clock.n_left > 0:
        line = s.waiting[1, 0]
        jobs[n] = s.queue[line].looked_at
        s.queue[line].looked_at = s.jobs[jobs[n]].next_waiting
        put_in_place(s, line, 0)
        n += 1
    clock.n_left = 0
    return n


@kernel(float64(SHARED, int64))
def shadow_shared(s: Shared, job: int) -> float:
    """Return when a job can start by the estimates of running jobs, without respecting reservations."""
    find_shadow(s, job)
    return float(s.clock[0].shadow)


@kernel(void(SHARED, int64[::1]))
def reserve_shared(s: Shared, heads: IntArray) -> None:
    """Make or keep reservations for waiting jobs, at most one per partition; later searches respect only these."""
    for partition in range(s.partitions.size):
        s.partitions[partition].is_blocked = 0
    for job in heads:
        reserve(s, job)
        s.partitions[s.shapes[s.jobs[job].shape].partition].is_blocked = 1
    for place in range(s.clock[0].n_waiting):
        s.shapes[s.queue[s.waiting[0, place]].shape].is_refused = 0


@inlined
def _is_behind(s: Shared, job: int, other: int) -> bool:
    """Whether a job is behind another one, which may have started, in a queue in the order of arrival."""
    tier, tier_of_other = s.queue[s.jobs[job].line].tier, s.queue[s.jobs[other].line].tier
    if tier != tier_of_other:
        return bool(tier < tier_of_other)
    return bool(s.jobs[job].order_value > s.jobs[other].order_value)


@inlined
def _look_behind(s: Shared, after: int) -> None:
    """Set the next job of every line to its first job behind ``after``, or to its first job if that is ``NOBODY``."""
    clock = s.clock[0]
    clock.n_left = 0
    for place in range(clock.n_waiting):
        line = s.waiting[0, place]
        at = s.queue[line].first_waiting
        while at >= 0 and after >= 0 and not _is_behind(s, at, after):
            at = s.jobs[at].next_waiting
        s.queue[line].looked_at = at
        if at >= 0:
            s.waiting[1, clock.n_left] = line
            clock.n_left += 1
    order_lines(s)


@kernel(int64(SHARED, int64))
def next_backfillable_shared(s: Shared, after: int) -> int:
    """Return the first waiting job behind job ``after`` that fits beside the reservations, or ``NOBODY``.

    All jobs are behind ``NOBODY``. The queue must be in the order of arrival. If one job of a shape did not fit since
    `reserve_shared`, other jobs of this shape are skipped.
    """
    clock = s.clock[0]
    _look_behind(s, after)
    while clock.n_left > 0:
        line = s.waiting[1, 0]
        job, shape = s.queue[line].looked_at, s.shapes[s.queue[line].shape]
        if not shape.is_refused:
            if find_room(s, job) > 0:
                clock.n_left = 0
                return int(job)
            shape.is_refused = 1
        s.queue[line].looked_at = NOBODY
        put_in_place(s, line, 0)
    return NOBODY


@kernel(void(SHARED, int64, int64))
def occupy_shared(s: Shared, job: int, used: int) -> None:
    """Put a job on the chosen nodes that was running before the simulation, and so is never submitted."""
    start_on_chosen(s, job, used)


@kernel(int64(SHARED, int64))
def choose_shared(s: Shared, job: int) -> int:
    """Choose free nodes for a job; respect the reservations if possible, and ignore them otherwise.

    Returns the number of nodes, 0 if the job does not fit.
    """
    used, is_blocked = find_room(s, job), False
    for partition in range(s.partitions.size):
        is_blocked |= s.partitions[partition].is_blocked > 0
    if used == 0 and is_blocked:
        look_at(s, NOW, s.clock[0].now)
        used = choose(s, s.jobs[job].shape)
    return used


@kernel(void(SHARED, int64, int64))
def start_shared(s: Shared, job: int, used: int) -> None:
    """Start a waiting job on the chosen nodes."""
    record = s.jobs[job]
    line = s.queue[record.line]
    before, at = NOBODY, line.first_waiting
    while at != job:
        before = at
        at = s.jobs[at].next_waiting
    if before < 0:
        line.first_waiting = record.next_waiting
    else:
        s.jobs[before].next_waiting = record.next_waiting
    if record.next_waiting < 0:
        line.last_waiting = before
    s.clock[0].n_queued -= 1
    start_on_chosen(s, job, used)
