"""Co-allocation problems, their pairs, and their files."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from support.coallocations import coallocations, is_feasible, job, problem, solution, solutions, steps_of, value_of

from allocopt.errors import InvalidProblemError, InvalidSolutionError
from allocopt.problems.coallocation.pairs import Pairs
from allocopt.problems.coallocation.problem import Coallocation, CoallocationProblem, GuestPlace
from allocopt.solving.verify import verify
from allocopt.traces.job_profile import ProfiledJob, Stage

HALF_BUSY = problem([job("h", 4)], [job("g", 2)], max_slowdown=9.0)


@given(case=coallocations() | coallocations(several=True))
def test_one_guest_or_several_on_a_host_are_worth_what_is_written_out(case: CoallocationProblem) -> None:
    found = list(solutions(case))
    for places in {*found[:30], *found[-30:]}:
        placed = solution(*places)
        assert verify(case, placed) == pytest.approx(value_of(case, places), rel=1e-12, abs=1e-9)
        assert [steps.tolist() for steps in case.excess_steps(placed)] == list(steps_of(case, places))


@given(case=coallocations())
def test_the_tables_hold_every_pair_at_its_worth(case: CoallocationProblem) -> None:
    values = Pairs.of(case).values
    for host, guest, quota in np.ndindex(values.shape):
        places = ((guest, host, int(case.percents[quota])),)
        assert bool(np.isfinite(values[host, guest, quota])) is is_feasible(case, places)
        if np.isfinite(values[host, guest, quota]):
            assert values[host, guest, quota] == pytest.approx(value_of(case, places), rel=1e-12, abs=1e-9)


@given(case=coallocations(most_hosts=3, most_guests=4, several=True))
def test_greedy_placements_obey_the_rules_and_are_worth_something(case: CoallocationProblem) -> None:
    for found in Pairs.of(case).greedy():
        assert is_feasible(case, found.places)
        assert verify(case, found) >= 0.0


def test_a_lone_guest_goes_where_it_is_worth_most() -> None:
    hosts = [job("busy", 8, Stage(1.0, 1.0)), job("small", 2, Stage(1.0, 0.1)), job("idle", 8, Stage(1.0, 0.1))]
    case = problem(hosts, [job("g", 4)])
    for found in Pairs.of(case).greedy():
        assert found.as_list(case) == [("g", "idle", 0.3)]


def test_half_of_the_first_host_that_obeys_is_given() -> None:
    hosts = [job("small", 1), job("first", 8, Stage(1.0, 0.1)), job("second", 8, Stage(1.0, 0.1))]
    case = problem(hosts, [job("a", 4), job("b", 4), job("c", 4)])
    assert Pairs.of(case).first_fit(50).as_list(case) == [("a", "first", 0.5), ("b", "second", 0.5)]


def test_a_job_that_passes_its_limit_anyway_is_not_slowed_down_at_all() -> None:
    late = problem([job("h", 4, remaining=100, walltime=90)], [job("g", 2)])
    assert late.host_limits.tolist() == [0]
    with pytest.raises(InvalidSolutionError, match=r"host 'h' has slowdown .*, at most 1\.0000"):
        verify(late, solution((0, 0, 90)))


GOOD_HOST, GOOD_GUEST = job("h"), job("g", 2)


@pytest.mark.parametrize(
    ("changes", "place", "fault"),
    [
        ({"hosts": ()}, "hosts", "is empty"),
        ({"guests": (GOOD_GUEST, GOOD_GUEST)}, "guests[1].id", "job 'g' is given twice"),
        ({"hosts": (job("h", 0),)}, "hosts[0].cores", "is 0"),
        ({"hosts": (ProfiledJob("h", 4, (), 1.0, 1.0),)}, "hosts[0].profile", "is empty"),
        ({"hosts": (job("h", 4, Stage(0.5, 0.5)),)}, "hosts[0].profile", "the shares sum to 0.5, must sum to 1"),
        ({"hosts": (job("h", 4, Stage(1.0, 0.0)),)}, "hosts[0].profile[0].cpu", "is 0.0, must be a share above 0"),
        ({"hosts": (job("h", 4, Stage(1.0, 0.5, 1.5)),)}, "hosts[0].profile[0].memory", "is 1.5"),
        ({"hosts": (job("h", 4, Stage(1.0, 0.5, kind="odd")),)}, "hosts[0].profile[0].kind", "is 'odd'"),
        ({"hosts": (job("h", remaining=0.0),)}, "hosts[0].remaining_s", "is 0.0"),
        ({"guests": (job("g", walltime=-1.0),)}, "guests[0].walltime_s", "is -1.0"),
        ({"quotas": (0.0,)}, "quotas", "are all 0"),
        ({"quotas": (0.5, 0.5)}, "quotas[1]", "must be above the one before it"),
        ({"quotas": (0.125,)}, "quotas[0]", "must be a whole percent"),
        ({"max_slowdown": 0.9}, "max_slowdown", "is 0.9"),
        ({"max_guest_slowdown": 1e9}, "max_guest_slowdown", "is 1000000000.0"),
        ({"max_guests": 0}, "max_guests", "is 0"),
        ({"degradation_weight": float("nan")}, "degradation_weight", "is nan"),
        ({"objective_name": "best"}, "objective", "is 'best', must be one of capacity, response, throughput"),
        ({"sharing": "all"}, "sharing", "is 'all', must be one of caps, shares"),
        ({"sharing": "shares", "max_guests": 2}, "sharing", "needs max_guests 1"),
        ({"objective_name": "throughput", "max_guests": 2}, "objective", "needs max_guests 1"),
        ({"measured": {}, "max_guests": 2}, "pairs", "need max_guests 1"),
        ({"measured": {("h", "g"): (0.5, 1.0)}}, "pairs[0].host_slowdown", "is 0.5"),
    ],
)
def test_a_wrong_problem_names_place_and_fault(changes: dict[str, Any], place: str, fault: str) -> None:
    given: dict[str, Any] = {"hosts": (GOOD_HOST,), "guests": (GOOD_GUEST,), **changes}
    with pytest.raises(InvalidProblemError) as caught:
        CoallocationProblem(**given)
    assert caught.value.place == place
    assert fault in caught.value.fault


CROWDED = problem(
    [job("h", 4, Stage(1.0, 0.5, 0.5)), job("s", 2)],
    [job("a", 4, Stage(1.0, 0.5, 0.3)), job("b", 2, Stage(1.0, 0.5, 0.8)), job("c", 2)],
    max_guests=2,
    max_slowdown=100.0,
    quotas=(0.1, 0.5),
)


@pytest.mark.parametrize(
    ("places", "fault"),
    [
        ([(3, 0, 50)], "guest number 3 does not exist"),
        ([(0, 2, 50)], "host number 2 does not exist"),
        ([(0, 0, 20)], "guest 'a' gets 20 %, which is not one of the quotas"),
        ([(0, 1, 50)], "guest 'a' asks for 4 cores, host 's' has 2"),
        ([(1, 0, 10), (1, 1, 10)], "guest 'b' is placed twice"),
        ([(0, 0, 10), (1, 0, 10), (2, 0, 10)], "host 'h' has 3 guests, at most 2"),
        ([(1, 0, 50), (2, 0, 50)], "the guests of host 'h' get 100 % of its cores, the limit is 90 %"),
        ([(0, 0, 10), (1, 0, 10)], "the jobs on host 'h' take 1.2000 times its memory"),
    ],
)
def test_a_broken_rule_is_named(places: list[tuple[int, int, int]], fault: str) -> None:
    with pytest.raises(InvalidSolutionError, match=fault):
        verify(CROWDED, solution(*places))


def test_a_pair_that_was_not_measured_does_not_share() -> None:
    case = problem([GOOD_HOST, job("i")], [GOOD_GUEST], measured={("h", "g"): (1.25, 1.5)})
    assert verify(case, solution((0, 0, 50))) == pytest.approx(2 - 2 * 0.5 - 4 * 0.25)
    with pytest.raises(InvalidSolutionError, match="guest 'g' may not share host 'i'"):
        verify(case, solution((0, 1, 50)))


@pytest.mark.parametrize(
    ("placements", "fault"),
    [
        ([("x", "h", 0.5)], "guest 'x' is not in the instance"),
        ([("g", "x", 0.5)], "host 'x' is not in the instance"),
        ([("g", "h", 0.123)], "the quota of guest 'g' is 0.123"),
    ],
)
def test_unknown_names_are_refused(placements: list[tuple[str, str, float]], fault: str) -> None:
    with pytest.raises(InvalidSolutionError, match=fault):
        Coallocation.from_list(HALF_BUSY, placements)


def test_names_and_numbers_are_two_ways_to_say_the_same() -> None:
    found = solution((0, 0, 30))
    assert found.as_list(HALF_BUSY) == [("g", "h", 0.3)]
    assert Coallocation.from_list(HALF_BUSY, [("g", "h", 0.3)]) == found
    assert found.places == (GuestPlace(0, 0, 30),)
