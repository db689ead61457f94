"""What every installed policy keeps to, under every backfilling, event order and kill rule."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedulers import queue_orders
from support.simulations import assert_lawful, machine_of, rules, small_workloads

from allocopt.cluster.platform import Platform
from allocopt.cluster.topology import FatTree
from allocopt.simulator.engine import Simulation
from allocopt.simulator.multicore.policies import Action
from allocopt.simulator.quota.scheduler import QuotaScheduler
from allocopt.simulator.rules import Backfill, EventOrder, QueueOrder, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler, get_policy, policy_names
from allocopt.simulator.simulate import simulate
from allocopt.simulator.state import STARTED
from allocopt.traces.workload import Workload

EXAMPLES = 20
"""Of each of some 10 policies."""
ORDERS = queue_orders()
BACKFILLS = st.sampled_from(Backfill)
OTHERS = [
    name for name in policy_names() if name not in ORDERS and not isinstance(get_policy(name), QuotaScheduler | Action)
]


def assert_same(first: Schedule, second: Schedule) -> None:
    assert first.start.tolist() == second.start.tolist()
    assert first.end.tolist() == second.end.tolist()
    if first.nodes is not None and second.nodes is not None:
        assert [nodes.tolist() for nodes in first.nodes] == [nodes.tolist() for nodes in second.nodes]


@pytest.mark.parametrize("backfill", Backfill, ids=lambda backfill: backfill.name.lower())
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@settings(max_examples=EXAMPLES)
@given(jobs=small_workloads(following=True), rules=rules, compression=st.booleans(), seed=st.integers(0, 9))
def test_a_queue_order_keeps_the_rules_and_gives_the_same_schedule_step_by_step_with_nodes_and_without(
    order: QueueOrder, backfill: Backfill, jobs: Workload, rules: Rules, compression: bool, seed: int
) -> None:
    started: list[int] = []

    def look(simulation: Simulation) -> None:
        started.extend(simulation.state.lists[STARTED, : simulation.state.clock["n_started"][0]].tolist())
        view = simulation.view
        waiting = view.queue.tolist()
        if backfill is Backfill.CONSERVATIVE:
            waiting = [job for job in waiting if view.reserved[job] <= view.now]
        elif backfill is not Backfill.FIRST_FIT:
            waiting = waiting[:1]
        assert not any(map(view.fits, waiting)), "nobody waits who could start"

    chosen = ListScheduler(order, backfill, compression=compression)
    schedule = simulate(jobs, machine_of(jobs), chosen, rules, seed)
    assert_lawful(schedule, machine_of(jobs), rules)
    for platform in (machine_of(jobs), Platform.whole_nodes(machine_of(jobs))):
        started.clear()
        watched = simulate(jobs, platform, chosen, rules, seed, observer=look)  # type: ignore[arg-type]
        assert_same(schedule, watched)
        assert_lawful(watched, machine_of(jobs), rules)
        assert sorted(started) == list(range(len(jobs))), "every job is started once"


@pytest.mark.parametrize("name", OTHERS)
@settings(max_examples=EXAMPLES)
@given(jobs=small_workloads(following=True), rules=rules)
def test_a_scheduler_of_its_own_keeps_the_rules_and_its_seed_fixes_the_schedule(
    name: str, jobs: Workload, rules: Rules
) -> None:
    def run() -> Schedule:
        policy = get_policy(name)
        assert isinstance(policy, Scheduler | ListScheduler)
        return simulate(jobs, Platform.whole_nodes(FatTree(1, 1, machine_of(jobs))), policy, rules)

    schedule = run()
    assert_lawful(schedule, machine_of(jobs), rules)
    assert_same(schedule, run())


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(jobs=small_workloads(), rules=rules)
def test_another_seed_changes_a_random_order_only(jobs: Workload, rules: Rules) -> None:
    for name in ORDERS:
        if name != "random":
            assert_same(*(simulate(jobs, machine_of(jobs), name, rules, seed) for seed in (0, 1)))


def test_a_random_order_differs_from_seed_to_seed() -> None:
    n = 20
    seconds = np.ones(n)
    jobs = Workload("equal", np.arange(n), 0 * seconds, seconds, np.ones(n, dtype=np.int64), seconds)
    starts = {tuple(simulate(jobs, 1, "random", seed=seed).start) for seed in range(5)}
    assert len(starts) == 5


@given(jobs=small_workloads(), backfill=st.sampled_from([Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE]))
def test_with_exact_estimates_both_event_orders_give_the_same_schedule(jobs: Workload, backfill: Backfill) -> None:
    exact = jobs.with_exact_estimates()
    scheduler = ListScheduler(ORDERS["fcfs"], backfill)
    both = [
        simulate(exact, machine_of(jobs), scheduler, Rules(event_order)).start.tolist() for event_order in EventOrder
    ]
    assert both[0] == both[1]


@given(jobs=small_workloads(), rules=rules)
def test_fcfs_starts_jobs_in_the_order_of_their_submission(jobs: Workload, rules: Rules) -> None:
    assert (np.diff(simulate(jobs, machine_of(jobs), "fcfs", rules).start) >= 0).all()


@given(jobs=small_workloads(following=True), backfill=BACKFILLS, rules=rules)
def test_dependencies_can_be_ignored(jobs: Workload, backfill: Backfill, rules: Rules) -> None:
    scheduler = ListScheduler(ORDERS["fcfs"], backfill)
    ignored = simulate(jobs, machine_of(jobs), scheduler, replace(rules, dependencies=False))
    nobody = np.full(len(jobs), -1)
    without = simulate(replace(jobs, preceding=nobody, think_s=0.0 * nobody), machine_of(jobs), scheduler, rules)
    assert ignored.start.tolist() == without.start.tolist()
    assert ignored.release.tolist() == jobs.submit.tolist()
