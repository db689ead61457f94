"""Which nodes are held when: a rectangle per job, or, of many jobs, how much of each part of the machine is held."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Tree
from allocopt.report.html.canvas import POINTS, Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.usage import shared_bins
from allocopt.report.html.palette import LIGHT, N_STEPS, colour, step
from allocopt.report.html.timeline import Timeline
from allocopt.report.html.words import EN_DASH, duration, percent, shortened, time_unit

MOST_RECTANGLES = 2_500
MOST_JOBS_WITHOUT_NODES = 1_500
MOST_PROCESSORS = 200_000
MOST_LEAVES = 20
BINS, BANDS = 200, 48


@dataclass(frozen=True, slots=True, eq=False)
class Gantt:
    """A schedule over time.

    Parameters
    ----------
    timeline
        The schedule.
    name, title
        Name of the figure, and what it shows.
    """

    timeline: Timeline
    name: str = "gantt"
    title: str = "Jobs over time"

    def figure(self) -> Figure:
        """Return the figure."""
        line = self.timeline
        many = f"{len(line.start):,} jobs over {duration(line.makespan_s)} on {line.size:,} " + (
            "processors" if line.nodes is None else "nodes"
        )
        return Figure(
            self.name,
            self.title,
            f"{many}, {percent(line.utilization)} of which is held.",
            self._draw_jobs if self._is_small() else self._draw_shares,
            self._caption(),
        )

    def _is_small(self) -> bool:
        """Whether every job can be drawn."""
        line = self.timeline
        if line.nodes is None:
            return len(line.start) <= MOST_JOBS_WITHOUT_NODES and line.size <= MOST_PROCESSORS
        places = node_places(line)
        return sum(1 + int((np.diff(np.sort(places[held])) > 1).sum()) for held in line.nodes) <= MOST_RECTANGLES

    def _caption(self) -> str:
        """Say how it is to be read."""
        line = self.timeline
        if self._is_small():
            if line.nodes is None:
                return (
                    "A rectangle is a job: wide as it runs, high as it has processors. Which processors it had is not "
                    "known; it is drawn on the lowest that are free. Point at it for its name."
                )
            return "A rectangle is a job on neighbouring nodes. Point at it for its name, nodes and times."
        whole = (
            "the machine that jobs of each size hold" if line.nodes is None else "each part of the machine that is held"
        )
        return f"Too much to draw job by job: the share of {whole}. The stronger the colour, the more."

    def _draw_jobs(self, canvas: Canvas) -> None:
        """Draw every job."""
        line = self.timeline
        seconds, unit = time_unit(line.makespan_s)
        origin = float(line.submit.min())
        boxes, roles, titles = [], [], []
        for job, low, high in job_rectangles(line):
            start, end = (line.start[job] - origin) / seconds, (line.end[job] - origin) / seconds
            boxes.append((start, low, end - start, high - low))
            roles.append(colour(job))
            titles.append(self._said(job))
        height = 3.6 if canvas.is_narrow else 3.9
        (axes,) = canvas.panels(1, 1, height)
        axes.grid(visible=False)
        placed, across = np.array(boxes), max(line.makespan_s, 1.0) / seconds
        widths = edge_widths(placed, canvas.width / across, height * POINTS / line.size)
        canvas.boxes(axes, placed, roles, titles, edge="surface", line_width=widths)
        axes.set_xlim(0.0, across)
        axes.set_ylim(line.size, 0)
        axes.set_xlabel(f"{unit} since the first submission")
        axes.set_ylabel("processors" if line.nodes is None else "nodes")
        _name_leaves(axes, line)

    def _draw_shares(self, canvas: Canvas) -> None:
        """Draw how much of each part of the machine is held."""
        line = self.timeline
        edges = shared_bins([line], BINS // 2 if canvas.is_narrow else BINS)
        seconds, unit = time_unit(line.makespan_s)
        shares, names = _by_size(line, edges) if line.nodes is None else _by_band(line, edges)
        scale = max(float(shares.max()), 1e-9) if line.nodes is None else 1.0
        (axes,) = canvas.panels(1, 1, 0.7 + (0.26 * len(shares) if line.nodes is None else 3.0))
        axes.grid(visible=False)
        times = (edges - edges[0]) / seconds
        boxes, roles = _merged(np.minimum(shares / scale, 1.0), times)
        canvas.boxes(axes, boxes, roles)
        axes.set_xlim(0.0, times[-1])
        axes.set_ylim(len(shares), 0)
        ticks = np.unique(np.linspace(0, len(names) - 1, min(len(names), 16 if line.nodes is None else 9)).astype(int))
        axes.set_yticks(ticks + 0.5, [names[tick] for tick in ticks])
        axes.set_xlabel(f"{unit} since the first submission")
        axes.set_ylabel("processors per job" if line.nodes is None else "nodes")

    def _said(self, job: int) -> str:
        """Describe a job."""
        line = self.timeline
        wait, run = float(line.waits_s[job]), float(line.end[job] - line.start[job])
        what = "processors" if line.nodes is None else "nodes"
        size = int(line.processors[job])
        return f"job {shortened(line.names[job], 40)}: {size:,} {what}, waited {duration(wait)}, ran {duration(run)}"


def edge_widths(boxes: FloatArray, points_across: float, points_down: float) -> FloatArray:
    """Width of the edges of boxes, given the points of a unit: small boxes have none, as they would be hidden."""
    is_large = (boxes[:, 2] * points_across > 3.0) & (boxes[:, 3] * points_down > 2.0)
    return np.where(is_large, 0.4, 0.0)


def _name_leaves(axes: Any, line: Timeline) -> None:
    """Put the names of the leaf switches where their nodes stand, if there are few of them."""
    if not isinstance(line.topology, Tree) or not len(line.topology.groups):
        return
    leaves = line.topology.groups[0][np.argsort(node_places(line))]
    firsts = np.append(np.flatnonzero(np.diff(leaves, prepend=-1)), line.size)
    if len(firsts) > MOST_LEAVES + 1 or np.diff(firsts).min() < line.size / 40:
        return
    for first in firsts[1:-1].tolist():
        axes.axhline(first, color=LIGHT["muted"], linewidth=0.6)
    names = [shortened(line.topology.names[0][leaf], 14) for leaf in leaves[firsts[:-1]].tolist()]
    axes.set_yticks((firsts[:-1] + firsts[1:]) / 2, names)
    for text in axes.get_yticklabels():
        text.set_parse_math(False)
    axes.set_ylabel("nodes by leaf switch")


def node_places(line: Timeline) -> IntArray:
    """Return where every node stands from top to bottom: nodes of a switch together."""
    if line.topology is None:
        return np.arange(line.size)
    order = np.lexsort((np.arange(line.size), *line.topology.groups_of(np.arange(line.size))))
    places = np.empty(line.size, dtype=np.int64)
    places[order] = np.arange(line.size)
    return places


def job_rectangles(line: Timeline) -> list[tuple[int, int, int]]:
    """Return job, first place and place behind the last of every run of neighbouring places that a job holds."""
    if line.nodes is None:
        return _packed(line)
    places = node_places(line)
    return [
        (job, low, high)
        for job, nodes in enumerate(line.nodes)
        for low, high in _runs(np.sort(places[nodes]))
    ]  # fmt: skip


def _runs(places: IntArray) -> list[tuple[int, int]]:
    """First place and place behind the last of every run of neighbouring places."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) > 1)
    firsts, lasts = np.append(places[0], places[breaks + 1]), np.append(places[breaks], places[-1])
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _packed(line: Timeline) -> list[tuple[int, int, int]]:
    """Place jobs on the lowest processors that are free when they start."""
    free_from = np.full(line.size, -np.inf)
    rectangles = []
    for job in np.lexsort((line.end, line.start)).tolist():
        free = np.flatnonzero(free_from <= line.start[job])[: line.processors[job]]
        free_from[free] = line.end[job]
        rectangles += [(job, low, high) for low, high in _runs(free)]
    return rectangles


