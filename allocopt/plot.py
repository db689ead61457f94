"""Pictures with matplotlib, for scripts and notebooks: allocations, schedules, queues and comparisons.

Every function draws into the axes ``ax`` and returns them. If ``ax`` is None, it makes a new pyplot figure, which a
notebook shows at the end of the cell. No function changes settings of matplotlib, sets a title or opens a window.
Legends are above the axes: make figures of several axes with ``layout="constrained"``. Colours are those of reports;
hatches distinguish colours that look alike when printed in grey. All functions need the extra ``plot``, and raise
`MissingPackageError` if matplotlib is not installed.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from importlib import import_module
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from allocopt.arrays import BoolArray, FloatArray, IntArray
from allocopt.errors import MissingPackageError, UsageError
from allocopt.plural import counted
from allocopt.problems.base import Problem
from allocopt.problems.kind import kind_of
from allocopt.problems.picture import Holder, Look, Picture, Racks, State
from allocopt.report.html.timeline import Timeline, lanes, packed
from allocopt.report.palette import LIGHT, N_COLOURS
from allocopt.report.plot import Key, evenly
from allocopt.report.words import EN_DASH, number, shortened, time_unit
from allocopt.simulator.metrics import Metrics
from allocopt.simulator.schedule import Schedule
from allocopt.solving.result import Result
from allocopt.tables import ResultTable
from allocopt.traces.variants import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["allocation", "compare", "queue", "schedule"]

By = Literal["user", "account", "partition"]
Comparable = Schedule | Metrics | Result[Any] | Sequence[Any]
"""A value of `compare`: the outcome of a simulation or a solve, or a list of them."""

_FONT = 9.0  # points
_WIDTH = 5.6  # inches; a phone shows a wider figure with letters that are too small
_MOST_BARS = 40  # units; more are drawn as squares
_MOST_ENTRIES = 14  # of a legend
_MOST_NAMES = 40  # of racks
_MOST_LEAVES = 20  # on the axis of a schedule
_ROOM = (340.0, 280.0)  # most width and height of squares in a new figure, in points
_LARGEST_SIDE, _LEAST_HATCHED_SIDE = 26.0, 4.0  # of a square in points
_LEAST_WIDTH = 4.2  # of a new figure, in inches
_LEAST_SHARE = 0.06  # of a square
# Colours 1 to 3, 4 and 7, and 5, 6 and 8 look alike in grey.
_HATCHES = ("", "////", "..", "", "\\\\\\\\", "", "////", "..")
_SECOND_HATCH = "xxxx"  # of holders for which a colour is used again


def allocation(problem: Problem, result: "Result[Any] | None" = None, ax: "Axes | None" = None) -> "Axes":
    """Draw which jobs get which nodes, and return the axes.

    A square is a node, a frame a leaf switch, a colour a job. Jobs that share a node divide its square. Pale nodes are
    free, hatched ones may not be used. Knapsack problems are drawn as bars of their resources, co-allocations as bars
    of their hosts, relocations before and after: jobs that stay are grey, jobs that stop are crossed out.

    Parameters
    ----------
    problem
        The problem, of any kind that has a picture (`allocopt.ProblemKind.picture`).
    result
        Its result. None, or a result without a solution, draws only the problem.
    ax
        Axes to draw into; None for a new figure.

    Raises
    ------
    UsageError
        If problems of that kind have no picture.
    MissingPackageError
        If matplotlib is not installed.
    """
    kind = kind_of(problem)
    picture = kind.picture(problem, None if result is None else result.solution)
    if picture is None:
        raise UsageError(f"problems of kind {kind.name!r} have no picture: `ProblemKind.picture` returns None")
    room = _ROOM if ax is None else _size_in_points(ax)
    layout = _bars(picture) if 0 < len(picture.bars) <= _MOST_BARS else _squares(picture, room)
    paints = [layout.shown(paint) for paint in _paints(picture.holders)]
    width, height = layout.inches
    legend = _Legend(
        entries=_entries(picture, paints, layout),
        width=_legend_width(ax, width),
        lines_below=int(any(state.title for state in picture.states)),
    )
    axes = _axes(ax, width, height + legend.height, layout.inside)
    for place, state in enumerate(picture.states):
        _draw_state(axes, picture, state, paints, layout.moved(place))
    layout.finish(axes)
    legend.draw(axes)
    return axes


def schedule(schedule: Schedule, ax: "Axes | None" = None, *, by: By | None = None) -> "Axes":
    """Draw when and where every job ran, and return the axes.

    A rectangle is a job on adjacent nodes; jobs that share a node at the same time divide its row. If nodes are not
    known, jobs are drawn on the lowest processors that are free when they start. Guests on the processors of other jobs
    are drawn from the time at which they have processors of their own.

    Parameters
    ----------
    schedule
        The schedule, of any number of jobs.
    ax
        Axes to draw into; None for a new figure.
    by
        Colour the jobs by ``user``, ``account`` or ``partition``: the seven groups with most processor seconds have a
        colour each, the others share one. None for colours in turn.

    Raises
    ------
    UsageError
        If ``by`` is something else.
    MissingPackageError
        If matplotlib is not installed.
    """
    groups = _in_turn(schedule) if by is None else _grouped(schedule, by)
    legend = _Legend(groups.entries if by else (), _legend_width(ax, _WIDTH), title=by or "")
    axes = _axes(ax, _WIDTH, 3.4 + legend.height)
    job, low, high = _on_units(schedule) if schedule.nodes is None else _on_nodes(schedule)
    clock = _Clock.of(schedule)
    left, right = clock.shown(_held_from(schedule)[job]), clock.shown(schedule.end[job])
    boxes = np.stack((left, low, right - left, high - low), axis=1)
    rows = max(float(high.max(initial=0.0)), float(_rows(schedule)))
    edges = _edge_widths(boxes, (clock.length, rows), _size_in_points(axes))
    for index, (name, paint) in enumerate(groups.entries):
        own = groups.of_job[job] == index
        _fill(axes, boxes[own], paint, name, edges[own])
    axes.set_xlim(0.0, clock.length)
    axes.set_ylim(rows, 0.0)
    _style(axes, clock.label, _word(schedule) if schedule.nodes is None else "nodes")
    _label_rows(axes, schedule)
    legend.draw(axes)
    return axes


def queue(schedule: Schedule, ax: "Axes | None" = None) -> "Axes":
    """Draw the number of waiting jobs and the units in use over time, and return the axes of the waiting jobs.

    The units are nodes, processors or cores; their axis is on the right, and a dotted line is the size of the machine.
    Guests on the processors of other jobs count from the time at which they have processors of their own.

    Parameters
    ----------
    schedule
        The schedule, of any number of jobs.
    ax
        Axes to draw into; None for a new figure.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    """
    axes = _axes(ax, _WIDTH, 3.0)
    right = axes.twinx()
    held, size = next(iter(schedule.used.values()))
    waiting = _steps(schedule.release, schedule.start, np.ones(len(schedule.start)))
    in_use = _steps(_held_from(schedule), schedule.end, np.asarray(held, dtype=np.float64))
    clock, what = _Clock.of(schedule), f"{_word(schedule)} in use"
    lines = [
        *axes.step(clock.shown(waiting[0]), waiting[1], where="post", label="waiting jobs", **_line(1, 1.6)),
        *right.step(clock.shown(in_use[0]), in_use[1], where="post", label=what, **_line(0, 0.8)),
    ]
    right.fill_between(clock.shown(in_use[0]), in_use[1], step="post", color=LIGHT["s1"], linewidth=0)
    # The line of the waiting jobs is in front of the area.
    right.patch.set(visible=True, facecolor=axes.get_facecolor())
    axes.patch.set_visible(False)
    axes.set_zorder(right.get_zorder() + 1)
    right.axhline(size, color=LIGHT["muted"], linewidth=0.9, linestyle=":")
    axes.set_xlim(0.0, clock.length)
    axes.set_ylim(0.0, 1.06 * max(float(waiting[1].max()), 1.0))
    right.set_ylim(0.0, 1.06 * max(float(in_use[1].max()), float(size)))
    _style(axes, clock.label, "waiting jobs")
    _style(right, "", what)
    axes.legend(handles=lines, ncols=2, **_above_axes(0))
    return axes


def compare(results: "Mapping[str, Comparable] | Iterable[Any]", ax: "Axes | None" = None) -> "Axes":
    """Draw a row for each policy or solver, with its mean wait or mean objective, and return the axes.

    Parameters
    ----------
    results
        Values by name, the first on top; all of them have waits, or all of them objectives:

        - A `Schedule` or `Metrics` (from `allocopt.measure` or `allocopt.simulator.evaluate`): the mean wait of its
          jobs. A list of them, such as the schedules of several variants or seeds: the mean of their mean waits, with
          its 95 % confidence interval (Student's t).
        - A `Result`, or a list of results of several instances: the mean objective, with a line to the mean bound if
          all have a bound. The row is empty if one has no solution.

        Or the rows of ``allocopt bench``, as `csv.DictReader` or ``pandas.read_csv(...).to_dict("records")`` reads
        them: a row for each solver and strategy, with the mean objective over the instances that all of them have
        solved.
    ax
        Axes to draw into; None for a new figure.

    Raises
    ------
    UsageError
        If there is nothing to compare, a value is something else, waits are compared with objectives, or no instance is
        solved by all solvers.
    MissingPackageError
        If matplotlib is not installed.
    """
    named = results if isinstance(results, Mapping) else _by_solver(results)
    found = {name: _measured(value) for name, value in named.items()}
    quantities = {measured.quantity for measured in found.values()}
    if len(quantities) != 1:
        fault = "waits are compared with objectives" if quantities else "there is nothing to compare"
        raise UsageError(f"{fault}; give schedules or metrics by name, results by name, or rows of bench")
    (quantity,) = quantities
    rows = [quantity.row(measured.samples) for measured in found.values()]
    axes = _axes(ax, _WIDTH, 0.9 + 0.32 * len(rows))
    unit_s, unit = time_unit(max((row.mean for row in rows if row.mean is not None), default=0.0))
    scale = unit_s if quantity.is_time else 1.0
    means = [None if row.mean is None else row.mean / scale for row in rows]
    for place, (row, shown) in enumerate(zip(rows, _in_words(means), strict=True)):
        _draw_row(axes, place, row, scale)
        axes.text(1.02, place, shown, transform=axes.get_yaxis_transform(), **_WORDS)
    axes.set_yticks(range(len(rows)), [_plain(name) for name in found])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    title = f"{quantity.name} ({unit})" if quantity.is_time else quantity.name
    has_lines = any(row.ends for row in rows)
    _style(axes, f"{title}; {quantity.line}" if has_lines else title, "")
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.grid(axis="x", color=LIGHT["grid"], linewidth=0.8)
    axes.set_axisbelow(True)
    if quantity.is_time:
        axes.set_xlim(left=0.0)
    return axes


# Axes, colours and legends


class _Paint(NamedTuple):
    face: str  # colours
    edge: str  # of edges and of the hatch
    hatch: str = ""


_WORDS: dict[str, Any] = {"va": "center", "fontsize": _FONT, "color": LIGHT["ink"]}
_SURFACE = LIGHT["surface"]
_FREE = _Paint(LIGHT["idle"], _SURFACE)
_CLOSED = _Paint(LIGHT["raised"], LIGHT["taken"], "//////")
_GREY = _Paint(LIGHT["taken"], _SURFACE)
_CROSSED = _Paint(_SURFACE, LIGHT["ink"], "xxxx")
# Small boxes have no hatches: other colours distinguish them.
_WITHOUT_HATCH = {
    _CLOSED: _Paint(LIGHT["taken"], _SURFACE),
    _GREY: _Paint(LIGHT["s2"], _SURFACE),
    _CROSSED: _Paint(LIGHT["ink"], _SURFACE),
}
_Entries = Sequence[tuple[str, _Paint]]  # label and paint


def _axes(
    ax: "Axes | None", width: float, height: float, inside: tuple[float, float, float, float] | None = None
) -> "Axes":
    """Return the axes, or those of a new figure of a size, at a place in it (left, lower end, width, height); inches.

    Without a place, the axes leave as much room as their labels need.
    """
    try:
        pyplot = import_module("matplotlib.pyplot")
    except ModuleNotFoundError:
        raise MissingPackageError.of("pictures need", "matplotlib", extra="plot") from None
    if ax is not None:
        return ax
    figure = pyplot.figure(figsize=(width, height), layout=None if inside else "constrained")
    if inside is None:
        axes: Axes = figure.add_subplot()
        return axes
    left, bottom, across, up = inside
    axes = figure.add_axes((left / width, bottom / height, across / width, up / height))
    return axes


def _size_in_points(axes: "Axes") -> tuple[float, float]:
    """Return width and height of the axes before labels and legends are placed."""
    inches = axes.figure.dpi_scale_trans.inverted()
    box = axes.get_window_extent().transformed(inches)
    return 72.0 * box.width, 72.0 * box.height


def _coloured(index: int) -> _Paint:
    first = index % (2 * N_COLOURS) < N_COLOURS
    return _Paint(LIGHT[Key(index).role], _SURFACE, _HATCHES[index % N_COLOURS] if first else _SECOND_HATCH)


def _line(index: int, width: float) -> dict[str, Any]:
    return {"color": LIGHT[Key(index).role], "linewidth": width}


def _plain(text: str) -> str:
    """Return a text that matplotlib neither reads as a formula nor leaves out of a legend."""
    plain = shortened(text, 28).replace("$", r"\$")
    return f" {plain}" if plain.startswith("_") else plain


def _style(axes: "Axes", x: str, y: str) -> None:
    axes.set_xlabel(x, fontsize=_FONT + 1, color=LIGHT["ink"])
    axes.set_ylabel(y, fontsize=_FONT + 1, color=LIGHT["ink"])
    axes.tick_params(labelsize=_FONT, color=LIGHT["taken"], labelcolor=LIGHT["ink"])
    for spine in axes.spines.values():
        spine.set_color(LIGHT["taken"])


def _fill(axes: "Axes", boxes: FloatArray, paint: _Paint, label: str, edge: float | FloatArray) -> None:
    """Draw boxes (left, upper, width, height, in units of the axes) as one collection; edges are in points."""
    if not len(boxes):
        return
    collections = import_module("matplotlib.collections")
    left, upper, width, height = boxes.T
    right, lower = left + width, upper + height
    corners = np.stack((left, upper, right, upper, right, lower, left, lower), axis=1).reshape(-1, 4, 2)
    drawn = collections.PolyCollection(corners, facecolors=paint.face, edgecolors=paint.edge, linewidths=edge)
    drawn.set_hatch(paint.hatch or None)
    drawn.set_label(f"_{label}")  # found by name, but not in automatic legends
    axes.add_collection(drawn, autolim=False)


def _legend_width(ax: "Axes | None", figure: float) -> float:
    """Return the width that a legend may have: that of the axes, or nearly that of a new figure, in inches."""
    return figure - 0.6 if ax is None else _size_in_points(ax)[0] / 72


def _above_axes(lines: int) -> dict[str, Any]:
    """Return where a legend is: above the axes and some lines of text."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.3 + 1.6 * lines}
    return {**place, "frameon": False, "fontsize": _FONT, "alignment": "left", "columnspacing": 1.4}


@dataclass(frozen=True, slots=True)
class _Legend:
    """A legend above the axes and some lines of text there; the width is that of the axes or figure, in inches."""

    entries: _Entries
    width: float
    title: str = ""
    lines_below: int = 0

    @property
    def labels(self) -> list[str]:
        """Texts; the last one counts the entries for which there is no room."""
        labels = [_plain(label) for label, _ in self.entries]
        if len(labels) <= _MOST_ENTRIES:
            return labels
        return [*labels[: _MOST_ENTRIES - 1], f"and {len(labels) - _MOST_ENTRIES + 1:,} more"]

    @property
    def columns(self) -> int:
        longest = max(map(len, self.labels), default=1)
        return max(1, min(len(self.labels), int(72 * self.width / ((0.55 * longest + 4.5) * _FONT))))

    @property
    def height(self) -> float:
        """Height with the lines of text below in inches, 0 without either."""
        lines = -(-len(self.labels) // self.columns) + bool(self.title) + self.lines_below
        return (1.5 * lines + 0.8) * _FONT / 72 if lines else 0.0

    def draw(self, axes: "Axes") -> None:
        """Add the legend to the axes, unless it is empty."""
        if not self.entries:
            return
        patches, labels = import_module("matplotlib.patches"), self.labels
        shown = self.entries if len(self.entries) == len(labels) else self.entries[: len(labels) - 1]
        handles = [patches.Patch(facecolor=p.face, edgecolor=p.edge, hatch=p.hatch or None) for _, p in shown]
        handles += [patches.Patch(alpha=0.0)] * (len(labels) - len(handles))
        made = axes.legend(
            handles, labels, title=self.title or None, ncols=self.columns, **_above_axes(self.lines_below)
        )
        made.get_title().set_fontsize(_FONT)


# Maps of nodes


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Positions of the units of one state; boxes are left, upper, width and height."""

    boxes: FloatArray  # of the units, shape ``(units, 4)``
    frames: FloatArray  # of the racks, shape ``(racks, 4)``
    names: tuple[tuple[float, float, str], ...]  # left and lower end of the names of racks
    ticks: tuple[tuple[float, str], ...]  # positions and labels on the vertical axis
    width: float
    top: float  # upper end, which is smaller
    height: float  # lower end
    states: int
    inches: tuple[float, float]  # width and height of a figure that suits, without a legend
    inside: tuple[float, float, float, float] | None  # left, lower end, width and height of its axes; None for any
    edge: float  # points
    has_hatches: bool  # whether boxes are large enough for them
    label: str  # of the horizontal axis
    is_square: bool

    def moved(self, place: int) -> "_Layout":
        """Return the positions of a later state, to the right of those before it."""
        distance = (_spread(place + 1) - 1) * self.width
        shift = np.array([distance, 0.0, 0.0, 0.0])
        names = tuple((x + distance, y, text) for x, y, text in self.names)
        return replace(self, boxes=self.boxes + shift, frames=self.frames + shift, names=names)

    def shown(self, paint: _Paint) -> _Paint:
        """Return a paint as it is drawn in boxes of this size."""
        return paint if self.has_hatches else _WITHOUT_HATCH.get(paint, paint._replace(hatch=""))

    def finish(self, axes: "Axes") -> None:
        """Set the limits and labels of the axes."""
        axes.set_xlim(0.0, _spread(self.states) * self.width)
        axes.set_ylim(self.height, self.top)
        _style(axes, self.label, "")
        axes.set_yticks([place for place, _ in self.ticks], [_plain(name) for _, name in self.ticks])
        axes.tick_params(axis="y", length=0)
        if self.is_square:
            axes.set_aspect("equal", anchor="NW")
            axes.set_xticks([])
            axes.set_xlabel(axes.get_xlabel(), loc="left")  # may be longer than the axes
            for spine in axes.spines.values():
                spine.set_visible(False)


def _spread(states: int) -> float:
    """Return the width of states side by side, in widths of one."""
    return 1.0 + 1.06 * (states - 1)


def _bars(picture: Picture) -> _Layout:
    """Return a bar for each unit, from 0 to 100 per cent."""
    size = picture.size
    rows = np.arange(size)
    return _Layout(
        boxes=np.stack((np.zeros(size), rows + 0.14, np.full(size, 100.0), np.full(size, 0.72)), axis=1),
        frames=np.empty((0, 4)),
        names=(),
        ticks=tuple(zip((rows + 0.5).tolist(), picture.bars, strict=True)),
        width=100.0,
        top=0.0,
        height=float(size),
        states=len(picture.states),
        inches=(_WIDTH, 0.6 + 0.27 * size),
        inside=None,
        edge=0.8,
        has_hatches=True,
        label=picture.axis,
        is_square=False,
    )


def _squares(picture: Picture, whole: tuple[float, float]) -> _Layout:
    """Return squares in frames, as large as axes of a width and height in points allow."""
    racks, states = picture.racks, len(picture.states)
    room = whole[0] / states, whole[1]
    grid = _Grid.largest(racks, room)
    side = grid.side(room)
    letters = int(grid.columns * side / (0.6 * _FONT))
    has_names = 1 < len(racks.names) <= _MOST_NAMES and letters >= 4
    if has_names:
        # Leave a line for the names.
        grid = replace(grid, gap=max(grid.gap, 1.5 * _FONT / side))
        side = grid.side(room)
    # Without names, no space is needed above the first line.
    top = 0.0 if has_names else grid.gap - 0.4
    corners, sizes = grid.corners(), np.bincount(racks.rack)
    order = np.argsort(racks.rack, kind="stable")
    place = np.empty(picture.size, dtype=np.int64)
    place[order] = np.arange(picture.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Leave a twelfth of a square between two squares.
    inside = np.stack((place % grid.columns, place // grid.columns), axis=1) + 1 / 24
    boxes = np.hstack((corners[racks.rack] + inside, np.full((picture.size, 2), 11 / 12)))
    # Matplotlib's layouts do not know the size of axes whose squares have to be squares.
    names_of_rows = racks.row_names if grid.is_broken else ()
    left, bottom = 0.2 + 0.6 * _FONT / 72 * max((len(_plain(name)) for name in names_of_rows), default=0), 0.35
    width, height = (_spread(states) * grid.width * side / 72, (grid.height - top) * side / 72)
    used = np.stack((np.minimum(sizes, grid.columns), -(-sizes // grid.columns)), axis=1)
    several = len(sizes) > 1
    names = [
        (x, y - 0.2, shortened(name, letters)) for (x, y), name in zip(corners.tolist(), racks.names, strict=False)
    ]
    return _Layout(
        boxes=boxes,
        frames=np.hstack((corners - 1 / 6, used + 1 / 3)) if several else np.empty((0, 4)),
        names=tuple(names) if has_names else (),
        ticks=tuple(zip(grid.middles(), names_of_rows, strict=False)),
        width=grid.width,
        top=top,
        height=grid.height,
        states=states,
        inches=(max(left + width + 0.15, _LEAST_WIDTH), bottom + height + 0.1),
        inside=(left, bottom, width, height),
        edge=min(0.5, 0.06 * side),
        has_hatches=side >= _LEAST_HATCHED_SIDE,
        label=f"a square is a {picture.unit}" + (", a frame a leaf switch" if several else ""),
        is_square=True,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Grid:
    """Racks in lines, squares in racks; a square has side 1."""

    row: IntArray  # of each rack: the group that begins a new line, rising, shape ``(racks,)``
    most: int  # squares of the largest rack
    columns: int  # squares across a rack
    across: int  # racks across
    gap: float = 0.9  # between lines of racks; between racks of a line it is 0.9

    @classmethod
    def largest(cls, racks: Racks, room: tuple[float, float]) -> "_Grid":
        """Return the grid with the largest squares; groups of racks begin new lines if that costs little."""
        most = int(np.bincount(racks.rack).max())
        together = [cls(np.zeros_like(racks.row), *shape) for shape in cls._shapes(most, len(racks.row))]
        apart = [cls(racks.row, *shape) for shape in cls._shapes(most, int(np.bincount(racks.row).max()))]
        best, broken = (max(grids, key=lambda grid: grid.worth(room)) for grids in (together, apart))
        return broken if broken.side(room) >= 0.7 * best.side(room) else best

    def worth(self, room: tuple[float, float]) -> tuple[float, int]:
        """Return what is better if it is larger: large squares, racks and lines without holes, wide racks."""
        in_racks = self.most / (self.columns * self.depth)
        in_lines = len(self.row) / (int(self._lines.sum()) * self.across)
        return round(self.side(room) * in_racks * math.sqrt(in_lines), 3), self.columns

    @staticmethod
    def _shapes(most: int, racks: int) -> Iterator[tuple[int, int, int]]:
        """Yield squares of the largest rack, columns and racks across to be tried."""
        for columns in np.unique(np.geomspace(1, most, 24).round().astype(int)).tolist():
            for across in np.unique(np.geomspace(1, racks, 24).round().astype(int)).tolist():
                yield most, columns, across

    @property
    def depth(self) -> int:
        """Squares down the largest rack."""
        return -(-self.most // self.columns)

    @property
    def is_broken(self) -> bool:
        """Whether there are groups that begin new lines."""
        return len(self.row) > 0 and int(self.row[-1]) > 0

    @property
    def _lines(self) -> IntArray:
        """Lines of each group."""
        return np.asarray(-(-np.bincount(self.row) // self.across))

    @property
    def width(self) -> float:
        """Squares across the grid, with gaps."""
        return min(self.across, int(np.bincount(self.row).max())) * (self.columns + 0.9)

    @property
    def height(self) -> float:
        """Squares down the grid, with gaps."""
        return int(self._lines.sum()) * (self.depth + self.gap) + 0.2

    def side(self, room: tuple[float, float]) -> float:
        """Return the side of a square in the unit of the room."""
        return min(room[0] / self.width, room[1] / self.height, _LARGEST_SIDE)

    def corners(self) -> FloatArray:
        """Return the upper left corner of every rack, shape ``(racks, 2)``."""
        counts = np.bincount(self.row)
        rank = np.arange(len(self.row)) - np.repeat(np.cumsum(counts) - counts, counts)
        line = (np.cumsum(self._lines) - self._lines)[self.row] + rank // self.across
        x, y = rank % self.across * (self.columns + 0.9) + 0.45, line * (self.depth + self.gap) + self.gap
        return np.stack((x, y), axis=1)

    def middles(self) -> list[float]:
        """Return the vertical middle of every group of racks."""
        ends = np.cumsum(self._lines) * (self.depth + self.gap)
        middles: list[float] = (ends - self._lines * (self.depth + self.gap) / 2 + self.gap / 2).tolist()
        return middles


def _paints(holders: Sequence[Holder]) -> list[_Paint]:
    """Return the paint of each holder; those with colours of their own get them in turn."""
    fixed = {Look.GREY: _GREY, Look.CROSSED: _CROSSED}
    own = (_coloured(index) for index in range(len(holders)))
    return [fixed[holder.look] if holder.look in fixed else next(own) for holder in holders]


def _draw_state(axes: "Axes", picture: Picture, state: State, paints: Sequence[_Paint], layout: _Layout) -> None:
    """Draw frames, units and the shares of their holders."""
    _fill(axes, layout.frames, _Paint(_SURFACE, LIGHT["line"]), "frames", layout.edge)
    _fill(axes, layout.boxes[~picture.is_closed], _FREE, "free", layout.edge)
    _fill(axes, layout.boxes[picture.is_closed], layout.shown(_CLOSED), "closed", layout.edge)
    # A share of a square only has to be seen, a share of a bar can be read from the axis.
    seen = state.at_least(_LEAST_SHARE) if layout.is_square else state
    slices = _slices(seen, layout.boxes, picture.is_closed)
    of_paint: dict[_Paint, list[int]] = {}
    for holder, paint in enumerate(paints):
        of_paint.setdefault(paint, []).append(holder)
    for paint, holders in of_paint.items():
        # The label is that of the holder, unless several have the same paint.
        own = slices[np.isin(state.holder, holders)]
        _fill(axes, own, paint, picture.holders[holders[0]].label, layout.edge)
    for x, y, name in layout.names:
        axes.text(x, y, _plain(name), va="bottom", fontsize=_FONT - 1, color=LIGHT["muted"])
    if state.title:
        x = float(layout.boxes[:, 0].min())
        axes.text(x, layout.top, state.title, va="bottom", fontsize=_FONT + 1, color=LIGHT["ink"])


def _slices(state: State, boxes: FloatArray, is_closed: BoolArray) -> FloatArray:
    """Return the box of every share, from left to right in the box of its unit, whose hatch shows if it is closed."""
    order = np.argsort(state.unit, kind="stable")
    unit, share = state.unit[order], state.share[order]
    before = np.cumsum(share) - share
    first = np.flatnonzero(np.diff(unit, prepend=-1))
    left = before - np.repeat(before[first], np.diff(np.append(first, len(unit))))
    x, y, width, height = boxes[unit].T
    inset = np.where(is_closed[unit], 0.17, 0.0) * height
    slices = np.empty((len(unit), 4))
    slices[order] = np.stack((x + left * width, y + inset, share * width, height - 2 * inset), axis=1)
    return slices


def _entries(picture: Picture, paints: Sequence[_Paint], layout: _Layout) -> _Entries:
    """Return the entries of the legend: holders, with their numbers of units if these are counted, and other units."""
    is_counted, others = not picture.bars, list[tuple[str, _Paint]]()
    counts: dict[str, int] = {}
    for state in picture.states:
        held = np.bincount(state.holder, minlength=len(paints)).tolist()
        for holder, count in zip(picture.holders, held, strict=True):
            counts[holder.label] = max(counts.get(holder.label, 0), count)
    entries: dict[str, _Paint] = {}
    for holder, paint in zip(picture.holders, paints, strict=True):
        count = counts[holder.label]
        words = f"{holder.label}: {counted(count, picture.unit)}"
        if count:
            entries[words if is_counted and holder.look is not Look.GREY else holder.label] = paint
    if picture.is_closed.any():
        others.append((picture.closed, layout.shown(_CLOSED)))
    held_of = [np.bincount(state.unit, state.share, minlength=picture.size) for state in picture.states]
    if any((held[~picture.is_closed] < 1 - 1e-9).any() for held in held_of):
        others.append(("free", _FREE))
    return [*others, *entries.items()]


# Schedules


@dataclass(frozen=True, slots=True)
class _Clock:
    """The axis of time of a schedule; times in seconds."""

    origin: float
    unit_s: float
    length: float  # in its unit
    label: str

    @classmethod
    def of(cls, schedule: Schedule) -> "_Clock":
        """Return the axis from the first release to the last end."""
        has_jobs = len(schedule.end) > 0
        origin = float(schedule.release.min()) if has_jobs else 0.0
        last = float(schedule.end.max()) if has_jobs else 0.0
        unit_s, unit = time_unit(last - origin)
        return cls(origin, unit_s, (last - origin) / unit_s or 1.0, f"{unit} since the first submission")

    def shown(self, times: FloatArray) -> FloatArray:
        """Return times in the unit of the axis."""
        return (times - self.origin) / self.unit_s


@dataclass(frozen=True, slots=True, eq=False)
class _Groups:
    """Groups of jobs with their paints."""

    of_job: IntArray  # shape ``(n,)``
    entries: _Entries


def _in_turn(schedule: Schedule) -> _Groups:
    """Return as many groups as there are colours, so that jobs that follow one another differ."""
    paints = [("", _Paint(LIGHT[Key(index).role], _SURFACE)) for index in range(N_COLOURS)]
    return _Groups(np.arange(len(schedule.start)) % N_COLOURS, paints)


def _grouped(schedule: Schedule, by: By) -> _Groups:
    """Return the groups with the most processor seconds, and one for the others."""
    if by not in ("user", "account", "partition"):
        raise UsageError(f"by is {by!r}, must be user, account, partition or None")
    labels = [label or "not known" for label in schedule.columns()[by]]
    names, of_job = np.unique(np.array(labels, dtype=np.str_), return_inverse=True)
    seconds = np.bincount(of_job, schedule.run_s * next(iter(schedule.used.values()))[0], minlength=len(names))
    order = np.argsort(-seconds, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    most = len(names) if len(names) <= N_COLOURS else N_COLOURS - 1
    entries = [(str(names[group]), _coloured(index)) for index, group in enumerate(order[:most].tolist())]
    if left := len(names) - most:
        entries.append((f"{left:,} others", _GREY))
    return _Groups(np.minimum(rank[of_job], most), entries)


def _held_from(schedule: Schedule) -> FloatArray:
    return schedule.start if schedule.held_from is None else schedule.held_from


def _word(schedule: Schedule) -> str:
    """Return what jobs hold: nodes if they get whole ones, otherwise processors or cores."""
    name, (held, size) = next(iter(schedule.used.items()))
    if schedule.nodes is None:
        return name
    n_nodes = schedule.processors if schedule.topology is None else schedule.topology.size
    return "nodes" if size == n_nodes and [len(nodes) for nodes in schedule.nodes] == held.tolist() else name


def _rows(schedule: Schedule) -> int:
    """Return the number of nodes, or of processors if nodes are not known."""
    if schedule.topology is not None:
        return schedule.topology.size
    if schedule.nodes is None or _word(schedule) == "nodes":
        return schedule.processors
    return 1 + max((int(nodes.max(initial=0)) for nodes in schedule.nodes), default=0)


def _on_units(schedule: Schedule) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return job, first and last edge of every rectangle on processors that are only counted."""
    held = next(iter(schedule.used.values()))[0]
    found = np.array([*packed(_held_from(schedule), schedule.end, held)], dtype=np.int64).reshape(-1, 3)
    return found[:, 0], found[:, 1].astype(np.float64), found[:, 2].astype(np.float64)


def _on_nodes(schedule: Schedule) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return job, first and last edge of every rectangle on nodes; a job on adjacent whole rows has one rectangle."""
    nodes = schedule.nodes or ()
    job = np.repeat(np.arange(len(nodes)), [len(held) for held in nodes])
    node = np.concatenate([np.empty(0, dtype=np.int64), *nodes]).astype(np.int64)
    row = _positions(schedule)[node]
    order = np.lexsort((schedule.end[job], schedule.start[job]))
    lane, counts = lanes(row[order], schedule.start[job][order], schedule.end[job][order], _rows(schedule))
    height = 1.0 / np.maximum(counts, 1)[row]
    low = row.astype(np.float64)
    low[order] += lane * height[order]
    # Join the rectangles of a job on adjacent rows that it has exclusively.
    order = np.lexsort((row, job))
    job, low, height = job[order], low[order], height[order]
    is_next = (np.diff(job) == 0) & (np.diff(low) == 1.0) & (height[1:] == 1.0) & (height[:-1] == 1.0)
    first = np.flatnonzero(np.append(True, ~is_next)[: len(job)])
    last = np.append(first, len(job))[1:] - 1
    return job[first], low[first], low[last] + height[last]


def _positions(schedule: Schedule) -> IntArray:
    """Return the row of every node; nodes of a leaf switch are adjacent."""
    if schedule.topology is None:
        return np.arange(_rows(schedule))
    return Timeline.of(schedule).places()


def _label_rows(axes: "Axes", schedule: Schedule) -> None:
    """Label the rows by node, or by leaf switch with lines between them if there are few switches."""
    if schedule.nodes is None:
        return
    axes.tick_params(axis="y", length=0)
    racks = None if schedule.topology is None else Racks.of(schedule.topology)
    if racks is None or not 1 < len(racks.names) <= _MOST_LEAVES:
        nodes, rows = np.argsort(_positions(schedule)).tolist(), evenly(_rows(schedule), _MOST_LEAVES)
        axes.set_yticks([row + 0.5 for row in rows], [str(nodes[row]) for row in rows])
        between = np.arange(1, _rows(schedule)) if len(rows) == _rows(schedule) else np.empty(0)
        axes.hlines(between, *axes.get_xlim(), colors=LIGHT["taken"], linewidths=0.6, zorder=0)
        return
    sizes = np.bincount(racks.rack)
    ends = np.cumsum(sizes)
    axes.set_yticks((ends - sizes / 2).tolist(), [_plain(name) for name in racks.names])
    axes.hlines(ends[:-1], *axes.get_xlim(), colors=LIGHT["taken"], linewidths=0.6, zorder=0)
    axes.set_ylabel("nodes by leaf switch")


def _edge_widths(boxes: FloatArray, size: tuple[float, float], points: tuple[float, float]) -> FloatArray:
    """Return the widths of edges in points, on axes of a size; small boxes have none, because edges would hide them."""
    sides = boxes[:, 2:] / np.array(size) * np.array(points)
    return np.where(sides.min(axis=1, initial=math.inf) > 2.5, 0.5, 0.0)


def _steps(first: FloatArray, last: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the times at which the total weight of intervals ``[first, last)`` changes, and the weight after each."""
    if not len(first):
        return np.zeros(1), np.zeros(1)
    times, place = np.unique(np.concatenate((first, last)), return_inverse=True)
    changes = np.bincount(place, np.concatenate((weights, -weights)), minlength=len(times))
    # Sums of fractions leave rounding errors.
    return times, np.maximum(np.round(np.cumsum(changes), 9), 0.0)


# Comparisons


class _Row(NamedTuple):
    mean: float | None
    ends: tuple[float, float] | tuple[()] = ()  # of the line


class _Sample(NamedTuple):
    value: float | None  # None without a solution
    bound: float | None = None


@dataclass(frozen=True, slots=True)
class _Quantity:
    """A compared quantity, and the line that is drawn beside its mean."""

    name: str
    line: str  # description of the lines
    is_time: bool
    ends: Callable[[Sequence[_Sample], float], tuple[float, float] | tuple[()]]

    def row(self, samples: Sequence[_Sample]) -> _Row:
        """Return the mean of samples; without a mean if one has no value."""
        values = [sample.value for sample in samples if sample.value is not None]
        if len(values) < len(samples) or not values:
            return _Row(None)
        return _Row(fmean(values), self.ends(samples, fmean(values)))


def _interval(samples: Sequence[_Sample], mean: float) -> tuple[float, float] | tuple[()]:
    """Return the 95 % confidence interval of two or more samples."""
    values = np.array([sample.value for sample in samples], dtype=np.float64)
    return Interval.of(values)[1:] if len(values) > 1 else ()


def _to_bound(samples: Sequence[_Sample], mean: float) -> tuple[float, float] | tuple[()]:
    """Return the mean and the mean bound."""
    bounds = [sample.bound for sample in samples if sample.bound is not None]
    return (mean, fmean(bounds)) if len(bounds) == len(samples) else ()


_WAIT = _Quantity("mean wait", "lines are 95 % intervals", True, _interval)
_OBJECTIVE = _Quantity("mean objective", "lines end at the bound", False, _to_bound)


class _Measured(NamedTuple):
    quantity: _Quantity
    samples: Sequence[_Sample]


@singledispatch
def _measured(value: object) -> _Measured:
    """Return the samples of a value of `compare`."""
    wanted = "a Schedule, Metrics, a Result or a list of one of these"
    raise UsageError(f"cannot compare {type(value).__name__}; give {wanted}")


@_measured.register
def _of_metrics(value: Metrics) -> _Measured:
    return _Measured(_WAIT, [_Sample(value.jobs.wait_s.mean)])


@_measured.register
def _of_schedule(value: Schedule) -> _Measured:
    waits = value.wait_s
    return _Measured(_WAIT, [_Sample(float(waits.mean()) if len(waits) else None)])


@_measured.register
def _of_result(value: Result) -> _Measured:
    return _Measured(_OBJECTIVE, [_Sample(value.objective, value.bound)])


@_measured.register(list)
@_measured.register(tuple)
def _of_several(values: Sequence[Any]) -> _Measured:
    found = [_measured(value) for value in values]
    if len({each.quantity for each in found}) != 1:
        raise UsageError("a list to compare must have values, either of waits or of objectives")
    return _Measured(found[0].quantity, [sample for each in found for sample in each.samples])


@_measured.register
def _of_itself(value: _Measured) -> _Measured:
    return value


def _by_solver(rows: Iterable[Any]) -> dict[str, _Measured]:
    """Return the samples of each solver and strategy on the instances that all have solved."""
    columns = ResultTable.of_rows(rows).columns()
    if missing := sorted({"instance", "solver", "objective"} - columns.keys()):
        raise UsageError(
            f"the rows to compare have no column {missing[0]!r}; give rows of `allocopt bench`, or a dict of results"
        )
    nothing = [None] * len(columns["solver"])
    solved: dict[str, dict[tuple[str, str], _Sample]] = {}
    of_rows = (columns.get(name, nothing) for name in ("instance", "seed", "solver", "strategy", "objective", "bound"))
    for instance, seed, solver, strategy, objective, bound in zip(*of_rows, strict=True):
        name = f"{solver}, {strategy}" if _known(strategy) else str(solver)
        sample = _Sample(_float(objective), _float(bound))
        own = solved.setdefault(name, {})
        if sample.value is not None:
            own[str(instance), str(seed)] = sample
    common = set.intersection(*(set(own) for own in solved.values())) if solved else set()
    if not common:
        raise UsageError("no instance is solved by all solvers")
    return {name: _Measured(_OBJECTIVE, [own[each] for each in sorted(common)]) for name, own in solved.items()}


def _known(cell: object) -> bool:
    """Return whether a cell has a value; missing ones are None, empty or NaN."""
    return cell not in (None, "") and cell == cell


def _float(cell: Any) -> float | None:
    return float(cell) if _known(cell) else None


def _draw_row(axes: "Axes", place: int, row: _Row, scale: float) -> None:
    """Draw a mean with its line."""
    if row.ends:
        ends = [end / scale for end in row.ends]
        axes.plot(ends, [place, place], "|-", color=LIGHT["muted"], linewidth=1.4, markersize=9)
    if row.mean is not None:
        axes.plot([row.mean / scale], [place], "o", color=LIGHT[Key(0).role], markersize=6)


def _in_words(means: Sequence[float | None]) -> list[str]:
    """Return means with the same number of decimal places: three digits of the largest one, if not all are whole."""
    known = [abs(mean) for mean in means if mean is not None]
    is_whole = all(float(mean).is_integer() for mean in known)
    largest = max(known, default=0.0)
    places = 0 if is_whole else max(0, 2 - math.floor(math.log10(largest)))
    return [EN_DASH if mean is None else f"{mean:,.{places}f}" for mean in means]
