"""Who holds which nodes, on the tree: nodes as cells within their leaf switches within the groups above.

On a large machine a cell is a leaf switch, or a group of them, filled by the shares of its nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.tree_cells import Cells, cells_of
from allocopt.report.html.figures.tree_layout import Layout, layout
from allocopt.report.html.palette import N_COLOURS, colour
from allocopt.report.html.words import percent, shortened

IDLE, TAKEN = -1, -2
"""Owners of nodes that no job holds: idle, and taken before."""
MOST_LABELS = 160
LABEL_POINTS = 6.6


@dataclass(frozen=True, slots=True, eq=False)
class TreePicture:
    """Who holds which nodes.

    Parameters
    ----------
    topology
        The cluster.
    owner
        Per node the number of the job that holds it, ``IDLE`` or ``TAKEN``.
    jobs
        Names of the jobs.
    name, title
        Name of the figure, and what it shows.
    node_names
        Names of the nodes; empty for their numbers.
    """

    topology: Topology
    owner: IntArray
    jobs: Sequence[str]
    name: str = "tree"
    title: str = "Allocation on the tree"
    node_names: tuple[str, ...] = ()
    roles: list[str] = field(init=False)

    def __post_init__(self) -> None:
        leaves = self.topology.groups_of(np.arange(self.topology.size))
        leaf = leaves[0] if len(leaves) else np.zeros(self.topology.size, dtype=np.int64)
        object.__setattr__(self, "roles", job_roles(len(self.jobs), self.owner, leaf))

    def figure(self) -> Figure:
        """Return the figure."""
        held = int((self.owner >= 0).sum())
        size = self.topology.size
        idle, taken = int((self.owner == IDLE).sum()), int((self.owner == TAKEN).sum())
        counts = f"{held:,} of {size:,} nodes held by {len(np.unique(self.owner[self.owner >= 0])):,} jobs"
        cells = self._cells()
        what = {0: "a node", 1: "a leaf switch, filled by the shares of its nodes"}.get(
            cells.level, f"a group of level {cells.level}, filled by the shares of its nodes"
        )
        rest = f"{idle:,} idle" + (f", {taken:,} taken before" if taken else "")
        return Figure(
            self.name,
            self.title,
            f"{counts} ({percent(held / size)}); {rest}. Each job has a colour of its own among its neighbours.",
            self.draw,
            f"{counts}, {rest}. A cell is {what}; frames are {_frames(cells)}. Point at a cell for its name and job."
            f"{' Faint cells are idle.' if idle else ''}{' Grey cells were taken before.' if taken else ''}",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw frames, cells and names."""
        cells = self._cells()
        placed = layout(cells, canvas.width, canvas.is_narrow)
        axes = canvas.plane(placed.height)
        for frame, role, edge in ((placed.outer, "raised", "line"), (placed.inner, "surface", "line")):
            canvas.boxes(axes, frame, [role] * len(frame), edge=edge, line_width=0.6)
        for x, y, text in placed.names:
            canvas.text(axes, x, y, shortened(text, 32), "muted", fontsize=7.5, va="baseline")
        self._fill(canvas, axes, cells, placed)

    def _cells(self) -> Cells:
        """Return the cells of the figure."""
        return cells_of(self.topology, self.node_names)

    def _fill(self, canvas: Canvas, axes: Any, cells: Cells, placed: Layout) -> None:
        """Colour the cells by who holds them."""
        boxes: list[tuple[float, float, float, float]] = []
        roles: list[str] = []
        titles: list[str] = []
        counted: list[str] = []
        for cell, (x, y, width, height) in enumerate(self._joined(cells, placed).tolist()):
            owners, counts = np.unique(self.owner[cells.members(cell)], return_counts=True)
            title = f"{cells.names[cell]}: {self._said(owners, counts)}"
            left = x
            # Jobs first, then what is taken, then what is idle.
            for place in np.argsort(np.where(owners >= 0, -3, owners), kind="stable").tolist():
                share = width * counts[place] / counts.sum()
                boxes.append((left, y, share, height))
                roles.append(self._role(int(owners[place])))
                titles.append(title)
                counted.append(f"{counts[place]}" if owners[place] >= 0 else "")
                left += share
        canvas.boxes(axes, np.array(boxes), roles, titles)
        if cells.level:
            _count(canvas, axes, boxes, counted)
        else:
            self._label(canvas, axes, cells, placed)

    def _joined(self, cells: Cells, placed: Layout) -> FloatArray:
        """Return the boxes of the cells; nodes of one job that stand side by side have no gap between them."""
        if cells.level:
            return placed.cells
        boxes = placed.cells.copy()
        owner = self.owner[cells.order]
        for first, length in _runs(owner, placed.cells):
            if owner[first] >= 0 and length > 1:
                boxes[first : first + length - 1, 2] = np.diff(placed.cells[first : first + length, 0])
        return boxes

    def _said(self, owners: IntArray, counts: IntArray) -> str:
        """Say who holds the nodes of a cell."""
        names = {IDLE: "idle", TAKEN: "taken"}
        parts = [
            names.get(owner, "") or f"job {shortened(self.jobs[owner], 40)}" for owner in owners.tolist()
        ]  # fmt: skip
        if counts.sum() == 1:
            return parts[0]
        return ", ".join(f"{part} {count}" for part, count in zip(parts, counts.tolist(), strict=True))

    def _role(self, owner: int) -> str:
        """Return the role of an owner's colour."""
        return {IDLE: "idle", TAKEN: "taken"}.get(owner) or self.roles[owner]

    def _label(self, canvas: Canvas, axes: Any, cells: Cells, placed: Layout) -> None:
        """Write the names of jobs where the cells that they hold side by side leave room."""
        written = 0
        for first, length in _runs(self.owner[cells.order], placed.cells):
            owner = int(self.owner[cells.order[first]])
            x, y, width, height = placed.cells[first].tolist()
            room = length * (placed.cells[first + 1][0] - x if length > 1 else width)
            name = self.jobs[owner] if owner >= 0 else ""
            if not name or 0.64 * LABEL_POINTS * len(name) > room or height < LABEL_POINTS or written > MOST_LABELS:
                continue
            written += 1
            # Between two cells a short name would be cut in two.
            middle = placed.cells[first + (length - 1) // 2][0] + width / 2
            is_short = 0.64 * LABEL_POINTS * len(name) <= width
            place = middle if is_short else x + room / 2
            canvas.text(
                axes, place, y + height / 2, name, "on", fontsize=LABEL_POINTS, ha="center", va="center_baseline"
            )


def job_roles(jobs: int, owner: IntArray, group: IntArray) -> list[str]:
    """Give jobs colours so that jobs in the same group differ, as far as the colours reach.

    Parameters
    ----------
    jobs
        Number of jobs.
    owner, group
        Job (negative for none) and group of every node.
    """
    held = owner >= 0
    pairs = np.unique(np.stack((owner[held], group[held]), axis=1), axis=0)
    groups_of: list[list[int]] = [[] for _ in range(jobs)]
    for job, number in pairs.tolist():
        groups_of[job].append(number)
    seen: dict[int, set[int]] = {}
    uses = [0] * N_COLOURS
    roles = []
    for job in range(jobs):
        near = set().union(*(seen.setdefault(number, set()) for number in groups_of[job]))
        index = min(range(N_COLOURS), key=lambda each: (each in near, uses[each], each))
        uses[index] += 1
        for number in groups_of[job]:
            seen[number].add(index)
        roles.append(colour(index))
    return roles


def _count(canvas: Canvas, axes: Any, boxes: Sequence[tuple[float, float, float, float]], texts: Sequence[str]) -> None:
    """Write numbers of nodes into the boxes that have room for them, unless there are too many."""
    fitting = [
        (box, text)
        for box, text in zip(boxes, texts, strict=True)
        if text and 0.75 * LABEL_POINTS * len(text) <= box[2] and LABEL_POINTS <= box[3]
    ]
    for (x, y, width, height), text in fitting if len(fitting) <= MOST_LABELS else ():
        canvas.text(
            axes, x + width / 2, y + height / 2, text, "on", fontsize=LABEL_POINTS, ha="center", va="center_baseline"
        )


def _runs(owner: IntArray, cells: FloatArray) -> list[tuple[int, int]]:
    """First cell and number of cells of every run of one owner in one row without a gap."""
    gap = np.diff(cells[:, 0]) > cells[:-1, 2] * 1.5
    breaks = np.flatnonzero((np.diff(owner) != 0) | (np.diff(cells[:, 1]) != 0) | gap) + 1
    firsts = np.concatenate(([0], breaks))
    return list(zip(firsts.tolist(), np.diff(np.append(firsts, len(owner))).tolist(), strict=True))


def _frames(cells: Cells) -> str:
    """Say what the frames are."""
    inner = "leaf switches" if cells.level == 0 else f"groups of level {cells.level + 1}"
    return f"{inner} within the groups above" if cells.has_outer else inner
