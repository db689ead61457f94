"""A budget is a specification; every solve starts a clock of its own."""

import math
import time

import pytest

from allocopt.errors import UsageError
from allocopt.solving.budget import Budget, Clock


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, -math.inf])
def test_a_time_limit_that_is_not_positive_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError, match="time limit"):
        Budget(seconds)


@pytest.mark.parametrize("iterations", [0, -1])
def test_an_iteration_limit_below_one_is_refused(iterations: int) -> None:
    with pytest.raises(UsageError, match="iteration limit"):
        Budget(iterations=iterations)


def test_without_a_limit_no_time_runs_out() -> None:
    clock = Budget().start()
    assert clock.remaining() == math.inf
    assert not clock.expired()


def test_what_is_left_is_the_limit_less_what_has_passed_and_never_negative() -> None:
    started = time.perf_counter()
    assert Clock(10.0, started - 4.0).remaining() == pytest.approx(6.0, abs=1.0)
    late = Clock(10.0, started - 40.0)
    assert late.remaining() == 0.0
    assert late.expired()
    assert late.elapsed() >= 40.0


def test_each_solve_starts_its_own_clock() -> None:
    budget = Budget(5.0)
    first = budget.start()
    second = budget.start()
    assert second.started >= first.started
    assert budget == Budget(5.0)


@pytest.mark.parametrize("seconds", [float("inf"), 1e308, 2e9])
def test_a_limit_beyond_a_billion_seconds_is_none(seconds: float) -> None:
    assert Budget(seconds).seconds is None


def test_more_iterations_than_a_kernel_can_count_are_refused() -> None:
    with pytest.raises(UsageError, match="iteration limit"):
        Budget(iterations=2**63)


@pytest.mark.parametrize("gap", [-0.1, 1.0, 5.0, float("nan")])
def test_a_gap_that_is_no_fraction_is_refused(gap: float) -> None:
    with pytest.raises(UsageError, match="fraction"):
        Budget(gap=gap)
