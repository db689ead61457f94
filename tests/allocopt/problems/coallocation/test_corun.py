"""When jobs end that share cores: worked out by hand, by small steps of time, and against the means of a problem."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.coallocations import job, problem, solution, stages
from support.corun import finish_times

from allocopt.problems.coallocation.interference import STEPS, Interference, Sharing, Tenant, slowdowns
from allocopt.traces.job_profile import ProfiledJob, Stage

QUIET = Interference(0.0, 0.0, 0.0, 0.0)
BUSY = Stage(1.0, 1.0)


def test_a_job_alone_takes_its_time() -> None:
    assert finish_times([job("a", 4, Stage(0.5, 1.0), Stage(0.5, 0.1), remaining=70.0)], [0.2], 8).tolist() == [70.0]


def test_the_quota_of_a_job_that_ended_goes_to_the_other() -> None:
    both = [job("h", 8, BUSY, remaining=100.0), job("g", 8, BUSY, remaining=50.0)]
    for sharing in Sharing:
        assert finish_times(both, [0.5, 0.5], 8, sharing, QUIET).tolist() == pytest.approx([150.0, 100.0])


def test_rates_change_when_a_job_moves_to_its_next_stage() -> None:
    host = job("h", 8, Stage(0.5, 0.25), Stage(0.5, 1.0), remaining=100.0)
    guest = job("g", 8, BUSY, remaining=90.0)
    # 50 s with the guest at 3/4 of its speed, so that 52.5 s of its work are left; then half each, until the host has
    # done its other 50 s and the guest goes on alone.
    ends = finish_times([host, guest], [0.5, 0.5], 8, Sharing.SHARES, QUIET)
    assert ends.tolist() == pytest.approx([50 + 100, 50 + 100 + 2.5])


def by_small_steps(
    jobs: list[ProfiledJob], quotas: list[float], cores: int, sharing: Sharing, dt: float
) -> list[float]:
    """Let time pass in small steps."""
    done, ends, now = [0.0] * len(jobs), [0.0] * len(jobs), 0.0
    while not all(ends):
        there = [number for number in range(len(jobs)) if not ends[number]]
        total = sum(quotas[number] for number in there)
        tenants = []
        for number in there:
            edges = np.cumsum(jobs[number].column("share")) * jobs[number].remaining_s
            place = min(int(np.searchsorted(edges, done[number], side="right")), len(edges) - 1)
            tenants.append(Tenant(jobs[number].cores, jobs[number].profile[place], quotas[number] / total))
        now += dt
        for number, slow in zip(there, slowdowns(tenants, cores, sharing), strict=True):
            done[number] += dt / slow
            if done[number] >= jobs[number].remaining_s:
                ends[number] = now
    return ends


@pytest.mark.parametrize("sharing", list(Sharing))
@settings(max_examples=15, deadline=None)
@given(first=stages(), second=stages(), third=stages(), quota=st.sampled_from([0.2, 0.4]))
def test_the_ends_are_those_of_small_steps_of_time(
    sharing: Sharing, first: tuple[Stage, ...], second: tuple[Stage, ...], third: tuple[Stage, ...], quota: float
) -> None:
    jobs = [job("h", 8, *first, remaining=9.0), job("g", 4, *second, remaining=7.0), job("i", 2, *third, remaining=5.0)]
    quotas = [1.0 - 2 * quota, quota, quota]
    expected = by_small_steps(jobs, quotas, 8, sharing, 0.02)
    slack = 0.02 * (2 + max(expected)) * 2
    assert finish_times(jobs, quotas, 8, sharing).tolist() == pytest.approx(expected, abs=slack)


@given(stages(), stages(), st.sampled_from([10, 50, 90]))
def test_nobody_ends_before_its_time_and_the_order_of_the_jobs_does_not_matter(
    first: tuple[Stage, ...], second: tuple[Stage, ...], percent: int
) -> None:
    jobs = [job("h", 8, *first, remaining=60.0), job("g", 4, *second, remaining=40.0)]
    quotas = [1 - percent / 100, percent / 100]
    ends = finish_times(jobs, quotas, 8)
    assert (ends >= np.array([60.0, 40.0]) - 1e-9).all()
    assert finish_times(jobs[::-1], quotas[::-1], 8)[::-1].tolist() == pytest.approx(ends.tolist())


def test_a_problem_counts_what_happens_while_both_run_in_one_stage() -> None:
    host, guest = job("h", 8, Stage(1.0, 0.9, 0.2, 0.3), remaining=1e6), job("g", 8, Stage(1.0, 0.8, 0.1, 0.5))
    case = problem([host], [guest], sharing=Sharing.SHARES)
    _, of_guest = case.excess_steps(solution((0, 0, 40)))
    ends = finish_times([host, guest], [0.6, 0.4], 8)
    assert ends[1] / 100.0 - 1 == pytest.approx(of_guest[0] / STEPS, abs=2.01 / STEPS)
