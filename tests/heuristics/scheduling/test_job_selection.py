from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.platform import Platform
from allocopt.envs.cush.jobsets import GPUS, HELD_OUT, JobSet, Machine, Recipe, draw_jobsets, sierra
from allocopt.envs.cush.task import Episodes, Options
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE, ByPolicy, Penalised, Policy
from allocopt.simulator.rules import Backfill, QueueKeys, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.job_selection import POLICIES, RULES, list_values, order_of, policies_of, run_baseline

MACHINE = Machine(6, 2, 4)
BACKFILL = [Backfill.NONE, Backfill.FIRST_FIT, Backfill.EASY]


def simulated(jobs: JobSet, rule: str, policy: str, backfill: Backfill) -> Schedule:
    """Run the same jobs in the simulator, where a timestep is a second and users estimate how long jobs really take."""
    chosen = policies_of(policy, jobs)
    penalty = jobs.penalty[np.arange(len(jobs)), chosen]
    workload = jobs.workload()
    keys = order_of(rule, jobs, MACHINE).keys(workload, np.random.default_rng(0))
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


@given(st.integers(0, 10**6), st.sampled_from(RULES[:3]), st.sampled_from(POLICIES), st.sampled_from(BACKFILL))
def test_baselines_make_the_schedules_of_the_simulator(seed: int, rule: str, policy: str, backfill: Backfill) -> None:
    (jobs,) = (one.in_whole_timesteps() for one in draw_jobsets(MACHINE, SIERRA_TABLE, [seed], Recipe(jobs=12)))
    episodes = Episodes([jobs], MACHINE, 1, Options(queue=len(jobs)))
    values = list_values(rule, jobs, MACHINE, np.random.default_rng(0))
    episodes.follow_list(0, values, policies_of(policy, jobs), backfill)
    starts, ends, _ = episodes.times(0)
    schedule = simulated(jobs, rule, policy, backfill)
    np.testing.assert_allclose(schedule.start, starts)
    np.testing.assert_allclose(schedule.end, ends)
    assert schedule.nodes is not None


@given(st.integers(0, 10**6), st.sampled_from([Policy.DEPTH_FIRST, Policy.BREADTH_FIRST]))
def test_jobs_get_the_nodes_that_the_simulator_gives_them(seed: int, policy: Policy) -> None:
    (jobs,) = (
        one.in_whole_timesteps() for one in draw_jobsets(MACHINE, SIERRA_TABLE, [seed], Recipe(jobs=8, share=0.6))
    )
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
    sets = draw_jobsets(MACHINE, SIERRA_TABLE, range(20))
    penalty = {policy: run_baseline(sets, MACHINE, "sjf", policy)["penalty"] for policy in POLICIES}
    assert (penalty["oracle"] <= np.minimum(penalty["depth-first"], penalty["breadth-first"]) + 1e-9).all()
    assert penalty["oracle"].mean() < 0.8 * penalty["breadth-first"].mean()


def test_random_jobs_are_drawn_by_the_seed() -> None:
    sets = draw_jobsets(MACHINE, SIERRA_TABLE, range(5))
    runs = [run_baseline(sets, MACHINE, "random", "oracle", seed)["wait"].tolist() for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_an_unknown_rule_or_policy_is_refused() -> None:
    (jobs,) = draw_jobsets(MACHINE, SIERRA_TABLE, [0])
    with pytest.raises(UsageError, match="there are fcfs, sjf, drf, random"):
        order_of("lifo", jobs, MACHINE)
    with pytest.raises(UsageError, match="depth-first, breadth-first, oracle"):
        policies_of("sideways", jobs)


def test_the_platform_has_the_units_of_the_machine() -> None:
    platform: Platform = MACHINE.platform()
    assert (platform.resources, platform.total.tolist()) == (("cpus", "gpus"), [12, 24])


@pytest.mark.slow
def test_the_baselines_come_in_the_order_of_table_1_on_unseen_job_sets() -> None:
    machine = sierra()
    sets = draw_jobsets(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 2_000))
    order = [
        *(("sjf", "breadth-first"), ("sjf", "depth-first"), ("random", "breadth-first"), ("drf", "breadth-first")),
        *(("fcfs", "breadth-first"), ("fcfs", "depth-first"), ("random", "depth-first"), ("drf", "depth-first")),
    ]
    means = [run_baseline(sets, machine, *key)["normalized_turnaround"].mean() for key in order]
    assert means == sorted(means)
