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


def test_columns_that_do_not_fit_stand_below_beside_the_names_again() -> None:
    rows = [("lns", "free", 1.0, 2.0, 3.0), ("lns", "dcas", 4.0, 5.0, 6.0)]
    table = aligned_table(("solver", "strategy", "mean", "median", "longest"), rows, (None, None, 1, 1, 1), 40)
    assert table.splitlines() == [
        "| solver | strategy | mean | median |",
        "| ------ | -------- | ---: | -----: |",
        "| lns    | free     |  1.0 |    2.0 |",
        "| lns    | dcas     |  4.0 |    5.0 |",
        "",
        "| solver | strategy | longest |",
        "| ------ | -------- | ------: |",
        "| lns    | free     |     3.0 |",
        "| lns    | dcas     |     6.0 |",
    ]


@given(st.lists(st.text("abc", min_size=1, max_size=12), min_size=2, max_size=9), st.integers(30, 90))
def test_every_column_stands_once_and_no_line_is_longer_than_it_may_be(names: list[str], width: int) -> None:
    table = aligned_table(["name", *names], [["x", *range(len(names))]], (None, *(0 for _ in names)), width)
    assert max(map(len, table.splitlines())) <= width
    values = [cell.strip() for line in table.splitlines() if line.startswith("| x") for cell in line.split("|")[2:-1]]
    assert values == [str(number) for number in range(len(names))]
