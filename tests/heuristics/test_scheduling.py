"""Orders, selectors and policies by a rule: values by hand, and the schedules of their twins in the simulator."""

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.simulations import assert_lawful, machine_of, rules, small_workloads
from support.workloads import MACHINE as CLUSTER
from support.workloads import random_workload, workload

from allocopt.cluster.platform import Platform
from allocopt.envs.cush.jobsets import GPUS, HELD_OUT, JobSet, Machine, Recipe
from allocopt.envs.cush.task import Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.engine import Simulation
from allocopt.simulator.locality import SIERRA_TABLE, ByPolicy, Penalised, Policy
from allocopt.simulator.registry import get_policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder, Reservations, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler, SchedulerError, Start
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import END, Choice, TwoLevelScheduler
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload
from heuristics.scheduling.job_selection import (
    POLICIES,
    RULES,
    _order_of,
    _policies_of,
    baseline_episodes,
    run_baseline,
)
from heuristics.scheduling.queue_orders import (
    F1,
    F2,
    F3,
    F4,
    DominantResourceFairness,
    FirstComeFirstServed,
    LargestFirst,
    LongestJobFirst,
    RandomOrder,
    RandomRunnable,
    ShortestJobFirst,
    SmallestAreaFirst,
    Unicep,
    Wfp3,
)
from heuristics.scheduling.two_level import AtRandom, InOrder, TwoLevelOrders

JOBS = workload([(1, 0.0, 1, 8, 100.0), (2, 10.0, 2, 1, 400.0), (3, 100.0, 3, 2, 50.0), (4, 1000.0, 4, 64, 200.0)])
ORDERS: list[Callable[[], QueueOrder]] = [
    F1, F2, F3, F4, DominantResourceFairness, FirstComeFirstServed, LargestFirst, LongestJobFirst, RandomOrder,
    ShortestJobFirst, SmallestAreaFirst, Unicep, Wfp3,
]  # fmt: skip


