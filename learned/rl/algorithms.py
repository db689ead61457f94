"""Algorithms over masked, discrete actions, their rollouts, and the base classes of learners.

- A2C (DRAS paper, section 3.2; Mnih et al., 2016) takes one gradient step per update. The advantage is the sum of
  rewards up to the end of the update, plus the critic's value of the state at this end, minus the critic's value of
  the state before the action. The paper omits the second of these terms.
- PPO (Schulman et al., 2017) takes several steps, along the clipped objective.
- REINFORCE (DRAS paper, Eq. 4; Williams, 1992) has no critic. The baseline of the k-th step of an update is the
  cumulative reward from the k-th step on, averaged over all previous updates and over the environments side by side.
- Deep Q-learning (DRAS paper, Eq. 3 with the sign corrected) moves ``Q(s, a)`` towards ``r + max Q(s', .)`` over the
  legal actions of the next state. With a probability that decays at every update the action is random.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import torch
from torch import nn

from allocopt.arrays import BoolArray, Float32Array, FloatArray
from allocopt.errors import UsageError
from allocopt.learned.rl.networks import Policy, masked, masked_log_softmax, weights_of
from allocopt.learned.rl.training import A2cSettings, DqlSettings, PgSettings, PpoSettings, Settings
from allocopt.learned.rl.workers import Environment, Learner, Stateful

OptimizerName = Literal["adam", "rmsprop"]
LAST_RATE = 0.05  # Default share of the first learning rate that is left at the end of a training


class ModelLearner(Stateful):
    """A model and its optimizer, whose learning rate falls linearly to a share of the first one."""

    state: ClassVar[tuple[str, ...]] = ("_module", "_optimizer")

    def __init__(
        self, model: nn.Module, learning_rate: float, optimizer: OptimizerName = "adam", last_rate: float = LAST_RATE
    ) -> None:
        self._parameters = list(model.parameters())
        self._module = model
        self._learning_rate = learning_rate
        self._last_rate = last_rate
        made = torch.optim.Adam if optimizer == "adam" else torch.optim.RMSprop
        self._optimizer: torch.optim.Optimizer = made(self._parameters, lr=learning_rate)

    def rate(self, share: float) -> float:
        """Return the learning rate after a share of the training; it falls linearly."""
        return self._learning_rate * (1 - (1 - self._last_rate) * share)

    def set_rate(self, share: float) -> float:
        """Set the learning rate, given the finished share of the training, and return it."""
        rate = self.rate(share)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        return rate

    def check_finite(self) -> None:
        """Raise `UsageError` if the training has diverged."""
        if not all(bool(parameter.isfinite().all()) for parameter in self._parameters):
            raise UsageError("the training diverged: weights are no longer finite; try a smaller learning rate")


def descend(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], loss: torch.Tensor, max_grad_norm: float
) -> None:
    """Take one gradient step on a loss; the gradient is clipped at a norm."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    optimizer.step()


