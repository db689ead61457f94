"""The interference of jobs on the same cores, as it is now, and its agreement with the excess of a problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.coallocations import job, problem, solution

from allocopt.problems.coallocation.interference import Interference, Sharing, Tenant, divided, in_steps, slowdowns
from allocopt.traces.job_profile import Stage

QUIET = Interference(0.0, 0.0, 0.0, 0.0)
SHARES = st.floats(0.01, 1.0)


def tenant(cpu: float, quota: float, cores: int = 8, memory: float = 0.0, io: float = 0.0) -> Tenant:
    return Tenant(cores, Stage(1.0, cpu, memory, io), quota)


@pytest.mark.parametrize("sharing", list(Sharing))
def test_a_job_alone_is_not_slowed_down(sharing: Sharing) -> None:
    assert slowdowns([tenant(1.0, 1.0, memory=1.0, io=1.0)], 8, sharing).tolist() == [1.0]


def test_a_cap_slows_down_a_job_that_is_alone() -> None:
    assert slowdowns([tenant(1.0, 0.25)], 8, Sharing.CAPS, QUIET).tolist() == [4.0]
    assert slowdowns([tenant(1.0, 0.25)], 8, Sharing.SHARES, QUIET).tolist() == [1.0]


def test_two_busy_jobs_get_their_quotas() -> None:
    both = [tenant(1.0, 0.75), tenant(1.0, 0.25)]
    for sharing in Sharing:
        assert slowdowns(both, 8, sharing, QUIET).tolist() == pytest.approx([1 / 0.75, 4.0])


def test_a_share_takes_what_the_other_one_leaves() -> None:
    both = [tenant(0.2, 0.5), tenant(1.0, 0.5)]
    assert slowdowns(both, 8, Sharing.SHARES, QUIET).tolist() == pytest.approx([1.0, 1.25])
    assert slowdowns(both, 8, Sharing.CAPS, QUIET).tolist() == pytest.approx([1.0, 2.0])


def test_two_jobs_that_always_do_io_take_twice_as_long() -> None:
    both = [tenant(0.1, 0.5, io=1.0), tenant(0.1, 0.5, io=1.0)]
    assert slowdowns(both, 8, Sharing.CAPS, Interference(0.0, 0.0, 1.0)).tolist() == pytest.approx([2.0, 2.0])


def test_a_small_guest_presses_its_host_less_than_the_host_presses_it() -> None:
    host, guest = slowdowns([tenant(0.1, 0.5, 8, io=0.5), tenant(0.1, 0.5, 2, io=0.5)], 8, Sharing.CAPS)
    assert host - 1 < guest - 1


def test_memory_beyond_the_hosts_is_paged() -> None:
    both = [tenant(0.1, 0.5, memory=0.8), tenant(0.1, 0.5, memory=0.7)]
    without = slowdowns(both, 8, Sharing.CAPS, Interference(paging=0.0))
    assert slowdowns(both, 8, Sharing.CAPS, Interference(paging=4.0)) - without == pytest.approx([2.0, 2.0])


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=5))
def test_a_division_wastes_nothing_and_keeps_to_the_weights(pairs: list[tuple[float, float]]) -> None:
    wanted, weights = (np.array(column) for column in zip(*pairs, strict=True))
    given_to = divided(wanted, weights)
    assert given_to.sum() == pytest.approx(min(1.0, wanted.sum()))
    assert (given_to <= wanted + 1e-12).all()
    # Who does not get all gets no less for its weight than anybody else.
    short = given_to < wanted - 1e-9
    for level in (given_to / weights)[short]:
        assert ((given_to / weights) <= level + 1e-9).all()


@given(st.lists(st.tuples(SHARES, SHARES, SHARES, SHARES), min_size=2, max_size=4))
def test_shares_never_make_a_job_slower_than_caps(rows: list[tuple[float, float, float, float]]) -> None:
    total = sum(quota for _, quota, _, _ in rows)
    tenants = [tenant(cpu, quota / total, 8, memory, io) for cpu, quota, memory, io in rows]
    assert (slowdowns(tenants, 8, Sharing.SHARES) <= slowdowns(tenants, 8, Sharing.CAPS) + 1e-9).all()


@pytest.mark.parametrize("sharing", list(Sharing))
@given(
    demands=st.tuples(SHARES, SHARES, SHARES, SHARES), memory=st.floats(0, 0.5), percent=st.sampled_from([10, 50, 90])
)
def test_a_problem_of_one_stage_each_counts_the_same_slowdown(
    sharing: Sharing, demands: tuple[float, float, float, float], memory: float, percent: int
) -> None:
    first, second = Stage(1.0, demands[0], memory, demands[1]), Stage(1.0, demands[2], memory, demands[3])
    case = problem([job("h", 8, first)], [job("g", 4, second)], sharing=sharing)
    of_host, of_guest = case.excess_steps(solution((0, 0, percent)))
    together = [Tenant(8, first, 1 - percent / 100), Tenant(4, second, percent / 100)]
    of_both = in_steps(slowdowns(together, 8, sharing, case.interference) - 1)
    # Two terms, each rounded down to a step, lose less than two.
    assert of_both[0] - of_host[0] in (0, 1)
    assert of_both[1] - of_guest[0] in (0, 1)
