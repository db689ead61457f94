"""Room: what a simulation and its schedulers ask of a machine, and of the jobs that wait for it."""

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
    """A machine whose units are only counted, as `View.as_pool` returns it."""

    @property
    def platform(self) -> Platform:
        """The resources, and how many units of each there are."""

    @property
    def state(self) -> State:
        """Arrays of the simulation; the waiting jobs stand in adjacent columns of the queue."""

    @property
    def request(self) -> IntArray:
        """Units of each resource that each job asks for, shape ``(n, R)``; one resource in place of a cluster."""

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job can start by the estimates, and what is spare then; see `View.shadow`."""


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
        """What each job asks for of all nodes together, shape ``(n, R)``."""

    @property
    def rng(self) -> np.random.Generator:
        """Source of randomness of the orders of the queue, and then of the scheduler."""

    @property
    def guests(self) -> Guests | None:
        """Jobs that run on units which others hold; None where the machine takes no guests."""

    @property
    def tracks_nodes(self) -> bool:
        """Whether it is known which job holds which nodes."""

    def as_pool(self) -> PoolRoom:
        """Return the machine as a pool; see `View.as_pool`."""

    @property
    def can_run_to_end(self) -> bool:
        """Whether `run` can simulate a built-in scheduler to the end in one kernel call or a few."""

    def run(self) -> None:
        """Simulate the built-in scheduler until nothing is left to happen."""

    def advance(self, until: float) -> int:
        """Go on to the next scheduling point, but not beyond a time in seconds; see `kernels.events.advance`."""

    def schedule(self) -> None:
        """Let the built-in scheduler start what it may."""

    def change_speed(self, job: int, speed: float) -> None:
        """Let a running job go on at another speed, from now on."""

    @property
    def head(self) -> int | None:
        """The first waiting job; None if no job waits."""

    def first(self, most: int) -> IntArray:
        """Return the first waiting jobs in the order of the queue, ``most`` at most."""

    def fits(self, job: int) -> bool:
        """Whether what a waiting job asks for is free."""

    def fitting(self, jobs: IntArray) -> BoolArray:
        """Whether what each of some waiting jobs asks for is free, shape ``(k,)``."""

    def shadow(self, job: int) -> tuple[float, IntArray]:
        """Return when a waiting job that does not fit now can start, and what is spare then; see `View.shadow`."""

    def backfillable(self, heads: Sequence[int]) -> Iterator[int]:
        """Yield waiting jobs that may start now without delaying the heads; see `View.backfillable`."""

    def window(self, jobs: IntArray, name: str, hop_cost: float = HOP_COST, *, overtaking: bool = False) -> PosedWindow:
        """Pose the choice of nodes for those of some waiting jobs that fit together; see `View.window`."""

    def relocation(self, gangs: Mapping[int, float], leaving: Mapping[int, LeaveCosts], name: str) -> PosedRelocation:
        """Pose which running jobs leave their nodes for waiting ones; see `View.relocation`."""

    def least_nodes(self, job: int) -> int:
        """Return the fewest nodes that a job asks for. Raises `UsageError` if the machine is no cluster."""

    def start(self, job: int, nodes: IntArray | None = None, tasks: IntArray | None = None) -> bool:
        """Start a job, on the nodes and with the tasks given if any; return False if it does not wait, or has no room.

        Only a cluster takes tasks. Raises `InvalidSolutionError` if the nodes are not what the job asks for, or
        are not free.
        """

    def requeue(self, job: int) -> None:
        """Stop a running job and let it join the queue again. Raises `InvalidSolutionError` where it shares units."""

    def settle(self) -> None:
        """Give nodes to jobs that have just started without any. Raises `SchedulerError` if an allocator fails."""

    def held_by(self, job: int) -> Share:
        """Return the share of a job that has started, where nodes are tracked."""

    def partition_of(self, job: int) -> str:
        """Return the name of the partition in whose queue a job stands; empty on a machine without partitions."""

    def asks(self, job: int) -> str:
        """Say what a job asks for."""

    def there_for(self, job: int) -> str:
        """Say what is free for a job now, in words that follow "with"."""

    def in_words(self, units: IntArray) -> str:
        """Write amounts of each resource, shape ``(R,)``."""

    @property
    def free(self) -> IntArray:
        """Idle units of each resource, shape ``(R,)``."""

    @property
    def free_units(self) -> IntArray:
        """Idle units of each resource on each node, shape ``(nodes, R)``; one row where nodes are not tracked."""

    @property
    def idle_nodes(self) -> IntArray:
        """Nodes that no job holds, in ascending order; empty where nodes are not tracked."""

    def result(self, workload: Workload, release: FloatArray, start: FloatArray, end: FloatArray) -> Schedule:
        """Return the schedule of a simulation that is over, times in seconds, shape ``(n,)``."""
