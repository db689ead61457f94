"""Schedulers written in Python, and built-in ones taken step by step, give the schedules of the compiled ones."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.schedulers import AskingEasy, PlainEasy, PlainFairShare, PlainFcfs, PlainFirstFit
from support.simulations import machine_of, rules, small_workloads
from support.slow_scores import random_network
from support.slow_simulator import slow_starts
from support.workloads import workload

from allocopt.cluster.platform import Platform
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.queue_orders import (
    DominantResourceFairness,
    FirstComeFirstServed,
    LargestFirst,
    NetworkOrder,
    ShortestJobFirst,
    Unicep,
    Wfp3,
)
from allocopt.simulator.decisions import Decision, Reserve, Start, Wait
from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Rules
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

FCFS = FirstComeFirstServed()
TWINS: list[tuple[Scheduler, ListScheduler]] = [
    (PlainFcfs(), ListScheduler(FCFS)),
    (PlainFirstFit(), ListScheduler(FCFS, Backfill.FIRST_FIT)),
    (PlainEasy(), ListScheduler(FCFS, Backfill.EASY)),
    (AskingEasy(), ListScheduler(FCFS, Backfill.EASY)),
    (PlainFairShare(overtake=False), ListScheduler(DominantResourceFairness())),
    (PlainFairShare(overtake=True), ListScheduler(DominantResourceFairness(), Backfill.FIRST_FIT)),
]


def platforms(jobs: Workload) -> list[Platform | int]:
    return [machine_of(jobs), Platform.whole_nodes(machine_of(jobs))]


@pytest.mark.parametrize(("python", "built_in"), TWINS, ids=lambda scheduler: type(scheduler).__name__)
@given(jobs=small_workloads(following=True), rules=rules)
def test_a_python_scheduler_gives_the_compiled_schedule_with_nodes_and_without(
    python: Scheduler, built_in: ListScheduler, jobs: Workload, rules: Rules
) -> None:
    expected = simulate(jobs, machine_of(jobs), built_in, rules)
    for platform in platforms(jobs):
        made = simulate(jobs, platform, python, rules)
        assert made.start.tolist() == expected.start.tolist()
        assert made.end.tolist() == expected.end.tolist()


class Delayed:
    """Starts each job some time after it has come, and says so in one way or the other."""

    def __init__(self, decide: type[Reserve] | type[Wait]) -> None:
        self.decide = decide
        self.called: list[float] = []
        self.promised: list[float] = []

    def schedule(self, view: View) -> Iterator[Decision]:
        self.called.append(view.now)
        for job in view.queue.tolist():
            if view.waited(job) >= 2.5:
                yield Start(job)
            elif self.decide is Reserve:
                yield Reserve(job, view.now + 2.5)
                self.promised.append(float(view.reserved[job]))
            else:
                yield Wait(view.submit[job] + 2.5)


@pytest.mark.parametrize("decide", [Reserve, Wait])
def test_a_scheduler_is_called_when_it_asked_to_be(decide: type[Reserve] | type[Wait]) -> None:
    scheduler = Delayed(decide)
    made = simulate(workload([(1, 0.0, 4.0, 1, 4.0), (2, 10.0, 4.0, 1, 4.0)]), 2, scheduler)
    assert made.start.tolist() == [2.5, 12.5]
    assert scheduler.called == [0.0, 2.5, 6.5, 10.0, 12.5, 16.5]
    assert scheduler.promised == ([2.5, 12.5] if decide is Reserve else [])


class Punctual(PlainFcfs):
    """Wants to be called every second, whatever happens."""

    def schedule(self, view: View) -> Iterator[Decision]:  # type: ignore[override]
        yield from super().schedule(view)
        yield Wait(view.now + 1)


@given(jobs=small_workloads())
def test_a_scheduler_that_always_wants_another_call_ends_with_the_last_job(jobs: Workload) -> None:
    made = simulate(jobs, machine_of(jobs), Punctual())
    assert made.start.tolist() == simulate(jobs, machine_of(jobs), "fcfs").start.tolist()


class Looker:
    """Starts whoever fits, and notes what the view shows before and after."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, list[int], list[int], int]] = []

    def look(self, view: View) -> None:
        self.seen.append((view.now, view.queue.tolist(), view.running.tolist(), view.free_processors))

    def schedule(self, view: View) -> Iterator[Start]:
        self.look(view)
        for job in view.queue.tolist():
            if view.fits(job):
                yield Start(job)
                self.look(view)


