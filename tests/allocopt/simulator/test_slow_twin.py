"""The compiled simulation gives, start for start, what an obvious, slow one gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulations import machine_of, rules, slow_starts, small_workloads

from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed, LargestFirst, ShortestJobFirst, Unicep, Wfp3

orders: st.SearchStrategy[QueueOrder] = st.sampled_from(
    [FirstComeFirstServed(), ShortestJobFirst(), LargestFirst(), Wfp3(), Unicep()]
)


def assert_equal(jobs: Workload, scheduler: ListScheduler, rules: Rules) -> None:
    fast = simulate(jobs, machine_of(jobs), scheduler, rules).start.tolist()
    assert fast == slow_starts(jobs, machine_of(jobs), scheduler, rules)


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "not-killed"])
@pytest.mark.parametrize("event_order", EventOrder, ids=lambda order: order.name.lower())
@pytest.mark.parametrize("backfill", Backfill, ids=lambda backfill: backfill.name.lower())
@given(jobs=small_workloads(), order=orders, compression=st.booleans())
def test_every_order_under_every_backfilling_gives_the_slow_schedule(
    backfill: Backfill, event_order: EventOrder, kill: bool, jobs: Workload, order: QueueOrder, compression: bool
) -> None:
    assert_equal(
        jobs,
        ListScheduler(order, backfill, compression=compression and backfill is Backfill.CONSERVATIVE),
        Rules(event_order, kill),
    )


@pytest.mark.parametrize("backfill", [Backfill.FIRST_FIT, Backfill.EASY], ids=["first_fit", "easy"])
@given(jobs=small_workloads(), order=orders, backfill_order=orders, rules=rules)
def test_an_order_of_backfilling_of_its_own_gives_the_slow_schedule(
    backfill: Backfill, jobs: Workload, order: QueueOrder, backfill_order: QueueOrder, rules: Rules
) -> None:
    assert_equal(jobs, ListScheduler(order, backfill, backfill_order), rules)


@pytest.mark.slow
@pytest.mark.parametrize("backfill", Backfill, ids=lambda backfill: backfill.name.lower())
@given(jobs=small_workloads(most_jobs=40, most_processors=12), order=orders, rules=rules, compression=st.booleans())
def test_longer_queues_give_the_slow_schedule_too(
    backfill: Backfill, jobs: Workload, order: QueueOrder, rules: Rules, compression: bool
) -> None:
    assert_equal(
        jobs, ListScheduler(order, backfill, compression=compression and backfill is Backfill.CONSERVATIVE), rules
    )
