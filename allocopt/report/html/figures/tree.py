"""Who holds which nodes, on the tree: nodes as cells within their leaf switches within the groups above.

On a large machine a cell is a leaf switch, or a group of them, filled by the shares of its nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Topology
from allocopt.report.html.figures.tree_layout import Cells, Layout
from allocopt.report.palette import N_COLOURS
from allocopt.report.plot import WIDE, Axis, Colours, Figure, Key, Panel
from allocopt.report.words import percent, shortened

IDLE, TAKEN = -1, -2
"""Owners of nodes that no job holds: idle, and taken before."""
_MOST_LABELS = 160
_LABEL_PIXELS = 10.0
# What a letter takes on average.
_LETTER = 0.6 * _LABEL_PIXELS


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
    keys: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        leaves = self.topology.groups_of(np.arange(self.topology.size))
        leaf = leaves[0] if len(leaves) else np.zeros(self.topology.size, dtype=np.int64)
        object.__setattr__(self, "keys", tuple(_job_keys(len(self.jobs), self.owner, leaf)))

    def figure(self) -> Figure:
        """Return the figure."""
        held = int((self.owner >= 0).sum())
        size = self.topology.size
        idle, taken = int((self.owner == IDLE).sum()), int((self.owner == TAKEN).sum())
        counts = f"{held:,} of {size:,} nodes held by {len(np.unique(self.owner[self.owner >= 0])):,} jobs"
        cells = Cells.of(self.topology, self.node_names)
        what = {0: "a node", 1: "a leaf switch, filled by the shares of its nodes"}.get(
            cells.level, f"a group of level {cells.level}, filled by the shares of its nodes"
        )
        inner = "leaf switches" if cells.level == 0 else f"groups of level {cells.level + 1}"
        frames = f"{inner} within the groups above" if cells.has_outer else inner
        rest = f"{idle:,} idle" + (f", {taken:,} taken before" if taken else "")
        return Figure(
            self.name,
            self.title,
            f"{counts} ({percent(held / size)}); {rest}. Each job has a colour of its own among its neighbours.",
            lambda colours: [self._panel(colours, cells)],
            f"{counts}, {rest}. A cell is {what}; frames are {frames}. Point at a cell for its name and job."
            f"{' Faint cells are idle.' if idle else ''}{' Grey cells were taken before.' if taken else ''}",
        )

    def _panel(self, colours: Colours, cells: Cells) -> Panel:
        placed = cells.placed(WIDE)
        panel = Panel(colours, Axis((0.0, WIDE)), Axis((placed.height, 0.0)), placed.height, width=WIDE)
        for frames, role in ((placed.outer, "raised"), (placed.inner, "surface")):
            panel.boxes(frames, [role] * len(frames), edge="line")
        names = [(x, y, shortened(text, int(room / 6.2))) for x, y, text, room in placed.names if room > 20]
        panel.texts(names, "muted", align="left", baseline="alphabetic")
        boxes: list[tuple[float, float, float, float]] = []
        roles: list[str] = []
        titles: list[str] = []
        counted: list[tuple[float, float, str]] = []
        for cell, (x, y, width, height) in enumerate(self._joined(cells, placed).tolist()):
            owners, counts = np.unique(self.owner[cells.members(cell)], return_counts=True)
            left = x
            # Jobs first, then what is taken, then what is idle.
            for place in np.argsort(np.where(owners >= 0, -3, owners), kind="stable").tolist():
                share = width * counts[place] / counts.sum()
                boxes.append((left, y, share, height))
                owner, count = int(owners[place]), f"{counts[place]}"
                roles.append({IDLE: "idle", TAKEN: "taken"}.get(owner) or Key(self.keys[owner]).role)
                titles.append(f"{cells.names[cell]}: {self._said(owners, counts)}")
                if owner >= 0 and 1.2 * _LETTER * len(count) <= share and _LABEL_PIXELS <= height:
                    counted.append((left + share / 2, y + height / 2, count))
                left += share
        panel.boxes(np.array(boxes), roles, titles)
        labels = counted if cells.level else self._labels(cells, placed)
        panel.texts(labels if len(labels) <= _MOST_LABELS else (), "on", _LABEL_PIXELS, align="center")
        return panel

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
        names = {IDLE: "idle", TAKEN: "taken"}
        parts = [names.get(owner, "") or f"job {shortened(self.jobs[owner], 40)}" for owner in owners.tolist()]
        if counts.sum() == 1:
            return parts[0]
        return ", ".join(f"{part} {count}" for part, count in zip(parts, counts.tolist(), strict=True))

    def _labels(self, cells: Cells, placed: Layout) -> list[tuple[float, float, str]]:
        labels = []
        for first, length in _runs(self.owner[cells.order], placed.cells):
            owner = int(self.owner[cells.order[first]])
            x, y, width, height = placed.cells[first].tolist()
            room = length * (placed.cells[first + 1][0] - x if length > 1 else width)
            name = self.jobs[owner] if owner >= 0 else ""
            if not name or _LETTER * len(name) > room or height < _LABEL_PIXELS:
                continue
            # Between two cells a short name would be cut in two.
            middle = placed.cells[first + (length - 1) // 2][0] + width / 2
            is_short = _LETTER * len(name) <= width
            labels.append((float(middle if is_short else x + room / 2), y + height / 2, name))
        return labels[:_MOST_LABELS]


def _job_keys(jobs: int, owner: IntArray, group: IntArray) -> list[int]:
    """Give jobs numbers of colours so that jobs in the same group differ, as far as the colours reach.

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
    keys = []
    # Greedily, the colour that is used least among those that no neighbour has.
    for job in range(jobs):
        near = set().union(*(seen.setdefault(number, set()) for number in groups_of[job]))
        index = min(range(N_COLOURS), key=lambda each: (each in near, uses[each], each))
        uses[index] += 1
        for number in groups_of[job]:
            seen[number].add(index)
        keys.append(index)
    return keys


def _runs(owner: IntArray, cells: FloatArray) -> list[tuple[int, int]]:
    """First cell and number of cells of every run of one owner in one row without a gap."""
    gap = np.diff(cells[:, 0]) > cells[:-1, 2] * 1.5
    breaks = np.flatnonzero((np.diff(owner) != 0) | (np.diff(cells[:, 1]) != 0) | gap) + 1
    firsts = np.concatenate(([0], breaks))
    return list(zip(firsts.tolist(), np.diff(np.append(firsts, len(owner))).tolist(), strict=True))
