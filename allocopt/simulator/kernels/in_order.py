"""A pass along the queue: list scheduling, first fit, and EASY backfilling (Lifka 1995).

Who comes next, and whether there is room, are questions that each kind of state answers.
"""

from allocopt.kernels.compiled import inlined, question
from allocopt.simulator.rules import Backfill
from allocopt.simulator.state import NOBODY, Events

EASY = int(Backfill.EASY)

NO_ROOM, ROOM, ASKS = range(3)
"""What a look for room comes to: none, some, or that Python is to choose the nodes."""

OVER, GOES_ON = 0, 1
"""What a pass returns: it is over, or stops to go on later. It returns `ASKS`, too."""


@question
def next_job(state: Events) -> int:
    """Return the next waiting job that may start in this pass; ``NOBODY`` at the end of the pass."""
    raise NotImplementedError


@question
def has_to_stop(state: Events) -> bool:
    """Whether the pass stops before the next job, to go on later."""
    raise NotImplementedError


@question
def look_for_room(state: Events, job: int) -> int:
    """Look for room that a job may take now, beside what is reserved; return `NO_ROOM`, `ROOM` or `ASKS`."""
    raise NotImplementedError


@question
def start_there(state: Events, job: int) -> None:
    """Start a job where room for it has been found."""


@question
def is_blocked(state: Events, job: int) -> bool:
    """Whether a job ahead of one, in its partition, has found no room in this pass."""
    raise NotImplementedError


@question
def reserve_room(state: Events, job: int) -> None:
    """Reserve what a job needs from the first time on at which it has room by the estimates."""


@question
def pass_over(state: Events, job: int) -> None:
    """Leave a job without room waiting, and block its partition."""


@inlined
def start_in_order(state: Events) -> int:
    """Start the waiting jobs that have room, one after the other; return `OVER`, `GOES_ON` or `ASKS`.

    Under EASY backfilling, the first job of a partition that finds no room gets a reservation.
    """
    while True:
        job = next_job(state)
        if job == NOBODY:
            return OVER
        if has_to_stop(state):
            return GOES_ON
        found = look_for_room(state, job)
        if found == ASKS:
            return ASKS
        if found == ROOM:
            start_there(state, job)
            continue
        if state.rules[0].backfill == EASY and not is_blocked(state, job):
            reserve_room(state, job)
        pass_over(state, job)
