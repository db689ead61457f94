"""Which jobs run on which node when, several side by side on a node that they share."""

import heapq
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray, IntArray
from allocopt.report.html.canvas import POINTS, Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.gantt import edge_widths
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.words import duration, shortened, time_unit

MOST_JOBS = 3_000
MOST_NAMES = 40


@dataclass(frozen=True, slots=True, eq=False)
class NodeGantt:
    """Jobs on nodes; arrays have shape ``(n,)``, times are in seconds.

    Parameters
    ----------
    jobs
        Name of every job.
    node
        Number of its node, from top to bottom.
    start, end
        When it ran.
    node_names
        Name of every node.
    """

    jobs: list[str]
    node: IntArray
    start: FloatArray
    end: FloatArray
    node_names: list[str]

    def figure(self) -> Figure:
        """Return the figure."""
        span = duration(float(self.end.max() - self.start.min()))
        cut = f" The first {MOST_JOBS:,} of them are drawn." if len(self.jobs) > MOST_JOBS else ""
        return Figure(
            "gantt-by-node",
            "Jobs over time, by node",
            f"{len(self.jobs):,} jobs on {len(self.node_names):,} nodes over {span}.",
            self.draw,
            f"A rectangle is a job; jobs that share a node stand one below the other in its row.{cut} Point at one for "
            "its name and times.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw a row per node."""
        kept = np.argsort(self.start, kind="stable")[:MOST_JOBS]
        origin = float(self.start.min())
        seconds, unit = time_unit(float(self.end[kept].max()) - origin)
        lane, lanes = self.lanes(kept)
        heights = 0.86 / np.maximum(lanes[self.node[kept]], 1)
        left, width = (self.start[kept] - origin) / seconds, (self.end[kept] - self.start[kept]) / seconds
        boxes = np.stack((left, self.node[kept] + 0.07 + lane * heights, width, heights), axis=1)
        titles = [self._said(job) for job in kept.tolist()]
        rows = len(self.node_names)
        height = float(np.clip(0.9 + 0.2 * rows, 2.2, 6.5))
        (axes,) = canvas.panels(1, 1, height)
        axes.grid(visible=False)
        for row in range(0, rows, 2):
            axes.axhspan(row, row + 1, color=LIGHT["raised"], linewidth=0)
        across = max(float((left + width).max()), 1e-9)
        edges = edge_widths(boxes, canvas.width / across, POINTS * height / rows)
        canvas.boxes(axes, boxes, [colour(job) for job in kept.tolist()], titles, edge="surface", line_width=edges)
        axes.set_xlim(0.0, across)
        axes.set_ylim(rows, 0)
        shown = np.unique(np.linspace(0, rows - 1, min(rows, MOST_NAMES)).round().astype(int))
        axes.set_yticks(shown + 0.5, [shortened(self.node_names[row], 16) for row in shown.tolist()])
        for text in axes.get_yticklabels():
            text.set_parse_math(False)
        axes.set_xlabel(f"{unit} since the first start")

    def lanes(self, jobs: IntArray) -> tuple[IntArray, IntArray]:
        """Put jobs that overlap on a node into different lanes; lane of every job, number of lanes of every node."""
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

    def _said(self, job: int) -> str:
        """Describe a job."""
        run = duration(float(self.end[job] - self.start[job]))
        after = duration(float(self.start[job] - self.start.min()))
        where = self.node_names[int(self.node[job])]
        return f"job {shortened(self.jobs[job], 40)} on {where}: started after {after}, ran {run}"
