"""The cells of a picture of a tree and where they stand.

Cells are nodes, or groups of them on a large machine; frames flow from left to right like words, and the cells are as
large as the page allows.
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology, Tree

MOST_CELLS = 3_000
_MOST_HEIGHT = 760.0
# Sides of a cell in pixels, tried one after the other.
_SIDES = (24.0, 22.0, 20.0, 18.0, 16.0, 14.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.5, 4.0, 3.5, 3.0)
_MARGIN, _GAP, _PAD, _NAME = 1.0, 6.0, 2.0, 14.0
# Frames of leaf switches are named while there are few enough to be read.
_MOST_INNER_NAMES = 64
# How many times as wide as high a cell is that holds several nodes.
_WIDE_CELL = 2.6

_Boxes = list[tuple[float, float, float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Places in pixels from the upper left corner; boxes are left, upper, width and height.

    Parameters
    ----------
    height
        Of the whole.
    cells, inner, outer
        Boxes of the cells, and of the frames around them.
    names
        Where the names of frames begin, the names, and the room for them.
    """

    height: float
    cells: FloatArray
    inner: FloatArray
    outer: FloatArray
    names: list[tuple[float, float, str, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cells within inner frames within outer ones.

    Parameters
    ----------
    level
        0 where a cell is a node, else the level of the group that it is.
    order
        Nodes in the order of the cells, shape ``(size,)``.
    first
        Where the nodes of every cell begin in ``order``, and the number of nodes, shape ``(cells + 1,)``.
    names
        Name of every cell.
    inner, outer
        Numbers of the frames of every cell, rising, shape ``(cells,)``.
    inner_names, outer_names
        Name of every frame.
    has_outer
        Whether outer frames mean something: else there is one.
    """

    level: int
    order: IntArray
    first: IntArray
    names: list[str]
    inner: IntArray
    outer: IntArray
    inner_names: list[str]
    outer_names: list[str]
    has_outer: bool

    @classmethod
    def of(cls, topology: Topology, node_names: tuple[str, ...] = ()) -> Self:
        """Return the cells of a cluster: the smallest groups, nodes if may be, of which there are not too many."""
        size = topology.size
        groups = topology.groups_of(np.arange(size))
        levels = [np.arange(size), *groups, np.zeros(size, dtype=np.int64)]
        # Groups stand in the order of their first nodes, within the groups above.
        order = np.lexsort(levels[:-1])
        counts = [len(np.unique(level)) for level in levels]
        level = next(number for number, count in enumerate(counts) if count <= MOST_CELLS)
        # Numbers of groups that stand together, in the order in which they come.
        rows = [np.cumsum(np.diff(each[order], prepend=each[order][:1]) != 0) for each in levels]
        top = len(levels) - 1
        inner_level, outer_level = min(level + 1, top), min(level + 2, top)
        inner, outer = rows[inner_level], rows[outer_level]
        first = np.flatnonzero(np.diff(rows[level], prepend=-1))

        def names(at: int, places: IntArray) -> list[str]:
            return [_name(topology, at, int(node), node_names) for node in order[places]]

        return cls(
            level,
            order,
            np.append(first, size),
            names(level, first),
            inner[first],
            outer[first],
            names(inner_level, np.flatnonzero(np.diff(inner, prepend=-1))),
            names(outer_level, np.flatnonzero(np.diff(outer, prepend=-1))),
            counts[outer_level] > 1,
        )

    def members(self, cell: int) -> IntArray:
        """Return the nodes of a cell."""
        return self.order[self.first[cell] : self.first[cell + 1]]

    def placed(self, width: float) -> Layout:
        """Place cells in a width in pixels: the largest that leave each outer frame in one row, if any do."""
        tried = [_Placing(self, width, side) for side in _SIDES]
        fitting = [each for each in tried if each.height <= _MOST_HEIGHT]
        # Broken rows are better than cells that cannot be pointed at.
        least = 5.0 if self.has_outer else 12.0
        whole = [each for each in fitting if each.is_unbroken and each.side >= least]
        return (whole or fitting or tried[-1:])[0].layout()


def _name(topology: Topology, level: int, node: int, node_names: tuple[str, ...]) -> str:
    if level == 0:
        return node_names[node] if node_names else f"node {node}"
    groups = topology.groups_of(np.array([node]))
    if level > len(groups):
        return "all nodes"
    number = int(groups[level - 1][0])
    if isinstance(topology, Tree):
        return topology.names[level - 1][number]
    kind = {1: "leaf", 2: "pod"}.get(level, f"level {level} group")
    return f"{kind} {number}"


class _Placing:
    def __init__(self, cells: Cells, width: float, side: float) -> None:
        self.cells, self.side = cells, side
        self.cell_width = side if cells.level == 0 else side * _WIDE_CELL
        self.room = width - 2 * _MARGIN
        self.gap = _GAP if side >= 5 else 4.0
        self.first = _firsts(cells.inner)
        self.counts = np.diff(np.append(self.first, len(cells.inner)))
        # A single frame around everything needs no name.
        is_named = 1 < len(self.first) <= _MOST_INNER_NAMES and side >= 5
        self.inner_name = _NAME - 1 if is_named else 0.0
        self.outer_name = _NAME if cells.has_outer else 0.0
        self.rows = max(1, round(math.sqrt(int(np.median(self.counts)) / (2.5 if cells.level == 0 else 1.5))))
        sizes = [self._inner_size(int(count)) for count in self.counts]
        self.inner_sizes = sizes
        owners = cells.outer[self.first]
        self.members = np.split(np.arange(len(sizes)), _firsts(owners)[1:])
        inside = self.room - 2 * self.gap
        self.flows = [_Flow([sizes[frame] for frame in frames], inside, self.gap) for frames in self.members]
        self.boxes = [
            (flow.width + 2 * self.gap, flow.height + 2 * self.gap + self.outer_name) for flow in self.flows
        ]  # fmt: skip
        self.whole = _Flow(self.boxes, self.room, self.gap + 1)
        self.height = self.whole.height + 2 * _MARGIN
        self.is_unbroken = all(
            flow.height <= max(sizes[frame][1] for frame in frames) + 1e-9
            for flow, frames in zip(self.flows, self.members, strict=True)
        )

    def layout(self) -> Layout:
        cells: list[FloatArray] = []
        inner: _Boxes = []
        outer: _Boxes = []
        names: list[tuple[float, float, str, float]] = []
        for number, (corner, frames, flow) in enumerate(zip(self.whole.corners, self.members, self.flows, strict=True)):
            x, y = corner[0] + _MARGIN, corner[1] + _MARGIN
            outer.append((x, y, *self.boxes[number]))
            if self.outer_name:
                room = self.boxes[number][0] - self.gap
                names.append((x + self.gap, y + _NAME - 1.0, self.cells.outer_names[number], room))
            for frame, (left, upper) in zip(frames.tolist(), flow.corners, strict=True):
                place = x + self.gap + left, y + self.gap + self.outer_name + upper
                inner.append((*place, *self.inner_sizes[frame]))
                if self.inner_name:
                    room = self.inner_sizes[frame][0] - _PAD
                    names.append((place[0] + _PAD + 1, place[1] + _NAME - 3.5, self.cells.inner_names[frame], room))
                cells.append(self._cells_in((place[0], place[1] + self.inner_name), int(self.counts[frame])))
        return Layout(self.height, np.concatenate(cells), np.array(inner), np.array(outer), names)

    def _columns(self, count: int) -> int:
        most = int((self.room - 2 * self.gap - 2 * _PAD) // self.cell_width)
        return max(1, min(-(-count // self.rows), most))

    def _inner_size(self, count: int) -> tuple[float, float]:
        columns = self._columns(count)
        return columns * self.cell_width + 2 * _PAD, -(-count // columns) * self.side + 2 * _PAD + self.inner_name

    def _cells_in(self, place: tuple[float, float], count: int) -> FloatArray:
        numbers = np.arange(count)
        columns = self._columns(count)
        # Cells touch neither each other nor their frame.
        air = 0.12 * self.side
        x = place[0] + _PAD + numbers % columns * self.cell_width + air / 2
        y = place[1] + _PAD + numbers // columns * self.side + air / 2
        size = np.ones(count)
        return np.stack((x, y, size * (self.cell_width - air), size * (self.side - air)), axis=1)


def _firsts(numbers: IntArray) -> IntArray:
    return np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))


class _Flow:
    """Boxes of given sizes put side by side; where several rows are needed, they hold about as many each."""

    def __init__(self, sizes: list[tuple[float, float]], room: float, gap: float) -> None:
        total = sum(width + gap for width, _ in sizes) - gap
        rows = max(1, math.ceil(total / room))
        most = -(-len(sizes) // rows)
        widths = [width for width, _ in sizes]
        # Rows of equal numbers look tidy only where the boxes are alike.
        is_even = rows > 1 and max(widths) - min(widths) < 1e-6
        self.corners: list[tuple[float, float]] = []
        x = y = high = self.width = 0.0
        held = 0
        for width, height in sizes:
            if self.corners and (x + width > room + 1e-6 or (is_even and held >= most)):
                x, y, high, held = 0.0, y + high + gap, 0.0, 0
            self.corners.append((x, y))
            self.width = max(self.width, x + width)
            x, high, held = x + width + gap, max(high, height), held + 1
        self.height = y + high
