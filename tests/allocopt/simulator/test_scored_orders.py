"""Queue orders by scores: see only what has happened, and take networks that fit."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulations import machine_of, rules, small_workloads
from support.slow_scores import random_network
from support.workloads import workload

from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import NetworkOrder
from allocopt.simulator.engine import Simulation
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.scoring import FEATURES, linear_network
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import UNKNOWN_USER, Workload


def by_feature(name: str, weight: float = 1.0) -> NetworkOrder:
    """Return an order by one feature alone, the least first for a positive weight."""
    return NetworkOrder(linear_network({name: weight}))


@given(
    jobs=small_workloads(most_jobs=20, following=True),
    rules=rules,
    seed=st.integers(0, 30),
    backfill=st.sampled_from(Backfill),
    share=st.floats(0.0, 1.0),
    longer=st.integers(1, 5),
    predicts=st.booleans(),
)
def test_run_times_of_jobs_that_still_run_change_nothing_before(
    jobs: Workload, rules: Rules, seed: int, backfill: Backfill, share: float, longer: int, predicts: bool
) -> None:
    predicts &= backfill is Backfill.EASY
    scheduler = ListScheduler(NetworkOrder(random_network(seed)), backfill, predicts=predicts)
    first = simulate(jobs, machine_of(jobs), scheduler, rules)
    moment = float(np.quantile(first.end, share))
    later = first.end > moment
    other = replace(jobs, run=np.where(later, jobs.run + longer, jobs.run))
    second = simulate(other, machine_of(jobs), scheduler, rules)
    started = first.start <= moment
    assert second.start[started].tolist() == first.start[started].tolist()
    assert (second.start[~started] > moment).all()


def test_the_last_two_run_times_of_a_user_predict_the_next() -> None:
    # User 1 asks for 100 s and runs 10 and 30, user 2 asks for 50 s and uses it: 1 comes first by what is predicted.
    asked = [(0, 10, 100), (0, 30, 100), (0, 50, 50), (150, 60, 60), (151, 20, 100), (152, 50, 50)]
    jobs = workload([(job, submit, run, 1, limit) for job, (submit, run, limit) in enumerate(asked)])
    jobs = replace(jobs, users=np.array([1, 1, 2, 3, 1, 2]))
    by_limit = simulate(jobs, 1, ListScheduler(by_feature("limit")))
    by_prediction = simulate(jobs, 1, ListScheduler(by_feature("predicted")))
    assert by_limit.start[4] > by_limit.start[5]
    assert by_prediction.start[4] < by_prediction.start[5]
    unknown = replace(jobs, users=np.full(6, UNKNOWN_USER))
    nothing_known = simulate(unknown, 1, ListScheduler(by_feature("predicted")))
    assert nothing_known.start.tolist() == by_limit.start.tolist()


@given(small_workloads(most_jobs=15), rules)
def test_observers_see_the_queue_by_scores(jobs: Workload, rules: Rules) -> None:
    # By the wait alone the queue is that of arrival, if jobs arrive one by one.
    jobs = replace(jobs, submit=np.cumsum(1.0 + jobs.submit))
    queues: list[list[int]] = []

    def look(simulation: Simulation) -> None:
        queues.append(simulation.view.queue.tolist())

    simulate(jobs, machine_of(jobs), ListScheduler(by_feature("wait", -1.0), Backfill.EASY), rules, observer=look)
    assert all(a < b for queue in queues for a, b in pairwise(queue))


@pytest.mark.parametrize("shape", [(3, 1), (len(FEATURES) + 2, 0), (len(FEATURES) + 2,)])
def test_a_network_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    jobs = workload([(1, 0, 1, 1, 1)])
    with pytest.raises(UsageError, match="the network that scores jobs has the shape"):
        simulate(jobs, 1, ListScheduler(NetworkOrder(np.zeros(shape))))


def test_keys_have_a_network_only_for_scores_and_of_finite_weights() -> None:
    network = random_network(0)
    with pytest.raises(UsageError, match="only then"):
        QueueKeys(OrderKind.SCORED, np.zeros(2))
    with pytest.raises(UsageError, match="only then"):
        QueueKeys(OrderKind.FIXED, np.zeros(2), network)
    network[3, 0] = np.nan
    with pytest.raises(UsageError, match="not a finite number"):
        QueueKeys.by_score(2, network)
