"""Which nodes are held when: a rectangle per job, or, of many jobs, how much of each part of the machine is held."""

import heapq
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Tree
from allocopt.report.html.timeline import Timeline
from allocopt.report.palette import N_STEPS
from allocopt.report.plot import WIDE, Axis, Colours, Figure, Key, Panel
from allocopt.report.words import EN_DASH, duration, percent, shortened, time_unit

_MOST_RECTANGLES, _MOST_JOBS_WITHOUT_NODES, _MOST_PROCESSORS, _MOST_ON_NODES = 2_500, 1_500, 200_000, 3_000
_MOST_LEAVES, _MOST_NAMES = 20, 40
_BINS, _BANDS = 120, 40


def gantt_figure(line: Timeline, name: str = "gantt", title: str = "Jobs over time") -> Figure:
    """Return the figure of a schedule over time."""
    of_what = "processors" if line.nodes is None else "nodes"
    held = f"{len(line.start):,} jobs over {duration(line.makespan_s)} on {line.rows:,} {of_what}"
    said = f"{held}, {percent(line.utilization)} of which is held."
    if line.nodes is None:
        is_small = len(line.start) <= _MOST_JOBS_WITHOUT_NODES and line.rows <= _MOST_PROCESSORS
    else:
        # A job on scattered nodes takes a rectangle for each run of neighbouring ones.
        places = line.places()
        is_small = sum(1 + int((np.diff(np.sort(places[own])) > 1).sum()) for own in line.nodes) <= _MOST_RECTANGLES
    if not is_small:
        whole = (
            "the machine that jobs of each size hold" if line.nodes is None else "each part of the machine that is held"
        )
        caption = f"Too much to draw job by job: the share of {whole}. The stronger the colour, the more."
        return Figure(name, title, said, lambda colours: [_shares_panel(line, colours)], caption)
    caption = "A rectangle is a job on neighbouring nodes. Point at it for its name, nodes and times."
    if line.nodes is None:
        caption = (
            "A rectangle is a job: wide as it runs, high as it has processors. Which processors it had is not known; "
            "it is drawn on the lowest that are free. Point at it for its name."
        )
    return Figure(name, title, said, lambda colours: [_jobs_panel(line, colours)], caption)


def _jobs_panel(line: Timeline, colours: Colours) -> Panel:
    seconds, unit = time_unit(line.makespan_s)
    origin = float(line.submit.min())
    what = "processors" if line.nodes is None else "nodes"
    boxes, roles, titles = [], [], []
    for job, low, high in line.rectangles():
        start, end = (line.start[job] - origin) / seconds, (line.end[job] - origin) / seconds
        boxes.append((start, low, end - start, high - low))
        roles.append(Key(job).role)
        waited, ran = duration(float(line.waits_s[job])), duration(float(line.end[job] - line.start[job]))
        size = int(line.processors[job]) if line.nodes is None else len(line.nodes[job])
        titles.append(f"job {shortened(line.names[job], 40)}: {size:,} {what}, waited {waited}, ran {ran}")
    if line.nodes is None:
        ticks = list(Axis.linear(np.array([0.0, line.rows]), is_tight=True).ticks)
    else:
        names = _names_by_place(line)
        shown = np.unique(np.linspace(0, line.rows - 1, min(line.rows, 18)).astype(int)).tolist()
        ticks = [(place + 0.5, shortened(names[place], 16)) for place in shown]
    title, limits = what, []
    if isinstance(line.topology, Tree) and len(line.topology.groups):
        # The best names are those of leaf switches, where there is room for them.
        leaves = line.topology.groups[0][np.argsort(line.places())]
        firsts = np.append(np.flatnonzero(np.diff(leaves, prepend=-1)), line.rows)
        if len(firsts) <= _MOST_LEAVES + 1 and np.diff(firsts).min() >= line.rows / 40:
            names = [shortened(line.topology.names[0][leaf], 16) for leaf in leaves[firsts[:-1]].tolist()]
            ticks = list(zip(((firsts[:-1] + firsts[1:]) / 2).tolist(), names, strict=True))
            title, limits = "nodes by leaf switch", firsts[1:-1].tolist()
    across = max(line.makespan_s, 1.0) / seconds
    x = Axis.linear(np.array([0.0, across]), f"{unit} since the first submission", is_tight=True, has_grid=False)
    panel = Panel(colours, x, Axis((line.rows, 0), ticks, title, has_grid=False), 380, width=WIDE)
    edges = _edge_widths(np.array(boxes), WIDE / across, 380 / line.rows)
    panel.boxes(np.array(boxes), roles, titles, "surface", edges)
    panel.rules(limits, "muted")
    return panel