def queue(order: QueueOrder, now: float = 2000.0) -> list[int]:
    """Ids of the jobs in their order at a time."""
    keys = order.keys(JOBS, np.random.default_rng(0))
    ranks = keys.values if keys.kind is OrderKind.FIXED else -keys.values * (now - JOBS.submit)
    return JOBS.ids[np.lexsort((JOBS.ids, JOBS.submit, ranks))].tolist()


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (ShortestJobFirst(), [3, 1, 4, 2]),
        (LongestJobFirst(), [2, 4, 1, 3]),
        # Areas 800, 400, 100, 12,800.
        (SmallestAreaFirst(), [3, 2, 1, 4]),
        (LargestFirst(), [4, 1, 3, 2]),
        # At 2000: (2000/100)^3 8 = 64,000, (1990/400)^3 = 123, (1900/50)^3 2 = 109,744, (1000/200)^3 64 = 8,000.
        (Wfp3(), [3, 1, 4, 2]),
        # 2000/(3 100) = 6.7, the only one with one processor, 1900/(1 50) = 38, 1000/(6 200) = 0.83.
        (Unicep(), [2, 3, 1, 4]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_jobs_stand_as_computed_by_hand(order: QueueOrder, expected: list[int]) -> None:
    assert queue(order) == expected


@pytest.mark.parametrize(("now", "expected"), [(1100.0, [3, 1, 2, 4]), (1e6, [3, 1, 4, 2])])
def test_a_large_job_overtakes_as_it_ages(now: float, expected: list[int]) -> None:
    # At 1100: 10,648, 20.25, 16,000 and 8 for the one that waits for 100 s; at 2000 it is at 8,000 before the second.
    assert queue(Wfp3(), now) == expected


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (F1(), [16, 870 + math.log10(400), 1740 + 2 * math.log10(50), 2610 + 64 * math.log10(200)]),
        (F2(), [80, 25_620, 51_200 + 2 * math.sqrt(50), 76_800 + 64 * math.sqrt(200)]),
        (F3(), [800, 6_860_400, 13_720_100, 20_592_800]),
        (F4(), [100 * math.sqrt(8), 530_400, 1_060_000 + 50 * math.sqrt(2), 1_591_600]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_learned_functions_have_the_published_values(order: QueueOrder, expected: list[float]) -> None:
    keys = order.keys(JOBS, np.random.default_rng(0))
    assert keys.kind is OrderKind.FIXED
    assert keys.values.tolist() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [F1(), F2(), F3(), F4()], ids=lambda order: order.name)
def test_a_job_of_the_first_second_counts_as_submitted_at_its_end(order: QueueOrder) -> None:
    jobs = workload([(1, 0.0, 1, 4, 100.0), (2, 0.25, 1, 4, 100.0), (3, 1.0, 1, 4, 100.0), (4, 2.0, 1, 4, 100.0)])
    first, second, third, fourth = order.keys(jobs, np.random.default_rng(0)).values.tolist()
    assert first == second == third < fourth


@pytest.mark.parametrize(
    ("order", "kind"), [(FirstComeFirstServed(), OrderKind.ARRIVAL), (DominantResourceFairness(), OrderKind.FAIR_SHARE)]
)
def test_orders_without_values_say_their_kind(order: QueueOrder, kind: OrderKind) -> None:
    keys = order.keys(JOBS, np.random.default_rng(0))
    assert keys.kind is kind
    assert keys.values.shape == (4,)


def test_the_random_order_is_that_of_its_seed() -> None:
    draws = [RandomOrder().keys(JOBS, np.random.default_rng(seed)).values.tolist() for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    assert len(set(draws[0])) == 4


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order().name)
def test_every_order_gives_a_finite_number_per_job_and_travels_to_other_processes(
    order: Callable[[], QueueOrder],
) -> None:
    jobs = workload([(1, 0.0, 1e-3, 1, 1e-3), (2, 0.0, 2.0**53, 2**53, 2.0**53)])
    keys = pickle.loads(pickle.dumps(order())).keys(jobs, np.random.default_rng(0))
    assert np.isfinite(keys.values).all()
    assert keys.values.shape == (2,)


class PlainBinPacking:
    """Starts the largest runnable job, the first submitted of equal ones, until none is left."""

    def schedule(self, view: View) -> Iterator[Start]:
        while runnable := [job for job in view.queue.tolist() if view.fits(job)]:
            yield Start(min(runnable, key=lambda job: (-view.processors[job], job)))


class PlainRandomRunnable(RandomRunnable):
    """Asks the jobs in the drawn order, one after the other."""

    def schedule(self, view: View) -> Iterator[Start]:
        moment = int(np.float64(view.now + 0.0).view(np.uint64))
        queue = view.queue
        for job in np.random.default_rng((self.seed, moment, len(queue))).permutation(queue).tolist():
            if view.fits(job):
                yield Start(job)


def nobody_fits(simulation: Simulation) -> None:
    view = simulation.view
    assert not any(view.fits(job) for job in view.queue.tolist())


@given(jobs=small_workloads(following=True), rules=rules)
def test_binpacking_starts_the_largest_runnable_job_again_and_again(jobs: Workload, rules: Rules) -> None:
    schedule = simulate(jobs, machine_of(jobs), "binpacking", rules, observer=nobody_fits)
    assert schedule.start.tolist() == simulate(jobs, machine_of(jobs), PlainBinPacking(), rules).start.tolist()


@given(jobs=small_workloads(following=True), rules=rules)
def test_random_runnable_leaves_nobody_who_fits_and_its_seed_fixes_the_schedule(jobs: Workload, rules: Rules) -> None:
    schedules = [simulate(jobs, machine_of(jobs), RandomRunnable(3), rules, observer=nobody_fits) for _ in range(2)]
    assert_lawful(schedules[0], machine_of(jobs), rules)
    assert schedules[0].start.tolist() == schedules[1].start.tolist()


@given(jobs=small_workloads(following=True), rules=rules)
def test_random_runnable_starts_what_fits_in_the_drawn_order(jobs: Workload, rules: Rules) -> None:
    schedules = [simulate(jobs, machine_of(jobs), one(3), rules) for one in (RandomRunnable, PlainRandomRunnable)]
    assert schedules[0].start.tolist() == schedules[1].start.tolist()


@pytest.mark.slow
def test_every_job_is_as_likely_as_another_and_seeds_differ() -> None:
    one = np.ones(12)
    jobs = Workload("equal", np.arange(12), 0 * one, 10 * one, np.ones(12, dtype=np.int64), 10 * one)
    first = [int(np.argmin(simulate(jobs, 1, RandomRunnable(seed)).start)) for seed in range(600)]
    counts = np.bincount(first, minlength=12)
    # Binomial with mean 50 and standard deviation 6.8.
    assert counts.min() > 20
    assert counts.max() < 80


def test_a_job_is_drawn_anew_at_every_scheduling_point() -> None:
    rng = np.random.default_rng(0)
    n = 200
    jobs = Workload("queue", np.arange(n), np.zeros(n), np.ones(n), rng.integers(1, 3, n), np.ones(n))
    order = np.argsort(simulate(jobs, 4, RandomRunnable(0)).start, kind="stable")
    fixed = np.argsort(simulate(jobs, 4, "random").start, kind="stable")
    assert order.tolist() != fixed.tolist()


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="the seed is -1"):
        get_policy("random-runnable", {"seed": -1})


