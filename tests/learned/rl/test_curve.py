"""Learning curves: a table, and a picture where something draws."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest.importorskip("torch")

from learned.rl.loop import _write_curve

ROWS = [{"samples": 10.0 * k, "mean_return": -1.0 / (k + 1)} for k in range(5)]


def test_a_curve_is_written_as_csv_and_as_a_picture(tmp_path: Path) -> None:
    _write_curve(tmp_path, ROWS, "a title")
    lines = (tmp_path / "curve.csv").read_text().splitlines()
    assert lines[0] == "samples,mean_return"
    assert len(lines) == 6
    assert ElementTree.fromstring((tmp_path / "curve.svg").read_text()).tag.endswith("svg")


def test_without_a_converter_there_is_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    _write_curve(tmp_path, ROWS, "a title")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.csv"]
