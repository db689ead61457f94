"""Returns and baselines are those of the paper, networks have its sizes, and both selectors learn."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from allocopt.envs.cush.dynamics import FIRST_TRAIT, Weights
from allocopt.envs.cush.jobsets import Machine, Recipe
from allocopt.envs.cush.task import N_NUMBERS, CushOptions
from allocopt.errors import UsageError
from allocopt.heuristics.scheduling.job_selection import run_baseline
from allocopt.learned.cush.learner import (
    PUBLISHED,
    SETTINGS_BY_NAME,
    USUAL,
    CompactModule,
    CushLearner,
    ImageModule,
    Settings,
    Simulations,
    _Allocations,
    _baseline,
    _Played,
)
from allocopt.learned.cush.policies import HIDDEN, Agent, PolicySelector, Validator
from allocopt.learned.cush.training import SETTINGS
from allocopt.learned.rl.networks import dense, weights_of
from allocopt.learned.rl.slots import CompactNetwork
from allocopt.learned.rl.workers import ALONE
from allocopt.simulator.locality import SIERRA_TABLE

SMALL = Machine(4, 2, 4)
COMPACT = CompactNetwork(FIRST_TRAIT + 3, critic=0)
REWARD = Weights(waiting=0.0, normalized_turnaround=1.0)
OPTIONS = CushOptions(reward=REWARD, skips_forced=True, over_requested=True)

QUICK = replace(USUAL, selector_rate=1e-2, policy_rate=3e-2, last_rate=1.0, policy_steps=2, ent_coef=0.0)
QUICK = replace(QUICK, max_grad_norm=np.inf, average_every=1, validate_every=1)
SETS = Recipe(jobs=8).draw_each(SMALL, SIERRA_TABLE, range(40))


def policy_network() -> torch.nn.Sequential:
    return dense(3 + N_NUMBERS, HIDDEN, 2, activation=torch.nn.ReLU())


def selector(module: torch.nn.Module) -> PolicySelector:
    return PolicySelector(weights=weights_of(module))


def learner() -> CushLearner:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        jobs, policies = CompactModule(COMPACT), policy_network()
    simulations = Simulations(SETS[:30], SMALL, 4, 6, OPTIONS, 0)
    validator = Validator(SETS[30:], SMALL, OPTIONS, ALONE)
    return CushLearner(jobs, policies, simulations, validator, QUICK, 0, ALONE)


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


@pytest.mark.parametrize("clock", ["actions", "timesteps"])
def test_the_baseline_is_the_mean_return_of_the_same_job_set_at_the_same_time(clock: str) -> None:
    rng = np.random.default_rng(0)
    runs = np.arange(5)[:, None] < np.array([5, 3, 4, 5])
    times = np.sort(rng.integers(0, 4, (5, 4)), axis=0)
    returns, groups = rng.normal(size=(5, 4)), np.array([0, 0, 1, 1])
    when = played(runs=runs, times=times).times_by(clock)  # type: ignore[arg-type]
    found, steps = _baseline(returns, when, runs, groups, ALONE), np.argwhere(runs)
    for t, e in np.ndindex(runs.shape):
        alike = [returns[i, j] for i, j in steps if groups[j] == groups[e] and when[i, j] == when[t, e]]
        assert found[t, e] == pytest.approx(np.mean(alike) if runs[t, e] else 0.0)


def test_remedies_change_one_thing_of_the_published_settings_each() -> None:
    assert set(SETTINGS_BY_NAME) == set(SETTINGS)
    changed = {
        name: {part.name for part in fields(Settings) if getattr(settings, part.name) != getattr(PUBLISHED, part.name)}
        for name, settings in SETTINGS_BY_NAME.items()
    }
    assert changed["published"] == set()
    assert (changed["normalized"], changed["entropy"]) == ({"scaled"}, {"ent_coef"})
    assert changed["stable"] == {"scaled", "ent_coef"}


STARTED = _Allocations(
    episodes=np.array([0, 1, 1, 2]),
    jobs=np.array([3, 3, 0, 3]),
    described=np.zeros((4, 6), dtype=np.float32),
    policies=np.array([0, 1, 0, 1]),
    penalties=np.array([3.0, 0.5, 7.0, 4.0]),
    right=np.array([False, True, False, False]),
)


def test_the_return_of_the_policy_selector_is_minus_the_penalty_less_that_of_the_same_job_if_asked_for() -> None:
    published, relative, scaled = (
        STARTED.choices(np.array([0, 0, 1]), settings, ALONE)
        for settings in (Settings(), Settings(policy_baseline=True), Settings(scaled=True))
    )
    assert published.advantages.tolist() == [-3.0, -0.5, -7.0, -4.0]
    assert published.legal.all()
    assert relative.advantages.tolist() == [-1.25, 1.25, 0.0, 0.0]
    assert float(scaled.advantages.std()) == pytest.approx(1.0)


def test_simulations_are_of_the_same_job_sets_and_differ_by_chance() -> None:
    simulations = Simulations(SETS, SMALL, 3, 4, OPTIONS, 0)
    modules = CompactModule(COMPACT), policy_network()
    one = simulations.play(Agent(modules[0].acting(), selector(modules[1])), torch.Generator().manual_seed(0))
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
    found = [
        run_baseline(SETS[30:], SMALL, "sjf", policy, options=OPTIONS)["normalized_turnaround"].mean()
        for policy in ("depth-first", "breadth-first")
    ]
    assert measures["right_policies"] > 0.99
    assert one.best_score < min(found)


def test_a_snapshot_of_more_workers_and_validations_between_averages_are_refused() -> None:
    one = learner()
    snapshot = one.snapshot()
    snapshot["workers"] *= 2
    with pytest.raises(ValueError, match="of 2 workers"):
        one.restore(snapshot)
    with pytest.raises(UsageError, match="every 7 epochs must coincide with averages; give a multiple of 5"):
        Settings(average_every=5, validate_every=7)


@pytest.mark.parametrize(
    ("module", "number"),
    [
        (ImageModule(5, 5, Machine.of("sierra").units), 294_966),
        (ImageModule(5, 5, Machine.of("summit").units), 393_270),
        (ImageModule(5, 5, Machine.of("sierra", 16).units), 36_918),
        (CompactModule(COMPACT), 1_729),
        (policy_network(), 6 * 10 + 10 + 10 * 2 + 2),  # Ten hidden neurons
    ],
)
def test_selectors_have_this_many_parameters(module: torch.nn.Module, number: int) -> None:
    assert sum(parameter.numel() for parameter in module.parameters()) == number


def test_the_published_job_selector_is_a_convolution_a_rectifier_a_normalization_and_a_dense_layer() -> None:
    module = ImageModule(queue=2, horizon=3, units=6)
    with torch.no_grad():
        module.norm.running_mean.copy_(torch.linspace(0.0, 1.0, 16))
        module.norm.running_var.copy_(torch.linspace(0.5, 2.0, 16))
    image = np.random.default_rng(0).random((1, 3, 3, 6), dtype=np.float32)
    filters, bias = (weights_of(module)[f"filters.{name}"] for name in ("weight", "bias"))
    found = np.zeros((16, 2, 5))
    for row in range(2):
        for column in range(5):
            patch = image[0, :, row : row + 2, column : column + 2]
            found[:, row, column] = np.maximum((filters * patch).sum(axis=(1, 2, 3)) + bias, 0.0)
    mean, variance = np.linspace(0.0, 1.0, 16), np.linspace(0.5, 2.0, 16)
    normal = (found - mean[:, None, None]) / np.sqrt(variance[:, None, None] + 1e-5)
    weight, last = (weights_of(module)[f"output.{name}"] for name in ("weight", "bias"))
    with torch.no_grad():
        logits = module(torch.from_numpy(image)).numpy()
    np.testing.assert_allclose(logits[0], weight @ normal.ravel() + last, rtol=1e-4, atol=1e-5)


def test_running_statistics_move_where_it_learns_and_stay_where_it_acts() -> None:
    module = ImageModule(queue=2, horizon=3, units=6)
    images = torch.rand((4, 3, 3, 6))
    before = module.norm.running_mean.clone()
    with torch.no_grad():
        module(images)
    assert torch.equal(module.norm.running_mean, before)
    module(images)
    assert not torch.equal(module.norm.running_mean, before)


def test_both_selectors_act_without_torch_by_the_probabilities_of_their_modules() -> None:
    rng, n = np.random.default_rng(0), 5000
    seen = np.repeat(rng.random((1, 6, FIRST_TRAIT + 3), dtype=np.float32), n, axis=0)
    described = np.repeat(rng.random((1, 3 + N_NUMBERS), dtype=np.float32), n, axis=0)
    legal = np.ones((n, 6), dtype=np.bool_)
    legal[:, 2] = False
    jobs, policies = CompactModule(COMPACT), policy_network()
    with torch.no_grad():
        for parameter in (*jobs.parameters(), *policies.parameters()):
            parameter.mul_(3.0)
        logits = jobs(jobs.states(seen[:1], legal[:1])), policies(torch.from_numpy(described[:1]))
    drawn = (
        jobs.acting().choose(seen, legal, rng.random(n)),
        selector(policies).choose(described, np.zeros((n, 2)), rng.random(n)),
    )
    best = jobs.acting().choose(seen, legal), selector(policies).choose(described, np.zeros((n, 2)))
    for values, found, preferred in zip(logits, drawn, best, strict=True):
        chances = torch.softmax(values, 1)[0].numpy()
        np.testing.assert_allclose(np.bincount(found, minlength=len(chances)) / n, chances, atol=0.03)
        assert (preferred == chances.argmax()).all()
    assert 2 not in drawn[0]


def test_an_image_selector_draws_legal_choices_by_their_probabilities() -> None:
    module = ImageModule(queue=2, horizon=2, units=6)
    images = np.zeros((5000, 3, 2, 6), dtype=np.float32)
    legal = np.tile([True, False, True], (5000, 1))
    chosen = module.choose(images, legal, np.random.default_rng(0).random(5000))
    with torch.no_grad():
        logits = module(torch.from_numpy(images[:1]))[0, [0, 2]]
    assert set(chosen.tolist()) == {0, 2}
    assert (chosen == 0).mean() == pytest.approx(float(torch.softmax(logits, 0)[0]), abs=0.03)
    assert (module.choose(images[:2], legal[:2], np.array([0.0, 1.0])) == [0, 2]).all()
