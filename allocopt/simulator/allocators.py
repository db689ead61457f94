"""Allocators: which nodes the jobs get that have just been started."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from allocopt.arrays import IntArray
from allocopt.simulator.placement import Share, first_units


class Allocator(Protocol):
    """Decides where jobs go that start at the same time."""

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Return what each job gets.

        Jobs are named by their numbers, as text. They ask for ``request`` units of each resource, shape ``(jobs, R)``,
        together no more than are ``free`` on the nodes, shape ``(nodes, R)``.
        """


@dataclass(frozen=True, slots=True)
class DepthFirst:
    """Node by node in the order of their numbers, each filled before the next: few nodes, the sequential allocation.

    Where nodes are shared this is CuSH's depth-first placement (section 3.2).
    """

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Give every job the first units that are left."""
        left = free.copy()
        return [_take(left, first_units(left, asked)) for asked in request]


@dataclass(frozen=True, slots=True)
class BreadthFirst:
    """One unit from every node in turn: as many nodes as there are (CuSH's breadth-first placement, section 3.2)."""

    def place(self, names: Sequence[str], request: IntArray, free: IntArray) -> list[Share]:
        """Spread every job over the nodes."""
        left, shares = free.copy(), []
        for asked in request:
            units = np.zeros_like(left)
            for resource, wanted in enumerate(asked.tolist()):
                available = left[:, resource]
                level = _level(available, wanted)
                units[:, resource] = np.minimum(available, level)
                # What is over comes from the first ones.
                over = np.flatnonzero(available > level)[: wanted - units[:, resource].sum()]
                units[over, resource] += 1
            shares.append(_take(left, units))
        return shares


def _level(available: IntArray, wanted: int) -> int:
    """Largest number of units such that taking as many from every node, or all it has, is not more than wanted."""
    low, high = 0, int(available.max(initial=0))
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(available, middle).sum() <= wanted:
            low = middle
        else:
            high = middle - 1
    return low


def _take(left: IntArray, units: IntArray) -> Share:
    left -= units
    nodes = np.flatnonzero(units.any(axis=1))
    return Share(nodes, units[nodes])