def _shares_panel(line: Timeline, colours: Colours) -> Panel:
    edges = Timeline.shared_bins([line], _BINS)
    seconds, unit = time_unit(line.makespan_s)
    shares, names = _shares(line, edges)
    scale = max(float(shares.max()), 1e-9) if line.nodes is None else 1.0
    times = (edges - edges[0]) / seconds
    # What is next to nothing is drawn as idle.
    scaled = np.minimum(shares / scale, 1.0)
    steps = np.where(scaled < 0.01, -1, np.minimum((scaled * N_STEPS).astype(int), N_STEPS - 1))
    boxes, roles, titles = [], [], []
    for row, values in enumerate(steps):
        firsts = np.flatnonzero(np.diff(values, prepend=-9))
        for first, last in zip(firsts.tolist(), np.append(firsts[1:], len(values)).tolist(), strict=True):
            boxes.append((times[first], row + 0.03, times[last] - times[first], 0.94))
            roles.append("idle" if values[first] < 0 else f"s{values[first] + 1}")
            span = f"{times[first]:.3g}{EN_DASH}{times[last]:.3g} {unit}"
            titles.append(f"{names[row]}, {span}: {percent(float(shares[row, first:last].mean()))}")
    title = "processors per job" if line.nodes is None else "nodes"
    # Beyond these, names would stand on each other.
    kept = np.unique(np.linspace(0, len(names) - 1, min(len(names), 16)).astype(int)).tolist()
    rows = Axis((len(shares), 0), [(row + 0.5, shortened(names[row], 16)) for row in kept], title, has_grid=False)
    ticks = Axis.linear(times, is_tight=True).ticks
    x = Axis((0.0, float(times[-1])), ticks, f"{unit} since the first submission", has_grid=False)
    panel = Panel(colours, x, rows, 25 * len(shares) if line.nodes is None else 340, width=WIDE)
    panel.boxes(np.array(boxes), roles, titles)
    return panel


def _edge_widths(boxes: FloatArray, pixels_across: float, pixels_down: float) -> FloatArray:
    """Return the widths of the edges of boxes: small boxes have none, as edges would hide them."""
    is_large = (boxes[:, 2] * pixels_across > 3.0) & (boxes[:, 3] * pixels_down > 2.0)
    return np.where(is_large, 0.5, 0.0)


def _names_by_place(line: Timeline) -> list[str]:
    nodes = np.argsort(line.places()).tolist()
    return [line.node_names[node] if line.node_names else f"{node:,}" for node in nodes]


def _shares(line: Timeline, edges: FloatArray) -> tuple[FloatArray, list[str]]:
    """Return shares that are held between edges of time, and names of their rows.

    A row is a band of nodes, named by its first one; where nodes are not known, the jobs of a class of size.
    """
    if line.nodes is None:
        # 1, 2 to 4, 5 to 16, ...
        limits = 4 ** np.arange(16, dtype=np.int64)
        classes = np.searchsorted(limits, line.processors)
        numbers = np.unique(classes)[::-1].tolist()
        parts = [(np.flatnonzero(classes == number), line.processors, line.size) for number in numbers]
        names = ["1" if each == 0 else f"{limits[each - 1] + 1:,}{EN_DASH}{limits[each]:,}" for each in numbers]
    else:
        bands = min(_BANDS, line.rows)
        # Bands are of places, not of node numbers, so that the nodes of a switch share a band.
        band_of = line.places() * bands // line.rows
        jobs = np.repeat(np.arange(len(line.nodes)), [len(nodes) for nodes in line.nodes])
        bands_held = band_of[np.concatenate(line.nodes)]
        sizes = np.bincount(band_of, minlength=bands).tolist()
        # Of nodes that jobs share each holds a part.
        per_node = line.processors / np.array([max(len(nodes), 1) for nodes in line.nodes])
        whole = line.size / line.rows
        parts = [(jobs[bands_held == band], per_node, size * whole) for band, size in enumerate(sizes)]
        every = _names_by_place(line)
        names = [every[first] for first in np.cumsum([0, *sizes[:-1]]).tolist()]
    rows = [
        Timeline((), line.submit[own], line.start[own], line.end[own], held[own], 1).held(edges) / size
        for own, held, size in parts
    ]
    return np.array(rows), names


