"""Nodes of each job on the tree: nodes are cells in frames of leaf switches, in frames of the groups above.

On a large machine a cell is a leaf switch or a group of them, coloured by the shares of its nodes. Frames are placed
from left to right like words, and cells are as large as the page allows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology, Tree
from allocopt.report.palette import N_COLOURS
from allocopt.report.plot import WIDE, Axis, Colours, Figure, Key, Panel
from allocopt.report.words import percent, shortened

IDLE, TAKEN = -1, -2  # Owners of nodes that no job holds: idle, and taken before
_MOST_CELLS, _MOST_LABELS, _MOST_HEIGHT = 3_000, 160, 760.0
_LABEL_PIXELS = 10.0
_LETTER = 0.6 * _LABEL_PIXELS  # Mean width of a letter
# Sides of a cell in pixels, tried in this order
_SIDES = (24.0, 22.0, 20.0, 18.0, 16.0, 14.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.5, 4.0, 3.5, 3.0)
_MARGIN, _GAP, _PAD, _NAME = 1.0, 6.0, 2.0, 14.0
_MOST_INNER_NAMES = 64  # Frames of leaf switches are named if there are at most this many
_WIDE_CELL = 2.6  # Width over height of a cell with several nodes


@dataclass(frozen=True, eq=False)
class TreePicture:
    """The nodes of each job, to be drawn on the tree."""

    topology: Topology
    owner: IntArray  # Per node the number of its job (of one of them if it is shared), ``IDLE`` or ``TAKEN``
    jobs: Sequence[str]  # Names of the jobs, all of which hold nodes
    name: str = "tree"
    title: str = "Allocation on the tree"
    node_names: tuple[str, ...] = ()  # If empty, nodes are named by their numbers
    wanted: Mapping[str, int] = field(default_factory=dict)  # Colours that jobs get if no neighbour has them
    taken: str = "taken before"  # Description of the nodes that are ``TAKEN``

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Numbers of the colours of the jobs; jobs of one leaf switch differ if there are enough colours."""
        leaves = self.topology.groups_of(np.arange(self.topology.size))
        leaf = leaves[0] if len(leaves) else np.zeros(self.topology.size, dtype=np.int64)
        held = self.owner >= 0
        groups_of: list[list[int]] = [[] for _ in self.jobs]
        for job, number in np.unique(np.stack((self.owner[held], leaf[held]), axis=1), axis=0).tolist():
            groups_of[job].append(number)
        seen: dict[int, set[int]] = {}
        uses = [0] * N_COLOURS
        keys = []
        # Greedy: of the colours that no neighbour has, take the one used least.
        for job_name, groups in zip(self.jobs, groups_of, strict=True):
            near = set().union(*(seen.setdefault(number, set()) for number in groups))
            wanted = self.wanted.get(job_name)
            index = min(range(N_COLOURS), key=lambda each: (each in near, each != wanted, uses[each], each))
            uses[index] += 1
            for number in groups:
                seen[number].add(index)
            keys.append(index)
        return tuple(keys)

    def figure(self) -> Figure:
        """Return the figure."""
        held = int((self.owner >= 0).sum())
        size = self.topology.size
        idle, taken = int((self.owner == IDLE).sum()), int((self.owner == TAKEN).sum())
        counts = f"{held:,} of {size:,} nodes held by {len(self.jobs):,} jobs"
        are_shared = len(np.unique(self.owner[self.owner >= 0])) < len(self.jobs)
        cells = _Cells.of(self.topology, self.node_names)
        what = {0: "a node", 1: "a leaf switch, coloured by the shares of its nodes"}.get(
            cells.level, f"a group of level {cells.level}, coloured by the shares of its nodes"
        )
        inner = "leaf switches" if cells.level == 0 else f"groups of level {cells.level + 1}"
        frames = f"inner frames are {inner}, outer ones groups of these" if cells.has_outer else f"frames are {inner}"
        rest = f"{idle:,} idle" + (f", {taken:,} {self.taken}" if taken else "")
        return Figure(
            self.name,
            self.title,
            f"{counts} ({percent(held / size)}); {rest}. Each job has a colour of its own among its neighbours.",
            lambda colours: [self._panel(colours, cells, cells.placed(WIDE))],
            f"{counts}, {rest}. A cell is {what}; {frames}. Point at a cell for its name and job."
            f"{' Jobs share nodes: a cell has the colour of one of its jobs.' if are_shared else ''}"
            f"{' Faint cells are idle.' if idle else ''}{f' Grey: {self.taken}.' if taken else ''}",
        )

    def _panel(self, colours: Colours, cells: "_Cells", placed: "_Layout") -> Panel:
        panel = Panel(colours, Axis((0.0, WIDE)), Axis((placed.height, 0.0)), placed.height, width=WIDE)
        for frames, role in ((placed.outer, "raised"), (placed.inner, "surface")):
            panel.boxes(frames, [role] * len(frames), edge="line")
        names = [(x, y, shortened(text, int(room / 6.2))) for x, y, text, room in placed.names if room > 20]
        panel.texts(names, "muted", align="left", baseline="alphabetic")
        whole, labels = placed.cells, []
        if cells.level == 0:
            # Draw no gaps between adjacent nodes of a job.
            whole, owners = whole.copy(), self.owner[cells.order]
            gap = np.diff(whole[:, 0]) > whole[:-1, 2] * 1.5
            breaks = np.flatnonzero((np.diff(owners) != 0) | (np.diff(whole[:, 1]) != 0) | gap) + 1
            for first, end in pairwise([0, *breaks.tolist(), len(owners)]):
                if owners[first] < 0:
                    continue
                x, y, width, height = placed.cells[first].tolist()
                whole[first : end - 1, 2] = np.diff(placed.cells[first:end, 0])
                room = (end - first) * (placed.cells[first + 1][0] - x if end - first > 1 else width)
                name = self.jobs[owners[first]]
                if name and _LETTER * len(name) <= room and height >= _LABEL_PIXELS:
                    # A short name is put into the middle cell; between two cells it would be cut.
                    middle = placed.cells[(first + end - 1) // 2][0] + width / 2
                    is_short = _LETTER * len(name) <= width
                    labels.append((float(middle if is_short else x + room / 2), y + height / 2, name))
            labels = labels[:_MOST_LABELS]
        boxes, roles, titles = [], [], []
        for cell, (x, y, width, height) in enumerate(whole.tolist()):
            nodes = cells.order[cells.first[cell] : cells.first[cell + 1]]
            owners, counts = np.unique(self.owner[nodes], return_counts=True)
            said = [
                {IDLE: "idle", TAKEN: self.taken}.get(each) or f"job {shortened(self.jobs[each], 40)}"
                for each in owners.tolist()
            ]
            if counts.sum() > 1:
                said = [f"{part} {count}" for part, count in zip(said, counts.tolist(), strict=True)]
            left = x
            # Jobs first, then taken nodes, then idle ones.
            for place in np.argsort(np.where(owners >= 0, -3, owners), kind="stable").tolist():
                share = width * counts[place] / counts.sum()
                boxes.append((left, y, share, height))
                owner, count = int(owners[place]), f"{counts[place]}"
                roles.append({IDLE: "idle", TAKEN: "taken"}.get(owner) or Key(self.keys[owner]).role)
                titles.append(f"{cells.names[cell]}: {', '.join(said)}")
                if cells.level and owner >= 0 and 1.2 * _LETTER * len(count) <= share and _LABEL_PIXELS <= height:
                    labels.append((left + share / 2, y + height / 2, count))
                left += share
        panel.boxes(np.array(boxes), roles, titles)
        panel.texts(labels if len(labels) <= _MOST_LABELS else (), "on", _LABEL_PIXELS, align="center")
        return panel


class _Layout(NamedTuple):
    """Positions in pixels from the upper left corner; boxes are left, top, width and height."""

    height: float
    side: float
    is_unbroken: bool  # Whether each outer frame is one row
    cells: FloatArray
    inner: FloatArray
    outer: FloatArray
    names: list[tuple[float, float, str, float]]  # Names of frames: x, y, the text, and the width for it


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Cells in inner frames, which are in outer frames."""

    level: int  # 0 if cells are nodes; otherwise the level of the groups that they are
    order: IntArray
    first: IntArray  # The nodes of cell ``i`` are ``order[first[i]:first[i + 1]]``
    names: list[str]
    # Frames of the cells, in ascending order
    inner: IntArray
    outer: IntArray
    inner_names: list[str]
    outer_names: list[str]
    has_outer: bool  # Whether there are several outer frames; a single one is not drawn as a group

    @classmethod
    def of(cls, topology: Topology, node_names: tuple[str, ...] = ()) -> Self:
        """Return the cells of a cluster: its nodes, or the smallest groups of which there are not too many."""
        size = topology.size
        groups = topology.groups_of(np.arange(size))
        levels = [np.arange(size), *groups, np.zeros(size, dtype=np.int64)]
        # Groups are in the order of their first nodes, within the groups above.
        order = np.lexsort(levels[:-1])
        counts = [len(np.unique(level)) for level in levels]
        level = next(number for number, count in enumerate(counts) if count <= _MOST_CELLS)
        # Groups are numbered in the order in which they are drawn.
        rows = [np.cumsum(np.diff(each[order], prepend=each[order][:1]) != 0) for each in levels]
        top = len(levels) - 1
        inner_level, outer_level = min(level + 1, top), min(level + 2, top)
        inner, outer = rows[inner_level], rows[outer_level]
        first = np.flatnonzero(np.diff(rows[level], prepend=-1))

        def name(at: int, node: int) -> str:
            if at == 0:
                return node_names[node] if node_names else f"node {node}"
            if at > len(groups):
                return "all nodes"
            number = int(groups[at - 1][node])
            kind = {1: "leaf", 2: "pod"}.get(at, f"level {at} group")
            return topology.names[at - 1][number] if isinstance(topology, Tree) else f"{kind} {number}"

        def names(at: int, places: IntArray) -> list[str]:
            return [name(at, node) for node in order[places].tolist()]

        inner_names = names(inner_level, np.flatnonzero(np.diff(inner, prepend=-1)))
        outer_names = names(outer_level, np.flatnonzero(np.diff(outer, prepend=-1)))
        frames = (inner[first], outer[first], inner_names, outer_names, counts[outer_level] > 1)
        return cls(level, order, np.append(first, size), names(level, first), *frames)

    def placed(self, width: float) -> _Layout:
        """Place cells in a width in pixels: the largest cells with each outer frame in one row, if there are any."""
        tried: list[_Layout] = []
        for side in _SIDES:
            room, gap = width - 2 * _MARGIN, _GAP if side >= 5 else 4.0
            cell_width, ratio = (side, 2.5) if self.level == 0 else (side * _WIDE_CELL, 1.5)
            first = np.flatnonzero(np.diff(self.inner, prepend=-1))
            counts = np.diff(np.append(first, len(self.inner)))
            # A single frame around everything needs no name.
            inner_name = _NAME - 1 if 1 < len(first) <= _MOST_INNER_NAMES and side >= 5 else 0.0
            outer_name = _NAME if self.has_outer else 0.0
            rows = max(1, round(math.sqrt(int(np.median(counts)) / ratio)))
            columns = np.maximum(1, np.minimum(-(-counts // rows), int((room - 2 * gap - 2 * _PAD) // cell_width)))
            heights = -(-counts // columns) * side + 2 * _PAD + inner_name
            sizes = np.stack((columns * cell_width + 2 * _PAD, heights), axis=1)
            frames = np.split(np.arange(len(first)), np.flatnonzero(np.diff(self.outer[first])) + 1)
            flows = [_flow(sizes[own].tolist(), room - 2 * gap, gap) for own in frames]
            outer_sizes = [(across + 2 * gap, down + 2 * gap + outer_name) for _, across, down in flows]
            corners, _, height = _flow(outer_sizes, room, gap + 1)
            outer = np.concatenate((np.array(corners) + _MARGIN, outer_sizes), axis=1)
            begins = outer[:, :2] + gap + (0.0, outer_name)
            inner = np.concatenate([begin + np.array(flow[0]) for begin, flow in zip(begins, flows, strict=True)])
            boxes = np.concatenate((inner, sizes), axis=1)
            frame = np.repeat(np.arange(len(first)), counts)
            place = np.arange(len(frame)) - first[frame]
            # Cells touch neither each other nor their frame.
            air = 0.12 * side
            x = inner[frame, 0] + _PAD + place % columns[frame] * cell_width + air / 2
            y = inner[frame, 1] + inner_name + _PAD + place // columns[frame] * side + air / 2
            cells = np.stack((x, y, np.full(len(x), cell_width - air), np.full(len(x), side - air)), axis=1)
            names = []
            if outer_name:
                tops = zip(outer.tolist(), self.outer_names, strict=True)
                names += [(x + gap, y + _NAME - 1.0, name, across - gap) for (x, y, across, _), name in tops]
            if inner_name:
                tops = zip(boxes.tolist(), self.inner_names, strict=True)
                names += [(x + _PAD + 1, y + _NAME - 3.5, name, across - _PAD) for (x, y, across, _), name in tops]
            is_unbroken = all(
                down <= sizes[own, 1].max() + 1e-9 for own, (_, _, down) in zip(frames, flows, strict=True)
            )
            tried.append(_Layout(height + 2 * _MARGIN, side, is_unbroken, cells, boxes, outer, names))
        fitting = [each for each in tried if each.height <= _MOST_HEIGHT]
        # Frames in several rows are better than cells too small to point at.
        least = 5.0 if self.has_outer else 12.0
        whole = [each for each in fitting if each.is_unbroken and each.side >= least]
        return (whole or fitting or tried[-1:])[0]


def _flow(sizes: list[tuple[float, float]], room: float, gap: float) -> tuple[list[tuple[float, float]], float, float]:
    """Place boxes in rows of about equal numbers; return their upper left corners, and the total width and height."""
    widths = [width for width, _ in sizes]
    total = sum(width + gap for width in widths) - gap
    rows = max(1, math.ceil(total / room))
    most = -(-len(sizes) // rows)
    # Rows of equal numbers look tidy only if all boxes have the same width.
    is_even = rows > 1 and max(widths) - min(widths) < 1e-6
    corners: list[tuple[float, float]] = []
    x = y = high = across = 0.0
    held = 0
    for width, height in sizes:
        if corners and (x + width > room + 1e-6 or (is_even and held >= most)):
            x, y, high, held = 0.0, y + high + gap, 0.0, 0
        corners.append((x, y))
        across = max(across, x + width)
        x, high, held = x + width + gap, max(high, height), held + 1
    return corners, across, y + high
