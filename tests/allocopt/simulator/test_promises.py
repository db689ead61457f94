"""Backfilling keeps what it has promised: to the first waiting job (EASY), or to every one (conservative)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedulers import promise
from support.simulations import machine_of, small_workloads
from support.workloads import MACHINE, random_workload

from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed, LargestFirst, ShortestJobFirst
from allocopt.simulator.engine import Simulation
from allocopt.simulator.kernels.conservative import AT_A_TIME, run_conservative
from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload

FCFS = FirstComeFirstServed()
CONSERVATIVE = ListScheduler(FCFS, Backfill.CONSERVATIVE, compression=False)
event_orders = st.sampled_from(EventOrder)
backfill_orders: st.SearchStrategy[QueueOrder | None] = st.sampled_from([None, ShortestJobFirst(), LargestFirst()])


class Promises:
    """Notes the first time promised to every job that comes to wait first, and the one that the simulation states."""

    def __init__(self) -> None:
        self.first: dict[int, float] = {}

    def __call__(self, simulation: Simulation) -> None:
        queue = simulation.view.queue.tolist()
        if not queue:
            return
        shadow, _ = promise(simulation.view, queue[0])
        self.first.setdefault(queue[0], shadow)
        if len(queue) > 1:
            assert simulation.state.clock["shadow"][0] == shadow


exact_or_killed = st.one_of(
    st.tuples(small_workloads(exact=True), st.booleans()), st.tuples(small_workloads(following=True), st.just(True))
)


@given(
    case=exact_or_killed,
    event_order=event_orders,
    order=backfill_orders,
)
def test_the_easy_head_is_never_late_with_exact_estimates_or_when_jobs_are_killed_at_their_limit(
    case: tuple[Workload, bool], event_order: EventOrder, order: QueueOrder | None
) -> None:
    (jobs, kill), promises = case, Promises()
    scheduler, rules = ListScheduler(FCFS, Backfill.EASY, order), Rules(event_order, kill)
    schedule = simulate(jobs, machine_of(jobs), scheduler, rules, observer=promises)
    for job, time in promises.first.items():
        assert schedule.start[job] <= time


class Reservations:
    """Notes the first reservation of every job."""

    def __init__(self, jobs: Workload) -> None:
        self.first = np.full(len(jobs), np.inf)
        self.moved = False

    def __call__(self, simulation: Simulation) -> None:
        reserved = simulation.view.reserved
        assert np.isfinite(reserved[simulation.view.queue]).all(), "everybody has one from submission on"
        known = np.isfinite(self.first)
        self.moved |= bool((reserved[known] != self.first[known]).any())
        self.first = np.where(known, self.first, reserved)


@given(jobs=small_workloads(following=True), event_order=event_orders)
def test_a_conservative_reservation_never_moves_and_is_kept_to_the_second(
    jobs: Workload, event_order: EventOrder
) -> None:
    reservations = Reservations(jobs)
    schedule = simulate(jobs, machine_of(jobs), CONSERVATIVE, Rules(event_order), observer=reservations)
    assert not reservations.moved
    assert schedule.start.tolist() == reservations.first.tolist()


@given(jobs=small_workloads(), compression=st.booleans(), event_order=event_orders, kill=st.booleans())
def test_nobody_is_promised_more_than_there_is(
    jobs: Workload, compression: bool, event_order: EventOrder, kill: bool
) -> None:
    scheduler = ListScheduler(FCFS, Backfill.CONSERVATIVE, compression=compression)

    def look(simulation: Simulation) -> None:
        left = simulation.state.unpromised[: simulation.state.clock["n_profile"][0]]
        assert left.max() <= machine_of(jobs), "what was never taken is not given back"
        if kill:
            assert left.min() >= 0

    simulate(jobs, machine_of(jobs), scheduler, Rules(event_order, kill), observer=look)


AT_ONCE = replace(random_workload(600, 0), submit=np.zeros(600))


@pytest.mark.parametrize("jobs", [AT_ONCE, random_workload(600, 1, dependent=True)], ids=["at-once", "in-turn"])
@pytest.mark.parametrize("event_order", EventOrder, ids=lambda order: order.name.lower())
def test_a_plan_that_goes_no_further_than_it_must_gives_the_same_schedule(
    jobs: Workload, event_order: EventOrder
) -> None:
    def look(simulation: Simulation) -> None:
        assert np.isfinite(simulation.view.reserved[simulation.view.queue]).all()

    scheduler, rules = ListScheduler(FCFS, Backfill.CONSERVATIVE), Rules(event_order)
    watched = simulate(jobs, MACHINE, scheduler, rules, observer=look).start
    assert simulate(jobs, MACHINE, scheduler, rules).start.tolist() == watched.tolist()


def test_a_long_plan_is_made_in_parts_between_which_the_user_may_interrupt() -> None:
    simulation = Simulation(AT_ONCE, MACHINE, CONSERVATIVE)
    promised = []
    while not simulation.state.clock["n_begun"][0]:
        run_conservative(simulation.state, 1)
        promised.append(np.isfinite(simulation.view.reserved).sum())
    assert np.diff(promised, prepend=0).max() == AT_A_TIME
    assert promised[-1] == len(AT_ONCE)
