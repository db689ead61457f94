"""What a scheduler decides."""

from typing import NamedTuple

from allocopt.arrays import IntArray


class Start(NamedTuple):
    """Start a waiting job now, on the nodes given; None leaves their choice to the allocator, if the machine has nodes.

    ``tasks`` are the numbers of tasks on these nodes, on a cluster only. None fills one node after the other, but
    leaves at least one task for each.
    """

    job: int
    nodes: IntArray | None = None
    tasks: IntArray | None = None


class Reserve(NamedTuple):
    """Promise a waiting job a start time, in seconds and later than now; the scheduler is called again at that time.

    A promise is only noted: keeping it is up to the scheduler, not to the simulator.
    """

    job: int
    time: float


class Wait(NamedTuple):
    """Call the scheduler again at a time, in seconds and later than now, even if nothing has happened by then."""

    until: float


class Requeue(NamedTuple):
    """Stop a running job and let it join the queue again, as if it came now; the work that it has done is lost.

    Its wait counts from the first time that it joined the queue to its last start. It must neither have a guest nor be
    one.
    """

    job: int


class Pass(NamedTuple):
    """Let the built-in scheduler that stands under this one start what it may; see `OverBuiltIn`."""


class PlaceGuest(NamedTuple):
    """Start a waiting job on units that a running one holds; an execution model says how they slow each other down.

    The host must not have a guest or be one, and must hold at least what the guest asks for. The guest may use a share
    of the host's units, above 0 and at most 90 percent, and holds none itself. When the host ends, the guest holds what
    it asked for, and the rest becomes free.
    """

    job: int
    host: int
    percent: int


class SetQuota(NamedTuple):
    """Change the quota of the guest of a job: the share of the host's units, above 0 and at most 90 percent."""

    host: int
    percent: int


Decision = Start | Reserve | Wait | Requeue | Pass | PlaceGuest | SetQuota
