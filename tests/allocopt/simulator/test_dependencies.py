"""Jobs that follow other jobs are released when those have ended and the user has thought."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulations import machine_of, rules, small_workloads
from support.workloads import workload

from allocopt.simulator.rules import Backfill, EventOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed


def following(jobs: Workload, preceding: list[int], think_s: list[float]) -> Workload:
    return replace(jobs, preceding=np.array(preceding), think_s=np.array(think_s))


@given(jobs=small_workloads(following=True), backfill=st.sampled_from(Backfill), rules=rules)
def test_a_job_is_released_when_the_one_before_has_ended_and_the_think_time_is_over(
    jobs: Workload, backfill: Backfill, rules: Rules
) -> None:
    made = simulate(jobs, machine_of(jobs), ListScheduler(FirstComeFirstServed(), backfill), rules)
    before = jobs.preceding_rows()
    for job, row in enumerate(before.tolist()):
        earliest = made.end[row] + jobs.think_s[job] if row >= 0 else 0.0
        assert made.release[job] == max(jobs.submit[job], earliest)
    assert (made.start >= made.release).all()


@given(jobs=small_workloads(following=True), backfill=st.sampled_from(Backfill), rules=rules)
def test_dependencies_can_be_ignored(jobs: Workload, backfill: Backfill, rules: Rules) -> None:
    scheduler = ListScheduler(FirstComeFirstServed(), backfill)
    ignored = simulate(jobs, machine_of(jobs), scheduler, replace(rules, dependencies=False))
    nobody = np.full(len(jobs), -1)
    without = simulate(replace(jobs, preceding=nobody, think_s=0.0 * nobody), machine_of(jobs), scheduler, rules)
    assert ignored.start.tolist() == without.start.tolist()
    assert ignored.release.tolist() == jobs.submit.tolist()


# Jobs 1 to 4 in a chain that is listed backwards in time: job 2 follows job 3, and so on.
CHAIN = following(
    workload([(1, 0.0, 2.0, 1, 2.0), (2, 1.0, 3.0, 1, 3.0), (3, 2.0, 4.0, 1, 4.0), (4, 30.0, 1.0, 1, 1.0)]),
    [3, 1, -1, 2],
    [5.0, 0.0, 0.0, 1.0],
)


@pytest.mark.parametrize("event_order", EventOrder, ids=lambda order: order.name.lower())
def test_a_chain_runs_from_its_first_job_on(event_order: EventOrder) -> None:
    made = simulate(CHAIN, 9, "fcfs", Rules(event_order))
    # Job 3 runs from 2 to 6, job 1 from 11 to 13, job 2 from 13 to 16; job 4 is not submitted before 30.
    assert made.start.tolist() == made.release.tolist() == [11.0, 13.0, 2.0, 30.0]


def test_waits_are_counted_from_the_release() -> None:
    jobs = following(
        workload([(1, 0.0, 5.0, 2, 5.0), (2, 0.0, 5.0, 2, 5.0), (3, 0.0, 5.0, 2, 5.0)]), [-1, 1, 1], [0, 1, 3]
    )
    made = simulate(jobs, 2)
    assert made.release.tolist() == [0.0, 6.0, 8.0]
    assert made.job_times.wait_s.tolist() == [0.0, 0.0, 3.0]


def test_a_killed_job_releases_those_that_follow_when_it_is_killed() -> None:
    jobs = following(workload([(1, 0.0, 9.0, 1, 4.0), (2, 0.0, 1.0, 1, 1.0)]), [-1, 1], [0, 2])
    assert simulate(jobs, 1).release.tolist() == [0.0, 6.0]
    assert simulate(jobs, 1, rules=Rules(kill_at_limit=False)).release.tolist() == [0.0, 11.0]


@pytest.mark.parametrize("event_order", EventOrder, ids=lambda order: order.name.lower())
def test_fcfs_serves_a_job_from_its_release_on_not_by_its_submission(event_order: EventOrder) -> None:
    # Job 2 was submitted before job 3, but is released after it.
    jobs = following(
        workload([(1, 0.0, 9.0, 2, 9.0), (2, 1.0, 1.0, 2, 1.0), (3, 8.0, 5.0, 2, 5.0)]), [-1, 1, -1], [0, 0, 0]
    )
    assert simulate(jobs, 2, "fcfs", Rules(event_order)).start.tolist() == [0.0, 14.0, 9.0]
