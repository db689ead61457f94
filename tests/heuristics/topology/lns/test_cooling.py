"""Temperatures fall to the coldest one by the end of every cycle and of the search, however the steps are cut up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.solving.budget import Budget
from heuristics.topology.lns.solver import Cooling, Pace


def cooled(cooling: Cooling, total: int, per_slice: int) -> list[tuple[int, float, float]]:
    """Return steps, first and last temperature of each cycle of a search that never gets better."""
    cycles, done, begun, first = [], 0, 0, None
    while done < total:
        rest = cooling.rest(total - done)
        steps = min(rest, per_slice)
        before = cooling.temperature(rest)
        first = before if first is None else first
        after = before * cooling.factor(rest) ** steps
        cooling.took(steps, after, rest, 0.0)
        done += steps
        if steps == rest:
            cycles.append((done - begun, first, after))
            begun, first = done, None
    assert begun == done
    return cycles


@given(total=st.integers(1, 3000), per_slice=st.integers(1, 400), cycle=st.integers(1, 500), full=st.integers(1, 2000))
def test_every_cycle_ends_at_the_coldest_temperature_and_the_last_one_with_the_search(
    total: int, per_slice: int, cycle: int, full: int
) -> None:
    cycles = cooled(Cooling(2.0, 0.1, cycle, full), total, per_slice)
    assert sum(steps for steps, _, _ in cycles) == total
    for index, (steps, first, last) in enumerate(cycles):
        assert first == pytest.approx(max(0.1, 2.0 * min(1.0, steps / full)))
        assert last == pytest.approx(0.1)
        assert steps >= min(total, cycle * 2**index)
        assert index == len(cycles) - 1 or steps == cycle * 2**index


def test_how_the_steps_are_cut_up_does_not_change_the_temperatures() -> None:
    whole, cut = (cooled(Cooling(1.0, 0.1, 10, 1), 100, per_slice) for per_slice in (100, 3))
    assert [cycle[0] for cycle in whole] == [cycle[0] for cycle in cut] == [10, 20, 70]


def test_cycles_that_find_nothing_better_are_counted() -> None:
    cooling = Cooling(1.0, 0.1, 1, 1)
    idle = []
    for best in (1.0, 2.0, 2.0, 2.0, 3.0):
        cooling.took(cooling.cycle, 0.1, cooling.cycle, best)
        idle.append(cooling.idle_cycles)
    assert idle == [0, 0, 1, 2, 0]


def test_without_a_time_limit_the_steps_are_those_asked_for_in_slices_of_a_fixed_length() -> None:
    pace = Pace(Budget().start(), 25, 10, 0.0)
    assert pace.first_slice() == 0
    taken = []
    while (left := pace.left()) > 0:
        taken.append(pace.slice(left))
        pace.took(taken[-1])
    assert taken == [10, 10, 5]


def test_with_a_time_limit_steps_are_foretold_by_those_that_are_done() -> None:
    pace = Pace(Budget(3600.0).start(), 2**62, 10, 0.0)
    pace.took(pace.first_slice())
    assert 0 < pace.left() <= 3600 / 1e-7
    assert 0 < pace.slice(pace.left()) < pace.left()


def test_no_step_is_left_when_only_the_time_to_end_is() -> None:
    pace = Pace(Budget(5.0).start(), 100, 10, 6.0)
    assert pace.first_slice() == 0
    assert pace.left() == 0
