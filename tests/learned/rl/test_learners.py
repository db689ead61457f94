"""Every algorithm finds the best policy of a small task, can be cut off, and estimates what its paper defines."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError
from allocopt.learned.rl.algorithms import (
    LEARNERS,
    Choices,
    EnvironmentLearner,
    PolicyGradient,
    _generalized_advantages,
    timed_advantages,
)
from allocopt.learned.rl.networks import ActorCritic, dense, masked_log_softmax
from allocopt.learned.rl.training import A2cSettings, DqlSettings, PgSettings, PpoSettings, Settings

PLACES, ACTIONS, END = 4, 4, 3


class Detour:
    """A walk of three steps at most over four places, whose greedy first step is the wrong one.

    At place 0 the first action pays 0.4 and ends; the second pays nothing and leads to place 1. There the third pays 1
    and ends, all others pay nothing and end. The last action is illegal, and would pay 10. The best sum is 1.
    """

    n_environments = 64

    def __init__(self) -> None:
        self._place = np.zeros(self.n_environments, dtype=np.int64)
        self.chosen: list[IntArray] = []

    def observe(self) -> tuple[Float32Array, BoolArray]:
        legal = np.ones((self.n_environments, ACTIONS), dtype=np.bool_)
        legal[:, -1] = False
        return np.eye(PLACES, dtype=np.float32)[self._place][:, None], legal

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        self.chosen.append(actions.copy())
        at_start = self._place == 0
        rewards = 10.0 * (actions == ACTIONS - 1)
        rewards += 0.4 * (at_start & (actions == 0)) + 1.0 * (~at_start & (actions == 2))
        done = ~(at_start & (actions == 1))
        self._place = np.where(done, 0, 1)
        return rewards, done


def network(outputs: int, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Flatten(), dense(PLACES, 16, outputs, activation=nn.Tanh()))


SETTINGS: dict[str, Settings] = {
    "ppo": PpoSettings(learning_rate=1e-2, batch_size=256),
    "a2c": A2cSettings(learning_rate=1e-2),
    "pg": PgSettings(learning_rate=1e-2, ent_coef=0.02),
    "dql": DqlSettings(learning_rate=1e-2, exploration_decay=0.97),
}


def learner_of(name: str, **changes: Any) -> EnvironmentLearner[Any, Any]:
    settings, model = replace(SETTINGS[name], **changes), network(ACTIONS, 0)
    if isinstance(settings, A2cSettings):
        model = ActorCritic(model, network(1, 0))
    return LEARNERS[type(settings)](model, Detour(), settings, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "updates"), [("ppo", 60), ("a2c", 130), ("pg", 130), ("dql", 130)])
def test_every_algorithm_learns_to_go_without_the_reward_that_is_nearer(name: str, updates: int) -> None:
    learner = learner_of(name)
    # So many give more than 0.94 with every seed from 0 to 5.
    returns = [learner.update(update / updates)["mean_return"] for update in range(updates)]
    assert returns[0] < 0.5
    assert np.mean(returns[-10:]) > 0.9


@pytest.mark.parametrize("name", SETTINGS)
def test_no_algorithm_takes_an_illegal_action(name: str) -> None:
    learner = learner_of(name)
    for _ in range(10):
        learner.update(0.0)
    assert set(np.concatenate(learner._environment.chosen)) <= set(range(ACTIONS - 1))


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 3, 1023])
def test_a_last_batch_size_of_one_sample_does_no_harm(batch_size: int) -> None:
    # Of 1,024 samples both 1,023 and 3 leave one over.
    learner = learner_of("ppo", batch_size=batch_size)
    assert all(np.isfinite(value) for value in learner.update(0.0).values())
    assert all(torch.isfinite(parameter).all() for parameter in learner.model.parameters())


def test_the_baseline_of_a_step_is_the_mean_of_what_followed_it_in_the_updates_before() -> None:
    learner: Any = learner_of("pg")
    first, second = np.array([[1.0, 3.0]] * 16), np.array([[4.0, 8.0]] * 16)
    assert learner._baseline(first).tolist() == [2.0] * 16
    assert learner._baseline(second).tolist() == [2.0] * 16
    assert learner._baseline(second).tolist() == [4.0] * 16


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 1.0), (0.9, 0.8), (0.9, 0.0)])
def test_advantages_are_sums_of_decayed_errors_up_to_the_end_of_the_episode(gamma: float, gae_lambda: float) -> None:
    rng, (steps, environments) = np.random.default_rng(3), (7, 4)
    rewards, values = rng.normal(size=(steps, environments)), rng.normal(size=(steps + 1, environments))
    done = rng.random((steps, environments)) < 0.4
    settings = PpoSettings(gamma=gamma, gae_lambda=gae_lambda)
    given = (torch.from_numpy(array) for array in (rewards, done, values))
    found = _generalized_advantages(*given, settings).numpy()
    # In operation time passes unevenly, and so do discounts.
    discounts = np.where(done, 0.0, rng.uniform(0.5, 1.0, done.shape))
    timed, sums = timed_advantages(rewards, discounts, values, gae_lambda), timed_advantages(rewards, discounts)
    np.testing.assert_allclose(timed_advantages(rewards, gamma * ~done, values, gae_lambda), found, rtol=1e-6)
    for t, e in np.ndindex(done.shape):
        expected, total, factor, discount = 0.0, 0.0, 1.0, 1.0
        for k in range(t, steps):
            expected += factor * (rewards[k, e] + discounts[k, e] * values[k + 1, e] - values[k, e])
            total += discount * rewards[k, e]
            factor, discount = factor * discounts[k, e] * gae_lambda, discount * discounts[k, e]
        assert (timed[t, e], sums[t, e]) == pytest.approx((expected, total))


def choices(n: int = 12, seed: int = 0) -> Choices:
    rng = np.random.default_rng(seed)
    legal = np.ones((n, 3), dtype=np.bool_)
    legal[::2, 1] = False
    states = torch.from_numpy(rng.normal(size=(n, 4)).astype(np.float32))
    actions = torch.from_numpy(np.where(rng.random(n) < 0.5, 0, 2))
    return Choices(states, torch.from_numpy(legal), actions, torch.from_numpy(rng.normal(size=n)).float())


def gradient(optimizer: str = "rmsprop", rate: float = 1e-2) -> PolicyGradient:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return PolicyGradient(torch.nn.Linear(4, 3), rate, optimizer, 1.0, float("inf"))  # type: ignore[arg-type]


def test_choices_in_batches_make_the_step_of_all_of_them_together() -> None:
    whole, one, other = choices(), gradient(), gradient()
    names = ("states", "legal", "actions", "advantages")
    parts = [Choices(*(getattr(whole, name)[some] for name in names)) for some in (slice(0, 5), slice(5, 12))]
    entropies = one.improve([whole], 0.1), other.improve(parts, 0.1)
    assert entropies[0] == pytest.approx(entropies[1], rel=1e-5)
    torch.testing.assert_close(one.actor.weight, other.actor.weight)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_what_was_better_than_expected_becomes_more_probable(optimizer: str) -> None:
    whole, one = choices(1), gradient(optimizer)
    taken = int(whole.actions[0])
    for sign in (1.0, -1.0):
        before = masked_log_softmax(one.actor(whole.states), whole.legal)[0, taken].item()
        one.improve([replace(whole, advantages=torch.tensor([sign]))], 0.0)
        assert sign * (masked_log_softmax(one.actor(whole.states), whole.legal)[0, taken].item() - before) > 0


def test_the_rate_falls_to_the_share_that_was_asked_for() -> None:
    one = PolicyGradient(torch.nn.Linear(4, 3), 1e-2, "adam", 0.25, 1.0)
    assert [one.set_rate(share) for share in (0.0, 0.5, 1.0)] == pytest.approx([1e-2, 6.25e-3, 2.5e-3])


def test_a_training_that_diverges_is_told() -> None:
    told = replace(choices(), advantages=torch.full((12,), float("nan")))
    with pytest.raises(UsageError, match="diverged"):
        learner_of("ppo", ent_coef=1e300).update(0.0)
    with pytest.raises(UsageError, match="diverged"):
        gradient().improve([told], 0.0)
