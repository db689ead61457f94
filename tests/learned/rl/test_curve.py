"""Learning curves: the smoothing, and a picture that is one."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from learned.rl.curve import line_plot, smoothed, write_curve


def test_smoothing_is_the_mean_of_the_last_values_that_are_numbers() -> None:
    values = np.array([1.0, np.nan, 3.0, 5.0, 7.0])
    assert smoothed(values, 0.4).tolist() == pytest.approx([1.0, 1.0, 3.0, 4.0, 6.0])


def test_a_curve_is_written_as_csv_and_as_a_picture(tmp_path: Path) -> None:
    rows = [{"samples": 10.0 * k, "mean_return": -1.0 / (k + 1)} for k in range(5)]
    write_curve(tmp_path, rows, "samples", "mean_return", "a title")
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert lines[0] == "samples,mean_return"
    assert len(lines) == 6
    assert ElementTree.fromstring((tmp_path / "curve.svg").read_text()).tag.endswith("svg")


def test_every_line_of_a_plot_runs_through_its_points() -> None:
    xs, ys = np.array([0.0, 1.0, 2.0]), np.array([3.0, 3.0, 3.0])
    picture = ElementTree.fromstring(line_plot("t", "x", "y", {"one": (xs, ys), "two": (xs, ys + 1)}))
    lines = [element for element in picture if element.tag.endswith("polyline")]
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 3]
    assert lines[0].attrib["points"] != lines[1].attrib["points"]
