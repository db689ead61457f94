"""Numbers in words."""

from allocopt.report.words import duration, number, shortened, time_unit


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