MACHINE = Machine(6, 2, 4)
BACKFILL = [Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY]


def simulated(jobs: JobSet, rule: str, policy: str, backfill: Backfill) -> Schedule:
    """Run the same jobs in the simulator, where a timestep is a second and users estimate how long jobs really take."""
    chosen = _policies_of(policy, jobs)
    penalty = jobs.penalty[np.arange(len(jobs)), chosen]
    workload = jobs.workload()
    keys = _order_of(rule, jobs, MACHINE).keys(workload, np.random.default_rng(0))
    return simulate(
        replace(workload, estimate=jobs.length + penalty),
        MACHINE.platform(),
        ListScheduler(Fixed(keys), backfill),
        Rules(kill_at_limit=False),
        demands={"gpus": jobs.request[:, GPUS]},
        allocator=ByPolicy({str(job): Policy(how) for job, how in enumerate(chosen.tolist())}),
        execution=Penalised(jobs.length, penalty),
    )


@dataclass(frozen=True)
class Fixed:
    """An order whose keys are known: SJF goes by the requested time, not by the estimate."""

    known: QueueKeys
    name: ClassVar[str] = "fixed"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        return self.known


def in_whole_timesteps(recipe: Recipe, seed: int) -> JobSet:
    """Draw jobs whose service times are whole, as episodes take them."""
    (jobs,) = recipe.draw_each(MACHINE, SIERRA_TABLE, [seed])
    return replace(jobs, service=np.ceil(jobs.service - 1e-9))


@given(st.integers(0, 10**6), st.sampled_from(RULES[:3]), st.sampled_from(POLICIES), st.sampled_from(BACKFILL))
def test_baselines_make_the_schedules_of_the_simulator(seed: int, rule: str, policy: str, backfill: Backfill) -> None:
    jobs = in_whole_timesteps(Recipe(jobs=12), seed)
    (episodes,) = baseline_episodes([jobs], MACHINE, rule, policy, 0, backfill, Options(queue=len(jobs)))
    starts, ends, _ = episodes.times(0)
    schedule = simulated(jobs, rule, policy, backfill)
    np.testing.assert_allclose(schedule.start, starts)
    np.testing.assert_allclose(schedule.end, ends)
    assert schedule.nodes is not None


@given(st.integers(0, 10**6), st.sampled_from([Policy.DEPTH_FIRST, Policy.BREADTH_FIRST]))
def test_jobs_get_the_nodes_that_the_simulator_gives_them(seed: int, policy: Policy) -> None:
    jobs = in_whole_timesteps(Recipe(jobs=8, share=0.6), seed)
    episodes = Episodes([jobs], MACHINE, 1, Options(queue=len(jobs)))
    episodes.begin(np.array([0]))
    schedule = simulated(jobs, "fcfs", policy.label, Backfill.FIRST_FIT)
    seen: dict[int, list[int]] = {}
    over = np.zeros(1, dtype=bool)
    while not over.all():
        slots = episodes.jobs()[0]
        legal = [slot for slot in np.flatnonzero(episodes.observe()[1][0, :-1])]
        slot = min(legal, key=lambda one: slots[one]) if legal else len(slots)
        _, over = episodes.step(np.array([slot]), np.array([policy]))
        if legal:
            job = int(slots[slot])
            seen[job] = sorted(
                {
                    int(node)
                    for units in episodes.placement(0)
                    for node, _ in zip(*np.nonzero(units == job), strict=True)
                }
            )
    assert [seen[job] for job in range(len(jobs))] == [sorted(nodes.tolist()) for nodes in schedule.nodes or ()]


