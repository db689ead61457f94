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
from support.simulations import machine_of, rules, small_workloads
from support.slow_scores import SlowScores
from support.workloads import MACHINE as CLUSTER
from support.workloads import random_workload, workload

from allocopt.cluster.platform import Platform
from allocopt.envs.cush.jobsets import GPUS, HELD_OUT, JobSet, Machine, Recipe
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.job_selection import (
    POLICIES,
    RULES,
    _keys_of,
    _policies_of,
    baseline_episodes,
    run_baseline,
)
from allocopt.heuristics.scheduling.queue_orders import PriorityRule, RandomOrder, RandomRunnable, evolved_formula
from allocopt.heuristics.scheduling.two_level import AtRandom, InOrder, TwoLevelOrders
from allocopt.simulator.decisions import Start
from allocopt.simulator.engine import Simulation
from allocopt.simulator.locality import SIERRA_TABLE, ByPolicy, Penalised, Policy
from allocopt.simulator.rules import Backfill, OrderKind, QueueKeys, QueueOrder, Reservations, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler, Scheduler, SchedulerError, get_policy
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import END, Choice, TwoLevelScheduler
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

JOBS = workload(
    [
        *((1, 0.0, 1, 8, 100.0), (2, 10.0, 2, 1, 400.0), (3, 100.0, 3, 2, 50.0), (4, 1000.0, 4, 64, 200.0)),
        *((5, 0.25, 1, 8, 101.0), (6, 1.0, 1, 8, 102.0), (7, 2.0, 1, 8, 103.0)),
    ]
)

# What the lowest job has, of estimate r, processors n, submit time s and wait w, as published.
FORMULAS: dict[str, Callable[[float, float, float, float], float]] = {
    "sjf": lambda r, n, s, w: r,
    "ljf": lambda r, n, s, w: -r,
    "smallest-area": lambda r, n, s, w: r * n,
    "largest": lambda r, n, s, w: -n,
    "wfp3": lambda r, n, s, w: -((w / r) ** 3) * n,
    "unicep": lambda r, n, s, w: -w / (r * math.log2(n)) if n > 1 else -math.inf,
    "f1": lambda r, n, s, w: math.log10(r) * n + 870 * math.log10(s),
    "f2": lambda r, n, s, w: math.sqrt(r) * n + 25_600 * math.log10(s),
    "f3": lambda r, n, s, w: r * n + 6_860_000 * math.log10(s),
    "f4": lambda r, n, s, w: r * math.sqrt(n) + 530_000 * math.log10(s),
}
KINDS = {
    "fcfs": OrderKind.ARRIVAL,
    "drf": OrderKind.FAIR_SHARE,
    "wfp3": OrderKind.AGEING,
    "unicep": OrderKind.AGEING,
}


@pytest.mark.parametrize("now", [1100.0, 2000.0, 1e6])
@pytest.mark.parametrize("name", FORMULAS)
def test_jobs_stand_as_the_published_formula_says(name: str, now: float) -> None:
    keys = PriorityRule(name).keys(JOBS, np.random.default_rng(0))
    # A job of the first second counts as submitted at its end.
    columns = (JOBS.estimate, JOBS.processors, np.maximum(JOBS.submit, 1.0), now - JOBS.submit)
    expected = np.array([FORMULAS[name](*map(float, job)) for job in zip(*columns, strict=True)])
    values = keys.values if keys.kind is OrderKind.FIXED else -keys.values * (now - JOBS.submit)
    places, published = (np.lexsort((JOBS.submit, column)).tolist() for column in (values, expected))
    assert places == published
    if keys.kind is OrderKind.FIXED:
        assert values == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("order", [*map(PriorityRule, [*FORMULAS, "fcfs", "drf"]), RandomOrder()])
def test_every_order_gives_a_finite_number_per_job_and_travels_to_other_processes(order: QueueOrder) -> None:
    jobs = workload([(1, 0.0, 1e-3, 1, 1e-3), (2, 0.0, 2.0**53, 2**53, 2.0**53)])
    keys = pickle.loads(pickle.dumps(order)).keys(jobs, np.random.default_rng(0))
    assert np.isfinite(keys.values).all()
    assert keys.values.shape == (2,)
    assert keys.kind is KINDS.get(order.name, OrderKind.FIXED)


def test_the_evolved_formula_puts_short_jobs_first_but_those_that_starve_before_them() -> None:
    keys = evolved_formula().keys(JOBS, np.random.default_rng(0))
    assert keys.network is not None
    limits, users, submits = [100.0, 400.0, 50.0, 3000.0], [1, 1, 2, 2], [0.0, 40_000.0, 30_000.0, 0.0]
    known = SlowScores([{"": 1}] * 4, {"": 8}, limits, users)
    known.ended(0, 20.0)
    known.started(1000.0)
    now = 40_000.0
    # Of user 1 a job has run for 20 s, and 16,000 s are ten times the mean wait, each with 10 minutes more.
    mean = known.mean_wait + 600

    def value(job: int) -> float:
        predicted = 20.0 if users[job] == 1 else limits[job]
        return float(limits[job] * predicted**0.3 / max(1.0, (now - submits[job] + 600) / (10 * mean)) ** 5)

    waiting = {job: submits[job] for job in (1, 2, 3)}
    scores = known.scores(keys.network, now, waiting, [])
    assert {job: math.exp(score) for job, score in scores.items()} == pytest.approx(
        {job: value(job) for job in waiting}
    )
    assert sorted(scores, key=scores.__getitem__) == [2, 3, 1]


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


