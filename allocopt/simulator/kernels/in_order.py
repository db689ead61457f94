"""A pass along the queue: list scheduling, first fit, and EASY backfilling (Lifka 1995).

Each kind of state answers the questions below, such as which job is next and whether it has room.
"""

from allocopt.kernels.compiled import inlined, question
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import NOBODY, Events

EASY = int(Backfill.EASY)

NO_ROOM, ROOM, CHOOSE_NODES = range(3)
"""Results of `look_for_room`: there is no room, there is room, or the caller has to choose the nodes."""

OVER, PAUSED = 0, 1
"""Results of a pass: it is over, or it is paused and has to be continued. `CHOOSE_NODES` is a third result."""


@question
def next_job(state: Events) -> int:
    """Return the next waiting job that this pass examines; ``NOBODY`` at the end of the pass."""
    raise NotImplementedError


@question
def must_pause(state: Events) -> bool:
    """Whether the pass has to pause before the next job."""
    raise NotImplementedError


@question
def look_for_room(state: Events, job: int) -> int:
    """Look for room for a job now that respects the reservations; return `NO_ROOM`, `ROOM` or `CHOOSE_NODES`."""
    raise NotImplementedError


@question
def start_in_room(state: Events, job: int) -> None:
    """Start a job in the room that `look_for_room` has found."""


@question
def is_blocked(state: Events, job: int) -> bool:
    """Whether an earlier job of the same partition did not fit in this pass."""
    raise NotImplementedError


@question
def reserve_room(state: Events, job: int) -> None:
    """Make a reservation for a job at the earliest time at which it fits by the estimates."""


@question
def leave_waiting(state: Events, job: int) -> None:
    """Leave a job waiting that did not fit, and block its partition."""


@inlined
def start_in_order(state: Events) -> int:
    """Start waiting jobs that fit, one after the other; return `OVER`, `PAUSED` or `CHOOSE_NODES`.

    Under EASY backfilling, the first job of a partition that does not fit gets a reservation.
    """
    while True:
        job = next_job(state)
        if job == NOBODY:
            return OVER
        if must_pause(state):
            return PAUSED
        found = look_for_room(state, job)
        if found == CHOOSE_NODES:
            return CHOOSE_NODES
        if found == ROOM:
            start_in_room(state, job)
            continue
        if state.rules[0].backfill == EASY and not is_blocked(state, job):
            reserve_room(state, job)
        leave_waiting(state, job)