class BestKept(Stateful):
    """A learner whose policy is evaluated after the first and every n-th update; the best one is kept."""

    more_is_better: ClassVar[bool] = False  # Whether a larger score is better
    state: ClassVar[tuple[str, ...]] = ("_learner", "_updates", "_judged", "best", "best_score")

    def __init__(self, learner: Learner, policy: nn.Module, every: int) -> None:
        self._learner, self._policy, self._every = learner, policy, every
        self._updates = 0
        self._judged: dict[str, float] = {}
        self.best: dict[str, Float32Array] = weights_of(policy)
        self.best_score = -np.inf if self.more_is_better else np.inf

    def judge(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Return measures of a policy, including ``score``."""
        raise NotImplementedError

    def last(self) -> dict[str, Float32Array]:
        """Return the weights of the current policy, not those of the best one."""
        return weights_of(self._policy)

    def update(self, share: float) -> dict[str, float]:
        """Make an update, and if it is due an evaluation; see `allocopt.learned.rl.workers.Learner.update`."""
        measures = self._learner.update(share)
        self._updates += 1
        if self._updates % self._every == 0 or not self._judged:
            weights = self.last()
            self._judged = self.judge(weights)
            score = self._judged["score"]
            if score > self.best_score if self.more_is_better else score < self.best_score:
                self.best_score, self.best = score, weights
        return {**measures, **self._judged, "best_score": float(self.best_score)}


def _mean_entropy(log_probabilities: torch.Tensor) -> torch.Tensor:
    return -(log_probabilities.exp() * log_probabilities).sum(1).mean()


@dataclass(frozen=True, slots=True)
class Choices:
    """States, actions and advantages of N choices."""

    states: Any  # In the form that the policy takes
    legal: torch.Tensor  # Mask of legal actions, shape ``(N, actions)``
    # Shape ``(N,)``
    actions: torch.Tensor
    advantages: torch.Tensor

    def policy_loss(self, log_probabilities: torch.Tensor, ent_coef: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss, minus the mean of ``log pi(a|s) A`` minus the weighted entropy, and the mean entropy."""
        taken = log_probabilities.gather(1, self.actions[:, None]).squeeze(1)
        entropy = _mean_entropy(log_probabilities)
        return -(taken * self.advantages).mean() - ent_coef * entropy, entropy


@dataclass(frozen=True, slots=True)
class Rollout(Choices):
    """Choices from which a policy with a critic learns."""

    log_probability: torch.Tensor  # Logarithm of the probability of each action taken, shape ``(N,)``
    returns: torch.Tensor  # Targets of the critic, shape ``(N,)``
    episode_return: float  # Mean sum of rewards of the episodes that ended; NaN if none ended

    def loss(self, model: Policy, settings: A2cSettings) -> tuple[torch.Tensor, float, float]:
        """Return the loss of A2C, the mean entropy and the critic's mean squared error."""
        policy_loss, entropy = self.policy_loss(model.log_probabilities(self.states, self.legal), settings.ent_coef)
        value_loss = (model.values(self.states) - self.returns).square().mean()
        return policy_loss + settings.vf_coef * value_loss, entropy.item(), value_loss.item()


Collector = Callable[[Any, Any, A2cSettings, FloatArray, torch.Generator], Rollout]
"""Function that lets a policy act in an environment, and updates the given sums of rewards of unfinished episodes."""


@dataclass(frozen=True, slots=True)
class _Steps:
    # T steps of E environments; flat tensors have a row for each of the N = T E samples, step after step.

    # Flat: observation, mask of legal actions, action, and the score of the action
    states: torch.Tensor
    legal: torch.Tensor
    actions: torch.Tensor
    scores: torch.Tensor
    # Values of the states before each step, and after the last one if it was evaluated, shape ``(T + 1, E)``
    values: torch.Tensor
    # Rewards, and whether they ended an episode, shape ``(T, E)``
    rewards: FloatArray
    done: BoolArray
    episode_return: float  # As in `Rollout`


def _generalized_advantages(
    rewards: torch.Tensor, done: torch.Tensor, values: torch.Tensor, settings: A2cSettings
) -> torch.Tensor:
    # Like `timed_advantages`, but in 32 bits; a function of its own, because the order of operations affects rounding.
    advantages = torch.zeros_like(rewards)
    later = torch.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        goes_on = (~done[t]).float()
        error = rewards[t] + settings.gamma * goes_on * values[t + 1] - values[t]
        later = error + settings.gamma * settings.gae_lambda * goes_on * later
        advantages[t] = later
    return advantages


def timed_advantages(
    rewards: FloatArray, discounts: FloatArray, values: FloatArray | None = None, gae_lambda: float = 1.0
) -> FloatArray:
    """Return generalized advantage estimates ``(T, E)``, given values ``(T + 1, E)``; without values, sums of rewards.

    ``discounts`` has the discount of each step, 0 where it ended an episode.
    """
    advantages = np.zeros_like(rewards)
    valued = np.zeros((len(rewards) + 1, rewards.shape[1])) if values is None else values
    later = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        later = rewards[t] + discounts[t] * (valued[t + 1] + gae_lambda * later) - valued[t]
        advantages[t] = later
    return advantages


M_co = TypeVar("M_co", bound=nn.Module, covariant=True)
S_co = TypeVar("S_co", bound=Settings, covariant=True)
A = TypeVar("A", bound=A2cSettings)


class EnvironmentLearner(ModelLearner, Generic[M_co, S_co]):
    """A model that learns from an environment; the seed fixes all random choices except the environment's."""

    state = (*ModelLearner.state, "_environment", "_generator", "_unfinished", "_samples")

    def __init__(self, model: M_co, environment: Environment, settings: S_co, seed: int) -> None:
        super().__init__(model, settings.learning_rate)
        self.model = model
        self._environment, self._settings = environment, settings
        self._generator = torch.Generator().manual_seed(seed)
        self._unfinished = np.zeros(environment.n_environments)
        self._samples = 0

    def update(self, share: float) -> dict[str, float]:
        """Collect experience, then improve the model; see `allocopt.learned.rl.workers.Learner.update`."""
        rate = self.set_rate(share)
        n_samples, mean_return, measures = self._improve(share)
        self.check_finite()
        self._samples += n_samples
        return {"samples": float(self._samples), "mean_return": mean_return, **measures, "learning_rate": rate}

    def _improve(self, share: float) -> tuple[int, float, dict[str, float]]:
        # Returns the number of collected samples, their mean return, and other measures.
        raise NotImplementedError

    def _descend(self, loss: torch.Tensor) -> None:
        descend(self._optimizer, self._parameters, loss, self._settings.max_grad_norm)

    def _judge(self, states: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Returns scores of all actions, and values of the states.
        raise NotImplementedError

    def _draw(self, log_probabilities: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        # Draw actions by their scores, which here are the logarithms of their probabilities.
        return torch.multinomial(log_probabilities.exp(), 1, generator=self._generator).squeeze(1)

    def _take_steps(self, *, looks_beyond: bool = True) -> _Steps:
        # With ``looks_beyond`` the states after the last step are evaluated, too.
        steps, environment, unfinished = [], self._environment, self._unfinished
        with torch.no_grad():
            for _ in range(self._settings.n_steps):
                state, legal = (torch.from_numpy(array) for array in environment.observe())
                scores, value = self._judge(state, legal)
                action = self._draw(scores, legal)
                reward, ended = environment.step(action.numpy())
                unfinished += reward
                returns = unfinished[ended]
                unfinished[ended] = 0.0
                taken = scores.gather(1, action[:, None]).squeeze(1)
                steps.append((state, legal, action, taken, value, reward, ended, returns))
            *flat, values, rewards, done, finished = zip(*steps, strict=True)
            if looks_beyond:
                values = (*values, self._judge(*(torch.from_numpy(array) for array in environment.observe()))[1])
        returned = np.concatenate(finished)
        mean_return = float(returned.mean()) if returned.size else float("nan")
        states, masks, actions, chosen = (torch.cat(parts) for parts in flat)
        of_steps = torch.stack(values), np.array(rewards), np.array(done)
        return _Steps(states, masks, actions, chosen, *of_steps, mean_return)


class _ActorCriticLearner(EnvironmentLearner[Policy, A]):
    def __init__(
        self, model: Policy, environment: Environment, settings: A, seed: int, collector: Collector | None = None
    ) -> None:
        super().__init__(model, environment, settings, seed)
        self._collector = collector

    def _judge(self, states: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model.log_probabilities(states, legal), self.model.values(states)

    def _improve(self, share: float) -> tuple[int, float, dict[str, float]]:
        settings = self._settings
        if self._collector:
            rollout = self._collector(self.model, self._environment, settings, self._unfinished, self._generator)
        else:
            steps = self._take_steps()
            rewards, done = torch.from_numpy(steps.rewards).float(), torch.from_numpy(steps.done)
            advantages = _generalized_advantages(rewards, done, steps.values, settings)
            returns = (advantages + steps.values[:-1]).flatten()
            choices = steps.states, steps.legal, steps.actions, advantages.flatten()
            rollout = Rollout(*choices, steps.scores, returns, steps.episode_return)
        return len(rollout.actions), rollout.episode_return, self._improve_by(rollout, share)

    def _improve_by(self, rollout: Rollout, share: float) -> dict[str, float]:
        raise NotImplementedError


class _A2cLearner(_ActorCriticLearner[A2cSettings]):
    """A2C on one environment, whose experience a `Collector` collects."""

    def _improve_by(self, rollout: Rollout, share: float) -> dict[str, float]:
        loss, entropy, value_loss = rollout.loss(self.model, self._settings)
        self._descend(loss)
        return {"entropy": entropy, "value_loss": value_loss}


class PpoLearner(_ActorCriticLearner[PpoSettings]):
    """PPO on one environment, whose experience a `Collector` collects."""

    def _improve_by(self, rollout: Rollout, share: float) -> dict[str, float]:
        settings = self._settings
        ent_coef = settings.ent_coef + share * (settings.final_ent_coef - settings.ent_coef)
        sums, steps = np.zeros(3), 0
        for _ in range(settings.n_epochs):
            order = torch.randperm(len(rollout.actions), generator=self._generator)
            for chosen in torch.split(order, settings.batch_size):
                # The last batch may have one sample; its advantage cannot be divided by a standard deviation.
                if len(chosen) == 1:
                    continue
                states, advantages = rollout.states[chosen], rollout.advantages[chosen]
                log_probabilities = self.model.log_probabilities(states, rollout.legal[chosen])
                taken = log_probabilities.gather(1, rollout.actions[chosen, None]).squeeze(1)
                change = taken - rollout.log_probability[chosen]
                advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                ratio = change.exp()
                clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
                policy_loss = -torch.min(ratio * advantages, clipped * advantages).mean()
                entropy = _mean_entropy(log_probabilities)
                value_loss = (self.model.values(states) - rollout.returns[chosen]).square().mean()
                self._descend(policy_loss + settings.vf_coef * value_loss - ent_coef * entropy)
                approx_kl = ((ratio - 1) - change).mean()
                sums += entropy.item(), value_loss.item(), approx_kl.item()
                steps += 1
        return dict(zip(("entropy", "value_loss", "approx_kl"), (sums / max(steps, 1)).tolist(), strict=True))


class PolicyGradient(ModelLearner):
    """REINFORCE on choices with given advantages; the actor maps states to logits, shape ``(batch, actions)``."""

    def __init__(
        self, actor: nn.Module, learning_rate: float, optimizer: OptimizerName, last_rate: float, max_grad_norm: float
    ) -> None:
        super().__init__(actor, learning_rate, optimizer, last_rate)
        self.actor = actor
        self._max_grad_norm = max_grad_norm

    def improve(self, batches: Iterable[Choices], ent_coef: float) -> float:
        """Take one step on the choices of all batches; return the mean entropy.

        Raises `UsageError` if the training has diverged.
        """
        self._optimizer.zero_grad()
        count, entropies = 0, 0.0
        for choices in batches:
            n = len(choices.actions)
            loss, entropy = choices.policy_loss(masked_log_softmax(self.actor(choices.states), choices.legal), ent_coef)
            (loss * n).backward()  # type: ignore[no-untyped-call]
            count, entropies = count + n, entropies + n * entropy.item()
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad /= max(count, 1)
        nn.utils.clip_grad_norm_(self._parameters, self._max_grad_norm)
        self._optimizer.step()
        self.check_finite()
        return entropies / max(count, 1)


class _PgLearner(EnvironmentLearner[nn.Module, PgSettings]):
    """REINFORCE on one environment; the actor is the same as in `PolicyGradient`."""

    state = (*EnvironmentLearner.state, "_sums", "_updates")

    def __init__(self, actor: nn.Module, environment: Environment, settings: PgSettings, seed: int) -> None:
        super().__init__(actor, environment, settings, seed)
        self._sums = np.zeros(settings.n_steps)
        self._updates = 0

    def _judge(self, states: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        # Without a critic all states have the same value.
        return masked_log_softmax(self.model(states), legal), torch.zeros(len(states))

    def _improve(self, share: float) -> tuple[int, float, dict[str, float]]:
        steps = self._take_steps(looks_beyond=False)
        returns = timed_advantages(steps.rewards, np.where(steps.done, 0.0, self._settings.gamma))
        advantages = torch.from_numpy(returns - self._baseline(returns)[:, None]).float().flatten()
        choices = Choices(steps.states, steps.legal, steps.actions, advantages)
        log_probabilities, _ = self._judge(steps.states, steps.legal)
        loss, entropy = choices.policy_loss(log_probabilities, self._settings.ent_coef)
        self._descend(loss)
        return len(steps.actions), steps.episode_return, {"entropy": entropy.item()}

    def _baseline(self, returns: FloatArray) -> FloatArray:
        # Return the means of all previous updates, or of this one if it is the first; then add this one.
        means = returns.mean(axis=1)
        baseline = self._sums / self._updates if self._updates else means
        self._sums += means
        self._updates += 1
        return np.asarray(baseline)


class _DqlLearner(EnvironmentLearner[nn.Module, DqlSettings]):
    """Deep Q-learning on one environment; the model maps states to values ``(batch, actions)``."""

    state = (*EnvironmentLearner.state, "exploration_rate")

    def __init__(self, critic: nn.Module, environment: Environment, settings: DqlSettings, seed: int) -> None:
        super().__init__(critic, environment, settings, seed)
        self.exploration_rate = settings.exploration_initial_eps

    def _judge(self, states: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = masked(self.model(states), legal)
        return values, values.max(1).values

    def _draw(self, values: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        anything = torch.multinomial(legal.float(), 1, generator=self._generator).squeeze(1)
        explores = torch.rand(len(values), generator=self._generator) < self.exploration_rate
        return torch.where(explores, anything, values.argmax(1))

    def _improve(self, share: float) -> tuple[int, float, dict[str, float]]:
        settings, steps = self._settings, self._take_steps()
        goes_on = torch.from_numpy(~steps.done).float()
        later = settings.gamma * goes_on * steps.values[1:]
        targets = (torch.from_numpy(steps.rewards).float() + later).flatten()
        values = self.model(steps.states).gather(1, steps.actions[:, None]).squeeze(1)
        loss = (targets - values).square().mean()
        self._descend(loss)
        self.exploration_rate = max(self.exploration_rate * settings.exploration_decay, settings.exploration_final_eps)
        measures = {"exploration_rate": self.exploration_rate, "value_loss": loss.item()}
        return len(steps.actions), steps.episode_return, measures


LEARNERS: dict[type[Settings], Callable[..., EnvironmentLearner[Any, Any]]] = {
    PgSettings: _PgLearner,
    A2cSettings: _A2cLearner,
    PpoSettings: PpoLearner,
    DqlSettings: _DqlLearner,
}
"""Learner of each algorithm, by the class of its settings."""
