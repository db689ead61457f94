"""The waiting jobs: lists that are kept in the order of a policy."""

from numba import int64

from allocopt.arrays import IntArray
from allocopt.kernels.compiled import helper, inlined, kernel
from allocopt.simulator.kernels.blocks import end_of_queue, insert_indexed, tidy_queue
from allocopt.simulator.order import OrderKind
from allocopt.simulator.state import CANDIDATES, CAPACITY, QUEUE, STATE, State

FEW = 8
"""Jobs that come at once and are put in order one by one, at most."""

ARRIVAL, FIXED, AGEING = int(OrderKind.ARRIVAL), int(OrderKind.FIXED), int(OrderKind.AGEING)


@inlined
def queued(state: State, at: int) -> int:
    """Job at a place of the queue, counted from its head."""
    return int(state.lists[QUEUE, state.clock[0].first + at])


@inlined
def _dominant_share(state: State, user: int) -> float:
    """Largest share of a resource that a user's jobs hold (Ghodsi et al., NSDI 2011)."""
    share = 0.0
    for resource in range(state.units.shape[1]):
        if state.units[CAPACITY, resource] > 0:
            share = max(share, state.held[user, resource] / state.units[CAPACITY, resource])
    return share


@inlined
def _rank(state: State, row: int, job: int) -> int:
    """Return the place of a job among all jobs, in the order of a list; of one that is gone, too."""
    job = max(job, ~job)
    return state.jobs[job].order_rank if row == QUEUE else state.jobs[job].backfill_rank


@inlined
def comes_before(state: State, row: int, kind: int, a: int, b: int) -> bool:
    """Whether job a stands before job b now."""
    if kind <= FIXED:
        return _rank(state, row, a) < _rank(state, row, b)
    x, y = state.jobs[a], state.jobs[b]
    now = state.clock[0].now
    if kind != AGEING:
        key_a, key_b = _dominant_share(state, x.user), _dominant_share(state, y.user)
    elif row == QUEUE:
        key_a, key_b = -x.order_value * (now - x.release), -y.order_value * (now - y.release)
    else:
        key_a, key_b = -x.backfill_value * (now - x.release), -y.backfill_value * (now - y.release)
    return key_a < key_b or (key_a == key_b and a < b)


@helper()
def _sort_at_gaps(state: State, row: int, kind: int, first: int, end: int, gap: int, moves: int) -> bool:
    """Sort what stands at each gap from the other by insertion; return whether so many moves were enough."""
    jobs = state.lists[row]
    for i in range(first + gap, end):
        job = jobs[i]
        at = i
        while at >= first + gap and comes_before(state, row, kind, job, jobs[at - gap]):
            jobs[at] = jobs[at - gap]
            at -= gap
            moves -= 1
        jobs[at] = job
        if moves < 0:
            return False
    return True


