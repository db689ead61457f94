"""Numbers in words, and tables of them."""

from hypothesis import given
from hypothesis import strategies as st

from allocopt.report.words import aligned_table, duration, number, shortened, time_unit

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


def test_durations_have_one_or_two_units() -> None:
    seconds = (0.0, 0.25, 59.0, 60.0, 61.0, 3_599.9, 3_600.0, 86_399.0, 100_000.0, 86_400.0 * 400)
    words = ["0 s", "0.25 s", "59 s", "1 min", "1 min 1 s", "60 min", "1 h", "24 h", "1 d 4 h", "400 d"]
    assert list(map(duration, seconds)) == words


def test_numbers_have_four_digits_that_count() -> None:
    assert list(map(number, (0.0, 0.123456, 12.3456, 1234.5, -0.5))) == ["0", "0.1235", "12.35", "1,234", "-0.5"]


def test_names_become_short_and_printable() -> None:
    assert (shortened("a" * 30, 5), shortened("a\x00b\n")) == ("aaaa…", "a\ufffdb\ufffd")


def test_spans_have_units() -> None:
    assert [time_unit(span)[1] for span in (10, 1_000, 50_000, 1e6)] == ["seconds", "minutes", "hours", "days"]
