"""Budgets, clocks, the record of a running solve and its result."""

import math
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import UsageError
from allocopt.heuristics.topology.production_rules import Sequential
from allocopt.problems.base import Sense
from allocopt.solving.budget import Budget, Clock
from allocopt.solving.result import Incumbent, Status, StopReason, gap_between
from allocopt.solving.run import Run


@dataclass(frozen=True)
class Numbers:
    """A problem whose solutions are their own objectives."""

    sense: Sense = "min"
    kind: ClassVar[str] = "numbers"
    name: ClassVar[str] = "numbers"

    def objective(self, solution: float) -> float:
        return solution


def run_of(sense: Sense = "min", warm_start: Any = None, seen: list[Incumbent] | None = None) -> Run:
    return Run(Sequential(), Numbers(sense), Budget(), 7, warm_start, None if seen is None else seen.append)


values = st.floats(-1e6, 1e6)


@given(st.sampled_from(["min", "max"]), values, st.lists(values, max_size=8))
def test_the_best_of_all_offers_is_kept(sense: Sense, warm_start: float, offers: list[float]) -> None:
    seen: list[Incumbent] = []
    run = run_of(sense, warm_start, seen)
    for offer in offers:
        improves = offer < run.objective if sense == "min" else offer > run.objective  # type: ignore[operator]
        assert run.offer(offer) is improves
    result = run.result()
    assert result.solution == result.objective == (min if sense == "min" else max)([warm_start, *offers])
    objectives = [incumbent.objective for incumbent in result.incumbents]
    assert objectives == sorted(set(objectives), reverse=sense == "min")
    assert list(result.incumbents) == seen
    times = [incumbent.time_s for incumbent in seen]
    assert times == sorted(times)
    assert not times or times[-1] <= result.runtime_s


no_numbers = st.sampled_from([float("inf"), float("-inf"), float("nan")])


@given(st.sampled_from(["min", "max"]), st.lists(values | no_numbers, max_size=8))
def test_a_bound_only_tightens_and_what_is_no_number_is_none(sense: Sense, bounds: list[float]) -> None:
    run = run_of(sense)
    for bound in bounds:
        run.prove(bound)
    numbers = [bound for bound in bounds if math.isfinite(bound)]
    assert run.bound == (max if sense == "min" else min)(numbers, default=None)


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize(
    ("value", "bound", "gap"),
    [(100.0, 100.0, 0.0), (100.0, 100.00001, 0.0), (100.0, 99.99999, 0.0), (0.0, 0.0, 0.0), (100.0, 99.0, 0.01)],
)
def test_a_bound_that_meets_the_objective_is_a_proof_and_printed_equal_and_another_one_leaves_a_gap(
    sense: Sense, value: float, bound: float, gap: float
) -> None:
    run = run_of(sense, value)
    assert not run.is_proved()
    run.prove(bound if sense == "min" or gap == 0.0 else 2 * value - bound)
    result = run.result(StopReason.TIME_LIMIT)
    said = (Status.FEASIBLE, StopReason.TIME_LIMIT) if gap else (Status.OPTIMAL, StopReason.PROVED)
    assert (result.status, result.stopped_by) == said
    assert result.gap == pytest.approx(gap)
    assert gap or result.bound == value


@pytest.mark.parametrize(("bound", "status"), [(1.0, Status.INTERRUPTED), (5.0, Status.OPTIMAL)])
def test_ctrl_c_ends_the_search_keeps_the_best_and_takes_nothing_from_a_proof(bound: float, status: Status) -> None:
    run = run_of()
    with run.interruptible():
        run.offer(5.0)
        run.prove(bound)
        raise KeyboardInterrupt
    result = run.result(StopReason.ITERATIONS)
    assert (result.status, result.stopped_by) == (status, StopReason.INTERRUPTED)
    assert (result.objective, result.bound) == (5.0, bound)


def test_other_errors_are_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError), run_of().interruptible():
        raise ZeroDivisionError


def test_without_a_solution_nothing_is_claimed() -> None:
    run = run_of()
    run.prove(1.0)
    result = run.result(StopReason.TIME_LIMIT)
    assert (result.status, result.solution, result.objective, result.bound) == (Status.UNKNOWN, None, None, 1.0)
    assert result.gap is None


@pytest.mark.parametrize("sense", ["min", "max"])
def test_the_time_ends_when_incumbent_and_bound_are_as_close_as_asked(sense: Sense) -> None:
    sign = 1.0 if sense == "min" else -1.0
    run, unasked = Run(Sequential(), Numbers(sense), Budget(gap=0.1), 7), run_of(sense)
    for each in (run, unasked):
        each.offer(100.0)
        each.prove(100.0 - sign * 20.0)
        assert not each.clock.expired()
        each.prove(100.0 - sign * 10.0)
    assert run.clock.expired()
    assert run.clock.remaining() == 0.0
    result = run.result(StopReason.TIME_LIMIT)
    assert (result.status, result.stopped_by) == (Status.FEASIBLE, StopReason.GAP)
    # Without a gap asked for only a proof ends the search.
    assert not unasked.clock.expired()
    assert unasked.result(StopReason.COMPLETED).stopped_by is StopReason.COMPLETED


@pytest.mark.parametrize(
    ("limits", "fault"),
    [
        *(({"seconds": seconds}, "time limit") for seconds in (0.0, -1.0, math.nan, -math.inf)),
        # More iterations than a kernel can count.
        *(({"iterations": iterations}, "iteration limit") for iterations in (0, -1, 2**63)),
        *(({"gap": gap}, "fraction") for gap in (-0.1, 1.0, 5.0, math.nan)),
    ],
)
def test_a_limit_out_of_range_is_refused(limits: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        Budget(**limits)


def test_what_is_left_is_the_limit_less_what_has_passed_and_never_negative() -> None:
    started = time.perf_counter()
    assert Clock(10.0, started - 4.0).remaining() == pytest.approx(6.0, abs=1.0)
    late = Clock(10.0, started - 40.0)
    assert late.remaining() == 0.0
    assert late.expired()
    assert late.elapsed() >= 40.0
    unlimited = Budget().start()
    assert unlimited.remaining() == math.inf
    assert not unlimited.expired()


@pytest.mark.parametrize("seconds", [float("inf"), 1e308, 2e9])
def test_a_limit_beyond_a_billion_seconds_is_none(seconds: float) -> None:
    assert Budget(seconds).seconds is None


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [
        (100.0, 90.0, 0.1),
        (100.0, 110.0, 0.1),
        (-50.0, -75.0, 0.5),
        (0.0, 0.0, 0.0),
        (0.0, -1e-9, 1.0),
        (None, 1.0, None),
        (1.0, None, None),
    ],
)
def test_a_gap_is_relative_to_the_objective(objective: float | None, bound: float | None, gap: float | None) -> None:
    assert gap_between(objective, bound) == (None if gap is None else pytest.approx(gap))
