"""What batches of episodes over jobsets share: which jobset each plays, how it stands, and snapshots."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import IntArray
from allocopt.errors import UsageError

STAY = -1
"""Stands for no jobset: an episode goes on, or stays where it ended."""


class Arrays(Protocol):
    """The arrays of E episodes; others besides."""

    @property
    def tally(self) -> Any:
        """Where each present episode stands, records, shape ``(E, 1)``."""

    @property
    def last(self) -> Any:
        """The same of the episode that was over last."""

    @property
    def following(self) -> IntArray:
        """Jobset with which each episode begins anew when it ends, or ``STAY``, shape ``(E,)``."""


A = TypeVar("A", bound=Arrays)


class SideBySide(ABC, Generic[A]):
    """Independent episodes that are stepped together, each over a jobset of its own.

    Parameters
    ----------
    n_jobsets
        Number of jobsets.
    count
        Episodes side by side, E.
    batch
        Their arrays.
    """

    changing: ClassVar[Sequence[str]]
    """Names of the arrays that change while episodes run."""

    def __init__(self, n_jobsets: int, count: int, batch: A) -> None:
        self.n_environments = count
        self.n_jobsets = n_jobsets
        self._batch = batch

    @property
    def tally(self) -> NDArray[np.void]:
        """Where each present episode stands, and what it has come to: records, shape ``(E,)``."""
        tally: NDArray[np.void] = self._batch.tally[:, 0]
        return tally

    @property
    def last(self) -> NDArray[np.void]:
        """The same of the episode that was over last in each place, whether another began after it; zeros before."""
        last: NDArray[np.void] = self._batch.last[:, 0]
        return last

    def begin(self, jobsets: IntArray) -> None:
        """Begin an episode wherever a jobset is named instead of ``STAY``, whether the one there is over or not.

        Parameters
        ----------
        jobsets
            Numbers of jobsets, shape ``(E,)``.
        """
        self._begin(self._checked(jobsets))

    @abstractmethod
    def _begin(self, jobsets: IntArray) -> None:
        """Begin episodes over jobsets that there are."""

    def follow(self, jobsets: IntArray) -> None:
        """Say with which jobset each episode begins anew when it ends; ``STAY``, as at first, leaves it ended."""
        self._batch.following[:] = self._checked(jobsets)

    def snapshot(self) -> dict[str, Any]:
        """Return all that changes, as arrays."""
        return {name: _plain(getattr(self._batch, name)).copy() for name in self.changing}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        for name in self.changing:
            _plain(getattr(self._batch, name))[:] = snapshot[name]

    def _checked(self, jobsets: IntArray) -> IntArray:
        """Return numbers of jobsets as the kernels take them."""
        numbers = np.ascontiguousarray(jobsets, dtype=np.int64)
        if numbers.shape != (self.n_environments,):
            raise UsageError(f"the jobsets have shape {numbers.shape}, must have {(self.n_environments,)}")
        if numbers.min() < STAY or numbers.max() >= self.n_jobsets:
            wrong = numbers[(numbers < STAY) | (numbers >= self.n_jobsets)][0]
            raise UsageError(f"the jobset is {wrong}, must be within 0 .. {self.n_jobsets - 1}; {STAY} stands for none")
        return numbers


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, or the bytes of records, so that snapshots hold plain arrays."""
    return array if array.dtype.names is None else array.view(np.uint8)
