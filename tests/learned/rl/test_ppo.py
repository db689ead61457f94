"""PPO learns small tasks, keeps off illegal actions, and estimates advantages as defined."""

import numpy as np
import pytest

from allocopt.arrays import BoolArray, Float32Array, FloatArray, IntArray
from allocopt.errors import UsageError

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from learned.rl.algorithms import (  # noqa: E402
    PpoLearner,
    collect,
    generalized_advantages,
)
from learned.rl.networks import ActorCritic, dense  # noqa: E402
from learned.rl.training import PpoSettings  # noqa: E402

STATES, ACTIONS = 3, 6
BEST = np.array([2, 4, 1])


class TwoSteps:
    """Episodes of two steps: the state says which action pays, but the reward comes at the end of both."""

    n_environments = 64

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._state = self._rng.integers(STATES, size=self.n_environments)
        self._sum = np.zeros(self.n_environments)
        self._step = np.zeros(self.n_environments, dtype=np.int64)
        self.chosen: list[IntArray] = []

    def observe(self) -> tuple[Float32Array, BoolArray]:
        """State as one of three ones; the last action is never legal."""
        legal = np.ones((self.n_environments, ACTIONS), dtype=np.bool_)
        legal[:, -1] = False
        return np.eye(STATES, dtype=np.float32)[self._state][:, None], legal

    def step(self, actions: IntArray) -> tuple[FloatArray, BoolArray]:
        """Sum up what pays; hand it out after the second step."""
        self.chosen.append(actions.copy())
        self._sum += actions == BEST[self._state]
        done = self._step == 1
        rewards = np.where(done, self._sum, 0.0)
        self._sum[done] = 0.0
        self._step = 1 - self._step
        self._state = self._rng.integers(STATES, size=self.n_environments)
        return rewards, done

    def snapshot(self) -> dict[str, object]:
        """Nothing is asked for."""
        return {}

    def restore(self, snapshot: dict[str, object]) -> None:
        """Nothing is asked for."""


def small_model(seed: int) -> ActorCritic:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        actor, critic = (dense(STATES, 16, outputs, activation=nn.Tanh()) for outputs in (ACTIONS, 1))
        return ActorCritic(nn.Sequential(nn.Flatten(), actor), nn.Sequential(nn.Flatten(), critic))


@pytest.mark.slow
def test_it_learns_which_action_pays_in_which_state() -> None:
    environment, model = TwoSteps(0), small_model(0)
    learner = PpoLearner(model, environment, PpoSettings(n_epochs=3, learning_rate=1e-2, batch_size=256), 0)
    first, *_, last = [learner.update(update / 40)["mean_return"] for update in range(40)]
    assert first < 0.6
    assert last > 1.8
    states = torch.eye(STATES)[:, None]
    assert model.log_probabilities(states, torch.ones(STATES, ACTIONS).bool()).argmax(1).tolist() == BEST.tolist()


def test_an_illegal_action_is_never_taken() -> None:
    environment = TwoSteps(1)
    collect(small_model(1), environment, PpoSettings(n_steps=100), np.zeros(64), torch.Generator().manual_seed(0))
    taken = np.concatenate(environment.chosen)
    assert set(taken) == set(range(ACTIONS - 1))


def test_a_seed_fixes_every_update() -> None:
    returns = []
    for _ in range(2):
        learner = PpoLearner(small_model(2), TwoSteps(2), PpoSettings(), 2)
        returns.append([learner.update(0.0) for _ in range(3)])
    assert returns[0] == returns[1]


def test_a_training_that_diverges_ends_with_a_reason() -> None:
    learner = PpoLearner(small_model(2), TwoSteps(2), PpoSettings(ent_coef=1e300), 2)
    with pytest.raises(UsageError, match="diverged"):
        learner.update(0.0)


@pytest.mark.parametrize(("gamma", "gae_lambda"), [(1.0, 1.0), (0.9, 0.8), (0.9, 0.0)])
def test_advantages_are_sums_of_decayed_errors_up_to_the_end_of_the_episode(gamma: float, gae_lambda: float) -> None:
    rng = np.random.default_rng(3)
    steps, environments = 7, 4
    rewards, values = rng.normal(size=(steps, environments)), rng.normal(size=(steps + 1, environments))
    done = rng.random((steps, environments)) < 0.4
    settings = PpoSettings(gamma=gamma, gae_lambda=gae_lambda)
    given = (torch.from_numpy(array) for array in (rewards, done, values))
    found = generalized_advantages(*given, settings).numpy()
    for e in range(environments):
        for t in range(steps):
            expected = 0.0
            for k in range(t, steps):
                following = 0.0 if done[k, e] else values[k + 1, e]
                error = rewards[k, e] + gamma * following - values[k, e]
                expected += (gamma * gae_lambda) ** (k - t) * error
                if done[k, e]:
                    break
            assert found[t, e] == pytest.approx(expected, rel=1e-6)
