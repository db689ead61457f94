"""Numbers in words."""

import pytest

from allocopt.report.words import duration, number, shortened, time_unit


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (0.25, "0.25 s"),
        (59.0, "59 s"),
        (60.0, "1 min"),
        (61.0, "1 min 1 s"),
        (3_599.9, "60 min"),
        (3_600.0, "1 h"),
        (86_399.0, "24 h"),
        (100_000.0, "1 d 4 h"),
        (86_400.0 * 400, "400 d"),
    ],
)
def test_durations_have_one_or_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_numbers_have_four_digits_that_count() -> None:
    assert [number(value) for value in (0.0, 0.123456, 12.3456, 1234.5, -0.5)] == [
        "0",
        "0.1235",
        "12.35",
        "1,234",
        "-0.5",
    ]


def test_names_become_short_and_printable() -> None:
    assert shortened("a" * 30, 5) == "aaaa…"
    assert shortened("a\x00b\n") == "a\ufffdb\ufffd"


def test_spans_have_units() -> None:
    assert [time_unit(span)[1] for span in (10, 1_000, 50_000, 1e6)] == ["seconds", "minutes", "hours", "days"]