def _by_band(line: Timeline, edges: FloatArray) -> tuple[FloatArray, list[str]]:
    """Share of the nodes in each band that is held between edges of time; names of the bands."""
    assert line.nodes is not None, "bands are of nodes"
    bands = min(BANDS, line.size)
    band_of = node_places(line) * bands // line.size
    jobs = np.repeat(np.arange(len(line.nodes)), [len(nodes) for nodes in line.nodes])
    bands_held = band_of[np.concatenate(line.nodes)]
    sizes = np.bincount(band_of, minlength=bands)
    rows = []
    for band in range(bands):
        own = jobs[bands_held == band]
        part = Timeline(
            (), line.submit[own], line.start[own], line.end[own], np.ones(len(own), dtype=np.int64), int(sizes[band])
        )
        rows.append(part.held(edges) / sizes[band])
    firsts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return np.array(rows), [f"{first:,}" for first in firsts.tolist()]


def _by_size(line: Timeline, edges: FloatArray) -> tuple[FloatArray, list[str]]:
    """Share of the machine that jobs of each class of size hold; names of the classes: 1, 2 to 4, 5 to 16, ..."""
    limits = 4 ** np.arange(16, dtype=np.int64)
    classes = np.searchsorted(limits, line.processors)
    rows, names = [], []
    for number in np.unique(classes)[::-1].tolist():
        own = classes == number
        part = Timeline((), line.submit[own], line.start[own], line.end[own], line.processors[own], line.size)
        rows.append(part.held(edges) / line.size)
        names.append("1" if number == 0 else f"{limits[number - 1] + 1:,}{EN_DASH}{limits[number]:,}")
    return np.array(rows), names


def _merged(shares: FloatArray, times: FloatArray) -> tuple[FloatArray, list[str]]:
    """Boxes of the spans of time in which a row has the same colour, and the colours."""
    # What is next to nothing is drawn as idle.
    steps = np.where(shares < 0.01, -1, np.minimum((shares * N_STEPS).astype(int), N_STEPS - 1))
    boxes, roles = [], []
    for row, values in enumerate(steps):
        firsts = np.flatnonzero(np.diff(values, prepend=-9))
        for first, last in zip(firsts.tolist(), np.append(firsts[1:], len(values)).tolist(), strict=True):
            boxes.append((times[first], row + 0.03, times[last] - times[first], 0.94))
            roles.append("idle" if values[first] < 0 else step((values[first] + 0.5) / N_STEPS))
    return np.array(boxes), roles
