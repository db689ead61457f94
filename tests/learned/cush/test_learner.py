"""Returns and baselines are those of the paper, and both selectors learn what is better."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from allocopt.arrays import FloatArray
from allocopt.envs.cush.dynamics import Weights
from allocopt.envs.cush.jobsets import Machine, Recipe
from allocopt.envs.cush.observation import FIRST_TRAIT
from allocopt.envs.cush.task import Options
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE
from heuristics.scheduling.job_selection import run_baseline

torch = pytest.importorskip("torch")

from learned.cush.learner import (  # noqa: E402  # noqa: E402
    CompactModule,
    CushLearner,
    ImageModule,
    PolicyModule,
    Settings,
    Simulations,
    _Allocations,
    _baseline,
    _Played,
)
from learned.cush.policies import Agent, Validator  # noqa: E402
from learned.rl.slots import CompactNetwork  # noqa: E402
from learned.rl.workers import ALONE  # noqa: E402

SMALL = Machine(4, 2, 4)
COMPACT = CompactNetwork(FIRST_TRAIT + 3, critic=0)
OPTIONS = Options(reward=Weights(waiting=0.0, normalized_turnaround=1.0), skips_forced=True)
QUICK = Settings(
    optimizer="adam",
    selector_rate=1e-2,
    policy_rate=3e-2,
    gamma=1.0,
    global_reward=False,
    clock="timesteps",
    policy_steps=2,
    policy_baseline=True,
    scaled=True,
    average_every=1,
    validate_every=1,
)
SETS = Recipe(jobs=8).draw_each(SMALL, SIERRA_TABLE, range(40))


def learner(settings: Settings = QUICK, options: Options = OPTIONS, seed: int = 0) -> CushLearner:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        image = options.observation == "image"
        jobs = ImageModule(5, 5, SMALL.units) if image else CompactModule(COMPACT)
        policies = PolicyModule(3)
    simulations = Simulations(SETS[:30], SMALL, 4 // settings.chunks, 6, options, seed)
    validator = Validator(SETS[30:], SMALL, options, ALONE)
    return CushLearner(jobs, policies, simulations, validator, settings, seed, ALONE)


def played(**parts: object) -> _Played:
    """Make simulations of which only some parts matter."""
    none = np.zeros(0)
    values = dict.fromkeys(_Played.__slots__, none) | parts
    return _Played(**values)  # type: ignore[arg-type]


def test_returns_are_discounted_local_rewards_times_the_global_reward() -> None:
    rewards = np.array([[-1.0, -2.0], [-3.0, -4.0], [-5.0, 0.0]])
    runs = np.array([[True, True], [True, True], [True, False]])
    both = played(rewards=rewards, runs=runs, turnaround=np.array([2.0, 3.0]))
    expected = [[2 * (-1 - 0.9 * 3 - 0.81 * 5), 3 * (-2 - 0.9 * 4)], [2 * (-3 - 0.9 * 5), 3 * -4], [2 * -5, 0]]
    np.testing.assert_allclose(both.returns(0.9, global_reward=True), expected)
    assert both.returns(1.0, global_reward=False)[0].tolist() == [-9.0, -6.0]


def brute_baseline(returns: FloatArray, times: FloatArray, runs: FloatArray, groups: list[int]) -> FloatArray:
    means = np.zeros_like(returns)
    for t, e in np.argwhere(runs):
        alike = [returns[i, j] for i, j in np.argwhere(runs) if groups[j] == groups[e] and times[i, j] == times[t, e]]
        means[t, e] = np.mean(alike)
    return means


@pytest.mark.parametrize("clock", ["actions", "timesteps"])
def test_the_baseline_is_the_mean_return_of_the_same_job_set_at_the_same_time(clock: str) -> None:
    rng = np.random.default_rng(0)
    lengths = [5, 3, 4, 5]
    runs = np.arange(5)[:, None] < np.array(lengths)
    times = np.sort(rng.integers(0, 4, (5, 4)), axis=0)
    one = played(runs=runs, times=times)
    returns, groups = rng.normal(size=(5, 4)), np.array([0, 0, 1, 1])
    when = one.times_by(clock)  # type: ignore[arg-type]
    found = _baseline(returns, when, runs, groups, ALONE)
    np.testing.assert_allclose(found, brute_baseline(returns, when, runs, groups.tolist()))


STARTED = _Allocations(
    episodes=np.array([0, 1, 1, 2]),
    jobs=np.array([3, 3, 0, 3]),
    described=np.zeros((4, 6), dtype=np.float32),
    policies=np.array([0, 1, 0, 1]),
    penalties=np.array([3.0, 0.5, 7.0, 4.0]),
    right=np.array([False, True, False, False]),
)


def test_the_return_of_the_policy_selector_is_minus_the_penalty_without_a_baseline_as_published() -> None:
    choices = STARTED.choices(np.array([0, 0, 1]), Settings(), ALONE)
    assert choices.advantages.tolist() == [-3.0, -0.5, -7.0, -4.0]
    assert choices.legal.all()


def test_the_baseline_of_the_policy_selector_is_the_mean_return_of_the_same_job() -> None:
    choices = STARTED.choices(np.array([0, 0, 1]), Settings(policy_baseline=True), ALONE)
    assert choices.advantages.tolist() == [-1.25, 1.25, 0.0, 0.0]


def test_scaled_advantages_have_a_standard_deviation_of_one() -> None:
    choices = STARTED.choices(np.array([0, 0, 1]), Settings(scaled=True), ALONE)
    assert float(choices.advantages.std()) == pytest.approx(1.0)


def test_simulations_are_of_the_same_job_sets_and_differ_by_chance() -> None:
    simulations = Simulations(SETS, SMALL, 3, 4, OPTIONS, 0)
    modules = CompactModule(COMPACT), PolicyModule(3)
    one = simulations.play(Agent(modules[0].acting(), modules[1].acting()), torch.Generator().manual_seed(0))
    jobsets = simulations.episodes.tally["jobset"].reshape(3, 4)
    assert (jobsets == jobsets[:, :1]).all()
    assert len(set(jobsets[:, 0].tolist())) == 3
    assert len(np.unique(one.turnaround.reshape(3, 4)[0])) > 1
    assert one.acts.sum() == len(one.slots) == len(one.legal) == len(one.observations)
    assert len(one.allocations.policies) == 12 * len(SETS[0])
    assert sorted(one.allocations.jobs[one.allocations.episodes == 5].tolist()) == list(range(len(SETS[0])))
    assert (one.legal.sum(axis=1) > 1).all()
    assert one.legal[np.arange(len(one.slots)), one.slots].all()
    np.testing.assert_allclose(one.rewards.sum(axis=0), 1 - one.turnaround)


@pytest.mark.slow
def test_both_selectors_learn_what_is_better_than_shortest_job_first() -> None:
    one = learner()
    for epoch in range(30):
        measures = one.update(epoch / 30)
    found = run_baseline(SETS[30:], SMALL, "sjf", "breadth-first")["normalized_turnaround"].mean()
    assert measures["right_policies"] > 0.99
    assert one.best_score < found


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["compact", "published"])
def test_a_learner_goes_on_from_a_snapshot_as_if_nothing_had_happened(kind: str) -> None:
    image = kind == "published"
    options = Options(observation="image") if image else OPTIONS
    settings = replace(Settings(), chunks=2, average_every=1, validate_every=2) if image else QUICK
    one, other = learner(settings, options, 0), learner(settings, options, 1)
    for epoch in range(2):
        one.update(epoch / 4)
    other.restore(deepcopy(one.snapshot()))
    assert [one.update(0.5), one.update(0.75)] == [other.update(0.5), other.update(0.75)]
    assert all(np.array_equal(values, other.weights()[name]) for name, values in one.weights().items())


def test_a_snapshot_of_more_workers_is_refused() -> None:
    one = learner()
    snapshot = one.snapshot()
    snapshot["workers"] *= 2
    with pytest.raises(ValueError, match="of 2 workers"):
        one.restore(snapshot)


def test_validations_must_fall_on_averages() -> None:
    with pytest.raises(UsageError, match="every 7 epochs must fall on averages, every 5"):
        Settings(average_every=5, validate_every=7)
