"""All plotting: figures are Vega-Lite specifications, drawn as SVG, PDF or PNG without browser or network.

A figure has one or more panels, which a page places side by side if there is room. Colours are named by their roles: on
a page a role is a variable of its style sheet, so that one drawing serves light and dark; in files it is the light
colour.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import MissingPackageError, UsageError
from allocopt.files.writing import write_bytes
from allocopt.report.palette import LIGHT, N_COLOURS
from allocopt.report.words import number, printable, shortened

Colours = Mapping[str, str]
"""CSS colour by role."""
Spec = dict[str, Any]
"""A part of a Vega-Lite specification."""

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
WIDTH, WIDE = 480, 1_000  # Width in pixels of one of two panels side by side, and of a panel over the whole page
ON_PAGE = {role: f"var(--{role})" for role in LIGHT}

# A fixed version, so that figures do not change with the release of the converter.
_VERSION = "5.21"
_FONT_SIZE = 12
_DASHES = ((), (7, 3), (2, 2), (9, 3, 2, 3))
_SHAPES = (
    "M1,0A1,1,0,1,1,-1,0A1,1,0,1,1,1,0Z",
    "M-.9,-.9H.9V.9H-.9Z",
    "M0,-1.1L1,.8H-1Z",
    "M0,-1.25L1,0L0,1.25L-1,0Z",
    "M-.35,-1.1H.35V-.35H1.1V.35H.35V1.1H-.35V.35H-1.1V-.35H-.35Z",
    "M0,1.1L1,-.8H-1Z",
    "M1.1,0L-.8,1V-1Z",
    "M-1.1,0L.8,1V-1Z",
)
_DURATIONS = (
    (1.0, "1 s"), (10.0, "10 s"), (60.0, "1 min"), (600.0, "10 min"), (3_600.0, "1 h"), (21_600.0, "6 h"),
    (86_400.0, "1 d"), (604_800.0, "7 d"), (2_592_000.0, "30 d"), (31_536_000.0, "1 y"),
)  # fmt: skip
_LEAST_GAP = 0.01
# Channels of a mark besides x and y. Values already are colours and widths, so these channels have no scale.
_CHANNELS: dict[str, Spec] = {
    "x2": {},
    "y2": {},
    "fill": {"type": "nominal", "scale": None},
    "strokeWidth": {"type": "quantitative", "scale": None},
    "text": {"type": "nominal"},
    "description": {"type": "nominal"},
}


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` of the numbers 0 to ``count`` - 1 at equal distances, with both ends."""
    places: list[int] = np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()
    return places


