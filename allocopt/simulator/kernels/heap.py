"""A binary heap of jobs by their next event, which may move to another time."""

from allocopt.kernels.compiled import helper, inlined
from allocopt.simulator.state import EVENTS, State


@inlined
def _before(state: State, a: int, b: int) -> bool:
    """Whether the event of job a comes before that of job b."""
    x, y = state.jobs[a], state.jobs[b]
    if x.event != y.event:
        return x.event < y.event
    return x.event_rank < y.event_rank


@inlined
def _put(state: State, at: int, job: int) -> None:
    """Let a job stand at a place."""
    state.lists[EVENTS, at] = job
    state.jobs[job].event_place = at


@inlined
def sift_up(state: State, at: int) -> None:
    """Move the job at a place towards the root until its parent comes before it."""
    job = state.lists[EVENTS, at]
    while at > 0:
        parent = (at - 1) // 2
        if _before(state, state.lists[EVENTS, parent], job):
            break
        _put(state, at, state.lists[EVENTS, parent])
        at = parent
    _put(state, at, job)


@inlined
def sift_down(state: State, at: int) -> None:
    """Move the job at a place away from the root until it comes before its children."""
    job = state.lists[EVENTS, at]
    size = state.clock[0].n_events
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(state, state.lists[EVENTS, child + 1], state.lists[EVENTS, child]):
            child += 1
        if _before(state, job, state.lists[EVENTS, child]):
            break
        _put(state, at, state.lists[EVENTS, child])
        at = child
    _put(state, at, job)


@inlined
def push_event(state: State, job: int) -> None:
    """Add a job whose next event is known now."""
    clock = state.clock[0]
    _put(state, clock.n_events, job)
    clock.n_events += 1
    sift_up(state, clock.n_events - 1)


@inlined
def pop_event(state: State) -> int:
    """Take the job of the next event out."""
    clock = state.clock[0]
    job = state.lists[EVENTS, 0]
    clock.n_events -= 1
    if clock.n_events > 0:
        _put(state, 0, state.lists[EVENTS, clock.n_events])
        sift_down(state, 0)
    return int(job)


@helper()
def move_event(state: State, job: int) -> None:
    """Put a job whose event has moved to another time where it belongs."""
    sift_up(state, state.jobs[job].event_place)
    sift_down(state, state.jobs[job].event_place)