@pytest.mark.parametrize(
    ("policy", "plain"), [("binpacking", PlainBinPacking()), (RandomRunnable(3), PlainRandomRunnable(3))]
)
@given(jobs=small_workloads(following=True), rules=rules)
def test_what_is_runnable_starts_as_with_the_obvious_twin_until_nobody_fits(
    policy: str | Scheduler, plain: Scheduler, jobs: Workload, rules: Rules
) -> None:
    schedule = simulate(jobs, machine_of(jobs), policy, rules, observer=nobody_fits)
    assert schedule.start.tolist() == simulate(jobs, machine_of(jobs), plain, rules).start.tolist()


MACHINE = Machine(6, 2, 4)
BACKFILL = [Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY]


def simulated(jobs: JobSet, rule: str, policy: str, backfill: Backfill) -> Schedule:
    """Run the same jobs in the simulator, where a timestep is a second and users estimate how long jobs really take."""
    chosen = _policies_of(policy, jobs)
    penalty = jobs.penalty[np.arange(len(jobs)), chosen]
    workload = jobs.workload()
    keys = _keys_of(rule, jobs, workload, MACHINE, np.random.default_rng(0))
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
    (episodes,) = baseline_episodes([jobs], MACHINE, rule, policy, 0, backfill, CushOptions(queue=len(jobs)))
    starts, ends, _ = episodes.times(0)
    schedule = simulated(jobs, rule, policy, backfill)
    np.testing.assert_allclose(schedule.start, starts)
    np.testing.assert_allclose(schedule.end, ends)
    assert schedule.nodes is not None


@given(st.integers(0, 10**6), st.sampled_from([Policy.DEPTH_FIRST, Policy.BREADTH_FIRST]))
def test_jobs_get_the_nodes_that_the_simulator_gives_them(seed: int, policy: Policy) -> None:
    jobs = in_whole_timesteps(Recipe(jobs=8, share=0.6), seed)
    episodes = CushEpisodes([jobs], MACHINE, 1, CushOptions(queue=len(jobs)))
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
    with pytest.raises(UsageError, match="choose from fcfs, sjf, drf, random"):
        run_baseline([jobs], MACHINE, "lifo", "oracle")
    with pytest.raises(UsageError, match="depth-first, breadth-first, oracle"):
        run_baseline([jobs], MACHINE, "sjf", "sideways")


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["normalized_turnaround", "wait", "rewards"])
def test_breadth_first_is_better_under_every_rule_on_sierra_and_sjf_is_best_as_in_table_1(metric: str) -> None:
    machine = Machine.of("sierra")
    sets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 1_000))
    options = CushOptions(over_requested=True)
    means = {
        (rule, policy): abs(run_baseline(sets, machine, rule, policy, options=options)[metric].mean())
        for rule in RULES
        for policy in ("depth-first", "breadth-first")
    }
    assert all(means[rule, "breadth-first"] < means[rule, "depth-first"] for rule in RULES)
    assert min(means, key=means.__getitem__)[0] == "sjf"


TWO_LEVEL_JOBS = random_workload(300, 9)


EASY = Backfill.EASY


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            TwoLevelOrders(order="wfp3", fill="sjf", window=300, reservations="renewed"),
            ListScheduler(PriorityRule("wfp3"), EASY, PriorityRule("sjf")),
        ),
        (TwoLevelScheduler(InOrder(PriorityRule("fcfs"))), ListScheduler(PriorityRule("fcfs"), EASY)),
        (TwoLevelScheduler(InOrder(PriorityRule("largest")), 300, Reservations.NONE), PlainBinPacking()),
    ],
    ids=["renewed", "kept", "none"],
)
def test_two_levels_hold_easy_backfilling_and_bin_packing(policy: Scheduler, expected: Scheduler) -> None:
    start = simulate(TWO_LEVEL_JOBS, CLUSTER, expected).start
    for platform in (CLUSTER, Platform.whole_nodes(CLUSTER)):
        np.testing.assert_array_equal(simulate(TWO_LEVEL_JOBS, platform, policy).start, start)


def test_a_scheduler_begins_each_simulation_anew() -> None:
    for policy in (TwoLevelOrders(), TwoLevelScheduler(AtRandom(2))):
        first, other = simulate(TWO_LEVEL_JOBS, CLUSTER, policy), simulate(random_workload(90, 1), CLUSTER, policy)
        assert len(policy.log.modes) == len(other.workload) == 90
        np.testing.assert_array_equal(simulate(TWO_LEVEL_JOBS, CLUSTER, policy).start, first.start)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: get_policy("random-runnable", {"seed": -1}), "the seed is -1"),
        (lambda: TwoLevelOrders(reservations="held"), "kept, renewed, none"),
        (lambda: TwoLevelOrders(order="window"), "not a queue order"),
        (lambda: TwoLevelOrders(fill="nothing"), "no policy"),
        (lambda: TwoLevelOrders(seed=-1), "seed"),
        (lambda: TwoLevelOrders(window=0), "window is 0"),
        (lambda: TwoLevelScheduler("wfp3"), "not a selector"),  # type: ignore[arg-type]
        (
            lambda: simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(InOrder(PriorityRule("drf")))),
            "shares of users",
        ),
    ],
)
def test_mistakes_are_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


@pytest.mark.parametrize("slot", [50, END])
def test_a_choice_that_is_not_legal_is_named(slot: int) -> None:
    class Wrong:
        def select(self, choice: Choice) -> int:
            return slot

    with pytest.raises(SchedulerError, match=f"chose slot {slot}"):
        simulate(TWO_LEVEL_JOBS, CLUSTER, TwoLevelScheduler(Wrong(), reservations=Reservations.KEPT))
