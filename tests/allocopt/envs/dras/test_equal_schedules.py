"""A selector gives the same schedule through the environment, through `simulate`, and as a built-in scheduler."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedulers import PlainEasy, PlainFcfs, PlainFirstFit
from support.workloads import MACHINE, crowds, random_workload

from allocopt.arrays import BoolArray, Float32Array
from allocopt.envs.dras.task import DrasEpisodes, DrasOptions, ObservationName, Observing
from allocopt.heuristics.scheduling.queue_orders import (
    F1,
    FirstComeFirstServed,
    LargestFirst,
    RandomOrder,
    RandomRunnable,
    ShortestJobFirst,
    Unicep,
    Wfp3,
)
from allocopt.heuristics.scheduling.two_level import AtRandom, Following, InOrder
from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Reservations, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import END, Choice, Selector, TwoLevelScheduler
from allocopt.simulator.window import OptimizationScheduler
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

FCFS = FirstComeFirstServed()
ORDERS: list[QueueOrder] = [FCFS, ShortestJobFirst(), Wfp3(), Unicep(), F1(), LargestFirst(), RandomOrder()]
RULES = [
    Rules(event_order=order, kill_at_limit=kill, dependencies=depend)
    for order in EventOrder
    for kill in (True, False)
    for depend in (True, False)
]
WEEK = 750
"""Jobs of the first week of Theta's trace."""
LONG = 1_000
"""A window longer than any queue."""


class PicksAndEnds:
    """Chooses at random, and where that can be done sometimes ends the instance."""

    def select(self, choice: Choice) -> int:
        rng = np.random.default_rng((7, choice.number))
        return END if choice.can_end and rng.random() < 0.3 else int(rng.choice(np.flatnonzero(choice.legal)))


class FirstSlot:
    """Chooses the job in the first slot."""

    def select(self, choice: Choice) -> int:
        return 0


def some_network(observation: Float32Array, legal: BoolArray) -> int:
    """Prefer slots by weights that are as good as random, taken over all that is seen."""
    weights = np.random.default_rng(3).normal(size=(len(legal), observation.size))
    return int(np.argmax(np.where(legal, weights @ observation.ravel(), -np.inf)))


def assert_same(a: Schedule, b: Schedule) -> None:
    np.testing.assert_array_equal(a.start, b.start)
    np.testing.assert_array_equal(a.end, b.end)
    np.testing.assert_array_equal(a.release, b.release)


def played(jobs: Workload, machine: int, selector: Selector, options: DrasOptions) -> DrasEpisodes:
    """Let a selector schedule an episode through the environment."""
    episodes = DrasEpisodes([jobs], machine, 1, options)
    episodes.begin(np.array([0]))
    while not episodes.tally["over"][0]:
        slot = selector.select(episodes.choice(0))
        episodes.step(np.array([options.window if slot == END else slot]))
        assert not episodes.tally["invalid"][0]
    return episodes


def check_both_ways(jobs: Workload, machine: int, make: Callable[[], Selector], options: DrasOptions) -> Schedule:
    """Schedule through both, compare all that is known of every job, and return the schedule."""
    episodes = played(jobs, machine, make(), options)
    scheduler = TwoLevelScheduler(make(), options.window, options.reservations)
    schedule = simulate(jobs, machine, scheduler, options.rules)
    assert_same(episodes.schedule(0), schedule)
    np.testing.assert_array_equal(episodes.modes(0), scheduler.log.modes)
    np.testing.assert_array_equal(episodes.promised(0), scheduler.log.promised)
    assert episodes.tally["choices"][0] == scheduler.log.choices
    return schedule


@pytest.mark.parametrize("reservations", [Reservations.KEPT, Reservations.RENEWED])
@given(jobs=crowds(MACHINE), rules=st.sampled_from(RULES), selector=st.sampled_from([InOrder(FCFS), FirstSlot()]))
def test_first_come_first_served_and_always_the_first_slot_are_easy_backfilling(
    jobs: Workload, rules: Rules, selector: Selector, reservations: Reservations
) -> None:
    options = DrasOptions(window=LONG, reservations=reservations, rules=rules)
    episodes = played(jobs, MACHINE, selector, options)
    assert_same(episodes.schedule(0), simulate(jobs, MACHINE, ListScheduler(FCFS, Backfill.EASY), rules))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.name)
