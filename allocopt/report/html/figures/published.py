"""Numbers of a paper and ours, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from allocopt.report.html.canvas import Canvas
from allocopt.report.html.document import Figure
from allocopt.report.html.palette import LIGHT
from allocopt.report.html.words import number, shortened

MOST_ROWS = 40
MOST_COLUMNS = 6


@dataclass(frozen=True, slots=True)
class Value:
    """One number of a table: where it stands, what the paper prints, what was measured, its standard deviation."""

    row: str
    column: str
    published: float | None
    ours: float | None
    spread: float | None


@dataclass(frozen=True, slots=True)
class Published:
    """The numbers of one table or figure."""

    artifact: str
    values: Sequence[Value]

    @property
    def columns(self) -> list[str]:
        """Its columns, those with a published value first, as many as are axes."""
        names = list(dict.fromkeys(value.column for value in self.values if value.ours is not None))
        known = {value.column for value in self.values if value.published is not None}
        return sorted(names, key=lambda name: name not in known)[:MOST_COLUMNS]

    @property
    def rows(self) -> list[str]:
        """Its rows, as many as are axes."""
        return list(dict.fromkeys(value.row for value in self.values))[:MOST_ROWS]

    def figure(self) -> Figure:
        """Return the figure."""
        said = [
            f"{value.row}, {value.column}: {number(value.ours)} beside {number(value.published)}"
            for value in self.values
            if value.ours is not None and value.published is not None
        ]
        return Figure(
            "published",
            "Ours beside the paper's",
            f"Values measured and published. {'; '.join(said[:15])}.",
            self.draw,
            "Filled: ours, with a standard deviation to either side where there are several runs. Hollow: the paper's.",
        )

    def draw(self, canvas: Canvas) -> None:
        """Draw a panel per column, a line per row."""
        rows, columns = self.rows, self.columns
        across = 1 if canvas.is_narrow else min(3, len(columns))
        down = -(-len(columns) // across)
        panels = canvas.panels(down, across, 0.4 + down * (0.65 + 0.21 * len(rows)))
        places = {row: place for place, row in enumerate(rows)}
        for index, axes in enumerate(panels):
            if index >= len(columns):
                axes.set_axis_off()
                continue
            axes.set_title(shortened(columns[index], 40), parse_math=False)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_yticks(range(len(rows)), [shortened(row, 26) if index % across == 0 else "" for row in rows])
            for text in axes.get_yticklabels():
                text.set_parse_math(False)
            axes.locator_params(axis="x", nbins=4)
            for value in self.values:
                if value.column == columns[index] and value.row in places:
                    _points(axes, places[value.row], value)


def _points(axes: Any, place: int, value: Value) -> None:
    """Draw one number."""
    if value.published is not None and value.ours is not None:
        axes.plot([value.published, value.ours], [place, place], color=LIGHT["taken"], linewidth=1.4, zorder=2)
    if value.ours is not None:
        axes.errorbar(
            value.ours,
            place,
            xerr=abs(value.spread or 0.0) or None,
            fmt="o",
            color=LIGHT["c1"],
            markersize=4.5,
            capsize=2.5,
        )
    if value.published is not None:
        axes.plot(
            [value.published], [place], "o", markersize=8, markerfacecolor="none",
            markeredgecolor=LIGHT["ink"], markeredgewidth=1.2, zorder=4,
        )  # fmt: skip
