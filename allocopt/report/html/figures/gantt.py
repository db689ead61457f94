"""Nodes in use over time: a rectangle per job, or for many jobs the share of each part of the machine in use."""

from collections.abc import Sequence

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.cluster.topology import Tree
from allocopt.report.html.timeline import Timeline, lanes
from allocopt.report.palette import N_STEPS
from allocopt.report.plot import WIDE, Axis, Colours, Figure, Key, Panel, evenly
from allocopt.report.words import EN_DASH, duration, percent, shortened, time_unit

_MOST_RECTANGLES, _MOST_JOBS_WITHOUT_NODES, _MOST_PROCESSORS, _MOST_ON_NODES = 2_500, 1_500, 200_000, 3_000
_MOST_LEAVES, _MOST_NAMES = 20, 40
_BINS, _BANDS = 120, 40


def gantt_figure(line: Timeline, name: str = "gantt", title: str = "Jobs over time") -> Figure:
    """Return the figure of a schedule over time."""
    if line.nodes is None:
        of_what, whole = "processors", "the machine in use by jobs of each size"
        is_small = len(line.start) <= _MOST_JOBS_WITHOUT_NODES and line.rows <= _MOST_PROCESSORS
        caption = (
            "A rectangle is a job: its width is the run time, its height the processors. Which processors it had is "
            "unknown; it is drawn on the lowest free ones. Point at it for its name."
        )
    else:
        of_what, whole = "nodes", "each part of the machine in use"
        # A job on scattered nodes has a rectangle for each run of adjacent nodes.
        places = line.places()
        is_small = sum(1 + int((np.diff(np.sort(places[own])) > 1).sum()) for own in line.nodes) <= _MOST_RECTANGLES
        caption = "A rectangle is a job on adjacent nodes. Point at it for its name, nodes and times."
    if not is_small:
        caption = f"Too many jobs to draw each: this is the share of {whole}. A stronger colour is a larger share."
    held = f"{len(line.start):,} jobs over {duration(line.makespan_s)} on {line.rows:,} {of_what}"
    said = f"{held}, {percent(line.utilization)} of them in use."
    panel = _jobs_panel if is_small else _shares_panel
    return Figure(name, title, said, lambda colours: [panel(line, colours)], caption)


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
        ticks = _name_ticks(_names_by_place(line), 18)
    title, limits = what, []
    if isinstance(line.topology, Tree) and len(line.topology.groups):
        # Label leaf switches instead of nodes if there is room for their names.
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
    # A row is a band of nodes, named after its first one. If nodes are not known, it is a class of jobs by size.
    if line.nodes is None:
        # 1, 2 to 4, 5 to 16, ...
        limits = 4 ** np.arange(16, dtype=np.int64)
        classes = np.searchsorted(limits, line.processors)
        numbers = np.unique(classes)[::-1].tolist()
        parts = [(np.flatnonzero(classes == number), line.processors, line.size) for number in numbers]
        names = ["1" if each == 0 else f"{limits[each - 1] + 1:,}{EN_DASH}{limits[each]:,}" for each in numbers]
    else:
        bands = min(_BANDS, line.rows)
        # Bands are ranges of places, not of node numbers, so that the nodes of a switch share a band.
        band_of = line.places() * bands // line.rows
        jobs = np.repeat(np.arange(len(line.nodes)), [len(nodes) for nodes in line.nodes])
        bands_held = band_of[np.concatenate(line.nodes)]
        sizes = np.bincount(band_of, minlength=bands).tolist()
        # Jobs that share nodes hold a part of each.
        per_node = line.processors / np.array([max(len(nodes), 1) for nodes in line.nodes])
        whole = line.size / line.rows
        parts = [(jobs[bands_held == band], per_node, size * whole) for band, size in enumerate(sizes)]
        every = _names_by_place(line)
        names = [every[first] for first in np.cumsum([0, *sizes[:-1]]).tolist()]
    shares = np.array(
        [
            Timeline((), line.submit[own], line.start[own], line.end[own], held[own], 1).held(edges) / size
            for own, held, size in parts
        ]
    )
    scale = max(float(shares.max()), 1e-9) if line.nodes is None else 1.0
    times = (edges - edges[0]) / seconds
    # Shares below 1 % are drawn as idle.
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
    # More names would overlap.
    rows = Axis((len(shares), 0), _name_ticks(names, 16), title, has_grid=False)
    ticks = Axis.linear(times, is_tight=True).ticks
    x = Axis((0.0, float(times[-1])), ticks, f"{unit} since the first submission", has_grid=False)
    panel = Panel(colours, x, rows, 25 * len(shares) if line.nodes is None else 340, width=WIDE)
    panel.boxes(np.array(boxes), roles, titles)
    return panel


def _edge_widths(boxes: FloatArray, pixels_across: float, pixels_down: float) -> FloatArray:
    """Return the widths of the edges of boxes; small boxes have none, because edges would hide them."""
    is_large = (boxes[:, 2] * pixels_across > 3.0) & (boxes[:, 3] * pixels_down > 2.0)
    return np.where(is_large, 0.5, 0.0)


def _name_ticks(names: Sequence[str], most: int) -> list[tuple[float, str]]:
    rows = np.unique(np.linspace(0, len(names) - 1, min(len(names), most)).astype(int)).tolist()
    return [(row + 0.5, shortened(names[row], 16)) for row in rows]


def _names_by_place(line: Timeline) -> list[str]:
    nodes = np.argsort(line.places()).tolist()
    return [line.node_names[node] if line.node_names else f"{node:,}" for node in nodes]


def node_gantt_figure(
    jobs: Sequence[str], node: IntArray, start: FloatArray, end: FloatArray, node_names: Sequence[str]
) -> Figure:
    """Return the figure of jobs on nodes that they may share, a row per node; times are in seconds."""
    cut = f" The first {_MOST_ON_NODES:,} of them are drawn." if len(jobs) > _MOST_ON_NODES else ""
    rows, origin = len(node_names), float(start.min())

    def draw(colours: Colours) -> list[Panel]:
        kept = np.argsort(start, kind="stable")[:_MOST_ON_NODES]
        seconds, unit = time_unit(float(end[kept].max()) - origin)
        lane, counts = lanes(node[kept], start[kept], end[kept], rows)
        heights = 0.86 / np.maximum(counts[node[kept]], 1)
        left, width = (start[kept] - origin) / seconds, (end[kept] - start[kept]) / seconds
        boxes = np.stack((left, node[kept] + 0.07 + lane * heights, width, heights), axis=1)
        titles = []
        for job in kept.tolist():
            ran, after = duration(float(end[job] - start[job])), duration(float(start[job] - origin))
            where = node_names[int(node[job])]
            titles.append(f"job {shortened(jobs[job], 40)} on {where}: started after {after}, ran {ran}")
        height = float(np.clip(22 * rows, 130, 560))
        across = max(float((left + width).max()), 1e-9)
        names = [(row + 0.5, shortened(node_names[row], 16)) for row in evenly(rows, _MOST_NAMES)]
        y = Axis((rows, 0), names, has_grid=False)
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
        f"{len(jobs):,} jobs on {rows:,} nodes over {duration(float(end.max()) - origin)}.",
        draw,
        f"A rectangle is a job; jobs that share a node are stacked in its row.{cut} Point at one for its "
        "name and times.",
    )
