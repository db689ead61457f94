"""Processes that train together: what they tell each other, and one alone that does the same."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import nn

from allocopt.arrays import FloatArray


class Workers(Protocol):
    """The processes of a training; all of them must call the same methods in the same order.

    Every method raises `UsageError` where another process has died.
    """

    @property
    def rank(self) -> int:
        """Number of this one, from 0; the first one writes files and speaks."""

    @property
    def count(self) -> int:
        """Their number P."""

    def total(self, values: FloatArray) -> FloatArray:
        """Return the sums over all of them."""

    def largest(self, values: FloatArray) -> FloatArray:
        """Return the largest values that one of them has."""

    def average(self, module: nn.Module) -> None:
        """Set the parameters of a module, and what else it holds, to the means over all of them."""

    def gathered(self, state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return what each of them has, by their numbers."""


class Alone:
    """One process; see `Workers`."""

    rank = 0
    count = 1

    def total(self, values: FloatArray) -> FloatArray:
        """Return its own values."""
        return values

    def largest(self, values: FloatArray) -> FloatArray:
        """Return its own values."""
        return values

    def average(self, module: nn.Module) -> None:
        """Change nothing."""

    def gathered(self, state: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return what it has."""
        return [state]


ALONE = Alone()
"""One process; it holds nothing."""


def is_leader(workers: Workers) -> bool:
    """Whether this process writes files and speaks."""
    return workers.rank == 0


def any_of(workers: Workers, *flags: bool) -> tuple[bool, ...]:
    """Return for each flag whether one of the processes has set it."""
    found = workers.largest(np.array(flags, dtype=np.float64))
    return tuple(bool(value) for value in found)
