"""The words of two-level scheduling: how a job came to run, what becomes of reservations, and the two levels."""

from enum import IntEnum


class Mode(IntEnum):
    """How a job came to start (DRAS, section 3.2)."""

    WAITING = 0
    """It has not started."""
    READY = 1
    """It was chosen at level 1 and fitted."""
    RESERVED = 2
    """It was chosen at level 1 when it did not fit, and started by its reservation."""
    BACKFILLED = 3
    """It was chosen at level 2 and did not delay the reservation."""


class Level(IntEnum):
    """What is chosen next."""

    CLOSED = 0
    """Nothing before the next event."""
    FIRST = 1
    """A job that starts at once if it fits and gets the reservation if not."""
    SECOND = 2
    """A job that starts at once and does not delay the reservation."""


class Reservations(IntEnum):
    """What becomes of a reservation when something happens before it is due."""

    KEPT = 0
    """It stands until its job starts, which may become possible earlier but never later (DRAS)."""
    RENEWED = 1
    """It lapses: every scheduling instance begins at level 1 (EASY backfilling under an order that changes)."""
    NONE = 2
    """There are none, and no level 2: only jobs that fit may be chosen (Decima-PG, BinPacking, Random)."""