def test_the_better_policy_of_each_job_has_the_smallest_penalty() -> None:
    sets = Recipe().draw_each(MACHINE, SIERRA_TABLE, range(20))
    penalty = {policy: run_baseline(sets, MACHINE, "sjf", policy)["penalty"] for policy in POLICIES}
    assert (penalty["oracle"] <= np.minimum(penalty["depth-first"], penalty["breadth-first"]) + 1e-9).all()
    assert penalty["oracle"].mean() < 0.8 * penalty["breadth-first"].mean()


def test_random_jobs_are_drawn_by_the_seed() -> None:
    sets = Recipe().draw_each(MACHINE, SIERRA_TABLE, range(5))
    runs = [run_baseline(sets, MACHINE, "random", "oracle", seed)["wait"].tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_an_unknown_rule_or_policy_is_refused() -> None:
    (jobs,) = Recipe().draw_each(MACHINE, SIERRA_TABLE, [0])
    with pytest.raises(UsageError, match="there are fcfs, sjf, drf, random"):
        _order_of("lifo", jobs, MACHINE)
    with pytest.raises(UsageError, match="depth-first, breadth-first, oracle"):
        _policies_of("sideways", jobs)


@pytest.mark.slow
def test_the_baselines_come_in_the_order_of_table_1_on_unseen_job_sets() -> None:
    machine = Machine.of("sierra")
    sets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 2_000))
    order = [
        *(("sjf", "breadth-first"), ("sjf", "depth-first"), ("random", "breadth-first"), ("drf", "breadth-first")),
        *(("fcfs", "breadth-first"), ("fcfs", "depth-first"), ("random", "depth-first"), ("drf", "depth-first")),
    ]
    means = [run_baseline(sets, machine, *key)["normalized_turnaround"].mean() for key in order]
    assert means == sorted(means)


TWO_LEVEL_JOBS = random_workload(300, 9)


def test_renewed_reservations_are_easy_backfilling() -> None:
    policy = TwoLevelOrders(order="wfp3", fill="sjf", window=300, reservations="renewed")
    assert isinstance(policy, Scheduler)
    expected = simulate(TWO_LEVEL_JOBS, CLUSTER, ListScheduler(Wfp3(), Backfill.EASY, ShortestJobFirst()))
    for platform in (CLUSTER, Platform.whole_nodes(CLUSTER)):
        np.testing.assert_array_equal(simulate(TWO_LEVEL_JOBS, platform, policy).start, expected.start)


def test_a_scheduler_begins_each_simulation_anew() -> None:
    for policy in (TwoLevelOrders(), TwoLevelScheduler(AtRandom(2))):
        first, other = simulate(TWO_LEVEL_JOBS, CLUSTER, policy), simulate(random_workload(90, 1), CLUSTER, policy)
        assert len(policy.log.modes) == len(other.workload) == 90
        np.testing.assert_array_equal(simulate(TWO_LEVEL_JOBS, CLUSTER, policy).start, first.start)


def test_bin_packing_starts_the_largest_job_that_fits() -> None:
    scheduler = TwoLevelScheduler(InOrder(LargestFirst()), 10, Reservations.NONE)
    started = 0

    class Watched:
        def select(self, choice: Choice) -> int:
            nonlocal started
            started += 1
            slot = InOrder(LargestFirst()).select(choice)
            sizes = choice.view.processors[choice.jobs[choice.legal]]
            assert choice.view.processors[choice.jobs[slot]] == sizes.max() <= choice.view.free_processors
            return slot

    watched = simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(Watched(), 10, Reservations.NONE))
    assert started == len(TWO_LEVEL_JOBS)
    np.testing.assert_array_equal(simulate(TWO_LEVEL_JOBS, CLUSTER, scheduler).start, watched.start)


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
        simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(InOrder(DominantResourceFairness())))


@pytest.mark.parametrize(("slot", "reservations"), [(50, Reservations.KEPT), (END, Reservations.KEPT)])
def test_a_choice_that_is_not_legal_is_named(slot: int, reservations: Reservations) -> None:
    class Wrong:
        def select(self, choice: Choice) -> int:
            return slot

    with pytest.raises(SchedulerError, match=f"chose slot {slot}"):
        simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(Wrong(), reservations=reservations))


def test_first_come_first_served_with_kept_reservations_is_easy_backfilling() -> None:
    fcfs = FirstComeFirstServed()
    expected = simulate(TWO_LEVEL_JOBS, CLUSTER, ListScheduler(fcfs, Backfill.EASY))
    schedule = simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(InOrder(fcfs)))
    np.testing.assert_array_equal(schedule.start, expected.start)
