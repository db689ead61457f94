"""One aligned table."""

from hypothesis import given
from hypothesis import strategies as st

from allocopt.report.words import aligned_table

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


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=2, max_size=9), st.integers(30, 90))
def test_columns_that_do_not_fit_stand_below_beside_the_names_again(names: list[str], width: int) -> None:
    digits = (None, None, *(0 for _ in names))
    table = aligned_table(["name", "kind", *names], [["x", "y", *range(len(names))]], digits, width)
    assert max(map(len, table.splitlines())) <= width
    parts = [[line.split() for line in part.splitlines()] for part in table.split("\n\n")]
    assert all([first, second] == ["name", "kind"] for (_, first, _, second, *_), *_ in parts)
    assert all([first, second] == ["x", "y"] for *_, (_, first, _, second, *_) in parts)
    values = [cell for *_, last in parts for cell in last[5::2]]
    assert values == [str(number) for number in range(len(names))]
