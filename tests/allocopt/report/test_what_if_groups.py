"""Combinations by groups of jobs."""

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import crowds

from allocopt.cluster.topology import FatTree
from allocopt.report.what_if import WhatIfRow
from allocopt.report.what_if_groups import FEWEST_JOBS, MOST_SHOWN, GroupRow, group_tables, groups_of
from allocopt.simulator.described import Described
from allocopt.simulator.rules import Rules
from allocopt.simulator.what_if import WhatIf
from allocopt.solving.budget import Budget
from allocopt.traces.workload import Workload

BLOCKS = tuple((10.0, 10 * wait, 10.0, 10.0, 100.0) for wait in (100.0, 110.0, 95.0, 105.0))
FIRST = GroupRow("partition", "cpu", "first", "easy", 40, 102.5, 900.0, 4.0, 50_000.0, 30, 40, False, blocks=BLOCKS)


def other(**values: Any) -> GroupRow:
    return replace(FIRST, **values)


def halved(row: GroupRow) -> GroupRow:
    blocks = tuple((jobs, wait / 2, *rest) for jobs, wait, *rest in row.blocks)
    return replace(row, scheduler="sjf", mean_wait_s=row.mean_wait_s / 2, blocks=blocks)


def verdict(*rows: GroupRow) -> list[str]:
    (group,) = groups_of(rows)
    return group.verdict()


def test_a_group_has_its_own_verdict_with_a_paired_interval() -> None:
    wait, slowdown, cost = verdict(FIRST, halved(FIRST))
    assert wait == "shortest mean wait: first under sjf, 51 s (-50.0 % [-50.0, -50.0])"
    assert slowdown == "least slowdown: all the same, 4.00"
    assert cost == "lowest hop cost: all the same, 50,000"


def test_an_overloaded_group_gets_no_verdict_on_waits_and_does_not_hide_the_others() -> None:
    full = [other(is_overloaded=True), halved(other(is_overloaded=True))]
    free = [replace(row, group="gpu", is_overloaded=False) for row in full]
    cpu, gpu = groups_of([full[0], free[0], full[1], free[1]])
    assert "no verdict: its queue does not drain" in cpu.verdict()[0]
    assert "no verdict: its queue does not drain" in cpu.verdict()[1]
    assert "all the same" in cpu.verdict()[2]
    assert "(-50.0 % [" in gpu.verdict()[0]


@pytest.mark.parametrize(("jobs", "has_verdict"), [(FEWEST_JOBS, True), (FEWEST_JOBS - 1, False)])
def test_a_small_group_is_told_to_be_too_small(jobs: int, has_verdict: bool) -> None:
    for field, line in (("jobs", 0), ("hop_jobs", 2)):
        said = verdict(other(**{field: jobs}), halved(other(**{field: jobs})))[line]
        noun = "jobs of several nodes" if field == "hop_jobs" else "jobs"
        few = f"too few jobs for a verdict: {jobs} {noun}, fewer than {FEWEST_JOBS}"
        assert (few in said) != has_verdict
    assert verdict(other(hop_jobs=0, mean_hop_cost=None))[2] == "lowest hop cost: no job has several nodes"


def test_tables_of_groups_fit_80_columns_and_name_those_that_are_left_out() -> None:
    rows = [other(group=f"partition-{number}", jobs=100 - number) for number in range(MOST_SHOWN + 3)]
    rows += [replace(row, scheduler="conservative", allocator="best-fit") for row in rows]
    text = group_tables(rows, 80)
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("partition partition-") == MOST_SHOWN
    assert "by partition: 3 more groups of 273 jobs (--out)" in text
    assert group_tables([other(by="account", group="-")]) == "by account: the trace does not state it"


def test_the_record_stands_first_and_is_never_the_baseline() -> None:
    record = other(allocator="as recorded", scheduler="as recorded", mean_wait_s=1.0)
    (group,) = groups_of([record, FIRST, halved(FIRST)])
    assert group.first.allocator == "first"
    assert [row.mean_wait_change for row in group.rows] == [None, 0.0, -0.5]
    assert "first under sjf, 51 s" in group.verdict()[0]


def test_a_row_comes_back_from_json() -> None:
    row = groups_of([FIRST, halved(FIRST)])[0].rows[1]
    assert GroupRow.stored(json.loads(json.dumps(asdict(row)))) == row


@given(crowds(8), st.data())
def test_the_blocks_of_all_groups_add_up_to_those_of_all_jobs(jobs: Workload, data: st.DataObject) -> None:
    users = data.draw(st.lists(st.integers(-1, 2), min_size=len(jobs), max_size=len(jobs)))
    jobs = replace(jobs, users=np.array(users), submit=jobs.submit * 40_000.0)
    asked = WhatIf(jobs, FatTree(2, 2, 2), Rules(), Budget())
    (outcome,) = asked.outcomes(["first"], ["easy"])
    whole = WhatIfRow.of(outcome)
    rows = GroupRow.all_of(outcome, Described(jobs), ["partition", "gpus", "user", "size"])
    for by in ("partition", "gpus", "user", "size"):
        own = [row for row in rows if row.by == by]
        assert sum(row.jobs for row in own) == whole.jobs
        assert sum(row.waited_jobs for row in own) == whole.waited_jobs
        assert sum(row.hop_jobs for row in own) == whole.hop_jobs
        sums = np.sum([np.sum(row.blocks, axis=0) for row in own], axis=0)
        np.testing.assert_allclose(sums, np.sum(whole.blocks, axis=0))
        assert sum(row.jobs * row.mean_wait_s for row in own) == pytest.approx(whole.jobs * whole.mean_wait_s)
    # A grouping that does not tell jobs apart has the row of all.
    (same,) = [row for row in rows if row.by == "partition"]
    assert same.blocks == whole.blocks
    assert (same.mean_wait_s, same.mean_hop_cost) == (whole.mean_wait_s, whole.mean_hop_cost)
