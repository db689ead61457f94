"""Selectors that follow a rule, as a policy and beside the built-in schedulers."""

import numpy as np
import pytest
from support.workloads import MACHINE, random_workload

from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.simulator.rules import Backfill, Reservations
from allocopt.simulator.scheduler import ListScheduler, Scheduler, SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import END, Choice, TwoLevelScheduler
from heuristics.scheduling.queue_orders import DominantResourceFairness, FirstComeFirstServed, ShortestJobFirst, Wfp3
from heuristics.scheduling.two_level import AtRandom, InOrder, TwoLevelOrders, bin_packing

JOBS = random_workload(300, 9)


def test_renewed_reservations_are_easy_backfilling() -> None:
    policy = TwoLevelOrders(order="wfp3", fill="sjf", window=300, reservations="renewed")
    assert isinstance(policy, Scheduler)
    expected = simulate(JOBS, MACHINE, ListScheduler(Wfp3(), Backfill.EASY, ShortestJobFirst()))
    for platform in (MACHINE, Platform.whole_nodes(MACHINE)):
        np.testing.assert_array_equal(simulate(JOBS, platform, policy).start, expected.start)


def test_a_scheduler_begins_each_simulation_anew() -> None:
    for policy in (TwoLevelOrders(), TwoLevelScheduler(AtRandom(2))):
        first, other = simulate(JOBS, MACHINE, policy), simulate(random_workload(90, 1), MACHINE, policy)
        assert len(policy.log.modes) == len(other.workload) == 90
        np.testing.assert_array_equal(simulate(JOBS, MACHINE, policy).start, first.start)


def test_bin_packing_starts_the_largest_job_that_fits() -> None:
    scheduler = TwoLevelScheduler(bin_packing(), 10, Reservations.NONE)
    started = 0

    class Watched:
        def select(self, choice: Choice) -> int:
            nonlocal started
            started += 1
            slot = bin_packing().select(choice)
            sizes = choice.view.processors[choice.jobs[choice.legal]]
            assert choice.view.processors[choice.jobs[slot]] == sizes.max() <= choice.view.free_processors
            return slot

    watched = simulate(JOBS, MACHINE, TwoLevelScheduler(Watched(), 10, Reservations.NONE))
    assert started == len(JOBS)
    np.testing.assert_array_equal(simulate(JOBS, MACHINE, scheduler).start, watched.start)


def test_mistakes_are_named() -> None:
    with pytest.raises(UsageError, match="kept, renewed, none"):
        TwoLevelOrders(reservations="held")
    with pytest.raises(UsageError, match="no queue order"):
        TwoLevelOrders(order="window")
    with pytest.raises(UsageError, match="no policy"):
        TwoLevelOrders(fill="nothing")
    with pytest.raises(UsageError, match="seed"):
        TwoLevelOrders(seed=-1)
    with pytest.raises(UsageError, match="window is 0"):
        TwoLevelOrders(window=0)
    with pytest.raises(UsageError, match="no selector"):
        TwoLevelScheduler("wfp3")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="shares of users"):
        simulate(JOBS, MACHINE, TwoLevelScheduler(InOrder(DominantResourceFairness())))


@pytest.mark.parametrize(("slot", "reservations"), [(50, Reservations.KEPT), (END, Reservations.KEPT)])
def test_a_choice_that_is_not_legal_is_named(slot: int, reservations: Reservations) -> None:
    class Wrong:
        def select(self, choice: Choice) -> int:
            return slot

    with pytest.raises(SchedulerError, match=f"chose slot {slot}"):
        simulate(JOBS, MACHINE, TwoLevelScheduler(Wrong(), reservations=reservations))


def test_first_come_first_served_with_kept_reservations_is_easy_backfilling() -> None:
    fcfs = FirstComeFirstServed()
    expected = simulate(JOBS, MACHINE, ListScheduler(fcfs, Backfill.EASY))
    schedule = simulate(JOBS, MACHINE, TwoLevelScheduler(InOrder(fcfs)))
    np.testing.assert_array_equal(schedule.start, expected.start)
