"""Solutions as pictures: which job holds which share of which node. Kinds make them, `allocopt.plot` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.cluster.request import ClusterRequest
from allocopt.cluster.topology import FatTree, Topology


class Look(StrEnum):
    """How the shares of a holder are drawn."""

    COLOURED = "coloured"
    """In a colour of its own, since the solution chooses its place."""
    GREY = "grey"
    """In grey, since the solution does not change it."""
    CROSSED = "crossed"
    """Crossed out, since the solution stops it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job of a picture, or something else that takes a share of a unit.

    Holders with the same label are one entry of the legend.
    """

    label: str
    look: Look = Look.COLOURED

    @staticmethod
    def name(word: str, job: str) -> str:
        """Return the id of a job for a label; a number is preceded by the word for the job."""
        return f"{word} {job}" if job.isdigit() else job


@dataclass(frozen=True, slots=True, eq=False)
class Racks:
    """The groups in which the units of a picture are drawn.

    ``rack`` has the number of each unit's group, shape ``(units,)``. ``row`` has the number of the group above each
    group, shape ``(groups,)``. Names may be empty.
    """

    rack: IntArray
    names: tuple[str, ...]
    row: IntArray
    row_names: tuple[str, ...]

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Return the leaf switches of a topology, in the order of the groups above them."""
        levels = topology.groups_of(np.arange(topology.size))
        if not len(levels):
            return cls.single(topology.size)
        leaves, first, rack = np.unique(levels[0], return_index=True, return_inverse=True)
        above = levels[1][first] if len(levels) > 1 else np.zeros(len(leaves), dtype=np.int64)
        order = np.argsort(above, kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        rows, row = np.unique(above[order], return_inverse=True)
        # Only trees of a site have names of their own.
        names = getattr(topology, "names", ())
        if isinstance(topology, FatTree):
            names = ([f"leaf {leaf}" for leaf in range(leaves[-1] + 1)], [f"pod {pod}" for pod in range(rows[-1] + 1)])
        of_racks, of_rows = (names[level] if len(names) > level else () for level in (0, 1))
        return cls(
            rack=place[rack.reshape(-1)],
            names=tuple(str(of_racks[leaf]) for leaf in leaves[order].tolist()) if of_racks else (),
            row=row.reshape(-1),
            row_names=tuple(str(of_rows[group]) for group in rows.tolist()) if of_rows else (),
        )

    @classmethod
    def single(cls, size: int) -> Self:
        """Return one group of all units, without a name."""
        return cls(np.zeros(size, dtype=np.int64), (), np.zeros(1, dtype=np.int64), ())


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """The holders of the units at one time, arrays of shape ``(shares,)``.

    ``share`` is the part of the unit that the holder has, not negative. The shares of a unit sum to at most 1.
    """

    unit: IntArray
    holder: IntArray  # index in `Picture.holders`
    share: FloatArray
    title: str = ""

    @classmethod
    def of(cls, unit: IntArray, holder: IntArray, share: FloatArray, title: str = "") -> Self:
        """Return a state in which shares of a unit that sum to more than 1 are scaled."""
        total = np.bincount(unit, share, minlength=1)
        return cls(unit, holder, share / np.maximum(total[unit], 1.0), title)

    def at_least(self, share: float) -> Self:
        """Return the state in which every share is so large that it can be seen; others of the unit may get smaller."""
        return self.of(self.unit, self.holder, np.maximum(self.share, share), self.title)

    @classmethod
    def of_whole_units(cls, held: "tuple[IntArray, ...]", title: str = "") -> Self:
        """Return the state in which holder i has each of the units ``held[i]`` exclusively."""
        holder = np.repeat(np.arange(len(held)), [len(units) for units in held])
        unit = np.concatenate(held).astype(np.int64) if held else np.empty(0, dtype=np.int64)
        return cls(unit, holder, np.ones(len(unit)), title)

    @classmethod
    def of_places(
        cls, held: Sequence[tuple[ClusterRequest, Sequence[tuple[int, int]]]], whole: IntArray, title: str = ""
    ) -> Self:
        """Return the state in which holder i has nodes, with its tasks on each, under its request.

        Its share of a node is the largest that it takes of any resource of ``whole``, the amounts of every node, shape
        ``(nodes, resources)``, and all of a node that it has exclusively.
        """
        units, shares = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        for request, places in held:
            nodes, tasks = np.array(places, dtype=np.int64).reshape(-1, 2).T
            units.append(nodes)
            taken = _dominant_shares(request.use(tasks), whole[nodes])
            shares.append(np.ones(len(nodes)) if request.is_exclusive else taken)
        holder = np.repeat(np.arange(len(held)), [len(places) for _, places in held])
        return cls.of(np.concatenate(units), holder, np.concatenate(shares), title)


def _dominant_shares(amounts: IntArray, whole: IntArray) -> FloatArray:
    """Return the largest share that amounts take of any resource, both of shape ``(n, resources)``, at most 1."""
    shares = np.where(whole > 0, amounts / np.maximum(whole, 1), 0.0)
    return np.asarray(np.minimum(shares.max(axis=1, initial=0.0), 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Units, such as nodes, and the jobs that hold shares of them.

    Parameters
    ----------
    unit
        The word for one unit, such as ``node``.
    racks
        Groups in which the units are drawn.
    is_closed
        Whether the solution may not use each unit, shape ``(units,)``.
    closed
        Description of such units, such as ``in use``.
    holders
        Everything that holds a share.
    states
        One state, or the states before and after.
    bars
        Label of each unit if a small number of units is drawn as bars, shape ``(units,)``; empty for squares always.
    axis
        Label of the axis along the bars, whose unit is per cent.
    """

    unit: str
    racks: Racks
    is_closed: BoolArray
    closed: str
    holders: tuple[Holder, ...]
    states: tuple[State, ...]
    bars: tuple[str, ...] = ()
    axis: str = ""

    @property
    def size(self) -> int:
        """Number of units."""
        return len(self.is_closed)
