"""Policy gradient (REINFORCE) over batches of masked, discrete actions (DRAS paper, Eq. 4; Williams, 1992).

`PolicyGradient` improves a policy by choices whose advantages are known, wherever they come from. `PgLearner` lets it
act in an environment too; its baseline of the k-th step of an update is the cumulative reward from the k-th step on,
averaged over all updates before (and over the environments side by side).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.arrays import FloatArray
from learned.algorithms.actor_critic import masked_log_softmax, mean_entropy
from learned.algorithms.learner import GradientLearner, ModelLearner, OptimizerName, check_finite
from learned.algorithms.settings import PgSettings
from learned.training.environment import Environment


@dataclass(frozen=True, slots=True)
class Choices:
    """What was seen and done, and how much better than expected it was.

    Parameters
    ----------
    states
        Of N choices, as the policy takes them.
    legal
        Which actions were, shape ``(N, actions)``.
    actions, advantages
        Shape ``(N,)``.
    """

    states: Any
    legal: torch.Tensor
    actions: torch.Tensor
    advantages: torch.Tensor


def policy_loss(actor: nn.Module, choices: Choices, entropy_weight: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return minus the mean of ``log pi(a|s) A``, less the weighted entropy, whose mean is the second value."""
    log_probabilities = masked_log_softmax(actor(choices.states), choices.legal)
    taken = log_probabilities.gather(1, choices.actions[:, None]).squeeze(1)
    entropy = mean_entropy(log_probabilities)
    return -(taken * choices.advantages).mean() - entropy_weight * entropy, entropy


class PolicyGradient(ModelLearner):
    """A policy that learns from choices which somebody else collects.

    Parameters
    ----------
    actor
        States to one logit per action, shape ``(batch, actions)``.
    learning_rate, optimizer, last_rate
        See `learned.algorithms.learner.ModelLearner`.
    largest_gradient
        Norm that gradients are cut at.
    """

    def __init__(
        self,
        actor: nn.Module,
        learning_rate: float,
        optimizer: OptimizerName,
        last_rate: float,
        largest_gradient: float,
    ) -> None:
        super().__init__(actor, learning_rate, optimizer, last_rate)
        self.actor = actor
        self._largest_gradient = largest_gradient

    def improve(self, batches: Iterable[Choices], entropy_weight: float) -> float:
        """Take one step along the gradient of all choices of all batches; return the mean entropy.

        Batches are looked at one after the other, so that they need not be in memory together.

        Raises
        ------
        UsageError
            If the training diverges.
        """
        self._optimizer.zero_grad()
        count, entropies = 0, 0.0
        for choices in batches:
            n = len(choices.actions)
            loss, entropy = policy_loss(self.actor, choices, entropy_weight)
            (loss * n).backward()  # type: ignore[no-untyped-call]
            count, entropies = count + n, entropies + n * entropy.item()
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad /= max(count, 1)
        nn.utils.clip_grad_norm_(self._parameters, self._largest_gradient)
        self._optimizer.step()
        check_finite(self._parameters)
        return entropies / max(count, 1)


class PgLearner(GradientLearner):
    """The policy gradient on one environment; see `learned.training.loop.Learner`.

    Parameters
    ----------
    actor
        States to one logit per action, shape ``(batch, actions)``.
    environment
        Where the policy acts.
    settings
        Hyper-parameters.
    seed
        Fixes every random choice that is not the environment's.
    """

    def __init__(self, actor: nn.Module, environment: Environment, settings: PgSettings, seed: int) -> None:
        super().__init__(actor, environment, settings.learning_rate, seed)
        self.actor = actor
        self._settings = settings
        self._sums = np.zeros(settings.steps)
        self._updates = 0

    def update(self, share: float) -> dict[str, float]:
        """Collect, then take one step; see `learned.training.loop.Learner.update`."""
        rate = self.set_rate(share)
        states, legal, actions, returns, ended = self._collect()
        advantages = torch.from_numpy(returns - self._baseline(returns)[:, None]).float().flatten()
        loss, entropy = policy_loss(self.actor, Choices(states, legal, actions, advantages), self._settings.entropy)
        self.descend(loss, self._settings.largest_gradient)
        self._samples += len(actions)
        return {
            "samples": float(self._samples),
            "mean_return": float(ended.mean()) if ended.size else float("nan"),
            "entropy": entropy.item(),
            "learning_rate": rate,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return networks, optimizer, environment, generators and baseline."""
        return {**super().snapshot(), "sums": self._sums, "updates": self._updates}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._sums[:] = snapshot["sums"]
        self._updates = snapshot["updates"]

    def _baseline(self, returns: FloatArray) -> FloatArray:
        """Return the means of all updates before, those of this one in the first, and take this one in."""
        means = returns.mean(axis=1)
        baseline = self._sums / self._updates if self._updates else means
        self._sums += means
        self._updates += 1
        return np.asarray(baseline)

    def _collect(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, FloatArray, FloatArray]:
        """Return states, legal and chosen actions of all samples, cumulative rewards ``(T, E)``, ended returns."""
        states: list[torch.Tensor] = []
        masks: list[torch.Tensor] = []
        actions: list[torch.Tensor] = []
        rewards, done, finished = [], [], []
        with torch.no_grad():
            for _ in range(self._settings.steps):
                state, legal = (torch.from_numpy(array) for array in self._environment.observe())
                probability = masked_log_softmax(self.actor(state), legal).exp()
                action = torch.multinomial(probability, 1, generator=self._generator).squeeze(1)
                reward, ended = self._environment.step(action.numpy())
                self._unfinished += reward
                finished.append(self._unfinished[ended])
                self._unfinished[ended] = 0.0
                for held, new in zip((states, masks, actions), (state, legal, action), strict=True):
                    held.append(new)
                rewards.append(reward)
                done.append(ended)
        returns = cumulative_rewards(np.array(rewards), np.array(done), self._settings.discount)
        return torch.cat(states), torch.cat(masks), torch.cat(actions), returns, np.concatenate(finished)


def cumulative_rewards(rewards: FloatArray, done: np.ndarray[Any, np.dtype[np.bool_]], discount: float) -> FloatArray:
    """Add rewards up, from each step to the end of its episode or of the arrays, shape ``(T, E)``."""
    sums = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for t in range(len(rewards) - 1, -1, -1):
        later = rewards[t] + discount * np.where(done[t], 0.0, later)
        sums[t] = later
    return sums
