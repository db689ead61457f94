"""Outcomes of combinations beside the first one."""

import dataclasses

import pytest

from allocopt.report.what_if import WhatIfRow, verdict, what_if_tables

FIRST = WhatIfRow("first", "easy", 1000, 200.0, 900.0, 4.0, 50_000.0, (0.25, 0.125), 0.75, 86_400.0, 0.5, 0.0, 0.0, 0.0)


def other(**values: object) -> WhatIfRow:
    return dataclasses.replace(FIRST, **values)  # type: ignore[arg-type]


def test_tables_stand_per_scheduler_and_fit_80_columns() -> None:
    rows = [
        FIRST,
        other(allocator="best-fit", mean_hop_cost=40_000.0, mean_hop_cost_change=-0.2),
        other(scheduler="sjf+conservative", mean_wait_s=12_345_678.0, mean_wait_change=1234.5),
    ]
    text = what_if_tables(rows)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("scheduler ") == 2
    assert "| best-fit  |    200 |   0.0 |     4.00 |   40,000 | -20.0 | 0.250 |" in text
    assert "shortest mean wait: easy with any allocator, 200" in text
    assert "least slowdown: all the same, 4.00" in text
    assert "lowest hop cost: best-fit under easy, 40,000 (-20.0 %)" in text


def test_jobs_of_one_node_have_no_hop_cost() -> None:
    text = what_if_tables([other(mean_hop_cost=None, mean_hop_cost_change=None, fragmentation=())])
    assert "lowest hop cost: no job has several nodes" in text
    assert text.splitlines()[3].endswith("|        - |     - |     - |")


def test_allocators_that_differ_in_nothing_are_named_together() -> None:
    rows = [FIRST, *(other(allocator=name, scheduler="sjf", mean_wait_s=100.0, mean_wait_change=-0.5) for name in "ab")]
    assert "shortest mean wait: sjf with any allocator, 100 s (-50.0 %)" in what_if_tables(rows)


@pytest.mark.parametrize("name", ["mean_wait_s", "mean_bounded_slowdown", "mean_hop_cost"])
def test_the_first_best_is_named(name: str) -> None:
    text = what_if_tables([FIRST, other(allocator="b", **{name: 1.0}), other(allocator="c", **{name: 1.0})])
    assert text.count(": b under easy, 1") == 1


@pytest.mark.parametrize(("change", "said"), [(-0.0001, "0.0"), (0.0001, "0.0"), (-0.123, "-12.3"), (0.5, "+50.0")])
def test_what_is_rounded_to_zero_has_no_sign(change: float, said: str) -> None:
    assert verdict([FIRST, other(allocator="b", mean_wait_s=1.0, mean_wait_change=change)])[1].endswith(f"({said} %)")


def test_tables_and_verdict_fit_a_narrow_terminal() -> None:
    text = what_if_tables([FIRST, other(allocator="best-fit", mean_hop_cost=40_000.0, mean_hop_cost_change=-0.2)], 40)
    assert max(map(len, text.splitlines())) <= 40
    assert "40,000" in text


def test_a_measure_below_zero_has_a_least_value_too() -> None:
    assert "shortest mean wait: b under easy, -1 s" in what_if_tables([FIRST, other(allocator="b", mean_wait_s=-1.0)])