def test_the_view_shows_a_decision_as_soon_as_it_is_yielded() -> None:
    looker = Looker()
    simulate(workload([(1, 0.0, 9.0, 2, 9.0), (2, 0.0, 3.0, 1, 3.0), (3, 0.0, 3.0, 2, 3.0)]), 4, looker)
    assert looker.seen == [
        (0.0, [0, 1, 2], [], 4),
        (0.0, [1, 2], [0], 2),
        (0.0, [2], [1, 0], 1),
        (3.0, [2], [0], 2),
        (3.0, [], [2, 0], 0),
        (6.0, [], [0], 2),
        (9.0, [], [], 4),
    ]


def test_a_view_cannot_be_written_to() -> None:
    class Writer:
        def schedule(self, view: View) -> Iterator[Start]:
            for values in (view.free, view.start, view.expected_end, view.reserved, view.submit, view.request):
                assert not values.flags.writeable
            return (Start(job) for job in view.queue)

    simulate(workload([(1, 0.0, 9.0, 2, 9.0)]), 4, Writer())


@pytest.mark.parametrize("backfill", ["easy", 7, -1, None])
def test_what_is_no_backfilling_is_refused_with_the_choices(backfill: Any) -> None:
    with pytest.raises(UsageError, match=r"must be one of Backfill\.NONE"):
        ListScheduler(FirstComeFirstServed(), backfill)


fixed_orders: st.SearchStrategy[QueueOrder] = st.sampled_from([FCFS, ShortestJobFirst(), LargestFirst()])
scored: st.SearchStrategy[QueueOrder] = st.sampled_from([NetworkOrder(random_network(seed)) for seed in range(4)])
orders = fixed_orders | st.sampled_from([Wfp3(), Unicep()]) | scored
Case = tuple[Workload, QueueOrder, QueueOrder | None]
# For the slow twin jobs age from their submission on, so that those which follow others go with the other orders.
short: st.SearchStrategy[Case] = st.one_of(
    st.tuples(small_workloads(following=True), fixed_orders | scored, st.none()),
    st.tuples(small_workloads(), orders, st.none() | orders),
)
longer: st.SearchStrategy[Case] = st.tuples(small_workloads(most_jobs=40, most_processors=12), orders, st.none())


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "not-killed"])
@pytest.mark.parametrize("event_order", EventOrder, ids=lambda order: order.name.lower())
@pytest.mark.parametrize("backfill", Backfill, ids=lambda backfill: backfill.name.lower())
@pytest.mark.parametrize("cases", [short, pytest.param(longer, marks=pytest.mark.slow)], ids=["short", "longer"])
@given(data=st.data(), compression=st.booleans())
def test_every_order_under_every_backfilling_gives_the_slow_schedule(
    cases: st.SearchStrategy[Case],
    backfill: Backfill,
    event_order: EventOrder,
    kill: bool,
    data: st.DataObject,
    compression: bool,
) -> None:
    jobs, order, tried = data.draw(cases)
    has_candidates = backfill in (Backfill.FIRST_FIT, Backfill.EASY)
    predicts = backfill is Backfill.EASY and data.draw(st.booleans())
    scheduler = ListScheduler(order, backfill, tried if has_candidates else None, compression, predicts)
    made = simulate(jobs, machine_of(jobs), scheduler, Rules(event_order, kill)).start.tolist()
    assert made == slow_starts(jobs, machine_of(jobs), scheduler, Rules(event_order, kill))
