"""Outcomes of combinations beside the first one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.workloads import workload

from allocopt.report.combination import BlockSums
from allocopt.report.what_if import WhatIfRow, details, what_if_tables
from allocopt.simulator.simulate import simulate

FIRST = WhatIfRow("first", "easy", 1000, 200.0, 900.0, 4.0, 50_000.0, (0.25, 0.125), 0.75, 86_400.0, 0.5, 0.0, 0.0, 0.0)


def other(**values: Any) -> WhatIfRow:
    return replace(FIRST, **values)


def says(said: str, *rows: WhatIfRow) -> bool:
    return any(said in line for line in details(rows))


def test_hops_are_advised_to_slow_jobs_down_only_where_they_may() -> None:
    rows = [FIRST, other(allocator="b")]
    assert says("--hop-slowdown", *rows)
    assert not says("--hop-slowdown", *(replace(row, hops_slow=False) for row in rows))


def test_hop_cost_has_a_unit_and_a_number_of_jobs() -> None:
    lines = details([other(hop_jobs=30)])
    assert "hop cost: 1,000 per hop from a node to each other node of its job" in lines
    assert "hop costs are means over the 30 of 1,000 jobs with several nodes" in lines


def test_tables_stand_per_scheduler_and_fit_80_columns() -> None:
    rows = [
        FIRST,
        other(allocator="best-fit", mean_hop_cost=40_000.0, mean_hop_cost_change=-0.2),
        other(scheduler="sjf+conservative", mean_wait_s=12_345_678.0, mean_wait_change=1234.5),
    ]
    for width in (80, 40):
        narrow = what_if_tables(rows, width)
        assert max(map(len, narrow.splitlines())) <= width
        assert "40,000" in narrow
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


@pytest.mark.parametrize("name", ["mean_wait_s", "mean_bounded_slowdown", "mean_hop_cost"])
def test_a_tie_names_nobody_best_and_allocators_that_differ_in_nothing_their_scheduler(name: str) -> None:
    b, c, d = (other(allocator=allocator, **{name: -1.0}) for allocator in "bcd")
    assert says(": b under easy, -1", FIRST, b)
    assert says(": tie of b under easy and c under easy, -1", FIRST, b, c)
    assert says(": tie of b under easy and 2 more, -1", FIRST, b, c, d)
    assert says(": sjf with any allocator, -1", FIRST, *(replace(row, scheduler="sjf") for row in (b, c)))


@pytest.mark.parametrize(("change", "said"), [(-0.0001, "0.0"), (0.0001, "0.0"), (-0.123, "-12.3"), (0.5, "+50.0")])
def test_what_is_rounded_to_zero_has_no_sign(change: float, said: str) -> None:
    assert details([FIRST, other(allocator="b", mean_wait_s=1.0, mean_wait_change=change)])[0].endswith(f"({said} %)")


SITE = other(waited_jobs=500, hop_jobs=300, shared_jobs=0, processors=100, trace_processors=100, granted=1.0)
RECORD = other(allocator="as recorded", scheduler="as recorded", shared_jobs=0)


@pytest.mark.parametrize(
    ("said", "fires", "neighbour"),
    [
        # Of the record beside the simulation.
        ("1 of 1,000 recorded jobs started on nodes in use", {"shared_jobs": 1}, {}),
        ("utilization: 69.0 % recorded, 75.0 % under", {"utilization": 0.69}, {"utilization": 0.71}),
        # Of the simulation.
        ("overloaded", {"backlog": (0.01, 0.02, 0.051, 0.051)}, {"backlog": (0.01, 0.02, 0.051, 0.05)}),
        ("overloaded", {"backlog": (0.9, 1.8, 1.8, 1.6)}, {"backlog": (0.9, 1.8, 0.01, 1.6)}),
        ("nearly idle", {"waited_jobs": 9}, {"waited_jobs": 10}),
        ("nearly idle", {"utilization": 0.099}, {"utilization": 0.1}),
        ("smaller than the trace's (99, not 100)", {"processors": 99}, {"processors": 100}),
        ("larger than the trace's (101, not 100)", {"processors": 101}, {"trace_processors": None, "processors": 101}),
        ("1.06 times the processors", {"granted": 1.06}, {"granted": 1.04}),
    ],
)
def test_a_qualification_is_said_of_its_trace_and_not_of_the_neighbour(
    said: str, fires: dict[str, Any], neighbour: dict[str, Any]
) -> None:
    changed, others = (RECORD, [SITE]) if "recorded" in said else (SITE, [])
    assert says(said, replace(changed, **fires), *others)
    assert not says(said, replace(changed, **neighbour), *others)


def test_nothing_is_best_in_waits_where_the_queue_does_not_drain() -> None:
    growing = replace(SITE, scheduler="sjf", mean_wait_s=1.0, mean_wait_change=-0.995, backlog=(0, 0, 1, 1))
    lines = details([SITE, growing])
    assert says("for a verdict, multiply --load by about 0.43", SITE, replace(growing, offered=2.0))
    assert "shortest mean wait: no verdict: waits grow with the length of the trace" in lines
    assert not any("-99.5 %" in line for line in lines)
    assert "lowest hop cost: all the same, 50,000" in lines


def test_a_record_is_compared_with_the_simulation_and_is_never_best() -> None:
    record = replace(RECORD, mean_wait_s=100.0, utilization=0.74, remarks=("so it was",))
    lines = details([record, SITE])
    beside = "mean wait +100.0 %, slowdown +0.0 %, hop cost +0.0 %, utilization +1.0 points"
    assert f"first under easy compared to the record: {beside}" in lines
    assert "so it was" in lines
    assert says("hop cost +0.0 % (of 300 jobs, not 30)", replace(record, hop_jobs=30), SITE)
    assert "shortest mean wait: all the same, 200 s" in lines


def in_blocks(waits: np.ndarray, jobs: np.ndarray) -> WhatIfRow:
    blocks = tuple((n, n * wait, n * 1.0, 0.0, 0.0) for n, wait in zip(jobs.tolist(), waits.tolist(), strict=True))
    mean = float((jobs * waits).sum() / jobs.sum())
    return replace(SITE, mean_wait_s=mean, blocks=blocks, block_days=7)


def test_intervals_hold_the_true_change_in_95_of_100_traces() -> None:
    rng = np.random.default_rng(3)
    covered, traces = 0, 1000
    for _ in range(traces):
        jobs = rng.integers(80, 120, 10).astype(float)
        waits = rng.gamma(4.0, 100.0, 10)
        row = in_blocks(waits * (1.2 + 0.3 * rng.standard_normal(10)), jobs).beside(in_blocks(waits, jobs))
        low, high = row.mean_wait_interval
        covered += low <= 0.2 <= high
    assert 0.92 < covered / traces < 0.98


def test_differences_that_weeks_do_not_agree_on_are_not_distinguishable() -> None:
    jobs, waits = np.full(5, 10.0), np.full(5, 100.0)
    first = in_blocks(waits, jobs)
    mixed, clear = (
        replace(in_blocks(waits + np.array(changes), jobs), scheduler="sjf").beside(first)
        for changes in ([-80.0, 60.0, -70.0, 50.0, -10.0], [-12.0, -10.0, -9.0, -11.0, -8.0])
    )
    assert "(-10.0 %, not distinguishable [-63.4, +121.2])" in details([first, mixed])[0]
    assert "(-10.0 % [-11.9, -8.0])" in details([first, clear])[0]
    assert "brackets show 95 % confidence intervals, from 5 weekly blocks" in details([first, clear])
    assert not any("[ ]" in line for line in details([first]))
    short = replace(clear, blocks=clear.blocks[:2])
    assert short.beside(replace(first, blocks=first.blocks[:2])).mean_wait_interval == ()


def test_sums_over_several_schedules_are_means_of_theirs() -> None:
    jobs = workload([(1, 0.0, 10.0, 1, 10.0), (2, 0.0, 20.0, 1, 20.0), (3, 5.0, 5.0, 1, 5.0)])
    schedules = [simulate(jobs, machine, policy) for machine, policy in ((1, "fcfs"), (1, "sjf"), (2, "fcfs"))]
    one_by_one, together = [BlockSums.of(each) for each in schedules], BlockSums.of(*schedules)
    assert together.weights == pytest.approx(np.mean([each.weights for each in one_by_one], axis=0))
    wait, slowdown, hop_cost = together.means()
    assert wait == pytest.approx(np.mean([each.wait_s.mean() for each in schedules]))
    assert slowdown == pytest.approx(np.mean([each.job_times.bounded_slowdown.mean() for each in schedules]))
    assert hop_cost is None
    which = np.array([True, False, True])
    assert together.means(which)[0] == pytest.approx(np.mean([each.wait_s[which].mean() for each in schedules]))