@dataclass(frozen=True, slots=True, eq=False)
class NodeGantt:
    """Jobs on nodes that they may share; arrays have shape ``(n,)``, times are in seconds."""

    jobs: list[str]
    node: IntArray
    start: FloatArray
    end: FloatArray
    node_names: list[str]

    def figure(self) -> Figure:
        """Return the figure, a row per node."""
        span = duration(float(self.end.max() - self.start.min()))
        cut = f" The first {_MOST_ON_NODES:,} of them are drawn." if len(self.jobs) > _MOST_ON_NODES else ""

        def draw(colours: Colours) -> list[Panel]:
            kept = np.argsort(self.start, kind="stable")[:_MOST_ON_NODES]
            origin = float(self.start.min())
            seconds, unit = time_unit(float(self.end[kept].max()) - origin)
            lane, lanes = self.lanes(kept)
            heights = 0.86 / np.maximum(lanes[self.node[kept]], 1)
            left, width = (self.start[kept] - origin) / seconds, (self.end[kept] - self.start[kept]) / seconds
            boxes = np.stack((left, self.node[kept] + 0.07 + lane * heights, width, heights), axis=1)
            titles = []
            for job in kept.tolist():
                ran, after = duration(float(self.end[job] - self.start[job])), duration(float(self.start[job] - origin))
                where = self.node_names[int(self.node[job])]
                titles.append(f"job {shortened(self.jobs[job], 40)} on {where}: started after {after}, ran {ran}")
            rows = len(self.node_names)
            height = float(np.clip(22 * rows, 130, 560))
            across = max(float((left + width).max()), 1e-9)
            shown = np.unique(np.linspace(0, rows - 1, min(rows, _MOST_NAMES)).round().astype(int)).tolist()
            y = Axis((rows, 0), [(row + 0.5, shortened(self.node_names[row], 16)) for row in shown], has_grid=False)
            x = Axis.linear(np.array([0.0, across]), f"{unit} since the first start", is_tight=True, has_grid=False)
            panel = Panel(colours, x, y, height, width=WIDE)
            stripes = [(0.0, float(row), x.domain[1], 1.0) for row in range(0, rows, 2)]
            panel.boxes(np.array(stripes), ["raised"] * len(stripes))
            edges = _edge_widths(boxes, WIDE / across, height / rows)
            panel.boxes(boxes, [Key(job).role for job in kept.tolist()], titles, "surface", edges)
            return [panel]

        return Figure(
            "gantt-by-node",
            "Jobs over time, by node",
            f"{len(self.jobs):,} jobs on {len(self.node_names):,} nodes over {span}.",
            draw,
            f"A rectangle is a job; jobs that share a node stand one below the other in its row.{cut} Point at one for "
            "its name and times.",
        )

    def lanes(self, jobs: IntArray) -> tuple[IntArray, IntArray]:
        """Put jobs that overlap on a node into different lanes.

        Parameters
        ----------
        jobs
            Numbers of the jobs, in the order in which they start.

        Returns
        -------
        lane, lanes
            The lane of each of them, and the number of lanes of every node.
        """
        lane = np.zeros(len(jobs), dtype=np.int64)
        lanes = np.zeros(len(self.node_names), dtype=np.int64)
        busy: list[list[tuple[float, int]]] = [[] for _ in self.node_names]
        free: list[list[int]] = [[] for _ in self.node_names]
        for place, job in enumerate(jobs.tolist()):
            node = int(self.node[job])
            while busy[node] and busy[node][0][0] <= self.start[job]:
                heapq.heappush(free[node], heapq.heappop(busy[node])[1])
            if not free[node]:
                free[node].append(int(lanes[node]))
                lanes[node] += 1
            lane[place] = heapq.heappop(free[node])
            heapq.heappush(busy[node], (float(self.end[job]), int(lane[place])))
        return lane, lanes
