"""One aligned table."""

from hypothesis import given
from hypothesis import strategies as st

from allocopt.report.table import aligned_table

cells = st.none() | st.integers(-10_000, 10_000_000) | st.floats(-1e9, 1e9)


@given(st.lists(st.tuples(st.text("abc", max_size=12), cells, cells), max_size=5))
def test_every_line_is_as_wide_as_every_other(rows: list[tuple[str, int | float | None, int | float | None]]) -> None:
    lines = aligned_table(("name", "a number", "n"), rows, (None, 2, 0)).splitlines()
    assert len(lines) == len(rows) + 2
    assert len({len(line) for line in lines}) == 1
    bars = [[index for index, character in enumerate(line) if character == "|"] for line in lines]
    assert all(places == bars[0] for places in bars)


def test_text_stands_left_and_numbers_right_with_their_digits() -> None:
    table = aligned_table(("who", "cost", "nr"), [("a", 1234567.891, 7), ("longer", -0.5, None)], (None, 1, 0))
    assert table.splitlines() == [
        "| who    |        cost | nr |",
        "| ------ | ----------: | -: |",
        "| a      | 1,234,567.9 |  7 |",
        "| longer |        -0.5 |  - |",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert aligned_table(("who", "cost"), [], (None, 1)).splitlines() == ["| who | cost |", "| --- | ---: |"]
