"""EASY backfilling with predicted run times: by hand, beside SJBF, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from support.simulations import assert_lawful, machine_of, rules, small_workloads
from support.workloads import workload

from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, ShortestJobFirst, easy_plus_plus
from allocopt.simulator.engine import Simulation
from allocopt.simulator.explain import Explanation
from allocopt.simulator.rules import Backfill, Rules
from allocopt.simulator.scheduler import ListScheduler, get_policy
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import UNKNOWN_USER, Workload

# A machine of two. User 1 asks for 1,000 s and runs for 100: job 2 is predicted to run for 100 s.
PREDICTED = [
    (0, 0.0, 100.0, 2, 1000.0),
    (1, 0.0, 500.0, 1, 500.0),  # runs from 100 to 600
    (3, 110.0, 50.0, 2, 50.0),  # the head from then on, which can start at 600
    (2, 120.0, 100.0, 1, 1000.0),
]
USERS = np.array([1, 2, 3, 1])


def test_a_job_is_backfilled_that_is_predicted_to_end_in_time() -> None:
    jobs = replace(workload(PREDICTED), users=USERS)
    assert simulate(jobs, 2, "easy").start.tolist() == [0.0, 100.0, 600.0, 650.0]
    assert simulate(jobs, 2, "easy-plus-plus").start.tolist() == [0.0, 100.0, 600.0, 120.0]


def test_a_job_that_runs_longer_than_predicted_is_expected_to_run_for_its_estimate() -> None:
    # Job 2 runs for 1,000 s, not for 100. At 219 and 220 others arrive.
    late = [*PREDICTED[:3], (2, 120.0, 1000.0, 1, 1000.0)]
    jobs = replace(workload([*late, (4, 219.0, 1.0, 2, 1.0), (5, 220.0, 1.0, 2, 1.0)]), users=np.append(USERS, [4, 4]))
    seen: dict[float, float] = {}

    def look(simulation: Simulation) -> None:
        seen[simulation.view.now] = float(simulation.view.expected_end[3]) - 120.0

    simulate(jobs, 2, "easy-plus-plus", observer=look)
    assert (seen[120.0], seen[219.0], seen[220.0]) == (100.0, 100.0, 1000.0)


@given(small_workloads(following=True), rules)
def test_schedules_by_predictions_are_lawful(jobs: Workload, rules: Rules) -> None:
    assert_lawful(simulate(jobs, machine_of(jobs), easy_plus_plus(), rules), machine_of(jobs), rules)


@given(small_workloads(following=True), rules)
def test_without_users_it_is_sjbf(jobs: Workload, rules: Rules) -> None:
    jobs = replace(jobs, users=np.full(len(jobs), UNKNOWN_USER))
    sjbf = ListScheduler(FirstComeFirstServed(), Backfill.EASY, ShortestJobFirst())
    found, expected = (simulate(jobs, machine_of(jobs), one, rules) for one in (get_policy("easy-plus-plus"), sjbf))
    assert found.start.tolist() == expected.start.tolist()


def test_an_explanation_plans_with_what_is_predicted() -> None:
    # At 120 job 2 is predicted to run until 220: not in time for the head, which can start at 200.
    short = [PREDICTED[0], (1, 0.0, 100.0, 1, 100.0), *PREDICTED[2:]]
    jobs = replace(workload(short), users=USERS)
    explanation = Explanation(jobs, 2, easy_plus_plus())
    simulate(jobs, 2, easy_plus_plus(), observer=explanation)
    assert "run until 220 s, beyond 200 s" in str(explanation.reasons)


@pytest.mark.parametrize("backfill", [Backfill.NONE, Backfill.FIRST_FIT, Backfill.CONSERVATIVE])
def test_predictions_go_with_easy_only(backfill: Backfill) -> None:
    with pytest.raises(UsageError, match="only EASY backfilling takes predicted run times"):
        ListScheduler(FirstComeFirstServed(), backfill, predicts=True)
