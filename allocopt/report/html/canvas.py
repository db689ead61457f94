"""Where figures are drawn: matplotlib, at the width of a page or of a phone, with colours by role."""

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocopt.arrays import FloatArray
from allocopt.errors import MissingPackageError
from allocopt.report.html.palette import LIGHT
from allocopt.report.html.words import printable

WIDE_IN, NARROW_IN = 8.4, 3.6
"""Widths of a figure in inches."""
POINTS = 72.0

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 8.5,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["muted"],
    "axes.edgecolor": LIGHT["line"],
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 8.0,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.8,
    "xtick.color": LIGHT["line"],
    "ytick.color": LIGHT["line"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
    "xtick.minor.size": 0,
    "xtick.major.size": 3,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.2,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "svg.hashsalt": "allocopt",
    "pdf.fonttype": 42,
    "path.simplify": True,
    "path.simplify_threshold": 0.3,
}
"""Settings of matplotlib."""

PDF_METADATA = {"Creator": "allocopt", "Producer": None, "CreationDate": None}
SVG_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}


def matplotlib(part: str = "") -> Any:
    """Return a module of matplotlib.

    Raises
    ------
    MissingPackageError
        If matplotlib is not installed.
    """
    try:
        return import_module(f"matplotlib{part and '.'}{part}")
    except ModuleNotFoundError:
        raise MissingPackageError("reports need matplotlib: pip install 'allocopt[plot]'") from None


class Canvas:
    """An empty figure.

    Parameters
    ----------
    is_narrow
        Whether it is for a phone.
    """

    def __init__(self, is_narrow: bool) -> None:
        self.is_narrow = is_narrow
        self.width_in = NARROW_IN if is_narrow else WIDE_IN
        self.figure: Any = matplotlib("figure").Figure(figsize=(self.width_in, 3.0), layout="constrained")
        self.figure.get_layout_engine().set(w_pad=0.06, h_pad=0.06, wspace=0.03, hspace=0.04)
        self.titles: dict[str, list[str]] = {}

    @property
    def width(self) -> float:
        """Width in points."""
        return self.width_in * POINTS

    def panels(self, rows: int, columns: int, height_in: float, **ratios: Sequence[float]) -> list[Any]:
        """Return axes in rows and columns, row by row, in a figure of that height."""
        self.figure.set_figheight(height_in)
        axes = self.figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios)
        return list(axes.ravel())

    def plane(self, height: float) -> Any:
        """Return axes that cover the figure, in points from the upper left corner, without scales."""
        self.figure.set_layout_engine("none")
        self.figure.set_figheight(height / POINTS)
        axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(height, 0))
        axes.set_axis_off()
        return axes

    def boxes(
        self,
        axes: Any,
        boxes: FloatArray,
        roles: Sequence[str],
        titles: Sequence[str] = (),
        edge: str | None = None,
        line_width: float | FloatArray = 0.4,
    ) -> None:
        """Draw rectangles.

        Parameters
        ----------
        axes
            Where.
        boxes
            Left, upper, width and height of each, shape ``(m, 4)``.
        roles
            The role of each one's colour.
        titles
            What is said of each when a reader points at it; empty for nothing.
        edge
            Role of the colour of their edges; None for no edges.
        line_width
            Of the edges, in points; one for all, or one for each.
        """
        if not len(boxes):
            return
        left, upper, width, height = np.asarray(boxes, dtype=float).T
        corners = np.stack(
            (left, upper, left + width, upper, left + width, upper + height, left, upper + height), axis=1
        ).reshape(-1, 4, 2)
        if not titles and edge is None:
            return _fill(axes, corners, np.array(roles))
        drawn = matplotlib("collections").PolyCollection(
            corners,
            facecolors=[LIGHT[role] for role in roles],
            edgecolors=LIGHT[edge] if edge else "none",
            linewidths=line_width if edge else 0.0,
        )
        # Nobody points at anything on a phone.
        if titles and not self.is_narrow:
            name = f"titled-{len(self.titles) + 1}"
            drawn.set_gid(name)
            self.titles[name] = list(titles)
        axes.add_collection(drawn, autolim=False)

    def text(self, axes: Any, x: float, y: float, text: str, role: str = "ink", **settings: Any) -> None:
        """Write a text as it is: nothing in it is mathematics."""
        axes.text(x, y, printable(text), color=LIGHT[role], parse_math=False, **settings)

    def legend(self, columns: int, **settings: Any) -> None:
        """Put one legend of all lines above the figure."""
        handles, labels = self.figure.axes[0].get_legend_handles_labels()
        if not handles:
            return
        longest = max(map(len, labels))
        across = min(len(handles), columns if not self.is_narrow else 2 if longest <= 18 else 1)
        legend = self.figure.legend(handles, labels, loc="outside upper left", ncols=across, **settings)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _fill(axes: Any, corners: FloatArray, roles: "NDArray[np.str_]") -> None:
    """Fill rectangles of the same colour as one shape, which takes little room in a file."""
    path = matplotlib("path").Path
    for role in np.unique(roles).tolist():
        own = corners[roles == role]
        closed = np.concatenate((own, own[:, :1]), axis=1).reshape(-1, 2)
        codes = [path.MOVETO, *[path.LINETO] * 3, path.CLOSEPOLY] * len(own)
        axes.add_artist(matplotlib("patches").PathPatch(path(closed, codes), facecolor=LIGHT[role], linewidth=0.0))


def drawn(draw: "Callable[[Canvas], None]", is_narrow: bool) -> Canvas:
    """Return a canvas on which a figure has been drawn."""
    with _quiet_style():
        canvas = Canvas(is_narrow)
        draw(canvas)
    return canvas


@contextmanager
def _quiet_style() -> Iterator[None]:
    """Set the style; characters that matplotlib's own font lacks are for the browser's fonts to show."""
    with matplotlib().rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield


def svg_text(canvas: Canvas) -> str:
    """Return a drawn figure as SVG."""
    buffer = io.StringIO()
    with _quiet_style():
        # What `savefig` would draw twice, the first time to find the layout, which drawing does anyway.
        matplotlib("backends.backend_svg").FigureCanvasSVG(canvas.figure).print_svg(buffer, metadata=SVG_METADATA)
    return buffer.getvalue()


def pdf_bytes(canvas: Canvas) -> bytes:
    """Return a drawn figure as PDF."""
    buffer = io.BytesIO()
    with _quiet_style():
        canvas.figure.savefig(buffer, format="pdf", metadata=PDF_METADATA, facecolor=LIGHT["surface"])
    return buffer.getvalue()
