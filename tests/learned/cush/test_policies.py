"""Agents of CuSH decide in a simulation as in episodes; the shipped ones keep what they promise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.workloads import busy_days

from allocopt.cluster.platform import Platform
from allocopt.envs.cush.jobsets import GPUS, HELD_OUT, Machine, Recipe
from allocopt.envs.cush.task import CushEpisodes, CushOptions
from allocopt.errors import UsageError
from allocopt.learned.cush.policies import Cush, Kinds, Trained
from allocopt.simulator.engine import Simulation
from allocopt.simulator.locality import SIERRA_TABLE, ByPolicy, Penalised
from allocopt.simulator.rules import Rules
from allocopt.simulator.simulate import simulate
from papers.cush.configuration import acting_options, best_turnaround, of_agent

MACHINE = Machine.of("sierra", 6)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5]), st.sampled_from(["sierra", "summit"]))
def test_the_agent_makes_the_schedules_of_its_episodes_in_the_simulator(
    seed: int, unknown: float, weights: str
) -> None:
    recipe = Recipe(jobs=12, unknown_share=unknown)
    jobs = recipe.draw(MACHINE, SIERRA_TABLE, np.random.default_rng(seed))
    jobs = replace(jobs, service=np.ceil(jobs.service - 1e-9))
    trained = Trained.load(weights)
    episodes = CushEpisodes([jobs], MACHINE, 1, CushOptions(trained.queue, skips_forced=True))
    trained.agent().run(episodes)
    starts, ends, policies = episodes.times(0)
    cush = Cush(weights, timestep_s=1.0, kinds=Kinds(jobs.traits, jobs.penalty))
    schedule = simulate(
        jobs.workload(),
        MACHINE.platform(),
        cush,
        Rules(kill_at_limit=False),
        demands={"gpus": jobs.request[:, GPUS]},
        allocator=ByPolicy(cush.policies),
        execution=Penalised(jobs.length, jobs.penalty, cush.policies),
    )
    np.testing.assert_allclose(schedule.start, starts)
    np.testing.assert_allclose(schedule.end, ends)
    assert [cush.policies[str(job)] for job in range(len(jobs))] == policies.tolist()


def test_without_waiting_nobody_of_the_queue_waits_who_could_start() -> None:
    jobs = busy_days(1, 60, 0.05, 64)

    def look(simulation: Simulation) -> None:
        assert not any(simulation.view.fits(job) for job in simulation.view.queue.tolist())

    simulate(jobs, Platform.pool(64), Cush(waits=False, queue=len(jobs)), observer=look)


def test_options_that_fit_neither_jobs_nor_weights_are_refused(tmp_path: Path) -> None:
    (jobs,) = Recipe().draw_each(MACHINE, SIERRA_TABLE, [0])
    with pytest.raises(UsageError, match=r"must have \(\(20, 3\), \(20, 2\)\)"):
        simulate(jobs.workload(), 512, Cush(kinds=Kinds(jobs.traits[:, :2], jobs.penalty)))
    for options, fault in (
        ({"weights": str(tmp_path / "none")}, "must be one of sierra, summit or a file"),
        ({"queue": -1}, "the queue is -1"),
        ({"queue": 2**31}, r"the queue is 2147483648, must be within 1 \.\. 100000"),
        ({"timestep_s": 0.0}, "the timestep is 0"),
    ):
        with pytest.raises(UsageError, match=fault):
            Cush(**options)


@pytest.mark.parametrize("weights", ["sierra", "summit"])
def test_a_shipped_agent_is_a_fifth_better_than_every_baseline_and_chooses_the_better_policy(weights: str) -> None:
    machine = Machine.of(weights)
    jobsets = Recipe().draw_each(machine, SIERRA_TABLE, range(HELD_OUT, HELD_OUT + 100))
    trained = Trained.load(weights)
    found = of_agent(trained.agent(), jobsets, machine, acting_options(trained.queue))
    assert found.sets["normalized_turnaround"].mean() < 0.8 * best_turnaround(jobsets, machine)
    assert (found.policy == found.better).mean() > 0.99
