"""Tables of results, as data frames and through Arrow's own interface."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

from allocopt.errors import MissingPackageError
from allocopt.tables import Table


class Point(NamedTuple):
    name: str
    value: float | None


@dataclass(frozen=True)
class Pair:
    name: str
    value: float | None


ROWS = [("a", 1.5), ("b", None)]


@pytest.mark.parametrize("kind", [Point, Pair, lambda name, value: {"name": name, "value": value}])
def test_rows_of_every_kind_become_columns(kind: type) -> None:
    table = Table.of_rows(kind(*row) for row in ROWS)
    assert table.columns() == {"name": ["a", "b"], "value": [1.5, None]}


def test_no_rows_are_a_table_without_columns() -> None:
    assert Table.of_rows([]).columns() == {}


def test_a_table_of_arrow_has_the_values_and_missing_ones() -> None:
    pytest.importorskip("pyarrow")
    assert Table.of_rows(Point(*row) for row in ROWS).to_arrow().to_pylist() == [
        {"name": "a", "value": 1.5},
        {"name": "b", "value": None},
    ]


def test_other_packages_read_a_table_through_the_arrow_interface() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = Table({"start": np.array([0.0, 2.5]), "nodes": [[0, 1], [2]]})
    assert arrow.table(table).to_pydict() == {"start": [0.0, 2.5], "nodes": [[0, 1], [2]]}


def test_a_data_frame_has_a_row_for_each_value() -> None:
    pandas = pytest.importorskip("pandas")
    frame = Table({"start": np.array([0.0, 2.5]), "user": ["x", None]}).to_pandas()
    assert frame["start"].tolist() == [0.0, 2.5]
    assert pandas.isna(frame["user"][1])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(MissingPackageError, match="pip install polars"):
        Table({"start": [0.0]}).to_polars()
