"""Where the cells of a tree stand: frames flow from left to right like words, and the cells are as large as may be."""

import math
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.report.html.figures.tree_cells import Cells

SIDES = (18.0, 16.0, 14.0, 13.0, 12.0, 11.5, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.0)
"""Sides of a cell in points, tried one after the other."""
MOST_HEIGHT, MOST_HEIGHT_NARROW = 560.0, 560.0
MARGIN, GAP, PAD, NAME = 1.0, 5.0, 2.0, 12.0
WIDE_CELL = 2.6
"""How many times as wide as high a cell is that holds several nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Places in points from the upper left corner; boxes are left, upper, width and height.

    Parameters
    ----------
    height
        Of the whole.
    cells, inner, outer
        Boxes of the cells, and of the frames around them.
    names
        Names of the outer frames and where they stand.
    """

    height: float
    cells: FloatArray
    inner: FloatArray
    outer: FloatArray
    names: list[tuple[float, float, str]]


@dataclass(frozen=True, slots=True)
class _Flow:
    """Boxes of given sizes put side by side, and in a new row where they do not fit; its own size."""

    corners: list[tuple[float, float]]
    width: float
    height: float


def layout(cells: Cells, width: float, is_narrow: bool) -> Layout:
    """Place cells in a width in points: the largest that leave each outer frame in one row, if any do."""
    most = MOST_HEIGHT_NARROW if is_narrow else MOST_HEIGHT
    tried = [_Placing(cells, width, side) for side in SIDES]
    fitting = [each for each in tried if each.height <= most]
    least = 4.0 if cells.has_outer else 9.0
    whole = [each for each in fitting if each.is_unbroken and each.side >= least]
    return (whole or fitting or tried[-1:])[0].layout()


class _Placing:
    """The places of all frames for a side of the cells."""

    def __init__(self, cells: Cells, width: float, side: float) -> None:
        self.cells, self.side = cells, side
        self.cell_width = side if cells.level == 0 else side * WIDE_CELL
        self.room = width - 2 * MARGIN
        self.gap = GAP if side >= 4 else 3.0
        self.first = _firsts(cells.inner)
        self.counts = np.diff(np.append(self.first, len(cells.inner)))
        self.rows = _rows(int(np.median(self.counts)), cells.level)
        sizes = [self._inner_size(int(count)) for count in self.counts]
        self.inner_sizes = sizes
        owners = cells.outer[self.first]
        self.outer_first = _firsts(owners)
        self.members = np.split(np.arange(len(sizes)), self.outer_first[1:])
        inside = self.room - 2 * self.gap
        self.flows = [_flow([sizes[frame] for frame in frames], inside, self.gap) for frames in self.members]
        named = NAME if cells.has_outer else 0.0
        boxes = [(flow.width + 2 * self.gap, flow.height + 2 * self.gap + named) for flow in self.flows]
        self.named, self.boxes = named, boxes
        self.whole = _flow(boxes, self.room, self.gap + 1)
        self.height = self.whole.height + 2 * MARGIN
        self.is_unbroken = all(
            flow.height <= max(sizes[frame][1] for frame in frames) + 1e-9
            for flow, frames in zip(self.flows, self.members, strict=True)
        )

    def layout(self) -> Layout:
        """Return the places."""
        cells: list[FloatArray] = []
        inner: list[tuple[float, float, float, float]] = []
        outer: list[tuple[float, float, float, float]] = []
        names: list[tuple[float, float, str]] = []
        for number, (corner, frames, flow) in enumerate(zip(self.whole.corners, self.members, self.flows, strict=True)):
            x, y = corner[0] + MARGIN, corner[1] + MARGIN
            outer.append((x, y, *self.boxes[number]))
            if self.named:
                names.append((x + self.gap, y + NAME - 2.0, self.cells.outer_names[number]))
            for frame, (left, upper) in zip(frames.tolist(), flow.corners, strict=True):
                place = x + self.gap + left, y + self.gap + self.named + upper
                inner.append((*place, *self.inner_sizes[frame]))
                cells.append(self._cells_in(place, int(self.counts[frame])))
        return Layout(self.height, np.concatenate(cells), np.array(inner), np.array(outer), names)

    def _columns(self, count: int) -> int:
        """Return how many cells stand side by side in an inner frame."""
        most = int((self.room - 2 * self.gap - 2 * PAD) // self.cell_width)
        return max(1, min(-(-count // self.rows), most))

    def _inner_size(self, count: int) -> tuple[float, float]:
        """Width and height of an inner frame."""
        columns = self._columns(count)
        return columns * self.cell_width + 2 * PAD, -(-count // columns) * self.side + 2 * PAD

    def _cells_in(self, place: tuple[float, float], count: int) -> FloatArray:
        """Boxes of the cells in an inner frame."""
        numbers = np.arange(count)
        columns = self._columns(count)
        air = 0.12 * self.side
        x = place[0] + PAD + numbers % columns * self.cell_width + air / 2
        y = place[1] + PAD + numbers // columns * self.side + air / 2
        size = np.ones(count)
        return np.stack((x, y, size * (self.cell_width - air), size * (self.side - air)), axis=1)


def _rows(count: int, level: int) -> int:
    """Rows of cells in an inner frame of usual size."""
    return max(1, round(math.sqrt(count / (2.5 if level == 0 else 1.5))))


def _firsts(numbers: IntArray) -> IntArray:
    """Return where runs of equal numbers begin."""
    return np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))


def _flow(sizes: list[tuple[float, float]], room: float, gap: float) -> _Flow:
    """Put boxes side by side; where several rows are needed, they hold about as many each."""
    total = sum(width + gap for width, _ in sizes) - gap
    rows = max(1, math.ceil(total / room))
    most = -(-len(sizes) // rows)
    corners: list[tuple[float, float]] = []
    x = y = high = wide = 0.0
    held = 0
    for width, height in sizes:
        if corners and (x + width > room + 1e-6 or (held >= most and rows > 1 and _are_alike(sizes))):
            x, y, high, held = 0.0, y + high + gap, 0.0, 0
        corners.append((x, y))
        wide = max(wide, x + width)
        x, high, held = x + width + gap, max(high, height), held + 1
    return _Flow(corners, wide, y + high)


def _are_alike(sizes: list[tuple[float, float]]) -> bool:
    """Whether all boxes are of the same width, so that rows of equal numbers look tidy."""
    widths = [width for width, _ in sizes]
    return max(widths) - min(widths) < 1e-6
