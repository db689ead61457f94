"""What stands in the cells of accounting records."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.traces.csv_cells import duration_s, instant_s, resource_count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1-02:03:04", 93_784),
        ("00:00:30", 30),
        ("30:00", 1800),
        ("00:01.500", 1.5),
        ("05:06:07.25", 18_367.25),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("14534.0", 14_534),
        ("99", 99),
    ],
)
def test_durations_are_read_in_every_form_of_slurm(text: str, seconds: float) -> None:
    assert duration_s(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize("text", ["", "UNLIMITED", "Partition_Limit", "Unknown", "None", "INVALID", "NaN"])
def test_no_value_and_no_limit_are_not_a_number(text: str) -> None:
    assert math.isnan(duration_s(text))
    assert math.isnan(instant_s(text))
    assert resource_count(text, "node") == 0


@pytest.mark.parametrize("text", ["9007199254740994", "9" * 400, f"{'9' * 400}:00", f"{'9' * 18}-00:00:00"])
def test_times_that_64_bits_do_not_hold_exactly_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be within 2\^53 s of 0"):
        duration_s(text)


def test_bare_numbers_count_in_their_unit() -> None:
    assert duration_s("90", 60.0) == 5400
    assert duration_s("01:00:00", 60.0) == 3600
    assert instant_s("1500", 1e-3) == 1.5


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02T00:00:00", 86_400),
        ("1970-01-01 00:01:00", 60),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1700000000", 1_700_000_000),
    ],
)
def test_instants_are_dates_or_seconds(text: str, seconds: float) -> None:
    assert instant_s(text) == seconds


@pytest.mark.parametrize("text", ["1:2:3:4", "a", "1-", "-5:00", "1e999", "inf", "12:xx"])
def test_what_is_no_duration_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number or a duration such as"):
        duration_s(text)


@pytest.mark.parametrize("text", ["4.5", "n[1-2]", "-1", "16Gn", "1e9999", "cpu=2,node=two"])
def test_what_is_no_count_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="must be a whole number such as 16 or 2K"):
        resource_count(text, "node")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("16", 16),
        ("4.0", 4),
        ("2K", 2000),
        ("1.5k", 1500),
        ("1M", 1_000_000),
        ("billing=8,cpu=1.5K,gres/gpu=1,mem=186G,node=2", 2),
        ("cpu=4", 0),
        ("node=", 0),
        ("", 0),
    ],
)
def test_a_count_may_have_a_unit_and_stand_in_a_list_of_slurm(text: str, count: int) -> None:
    assert resource_count(text, "node") == count


def test_what_is_no_date_is_told() -> None:
    with pytest.raises(ValueError, match="must be a date such as"):
        instant_s("31.01.2026")


@given(st.integers(0, 400), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_a_duration_is_the_sum_of_its_parts(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    assert duration_s(f"{days}-{hours:02d}:{minutes:02d}:{seconds:02d}") == total
    assert duration_s(f"{days * 24 + hours:02d}:{minutes:02d}:{seconds:02d}") == total
