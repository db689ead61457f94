"""The decisions of a scheduler."""

from typing import NamedTuple

from allocopt.arrays import IntArray


class Start(NamedTuple):
    """Start a waiting job now, on the given nodes; None lets the allocator choose them, if the machine has nodes.

    ``tasks`` are the numbers of tasks on these nodes, only on a cluster. None fills one node after the other, with at
    least one task on each.
    """

    job: int
    nodes: IntArray | None = None
    tasks: IntArray | None = None


class Reserve(NamedTuple):
    """Promise a waiting job a start time, in seconds and later than now; the scheduler is called again at that time.

    The simulator only records the promise; the scheduler must keep it.
    """

    job: int
    time: float


class Wait(NamedTuple):
    """Call the scheduler again at a time, in seconds and later than now, even if nothing has happened by then."""

    until: float


class Requeue(NamedTuple):
    """Stop a running job and put it into the queue again, as if it were submitted now; its work so far is lost.

    Its wait counts from the first time that it joined the queue to its last start. It must not have a guest or be a
    guest.
    """

    job: int


class Pass(NamedTuple):
    """Let the built-in scheduler below this one run a pass; see `OverBuiltIn`."""


class PlaceGuest(NamedTuple):
    """Start a waiting job on units that a running job holds; an execution model determines their slowdown.

    The host must not have a guest or be a guest, and must hold at least as many units as the guest requests. The guest
    may use a share of the host's units, above 0 and at most 90 percent, and holds none itself. When the host ends, the
    guest holds the units that it requested, and the other units become free.
    """

    job: int
    host: int
    percent: int


class SetQuota(NamedTuple):
    """Change the quota of the guest of a job: its share of the host's units, above 0 and at most 90 percent."""

    host: int
    percent: int


Decision = Start | Reserve | Wait | Requeue | Pass | PlaceGuest | SetQuota