@helper()
def sort_list(state: State, row: int, kind: int, begin: int) -> None:
    """Put the waiting jobs from place ``begin`` on in order.

    They are nearly in order already, and insertion is best; where that takes many moves it is left for Shell's sort,
    with gaps as of Gonnet and Baeza-Yates (1991).
    """
    clock = state.clock[0]
    first = begin + (clock.first if row == QUEUE else 0)
    end = first - begin + clock.n_queued
    gap, moves = 1, 8 * clock.n_queued + 2**18
    while not _sort_at_gaps(state, row, kind, first, end, gap, moves) or gap > 1:
        gap = max(1, (gap if gap > 1 else clock.n_queued) * 5 // 11)
        moves = clock.n_queued * clock.n_queued


@helper()
def place_by_rank(state: State, row: int, first: int, end: int, job: int) -> int:
    """First column in ``first .. end - 1`` of a list, sorted by rank, whose job does not come before a job."""
    rank = _rank(state, row, job)
    while first < end:
        middle = (first + end) // 2
        if _rank(state, row, state.lists[row, middle]) < rank:
            first = middle + 1
        else:
            end = middle
    return first


@inlined
def insert(jobs: IntArray, at: int, end: int, job: int) -> None:
    """Put a job at a place of a list that ends before ``end``."""
    for i in range(end, at, -1):
        jobs[i] = jobs[i - 1]
    jobs[at] = job


@inlined
def remove(jobs: IntArray, at: int, end: int) -> None:
    """Take the job at a place of a list that ends before ``end`` out."""
    for i in range(at, end - 1):
        jobs[i] = jobs[i + 1]


@inlined
def enqueue(state: State, job: int) -> None:
    """Let a job join the queue; if it comes before others, what was known of them is void.

    Of those that come at once only a few are put in order now, the others by `settle_queue`.
    """
    clock, rules, is_late = state.clock[0], state.rules[0], state.clock[0].n_joined >= FEW
    at = end = end_of_queue(state)
    if rules.order == ARRIVAL:
        state.jobs[job].order_rank = _rank(state, QUEUE, state.lists[QUEUE, end - 1]) + 1 if clock.n_queued else 0
    elif rules.order == FIXED and not is_late:
        at = place_by_rank(state, QUEUE, clock.first, end, job)
    if clock.indexed:
        insert_indexed(state, at, job)
    else:
        insert(state.lists[QUEUE], at, end, job)
    clock.examined = min(clock.examined, at - clock.first)
    if rules.own_backfill_order:
        at = clock.n_queued
        if rules.backfill_order == FIXED and not is_late:
            at = place_by_rank(state, CANDIDATES, 0, at, job)
        insert(state.lists[CANDIDATES], at, clock.n_queued, job)
    clock.n_queued += 1
    clock.n_joined += 1
    state.jobs[job].release = clock.now


@helper()
def settle_queue(state: State) -> None:
    """Put the waiting jobs in order after many have joined at once, most of them at its end; the index begins anew."""
    clock, rules = state.clock[0], state.rules[0]
    if rules.own_backfill_order and rules.backfill_order == FIXED:
        sort_list(state, CANDIDATES, FIXED, 0)
    if rules.order == FIXED:
        if clock.indexed:
            tidy_queue(state)
        sort_list(state, QUEUE, FIXED, 0)
        clock.examined = clock.indexed = 0


@kernel(int64(STATE, int64))
def place_in_queue(state: State, job: int) -> int:
    """Place of a job in the queue, counted from its head, or -1."""
    clock = state.clock[0]
    if state.rules[0].order <= FIXED:
        end = end_of_queue(state)
        at = place_by_rank(state, QUEUE, clock.first, end, job)
        return at - clock.first if at < end and state.lists[QUEUE, at] == job else -1
    for at in range(clock.n_queued):
        if queued(state, at) == job:
            return at
    return -1


@helper()
def _remove_candidate(state: State, job: int) -> None:
    """Take a job out of the candidates for backfilling."""
    at = 0
    if state.rules[0].backfill_order == FIXED:
        at = place_by_rank(state, CANDIDATES, 0, state.clock[0].n_queued, job)
    while state.lists[CANDIDATES, at] != job:
        at += 1
    remove(state.lists[CANDIDATES], at, state.clock[0].n_queued)


@inlined
def dequeue(state: State, at: int) -> None:
    """Take the job at a place of the queue, counted from its head, out."""
    clock, jobs = state.clock[0], state.lists[QUEUE]
    column = clock.first + at
    if state.rules[0].own_backfill_order:
        _remove_candidate(state, jobs[column])
    if clock.indexed:
        jobs[column] = ~jobs[column]
        clock.n_gone += 1
        while clock.n_gone > 0 and jobs[clock.first] < 0:
            clock.first += 1
            clock.n_gone -= 1
    elif 2 * at > clock.n_queued:
        # The shorter side moves.
        remove(jobs, column, clock.first + clock.n_queued)
    else:
        insert(jobs, clock.first, column, jobs[column])
        clock.first += 1
    clock.n_queued -= 1