@given(jobs=crowds(MACHINE), rules=st.sampled_from(RULES), fill=st.sampled_from([None, FCFS, ShortestJobFirst()]))
def test_an_order_is_that_order_with_easy_by_renewed_reservations_and_with_first_fit_without_any(
    order: QueueOrder, jobs: Workload, rules: Rules, fill: QueueOrder | None
) -> None:
    for reservations, scheduler in (
        (Reservations.RENEWED, ListScheduler(order, Backfill.EASY, fill)),
        (Reservations.NONE, ListScheduler(order, Backfill.FIRST_FIT)),
    ):
        options = DrasOptions(window=LONG, reservations=reservations, rules=rules)
        schedule = check_both_ways(jobs, MACHINE, partial(InOrder, order, scheduler.backfill_order), options)
        assert_same(schedule, simulate(jobs, MACHINE, scheduler, rules))


SELECTORS: list[Callable[[], Selector]] = [
    *(lambda order=order: InOrder(order, ShortestJobFirst()) for order in ORDERS),
    AtRandom,
    PicksAndEnds,
    lambda: InOrder(LargestFirst()),
]


@pytest.mark.parametrize("reservations", Reservations)
@given(
    jobs=crowds(MACHINE),
    rules=st.sampled_from(RULES),
    window=st.sampled_from([1, 2, 3, LONG]),
    make=st.sampled_from(SELECTORS),
)
def test_a_selector_schedules_alike_in_both(
    jobs: Workload, rules: Rules, window: int, make: Callable[[], Selector], reservations: Reservations
) -> None:
    # Without reservations, an instance can be ended, too.
    can_end = reservations is Reservations.NONE
    options = DrasOptions(window=window, reservations=reservations, can_end=can_end, rules=rules)
    check_both_ways(jobs, MACHINE, make, options)


SCHEDULERS: dict[str, tuple[Scheduler, int]] = {
    "optimization-capacity": (OptimizationScheduler(window=LONG, objective="capacity"), LONG),
    **{f"optimization-window-{size}": (OptimizationScheduler(window=size), size) for size in (1, 3, LONG)},
    "random-runnable": (RandomRunnable(seed=3), LONG),
    "first-fit": (PlainFirstFit(), LONG),
    "fcfs": (PlainFcfs(), LONG),
    "easy": (PlainEasy(), LONG),
}
"""Schedulers, each with the window of the environment that it sees."""


def check_scheduler(jobs: Workload, machine: int, scheduler: Scheduler, options: DrasOptions) -> None:
    """Schedule through `simulate` as it is, and through the environment by what it starts there."""
    episodes = played(jobs, machine, Following(scheduler), options)
    assert_same(episodes.schedule(0), simulate(jobs, machine, scheduler, options.rules))


@pytest.mark.parametrize("name", SCHEDULERS)
@given(jobs=crowds(MACHINE), rules=st.sampled_from(RULES))
def test_a_scheduler_gives_its_schedule_through_the_environment(name: str, jobs: Workload, rules: Rules) -> None:
    scheduler, window = SCHEDULERS[name]
    options = DrasOptions(window=window, reservations=Reservations.NONE, can_end=True, rules=rules)
    check_scheduler(jobs, MACHINE, scheduler, options)


@pytest.mark.slow
@pytest.mark.parametrize("observation", ["slots", "state"])
@pytest.mark.parametrize("reservations", Reservations)
def test_a_network_sees_and_does_the_same_in_both(observation: ObservationName, reservations: Reservations) -> None:
    options = DrasOptions(window=10, observation=observation, reservations=reservations)
    selector = Observing(some_network, options)
    for seed in range(3):
        jobs = random_workload(150, seed)
        episodes = DrasEpisodes([jobs], MACHINE, 1, options)
        episodes.begin(np.array([0]))
        while not episodes.tally["over"][0]:
            observations, legal = episodes.observe()
            np.testing.assert_array_equal(observations[0], selector.observe(episodes.choice(0)))
            episodes.step(np.array([some_network(observations[0], legal[0])]))
        scheduler = TwoLevelScheduler(selector, options.window, reservations)
        assert_same(episodes.schedule(0), simulate(jobs, MACHINE, scheduler))


@pytest.mark.slow
@pytest.mark.parametrize("reservations", Reservations)
def test_a_week_of_theta_is_scheduled_alike_in_both(shared_data: Path, reservations: Reservations) -> None:
    trace = read_workload(shared_data / "traces" / "Theta-2018-01.swf.gz").fitting(4_360).first(WEEK)
    options = DrasOptions(reservations=reservations)
    # Other orders differ by their keys alone, and have been compared on small workloads.
    for make in (lambda: InOrder(Wfp3(), ShortestJobFirst()), AtRandom, lambda: Observing(some_network, options)):
        check_both_ways(trace, 4_360, make, options)
    if reservations is Reservations.NONE:
        check_scheduler(trace, 4_360, OptimizationScheduler(), DrasOptions(reservations=reservations, can_end=True))