@dataclass(frozen=True, slots=True)
class Key:
    """Look of the lines and points of a series; colour and dashes, or colour and shape, distinguish sixteen series."""

    index: int

    @property
    def role(self) -> str:
        """Role of the colour."""
        return f"c{self.index % N_COLOURS + 1}"

    # Series 8 to 15 repeat the colours of 0 to 7; dashes and shapes are shifted by one.
    @property
    def dash(self) -> tuple[int, ...]:
        """Lengths of dashes and gaps in pixels; empty for a solid line."""
        return _DASHES[(self.index + self.index // N_COLOURS) % len(_DASHES)]

    @property
    def shape(self) -> str:
        """SVG path of a point, in a square from -1 to 1."""
        return _SHAPES[(self.index + self.index // N_COLOURS) % len(_SHAPES)]


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale with its ticks; a tick is a value with a label."""

    domain: tuple[float, float]  # First and last value, from left to right or from bottom to top
    ticks: Sequence[tuple[float, str]] = ()
    title: str = ""
    scale: Literal["linear", "log", "symlog"] = "linear"  # symlog is linear up to 0.01 and logarithmic beyond
    # Written after the value that a reader points at; ``duration`` for seconds to be written in larger units
    unit: str = ""
    has_grid: bool = True  # Whether lines are drawn at the ticks

    @classmethod
    def linear(
        cls, values: FloatArray, title: str = "", unit: str = "", *, is_tight: bool = False, has_grid: bool = True
    ) -> Self:
        """Return an axis around the finite values, with round ticks; its ends are round, too, unless it is tight."""
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
        if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):
            low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        # Divide first, so that the span of very large numbers does not overflow.
        rough = (high / 5 - low / 5) or 1.0
        power = 10.0 ** math.floor(math.log10(rough))
        step = next((size * power for size in (1, 2, 5) if size * power >= rough), 10 * power)
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        ends = (low, high) if is_tight else (first * step, last * step)
        places = [each * step for each in range(first, last + 1) if ends[0] <= each * step <= ends[1]]
        return cls(ends, [(place, number(place)) for place in places], title, unit=unit, has_grid=has_grid)

    @classmethod
    def log(
        cls, low: float, high: float, title: str = "", unit: str = "", shown: Callable[[float], str] = number
    ) -> Self:
        """Return a logarithmic axis with ticks at powers of ten."""
        high = max(high, 1.01 * low)
        powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
        ticks = [(10.0**power, shown(10.0**power)) for power in powers][:: 1 + len(powers) // 9]
        return cls((low, high), ticks or [(low, shown(low))], title, "log", unit)

    @classmethod
    def durations(cls, longest_s: float) -> Self:
        """Return a logarithmic axis of seconds, from one second on, with ticks such as 1 min, 1 h and 7 d."""
        longest = max(longest_s * 1.1, 60.0)
        ticks = [(seconds, name) for seconds, name in _DURATIONS if seconds <= longest]
        return cls((1.0, longest), ticks, scale="log", unit="duration")

    @classmethod
    def shares(cls) -> Self:
        """Return an axis of shares in per cent."""
        ticks = [(each, f"{each} %" if each == 100 else str(each)) for each in (0, 25, 50, 75, 100)]
        return cls((0.0, 102.0), ticks, unit="%")

    @classmethod
    def gaps(cls, least: float, most: float) -> Self:
        """Return an axis of gaps in per cent."""
        # Leave room below zero, where good solvers have most of their points, and above the worst.
        low, high = min(least, 0.0) * 1.3 - _LEAST_GAP / 4, max(most * 1.6, 2 * _LEAST_GAP)
        powers = [10.0**power for power in range(-2, max(-1, math.ceil(math.log10(max(high, -low)))))]
        places = [each for each in (*(-power for power in powers), 0.0, *powers) if low <= each <= high]
        ticks = [(place, f"{place:.6g} %") for place in places[:: 1 + len(places) // 10]]
        return cls((low, high), ticks, scale="symlog", unit="%")

    @classmethod
    def running_time(cls, first_s: float, last_s: float) -> Self:
        """Return a logarithmic axis of running times in seconds."""

        def shown(value: float) -> str:
            if value < 1e-3:
                return f"{1e6 * value:.3g} µs"
            return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"

        return cls.log(first_s, last_s, "running time", "s", shown)

    @classmethod
    def names(cls, names: Sequence[str]) -> Self:
        """Return an axis of rows from top to bottom, the middle of the first at 0.5."""
        ticks = [(row + 0.5, shortened(name, 26)) for row, name in enumerate(names)]
        return cls((len(names), 0), ticks, has_grid=False)

    def channel(self) -> Spec:
        """Return the Vega-Lite channel for positions along the axis."""
        # Vega reverses a descending domain only if the scale states it.
        scale: Spec = {"type": self.scale, "domain": sorted(self.domain), "nice": False, "zero": False}
        if self.domain[0] > self.domain[1]:
            scale["reverse"] = True
        if self.scale == "symlog":
            scale["constant"] = _LEAST_GAP
        axis: Spec | None = None
        if self.ticks or self.title:
            places = [place for place, _ in self.ticks]
            labels = [printable(label) for _, label in self.ticks]
            # Labels are looked up by their place, because Vega would format numbers in its own way. They are quoted,
            # so that nothing in them is evaluated.
            axis = {
                "title": printable(self.title) or None,
                "values": places,
                "labelExpr": f"{json.dumps(labels)}[indexof({json.dumps(places)}, datum.value)]",
                "grid": self.has_grid,
                "labelOverlap": self.has_grid,
            }
        return {"type": "quantitative", "scale": scale, "axis": axis}

    def about(self) -> Spec:
        """Return what a page needs to convert positions to values."""
        return {"domain": self.domain, "scale": self.scale, "constant": _LEAST_GAP, "unit": self.unit}


class Panel:
    """Axes with marks; the title is empty if that of the figure suffices.

    Both sizes are in pixels. The height is that of the area between the axes; the width includes labels of the axes.
    """

    def __init__(self, colours: Colours, x: Axis, y: Axis, height: float, title: str = "", width: int = WIDTH) -> None:
        self.colours, self.x, self.y, self.height, self.title, self.width = colours, x, y, height, title, width
        self._layers: list[Spec] = []

    def line(
        self, series: int, x: FloatArray, y: FloatArray, name: str = "", is_step: bool = False, is_faint: bool = False
    ) -> None:
        """Draw a line of a series; NaN interrupts it, and a faint line has no dashes."""
        key = Key(series)
        mark: Spec = {
            "type": "line",
            "stroke": self.colours[key.role],
            "strokeWidth": 0.7 if is_faint else 1.8,
            "opacity": 0.3 if is_faint else 1.0,
            "strokeDash": [] if is_faint else list(key.dash),
            "interpolate": "step-after" if is_step else "linear",
        }
        # JSON has no NaN; null interrupts a line, too.
        ordinates = [value if math.isfinite(value) else None for value in y.tolist()]
        self._add(mark, {"x": x.tolist(), "y": ordinates}, name="" if is_faint else name, series=series)

    def area(self, role: str, x: FloatArray, y: FloatArray) -> None:
        """Fill the area between a line and zero."""
        self._add({"type": "area", "fill": self.colours[role]}, {"x": x.tolist(), "y": y.tolist()})

    def points(
        self, series: int, x: FloatArray, y: FloatArray, titles: Sequence[str] = (), *, size: float = 3.0, **look: Any
    ) -> None:
        """Draw points of a series; titles are shown when a reader points at them, ``size`` is in pixels."""
        key = Key(series)
        mark = {
            "type": "point", "filled": True, "shape": key.shape, "size": size**2 * 4,
            "fill": self.colours[key.role], "strokeWidth": 0, "opacity": 1.0, **look,
        }  # fmt: skip
        self._add(mark, {"x": x.tolist(), "y": y.tolist()}, titles, series=series)

    def boxes(
        self,
        boxes: FloatArray,
        roles: Sequence[str],
        titles: Sequence[str] = (),
        edge: str = "",
        edge_widths: FloatArray | None = None,
    ) -> None:
        """Draw rectangles (left, upper, width, height, in units of the axes) in the colours of their roles.

        Titles are shown when a reader points at them. Edges have the colour of role ``edge``; if it is empty, there are
        none. Their widths are in pixels, 0.6 if not given.
        """
        left, upper, width, height = np.asarray(boxes, dtype=float).reshape(-1, 4).T
        channels: dict[str, Sequence[object]] = {"x": left.tolist(), "x2": (left + width).tolist(), "y": upper.tolist()}
        channels |= {"y2": (upper + height).tolist(), "fill": [self.colours[role] for role in roles]}
        if edge:
            channels["strokeWidth"] = [0.6] * len(left) if edge_widths is None else edge_widths.tolist()
        self._add({"type": "rect", **({"stroke": self.colours[edge]} if edge else {})}, channels, titles)

    def texts(
        self, texts: Iterable[tuple[float, float, str]], role: str = "ink", size: float = 11, **look: Any
    ) -> None:
        """Draw texts at positions in the units of the axes; ``size`` is in pixels."""
        rows = [(x, y, printable(text)) for x, y, text in texts]
        mark = {"type": "text", "fill": self.colours[role], "fontSize": size, "baseline": "middle", **look}
        self._add(mark, dict(zip(("x", "y", "text"), zip(*rows, strict=True), strict=False)))

    def rules(self, places: Iterable[float], role: str = "line") -> None:
        """Draw horizontal lines over the whole width."""
        (low, high), y = self.x.domain, list(places)
        mark = {"type": "rule", "stroke": self.colours[role], "strokeWidth": 0.8}
        self._add(mark, {"x": [low] * len(y), "x2": [high] * len(y), "y": y})

    def spec(self) -> Spec:
        """Return the Vega-Lite specification of the panel, without the settings that all panels share."""
        # The title of the y axis is above the panel, where it is horizontal and overlaps no label.
        above = self.title or self.y.title
        title = {"title": {"text": printable(above)}} if above else {}
        channels = {"x": self.x.channel(), "y": replace(self.y, title="").channel()}
        if self.y.ticks:
            # Text in a browser may be wider than in the converter, which has its own fonts.
            channels["y"]["axis"]["minExtent"] = 7 * max(len(label) for _, label in self.y.ticks) + 4
        encoding = {name: {"field": name, **channel} for name, channel in channels.items()}
        return {**title, "width": self.width, "height": self.height, "encoding": encoding, "layer": self._layers}

    def _add(
        self,
        mark: Spec,
        channels: Mapping[str, Sequence[object]],
        titles: Sequence[str] = (),
        name: str = "",
        series: int | None = None,
    ) -> None:
        if any(titles):
            channels = {**channels, "description": [printable(title) for title in titles]}
        values = [dict(zip(channels, row, strict=True)) for row in zip(*channels.values(), strict=True)]
        if not values:
            return
        encoding: Spec = {each: {"field": each, **_CHANNELS[each]} for each in channels if each in _CHANNELS}
        if name:
            encoding["description"] = {"value": printable(name)}
        # Without a description a mark gets no label for screen readers: such labels would be most of the page.
        mark = {**mark, "aria": "description" in encoding}
        layer: Spec = {"mark": mark, "data": {"values": values}, "encoding": encoding}
        if series is not None:
            # The name becomes a class in the drawing, by which a page finds the series that its legend toggles.
            layer["name"] = f"series{series}_{len(self._layers)}"
        self._layers.append(layer)


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """A figure for pages and for files."""

    name: str  # Part of the name of its file; unique in a section
    title: str
    description: str  # Text for readers who cannot see the figure
    draw: Callable[[Colours], Iterable[Panel]]
    caption: str = ""  # How to read it; empty if that is obvious
    series: tuple[str, ...] = ()  # Names for the legend, which readers of a page can toggle; empty for no legend

    @classmethod
    def of_lines(cls, title: str, x: str, y: str, lines: Mapping[str, tuple[FloatArray, FloatArray]]) -> "Figure":
        """Return a figure of lines; each name has x and y values of equal length, and NaN interrupts a line."""
        every_x, every_y = (np.concatenate([line[axis] for line in lines.values()]) for axis in (0, 1))

        def draw(colours: Colours) -> Iterator[Panel]:
            panel = Panel(colours, Axis.linear(every_x, x, is_tight=True), Axis.linear(every_y, y), 280, width=700)
            for index, (name, (xs, ys)) in enumerate(lines.items()):
                kept = evenly(len(xs), 500)
                panel.line(index, xs[kept], ys[kept], name)
            yield panel

        return cls("lines", title, f"{y} over {x}.", draw, series=tuple(lines))

    def svgs(self, colours: Colours = ON_PAGE) -> list[tuple[Panel, str]]:
        """Return the panels, each with its drawing as SVG."""
        drawn = []
        for panel in self.draw(colours):
            # Fix the width including labels, so that letters have the same size in all panels of a page.
            fitted = {**panel.spec(), "autosize": {"type": "fit-x", "contains": "padding"}}
            drawn.append((panel, str(_converted("svg", fitted, colours))))
        return drawn

    def write(self, path: Path) -> None:
        """Write the figure on white with its legend, as ``.svg``, ``.pdf`` or ``.png`` by the suffix of the path."""
        panels = list(self.draw(LIGHT))
        # Composed views cannot be fitted to a width: leave 90 pixels for the labels.
        across = 1 if panels[0].width > WIDTH else min(2, len(panels))
        parts = [{**_unnamed(panel.spec()), "width": panel.width - 90} for panel in panels]
        whole: Spec = {"concat": parts, "columns": across, "spacing": 28} if len(parts) > 1 else parts[0]
        if len(self.series) > 1:
            width = across * panels[0].width - 90
            column = 60 + 7 * max(map(len, self.series))
            names_across = max(1, width // column)
            height = 20.0 * -(-len(self.series) // names_across)
            legend = Panel(LIGHT, Axis((0.0, width)), Axis((height, 0.0)), height, width=width)
            for index, name in enumerate(self.series):
                x, y = index % names_across * column, index // names_across * 20.0 + 10
                legend.line(index, np.array([x, x + 26.0]), np.array([y, y]))
                legend.points(index, np.array([x + 13.0]), np.array([y]), size=3.5)
                legend.texts([(x + 33.0, y, name)], align="left", size=_FONT_SIZE)
            whole = {"vconcat": [_unnamed(legend.spec()), whole], "spacing": 16}
        made = _converted(path.suffix[1:], {**whole, "background": LIGHT["surface"], "padding": 10}, LIGHT)
        if isinstance(made, str):
            # Add the title and description for readers who cannot see the figure; the converter has no option for it.
            head, rest = made.split(">", 1)
            title, description = (escape(printable(text)) for text in (self.title, self.description))
            made = f"{head}><title>{title}</title><desc>{description}</desc>{rest}\n".encode()
        write_bytes(path, made)


def check_installed() -> None:
    """Raise `MissingPackageError` unless the packages of the extra ``plot`` are installed."""
    _part_of_plot("jinja2", "jinja2")
    _part_of_plot("vl_convert", "vl-convert-python")


def _part_of_plot(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError:
        raise MissingPackageError.of("figures need", package, extra="plot") from None


def _converted(ending: str, spec: Spec, colours: Colours) -> str | bytes:
    """Return a drawing of a specification; no file and no address is read."""
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "background": None, **spec}
    convert = getattr(_part_of_plot("vl_convert", "vl-convert-python"), f"vegalite_to_{ending}")
    # Twice as many pixels, for screens of high resolution.
    settings = {"scale": 2} if ending == "png" else {}
    config = {
        "font": FONTS,
        "padding": {"left": 4, "right": 12, "top": 2, "bottom": 4},
        "view": {"stroke": None},
        "axis": {
            "labelColor": colours["muted"], "titleColor": colours["muted"], "gridColor": colours["grid"],
            "domainColor": colours["line"], "tickColor": colours["line"], "labelFontSize": _FONT_SIZE,
            "titleFontSize": _FONT_SIZE, "titleFontWeight": "normal", "labelLimit": 220, "domain": False,
        },
        "axisX": {"ticks": True, "tickSize": 4, "labelFlush": True},
        "axisY": {"ticks": False, "labelPadding": 6},
        "title": {
            "anchor": "start", "color": colours["ink"], "fontSize": _FONT_SIZE, "offset": 8, "frame": "group",
        },
    }  # fmt: skip
    made: str | bytes = convert({**whole, "config": config}, vl_version=_VERSION, allowed_base_urls=[], **settings)
    return made


def _unnamed(spec: Spec) -> Spec:
    """Return a specification without names of layers: composed views would confuse the data of layers of one name."""
    return {**spec, "layer": [{key: value for key, value in each.items() if key != "name"} for each in spec["layer"]]}


def smoothed(values: FloatArray, share: float) -> FloatArray:
    """Return the moving average at each value over a window of ``share`` of all values; it skips non-finite ones."""
    span = max(1, round(share * len(values)))
    known = np.isfinite(values)
    sums, counts = (np.concatenate(([0.0], np.cumsum(part))) for part in (np.where(known, values, 0.0), known))
    last = np.arange(1, len(values) + 1)
    first = np.maximum(last - span, 0)
    held = counts[last] - counts[first]
    return np.where(held > 0, (sums[last] - sums[first]) / np.maximum(held, 1), np.nan)


def write_residual_plot(path: Path, title: str, quantity: str, measured: FloatArray, predicted: FloatArray) -> None:
    """Draw measured values and residuals against fitted values; raise `UsageError` if the suffix is not a format."""
    suffixes = (".svg", ".png", ".pdf")
    if path.suffix not in suffixes:
        raise UsageError(f"{path}: the name of a plot must end in {', '.join(suffixes)}")
    ends = np.array([min(measured.min(), predicted.min()), max(measured.max(), predicted.max())])

    def draw(colours: Colours) -> Iterator[Panel]:
        x = Axis.linear(ends, f"fitted {quantity}", is_tight=True)
        shown = ((f"measured {quantity}", measured, ends), ("residual", measured - predicted, np.zeros(2)))
        for y, values, ideal in shown:
            panel = Panel(colours, x, Axis.linear(np.append(values, ideal), y), 260)
            panel.line(7, ends, ideal, is_faint=True)
            panel.points(0, predicted, values)
            yield panel

    Figure("residuals", title, f"Measured and fitted {quantity}.", draw).write(path)
