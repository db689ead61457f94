"""Tables of results, as data frames and through Arrow's own interface."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import allocopt
from allocopt.cluster.cluster import Cluster, ClusterNode
from allocopt.errors import MissingPackageError
from allocopt.tables import ResultTable, RowTable, Tabular
from allocopt.traces.workload import Workload


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
    table = ResultTable.of_rows(kind(*row) for row in ROWS)
    assert table.columns() == {"name": ["a", "b"], "value": [1.5, None]}


def test_no_rows_are_a_table_without_columns() -> None:
    assert ResultTable.of_rows([]).columns() == {}


def test_a_field_that_only_some_rows_have_is_a_column_of_all() -> None:
    table = RowTable(({"name": "a"}, {"name": "b", "energy_j": 2.5}))
    assert table.columns() == {"name": ["a", "b"], "energy_j": [None, 2.5]}
    assert table.records() == [{"name": "a"}, {"name": "b", "energy_j": 2.5}]


COLUMNS: dict[str, list[Any]] = {
    "number": [1, 2.5, None],
    "large": [2**53 + 1, -(2**62), 0],
    "fraction": [0.1 + 0.2, float("inf"), 5e-324],
    "text": ["=1", "line\nÄ", None],
    "flag": [True, None, False],
    "missing": [None, None, None],
    "list": [[], [1, 2.5], [None]],
    "lists": [[[1, 2.5], []], [], [[0.1]]],
}
"""Values of three rows, each column with values that a conversion may lose."""


def by_arrow(table: Tabular) -> dict[str, list[Any]]:
    pytest.importorskip("pyarrow")
    found: dict[str, list[Any]] = table.to_arrow().to_pydict()
    return found


def by_arrow_stream(table: Tabular) -> dict[str, list[Any]]:
    arrow = pytest.importorskip("pyarrow")
    found: dict[str, list[Any]] = arrow.RecordBatchReader.from_stream(table).read_all().to_pydict()
    return found


def by_polars(table: Tabular) -> dict[str, list[Any]]:
    pytest.importorskip("polars")
    found: dict[str, list[Any]] = table.to_polars().to_dict(as_series=False)
    return found


def by_polars_from_arrow(table: Tabular) -> dict[str, list[Any]]:
    polars = pytest.importorskip("polars")
    found: dict[str, list[Any]] = polars.DataFrame(table).to_dict(as_series=False)
    return found


def by_pandas(table: Tabular) -> dict[str, list[Any]]:
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas()
    return {
        name: [None if pandas.api.types.is_scalar(one) and pandas.isna(one) else one for one in frame[name].tolist()]
        for name in frame
    }


@pytest.mark.parametrize("convert", [by_arrow, by_arrow_stream, by_polars, by_polars_from_arrow, by_pandas])
@pytest.mark.parametrize("make", [ResultTable, lambda by_name: RowTable(tuple(rows_of(by_name)))])
def test_nothing_is_lost_in_a_conversion(make: Any, convert: Any) -> None:
    found = convert(make(COLUMNS))
    assert found == COLUMNS
    assert list(found) == list(COLUMNS)


def rows_of(by_name: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(by_name, values, strict=True)) for values in zip(*by_name.values(), strict=True)]


@pytest.mark.parametrize("convert", [by_arrow, by_arrow_stream, by_polars, by_polars_from_arrow, by_pandas])
def test_a_table_without_rows_can_be_converted(convert: Any) -> None:
    assert convert(RowTable(())) == {}


def test_a_table_of_arrow_has_the_values_and_missing_ones() -> None:
    pytest.importorskip("pyarrow")
    assert ResultTable.of_rows(Point(*row) for row in ROWS).to_arrow().to_pylist() == [
        {"name": "a", "value": 1.5},
        {"name": "b", "value": None},
    ]


def test_other_packages_read_a_table_through_the_arrow_interface() -> None:
    arrow = pytest.importorskip("pyarrow")
    table = ResultTable({"start": np.array([0.0, 2.5]), "nodes": [[0, 1], [2]]})
    assert arrow.table(table).to_pydict() == {"start": [0.0, 2.5], "nodes": [[0, 1], [2]]}


def test_a_data_frame_has_a_row_for_each_value() -> None:
    pandas = pytest.importorskip("pandas")
    frame = ResultTable({"start": np.array([0.0, 2.5]), "user": ["x", None]}).to_pandas()
    assert frame["start"].tolist() == [0.0, 2.5]
    assert pandas.isna(frame["user"][1])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(MissingPackageError, match="pip install polars"):
        ResultTable({"start": [0.0]}).to_polars()


def two_jobs() -> Workload:
    return Workload(
        "two",
        ids=np.array([7, 8]),
        submit=np.array([0.0, 1.0]),
        run=np.array([10.0, 20.0]),
        estimate=np.array([10.0, 20.0]),
        processors=np.array([2, 4]),
    )


def test_a_schedule_is_a_table_of_its_jobs() -> None:
    columns = allocopt.simulate(two_jobs(), 4).columns()
    assert columns["job_id"] == ["7", "8"]
    assert list(columns["wait"]) == [0.0, 9.0]
    assert list(columns["bounded_slowdown"]) == [1.0, 1.45]
    assert columns["user"] == columns["node_numbers"] == [None, None]
    assert {len(values) for values in columns.values()} == {2}


def test_a_schedule_of_a_cluster_has_nodes_and_what_jobs_held() -> None:
    schedule = allocopt.simulate(two_jobs(), Cluster.of([ClusterNode("a", 4, gpus={"": 2})], None))
    columns = schedule.columns()
    assert columns["node_numbers"] == [[0], [0]]
    assert list(columns["cores"]) == [2.0, 4.0]
    pytest.importorskip("pyarrow")
    assert schedule.to_arrow().num_rows == 2
