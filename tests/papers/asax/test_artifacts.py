"""The tables and the figure of the ASAX paper, quickly: what stands beside what, and that one run gives all three."""

from pathlib import Path

import pytest

from allocopt.traces.applications import APPLICATIONS, CLUSTER_SIZES
from papers.artifact import Asked
from papers.asax.tables import (
    FIGURE_THREE,
    METHODS,
    TABLE_THREE,
    TABLE_TWO,
    THREE,
    TWO,
    measured,
    pieces,
    seeds_of,
)

QUICK = Asked(Path(), True, (0, 1))
WANTED = [f"64: {method}" for method in METHODS if not method.startswith("asax, trained, ")]
"""All but variants of a learner's loss, which take long and differ in an option."""


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, object]]:
    return {piece: measured(QUICK, piece) for piece in WANTED}


def test_there_is_a_piece_for_every_cluster_and_method() -> None:
    assert len(pieces(QUICK)) == len(CLUSTER_SIZES) * len(METHODS)
    assert set(TABLE_THREE) <= set(pieces(QUICK))
    assert len(TABLE_TWO) == len(TABLE_THREE) * len(APPLICATIONS)


def test_each_seed_stands_for_ten_queues_of_its_own() -> None:
    assert seeds_of(Asked(Path(), False, (0, 2))) == [*range(10), *range(20, 30)]
    assert seeds_of(QUICK) == [0, 10]


@pytest.mark.slow
def test_table_3_stands_beside_the_published_one(records: dict[str, dict[str, object]]) -> None:
    rows = THREE.rows(QUICK, records)
    found = {(row.row, row.column): row for row in rows}
    wait = found["64: asax", "wait h"]
    assert (wait.published, wait.n) == (1.8, 2)
    assert wait.ours is not None
    assert wait.spread is not None
    assert found["64: asax", "wait over space sharing, +%"].published == pytest.approx(100 * (1.8 / 3.5 - 1))
    assert found["64: asax", "run time over space sharing, +%"].published is None
    assert found["64: coallocation-scip", "wait h"].published is None
    bound = found["64: asax", "largest excess risk over its bound"].ours
    assert bound is not None
    assert 0 <= bound <= 1


@pytest.mark.slow
def test_table_2_has_a_line_for_every_workflow(records: dict[str, dict[str, object]]) -> None:
    rows = TWO.rows(QUICK, records)
    assert {row.row for row in rows} == {f"{piece}, {workflow}" for piece in WANTED for workflow in APPLICATIONS}
    alone = {row.column: row.ours for row in rows if row.row == "64: space-sharing, montage"}
    assert alone["run time h"] == pytest.approx(0.35)
    assert alone["memory %"] == pytest.approx(10.0)
    assert alone["time with a guest %"] == 0.0


@pytest.mark.slow
def test_figure_3_gives_makespans_and_run_times(records: dict[str, dict[str, object]]) -> None:
    rows = FIGURE_THREE.rows(QUICK, records)
    change = next(row for row in rows if (row.row, row.column) == ("64: asax", "makespan over space sharing, +%"))
    assert change.published == -12.0
    assert change.ours is not None
    assert change.ours < 0
    assert sum(row.column == "run time h" for row in rows) == len(WANTED) * len(APPLICATIONS)
