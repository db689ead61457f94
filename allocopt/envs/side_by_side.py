"""Episodes that are stepped together: which jobset each plays, what becomes of one that is over, and snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.envs.asked import actions_of
from allocopt.envs.fields import STAY, Batch, Layout
from allocopt.errors import UsageError
from allocopt.kernels.compiled import inlined
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.state import CAPACITY, FREE, Clock, JobRecord, Record, Records, State, new_state
from allocopt.traces.workload import Workload

__all__ = ["STAY", "Compiled", "SideBySide", "cleared", "first_state", "is_played", "put_records", "rewind", "settled"]

Seen = TypeVar("Seen")


@inlined
def is_played(batch: Batch, e: int, action: int, jobset: int) -> bool:
    """Whether an action changes an episode: one that is over stays as it is, and one that begins anew ignores it."""
    return jobset == STAY and action != STAY and batch.tally[e, 0].over == 0


@inlined
def settled(batch: Batch, e: int, action: int, jobset: int, over: BoolArray) -> int:
    """Write whether an episode is over, and keep what it came to; return the jobset it begins with, or ``STAY``."""
    over[e] = jobset == STAY and batch.tally[e, 0].over != 0
    if not over[e] or action == STAY:
        return jobset
    batch.tally[e, 1] = batch.tally[e, 0]
    return int(batch.following[e])


@inlined
def cleared(batch: Batch, e: int, jobset: int) -> None:
    """Begin the tally of an episode anew."""
    batch.tally[e, 0] = batch.tally[e, 2]
    batch.tally[e, 0].jobset = jobset


@inlined
def put_records(values: Records[Record], target: Records[Record]) -> None:
    """Write records into the place of as many others."""
    for i in range(target.size):
        target[i] = values[i]  # type: ignore[index]


@inlined
def rewind(state: State, clock: Records[Clock], jobs: Records[JobRecord]) -> None:
    """Put a simulation of jobs that ask for one resource back before its first event."""
    put_records(clock, state.clock)
    put_records(jobs, state.jobs)
    state.units[FREE, 0] = state.units[CAPACITY, 0]
    state.held[0, 0] = 0


def first_state(jobs: Workload, machine: int, rules: Rules, backfill: Backfill) -> State:
    """Return jobs that ask for one resource before the first event, without counts per user and an index of the queue.

    Nobody asks for shares of users, and queues of episodes are short.
    """
    arrival = QueueKeys(OrderKind.ARRIVAL, np.zeros(len(jobs)))
    request, capacity = jobs.processors[:, np.newaxis].copy(), np.array([machine])
    state = new_state(jobs, request, capacity, rules, backfill, arrival)
    np.asarray(state.jobs)["user"] = 0
    np.asarray(state.clock)["indexed"] = 0
    return state._replace(held=np.zeros((1, 1), dtype=np.int64), least=state.least[:, :0])


class SideBySide(ABC, Generic[Seen]):
    """Independent episodes that are stepped together, each over a jobset of its own.

    An episode that is over stays as it is and pays nothing, until `begin` names a jobset for its place, or at once
    where `follow` did. What it came to stays in `last` until another one is over in its place.

    Parameters
    ----------
    n_jobsets
        Number of jobsets.
    n_actions
        Number of actions.
    batch
        The arrays of the episodes.
    """

    def __init__(self, n_jobsets: int, n_actions: int, batch: Batch) -> None:
        self.n_environments = len(batch.following)
        self.n_jobsets = n_jobsets
        self.n_actions = n_actions
        self._batch = batch
        self._stay = np.full(self.n_environments, STAY)

    @property
    def tally(self) -> NDArray[np.void]:
        """Where each present episode stands, and what it has come to: records, shape ``(E,)``."""
        tally: NDArray[np.void] = self._batch.tally[:, 0]
        return tally

    @property
    def last(self) -> NDArray[np.void]:
        """The same of the episode that was over last in each place, whether another began after it; zeros before."""
        last: NDArray[np.void] = self._batch.tally[:, 1]
        return last

    @property
    def invalid(self) -> IntArray:
        """1 where the last action could not be done, and another was taken instead, shape ``(E,)``."""
        invalid: IntArray = self._batch.tally["invalid"][:, 0]
        return invalid

    def begin(self, jobsets: IntArray) -> None:
        """Begin an episode wherever a jobset is named instead of ``STAY``, whether the one there is over or not."""
        self._play(self._stay, self._checked(jobsets))

    def follow(self, jobsets: IntArray) -> None:
        """Say with which jobset each episode begins anew when it ends; ``STAY``, as at first, leaves it ended."""
        self._batch.following[:] = self._checked(jobsets)

    def step(self, actions: NDArray[Any], jobsets: IntArray | None = None) -> tuple[FloatArray, BoolArray]:
        """Carry out an action in every episode, and go on to its next decision.

        Parameters
        ----------
        actions
            Numbers of actions, shape ``(E,)``; one that cannot be done stands for the first that can.
        jobsets
            With which jobset an episode begins instead, or ``STAY``, shape ``(E,)``; None for none.

        Returns
        -------
        FloatArray, BoolArray
            Rewards, and which episodes are over, shape ``(E,)``; new arrays.

        Raises
        ------
        UsageError
            If there is no such action.
        """
        chosen = actions_of(actions, self.n_environments, self.n_actions)
        return self._play(chosen, self._stay if jobsets is None else jobsets)

    @abstractmethod
    def observe(self) -> tuple[Seen, BoolArray]:
        """Return what the agents see and which actions are legal, the episodes in front; new arrays.

        Of an episode that is over, zeros; the one action that is legal then does nothing.
        """

    @abstractmethod
    def metrics(self) -> dict[str, FloatArray]:
        """Return what the episodes have come to so far, by name, shapes ``(E,)``."""

    @abstractmethod
    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]: ...

    def _checked(self, jobsets: IntArray) -> IntArray:
        numbers = np.ascontiguousarray(jobsets, dtype=np.int64)
        if numbers.shape != (self.n_environments,):
            raise UsageError(f"the jobsets have shape {numbers.shape}, must have {(self.n_environments,)}")
        if numbers.min() < STAY or numbers.max() >= self.n_jobsets:
            wrong = numbers[(numbers < STAY) | (numbers >= self.n_jobsets)][0]
            raise UsageError(f"the jobset is {wrong}, must be within 0 .. {self.n_jobsets - 1}; {STAY} stands for none")
        return numbers


class Compiled(SideBySide[Float32Array]):
    """Episodes that are stepped in one compiled call.

    Parameters
    ----------
    n_jobsets, n_actions, batch
        As in `SideBySide`.
    shape
        Shape of what an agent sees.
    """

    layout: ClassVar[Layout[Any]]
    """What an episode holds."""
    kernel: ClassVar[Callable[..., None]]
    """Steps all; a static method."""

    def __init__(self, n_jobsets: int, n_actions: int, batch: Batch, shape: tuple[int, ...]) -> None:
        super().__init__(n_jobsets, n_actions, batch)
        self.shape = shape
        self._shapes = (self.n_environments, *shape), (self.n_environments, n_actions)

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """Return what the agents see, shape ``(E, *shape)``, and which actions are legal, ``(E, n_actions)``."""
        seen, legal = self._blank()
        self._describe(seen, legal)
        return seen, legal

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes, as arrays of numbers that every checkpoint can hold."""
        return {name: values.copy() for name, values in self._changing().items()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        for name, values in self._changing().items():
            values[:] = snapshot[name]

    def _changing(self) -> dict[str, NDArray[Any]]:
        arrays = {name: getattr(self._batch, name) for name in self.layout.changing}
        arrays |= {"tally": self._batch.tally[:, :1], "last": self._batch.tally[:, 1:2]}
        return {name: _plain(values) for name, values in arrays.items()}

    def _play(self, actions: IntArray, jobsets: IntArray) -> tuple[FloatArray, BoolArray]:
        results = self._results()
        self.kernel(self._batch, actions, jobsets, *results)
        return results

    def _describe(self, seen: Float32Array, legal: BoolArray) -> None:
        raise NotImplementedError

    def _results(self) -> tuple[FloatArray, BoolArray]:
        return np.empty(self.n_environments), np.empty(self.n_environments, np.bool_)

    def _blank(self) -> tuple[Float32Array, BoolArray]:
        seen, legal = self._shapes
        return np.empty(seen, np.float32), np.empty(legal, np.bool_)


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, records as their bytes and words as integers, so that snapshots hold plain numbers."""
    if array.dtype == np.uint64:
        return array.view(np.int64)
    return array if array.dtype.names is None else array.view(np.uint8)
