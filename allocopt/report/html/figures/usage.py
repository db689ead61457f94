"""How much of a machine is used over time, and how many jobs wait."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.figures.scales import dash, per_cent_up
from allocopt.report.html.palette import LIGHT, colour
from allocopt.report.html.timeline import Timeline
from allocopt.report.html.words import percent, shortened, time_unit

BINS = 160


@dataclass(frozen=True, slots=True, eq=False)
class Usage:
    """Schedules whose use of the machine is compared, by name; those that are the same stand under one name."""

    timelines: Mapping[str, Timeline]

    def figure(self) -> Figure:
        """Return the figure."""
        said = [f"{name} {percent(timeline.utilization)}" for name, timeline in self.timelines.items()]
        return Figure(
            "utilization",
            "Utilization over time",
            f"Share of the machine that jobs hold over time, and number of jobs that wait. Means: {', '.join(said)}.",
            self.draw,
            "Means over equal spans of time, from the first submission to the last end.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw utilization above and the queue below, over the same time."""
        used, queue = canvas.panels(2, 1, 3.9, height_ratios=(1.0, 0.8))
        edges = shared_bins(list(self.timelines.values()), BINS * 2 // 3 if canvas.is_narrow else BINS)
        seconds, unit = time_unit(edges[-1] - edges[0])
        middles = ((edges[:-1] + edges[1:]) / 2 - edges[0]) / seconds
        for index, (name, timeline) in enumerate(self.timelines.items()):
            shape = {"color": LIGHT[colour(index)], "linestyle": dash(index), "label": shortened(name, 40)}
            share = timeline.held(edges) / timeline.size
            if len(self.timelines) == 1:
                used.fill_between(middles, share, color=LIGHT["s2"], linewidth=0)
            used.plot(middles, share, **shape)
            queue.plot(middles, timeline.waiting(edges), **shape)
        per_cent_up(used)
        queue.set_ylim(bottom=0.0)
        queue.yaxis.get_major_locator().set_params(integer=True, nbins=4)
        for axes, title in ((used, "Machine in use"), (queue, "Jobs waiting")):
            axes.set_title(title)
            axes.set_xlim(0.0, (edges[-1] - edges[0]) / seconds)
        used.tick_params(labelbottom=False)
        queue.set_xlabel(f"{unit} since the first submission")
        if len(self.timelines) > 1:
            canvas.legend(4)


def shared_bins(timelines: list[Timeline], bins: int) -> FloatArray:
    """Return the edges of equal spans of time over all schedules, shape ``(bins + 1,)``."""
    first = min(float(timeline.submit.min()) for timeline in timelines)
    last = max(float(timeline.end.max()) for timeline in timelines)
    return np.linspace(first, max(last, first + 1.0), bins + 1)
