"""Room: the interface of a machine and its waiting jobs, for the engine and the schedulers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.platform import Platform
from allocopt.simulator.held_nodes import Guests, Share
from allocopt.simulator.posed import LeaveCosts, PosedRelocation, PosedWindow
from allocopt.simulator.schedule import HOP_COST, Schedule
from allocopt.simulator.state import Events, State
from allocopt.traces.workload import Workload


class PoolRoom(Protocol):
    """A machine whose units are only counted; see `View.as_pool`."""

    @property
    def platform(self) -> Platform:
        """The resources, and the number of units of each."""

    @property
    def state(self) -> State:
        """Arrays of the simulation; the waiting jobs are in adjacent columns of the queue."""

    @property
    def request(self) -> IntArray:
        """Units of each resource that each job requests, shape ``(n, R)``; one resource if it replaces a cluster."""

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start by the estimates, and the spare units then; see `View.shadow`."""


class Room(Protocol):
    """A machine on which jobs wait, start and end; jobs are numbered as in their workload.

    Amounts are units of each of the platform's resources, arrays of shape ``(R,)``.
    """

    @property
    def platform(self) -> Platform:
        """The machine as schedulers see it."""

    @property
    def state(self) -> Events:
        """Arrays that events change."""

    @property
    def request(self) -> IntArray:
        """Request of each job over all nodes, shape ``(n, R)``."""

    @property
    def rng(self) -> np.random.Generator:
        """Source of randomness, first for queue orders, then for the scheduler."""

    @property
    def guests(self) -> Guests | None:
        """Jobs that run on units of other jobs; None if the machine takes no guests."""

    @property
    def tracks_nodes(self) -> bool:
        """Whether the nodes of each job are known."""

    def as_pool(self) -> PoolRoom:
        """Return the machine as a pool; see `View.as_pool`."""

    @property
    def can_run_to_end(self) -> bool:
        """Whether `run` can simulate a built-in scheduler to the end in one or a few kernel calls."""

    def run(self) -> None:
        """Simulate the built-in scheduler until no event is left."""

    def advance(self, until: float) -> int:
        """Advance to the next scheduling point, but not beyond ``until`` s; see `kernels.events.advance`."""

    def schedule(self) -> None:
        """Run a pass of the built-in scheduler."""

    def change_speed(self, job: int, speed: float) -> None:
        """Change the speed of a running job from now on."""

    @property
    def head(self) -> int | None:
        """The first waiting job; None if no job waits."""

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs in the order of the queue, ``most`` at most."""

    def fits(self, job: int) -> bool:
        """Whether a waiting job fits now."""

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Return whether each of some waiting jobs fits now, shape ``(k,)``."""

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job that does not fit now can start, and the spare units then; see `View.shadow`."""

    def backfillable(self, heads: Sequence[int]) -> Iterator[int]:
        """Yield waiting jobs that may start now without delaying the heads; see `View.backfillable`."""

    def window(self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False) -> PosedWindow:
        """Return the problem of choosing nodes for those waiting jobs that fit together; see `View.window`."""

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Return the problem of stopping or moving running jobs for waiting jobs; see `View.relocation`."""

    def least_nodes(self, job: int) -> int:
        """Return the fewest nodes that a job requests; raise `UsageError` if the machine is not a cluster."""

    def start(self, job: int, nodes: IntArray | None = None, tasks: IntArray | None = None) -> bool:
        """Start a job, on given nodes and with given tasks if any; return False if it does not wait, or does not fit.

        Only a cluster takes tasks. Raises `InvalidSolutionError` if the nodes do not satisfy the job's request, or are
        not free.
        """

    def requeue(self, job: int) -> None:
        """Stop a running job and queue it again; raise `InvalidSolutionError` if it is a host or a guest."""

    def settle(self) -> None:
        """Place jobs that have just started without nodes; raise `SchedulerError` if an allocator fails."""

    def held_by(self, job: int) -> Share:
        """Return the share of a started job; nodes must be tracked."""

    def partition_of(self, job: int) -> str:
        """Return the name of the partition in whose queue a job is; empty on a machine without partitions."""

    def asks(self, job: int) -> str:
        """Return the request of a job in words."""

    def there_for(self, job: int) -> str:
        """Return what is free for a job now, in words that follow "with"."""

    def in_words(self, units: IntArray) -> str:
        """Return amounts of each resource, shape ``(R,)``, in words."""

    @property
    def free(self) -> IntArray:
        """Idle units of each resource, shape ``(R,)``."""

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node, shape ``(nodes, R)``; one row if nodes are not tracked."""

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, in ascending order; empty if nodes are not tracked."""

    def result(self, workload: Workload, release: FloatArray, start: FloatArray, end: FloatArray) -> Schedule:
        """Return the schedule of a finished simulation; times in seconds, shape ``(n,)``."""
