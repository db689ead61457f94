"""Figures: series that can be told apart, axes that hold their values, drawings that hold what was drawn."""

from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.report.plot import Axis, Colours, Figure, Key, Panel, smoothed


def test_sixteen_series_differ_in_colour_and_dashes_or_shape() -> None:
    for one, other in combinations(map(Key, range(16)), 2):
        assert (one.role, one.dash) != (other.role, other.dash)
        assert (one.role, one.shape) != (other.role, other.shape)


@given(st.lists(st.floats(-1e300, 1e300), min_size=1), st.booleans())
def test_a_linear_axis_holds_its_values_and_has_few_ticks(values: list[float], is_tight: bool) -> None:
    axis = Axis.linear(np.array(values), is_tight=is_tight)
    slack = 1e-6 * (axis.domain[1] - axis.domain[0])
    assert axis.domain[0] - slack <= min(values) <= max(values) <= axis.domain[1] + slack
    assert len(axis.ticks) <= 12
    assert all(axis.domain[0] <= place <= axis.domain[1] for place, _ in axis.ticks)


@given(st.floats(0, 1e9), st.floats(-1e3, 0))
def test_an_axis_of_gaps_holds_zero_and_all_gaps(most: float, least: float) -> None:
    axis = Axis.gaps(least, most)
    assert axis.domain[0] < min(least, 0.0) <= max(most, 0.0) < axis.domain[1]
    assert len(axis.ticks) <= 12


def test_smoothing_is_the_mean_of_the_last_values_that_are_numbers() -> None:
    values = np.array([1.0, np.nan, 3.0, 5.0, 7.0])
    assert smoothed(values, 0.4).tolist() == pytest.approx([1.0, 1.0, 3.0, 4.0, 6.0])
    assert np.isnan(smoothed(np.array([np.nan, 1.0]), 0.5)).tolist() == [True, False]


def test_every_line_of_a_figure_runs_through_its_points(tmp_path: Path) -> None:
    xs, ys = np.array([0.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0])
    Figure.of_lines("t", "x", "y", {"one": (xs, ys), "two": (xs, ys + 1)}).write(tmp_path / "lines.svg")
    picture = ElementTree.fromstring((tmp_path / "lines.svg").read_text(encoding="utf-8"))
    lines = [each for each in picture.iter() if each.get("aria-label") in ("one", "two")]
    assert [len(line.attrib["d"].split("L")) for line in lines] == [3, 3]
    assert lines[0].attrib["d"] != lines[1].attrib["d"]


def test_panels_of_a_file_and_its_legend_keep_their_own_lines(tmp_path: Path) -> None:
    xs = np.array([0.0, 1.0])

    def draw(colours: Colours) -> list[Panel]:
        panels = [Panel(colours, Axis((0.0, 1.0)), Axis((0.0, 9.0)), 100) for _ in range(2)]
        for index in range(2):
            for number, panel in enumerate(panels):
                panel.line(index, xs, xs + index + 5 * number, f"line {index} of panel {number}")
        return panels

    Figure("f", "t", "d", draw, series=("one", "other")).write(tmp_path / "figure.svg")
    picture = ElementTree.fromstring((tmp_path / "figure.svg").read_text(encoding="utf-8"))
    drawn = [each.attrib["d"] for each in picture.iter() if each.get("aria-label", "").startswith("line ")]
    assert len(drawn) == len(set(drawn)) == 4
