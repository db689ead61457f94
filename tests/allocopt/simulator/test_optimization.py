"""Policy ``optimization``: at every scheduling point the best of all selections starts."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.knapsacks import best_value, value_of
from support.simulations import assert_lawful, machine_of, rules, small_workloads

from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rules import Rules
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.simulator.window import OptimizationScheduler
from allocopt.traces.workload import Workload


class Watched:
    """Compares every selection with the best one, found by looking at all."""

    def __init__(self, scheduler: OptimizationScheduler) -> None:
        self.scheduler = scheduler
        self.selections = 0

    def schedule(self, view: View) -> Iterator[Decision]:
        window = view.queue[: self.scheduler.window].tolist()
        if not window:
            return
        problem = self.scheduler.problem(view, window)
        best = best_value(problem)
        assert problem.in_use == view.platform.size - view.free_processors
        started = []
        for decision in self.scheduler.schedule(view):
            assert isinstance(decision, Start)
            started.append(decision.job)
            yield decision
        chosen = sorted(window.index(job) for job in started)
        assert value_of(problem, chosen) == pytest.approx(best, rel=1e-9, abs=1e-12)
        self.selections += bool(chosen)


@pytest.mark.parametrize("objective", ["capability", "capacity"])
@settings(max_examples=30)
@given(jobs=small_workloads(following=True), rules=rules, window=st.integers(1, 8))
def test_the_best_of_all_selections_starts_at_every_point(
    objective: str, jobs: Workload, rules: Rules, window: int
) -> None:
    watched = Watched(OptimizationScheduler(window, objective))
    schedule = simulate(jobs, machine_of(jobs), watched, rules)
    assert_lawful(schedule, machine_of(jobs), rules)
    assert watched.selections > 0


@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)])
@settings(max_examples=20)
@given(jobs=small_workloads(), rules=rules)
def test_weights_that_find_nothing_in_a_job_leave_nobody_waiting_for_ever(
    weights: tuple[float, float, float], jobs: Workload, rules: Rules
) -> None:
    schedule = simulate(jobs, machine_of(jobs), OptimizationScheduler(weights=weights), rules)
    assert_lawful(schedule, machine_of(jobs), rules)


def test_one_selection_a_point_may_leave_a_job_that_fits_until_the_next_event() -> None:
    # Of Eq. 1: the large job alone has the mean size 0.9, together with the small one 0.5.
    submit, run = np.zeros(2), np.array([5.0, 5.0])
    jobs = Workload("two", np.arange(2), submit, run, np.array([9, 1]), run)
    schedule = simulate(jobs, 10, OptimizationScheduler(weights=(0.0, 1.0, 0.1)))
    assert schedule.start.tolist() == [0.0, 5.0]


def test_every_solver_gives_selections_of_the_same_worth() -> None:
    rng = np.random.default_rng(5)
    n = 30
    run = rng.integers(10, 200, n).astype(np.float64)
    jobs = Workload(
        "some", np.arange(n), np.sort(rng.integers(0, 300, n)).astype(float), run, rng.integers(1, 30, n), run
    )
    for solver in ("cp-sat", "auto"):
        watched = Watched(OptimizationScheduler(6, solver=solver))
        simulate(jobs, 40, watched)
        assert watched.selections > 5


def test_several_resources_are_left_to_integer_programs() -> None:
    one = np.ones(3)
    jobs = Workload("three", np.arange(3), 0 * one, 10 * one, np.array([2, 2, 2]), 10 * one)
    platform = Platform(("processors", "gpus"), np.array([[6, 2]]), has_nodes=False)
    demands = {"gpus": np.array([1, 2, 1])}
    with pytest.raises(UsageError, match="it has 2 resources, dp takes one; scip, highs and cp-sat take several"):
        simulate(jobs, platform, OptimizationScheduler(solver="dp"), demands=demands)
    starts = simulate(jobs, platform, OptimizationScheduler(), demands=demands).start
    assert sorted(starts.tolist()) == [0.0, 0.0, 10.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "the window is 0 jobs"),
        ({"objective": "linear"}, "the objective is 'linear', must be capability or capacity"),
        ({"weights": (1.0, 2.0)}, "weights must be three numbers"),
        ({"weights": (1.0, -2.0, 1.0)}, "weights must be three numbers"),
        ({"weights": 3}, "weights must be three numbers"),
        ({"weights": "foo"}, r"weights must be three numbers w1, w2, w3: weights\[0\]: is 'f', must be within 0"),
        ({"solver": "lns"}, "'lns' does not take knapsack problems"),
        ({"seed": -1}, "the seed is -1"),
        ({"time_limit": 0.0}, "the time limit is 0.0"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        OptimizationScheduler(**options)
