"""Learned schedulers beside the exact knapsack at every instance of a small trace, and FCFS with EASY beside them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.agents import AGENT_NAMES, write_agent, write_permuted
from support.knapsacks import value_of
from support.simulations import assert_lawful

from allocopt.envs.dras.dynamics import CAPABILITY
from allocopt.envs.dras.task import DrasOptions, Observing
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.dras.policies import Agent
from allocopt.learned.weights import find_weights, shipped_weights
from allocopt.problems.knapsack import Reward
from allocopt.simulator.decisions import Decision, Start
from allocopt.simulator.rules import Backfill, Mode, Reservations, Rules
from allocopt.simulator.scheduler import ListScheduler, Scheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.two_level import TwoLevelScheduler
from allocopt.simulator.view import View
from allocopt.simulator.window import OptimizationScheduler
from allocopt.solving.solve import solve
from allocopt.traces.workload import Workload

MACHINE, JOBS = 24, 90
UNTRAINED = "untrained"

SHIPPED_AGENTS = [(agent, site) for agent in AGENT_NAMES for site in shipped_weights(agent)]
AGENTS = [*SHIPPED_AGENTS, *((agent, UNTRAINED) for agent in AGENT_NAMES)]


def jobs_of(seed: int, n: int, span_s: int) -> Workload:
    """Draw jobs for a small machine: most short and small, estimates rough."""
    rng = np.random.default_rng(seed)
    run = np.where(rng.random(n) < 0.8, rng.integers(60, 3_000, n), rng.integers(6_000, 20_000, n))
    submit = np.sort(rng.integers(0, span_s, n)).astype(np.float64)
    estimate = np.ceil(run * rng.uniform(1.0, 4.0, n) / 300) * 300
    sizes = np.minimum(rng.geometric(0.2, n), MACHINE)
    return Workload("day", np.arange(1, n + 1), submit, run.astype(np.float64), sizes, estimate, MACHINE)


@pytest.fixture(scope="module")
def trace() -> Workload:
    """Return the jobs of a busy day."""
    return jobs_of(11, JOBS, 60_000)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write networks with random weights, one for every agent."""
    folder = tmp_path_factory.mktemp("weights")
    return {agent: write_agent(folder / f"{agent}.safetensors", agent, "none", 4, JOBS) for agent in AGENT_NAMES}


def options_of(agent: str, loaded: Agent) -> DrasOptions:
    reservations = Reservations.NONE if agent == "decima-pg" else Reservations.KEPT
    return DrasOptions(window=loaded.window, reservations=reservations, reward=CAPABILITY)


class Instances:
    """Holds what starts at every instance against the exact optimum of the knapsack that the instance poses."""

    def __init__(self, scheduler: Scheduler, reward: Reward) -> None:
        self.scheduler = scheduler
        self.reward = reward
        self.values: list[float] = []
        self.optima: list[float] = []

    def schedule(self, view: View) -> Iterator[Decision]:
        waiting, free = view.queue.tolist(), view.free_processors
        problem = OptimizationScheduler(objective=self.reward).problem(view, waiting) if waiting else None
        started = []
        for decision in self.scheduler.schedule(view):
            assert isinstance(decision, Start)
            started.append(waiting.index(decision.job))
            yield decision
        assert sum(view.processors[waiting[place]] for place in started) <= free
        if problem is not None and started:
            self.values.append(value_of(problem, sorted(started)))
            optimum = solve(problem, solver="dp")
            assert value_of(problem, optimum.solution.jobs) == pytest.approx(optimum.objective, rel=1e-9)
            self.optima.append(float(optimum.objective or 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("reward", [Reward.CAPABILITY, Reward.CAPACITY])
@pytest.mark.parametrize(("agent", "weights"), AGENTS)
def test_learned_schedulers_are_valid_and_select_nothing_better_than_the_optimum(
    trace: Workload, untrained: dict[str, Path], agent: str, weights: str, reward: Reward
) -> None:
    loaded = Agent.load(agent, str(untrained[agent]) if weights == UNTRAINED else weights)
    options = options_of(agent, loaded)
    inner = TwoLevelScheduler(Observing(loaded.policy(), options), options.window, options.reservations)
    watched = Instances(inner, reward)
    schedule = simulate(trace, MACHINE, watched)
    assert_lawful(schedule, MACHINE, Rules())
    assert len(watched.values) > 20
    assert (np.array(watched.values) <= np.array(watched.optima) + 1e-9).all()
    assert sum(watched.values) < sum(watched.optima), "not every choice of an agent is the greedy optimum"
    reserved = inner.log.modes == Mode.RESERVED
    assert reserved.any() == (agent != "decima-pg")
    assert (schedule.start[reserved] <= inner.log.promised[reserved]).all()


def score(agent: str, weights: str) -> float:
    """Return what validations of trainings judge by, on jobs of two seeds: waits over those of FCFS with EASY."""
    loaded, scores = Agent.load(agent, weights), []
    options = options_of(agent, loaded)
    for seed in (1, 2):
        jobs = jobs_of(seed, 300, 300_000)
        schedulers = (
            TwoLevelScheduler(Observing(loaded.policy(), options), options.window, options.reservations),
            ListScheduler(FirstComeFirstServed(), Backfill.EASY),
        )
        ours, theirs = (simulate(jobs, MACHINE, scheduler).job_times.wait_s for scheduler in schedulers)
        scores.append(ours.mean() / theirs.mean() + max(0.0, ours.max() / theirs.max() - 1.25))
    return float(np.mean(scores))


@pytest.mark.slow
@pytest.mark.parametrize("site", ["theta", "sdsc-sp2"])
def test_an_agent_is_better_than_first_come_first_served_by_what_it_learned_alone(site: str, tmp_path: Path) -> None:
    assert score("dras-ppo", site) < 0.95
    for seed in range(3):
        assert score("dras-ppo", write_permuted(find_weights("dras-ppo", site), seed, tmp_path)) > 1.1
