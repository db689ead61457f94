"""Proximal policy optimization over batches of masked, discrete actions (Schulman et al., 2017)."""

from dataclasses import dataclass

import numpy as np
import torch

from learned.algorithms.actor_critic import Policy, mean_entropy
from learned.algorithms.actor_critic_learner import ActorCriticLearner
from learned.algorithms.learner import check_finite, descend
from learned.algorithms.rollout import Rollout
from learned.algorithms.settings import PpoSettings


@dataclass(frozen=True, slots=True)
class Losses:
    """Means over an update: entropy of the policy, squared error of the critic, divergence from the old policy."""

    entropy: float
    value_error: float
    divergence: float


def update(
    model: Policy,
    optimizer: torch.optim.Optimizer,
    rollout: Rollout,
    settings: PpoSettings,
    entropy_weight: float,
    generator: torch.Generator,
) -> Losses:
    """Improve policy and critic by what was collected; the policy's loss is the paper's clipped objective.

    Raises
    ------
    UsageError
        If the training diverges.
    """
    n, parameters = len(rollout.actions), list(model.parameters())
    sums = np.zeros(3)
    steps = 0
    for _ in range(settings.epochs):
        for chosen in torch.split(torch.randperm(n, generator=generator), settings.minibatch):
            # What is left over may be one sample, whose advantage has no spread to be measured by.
            if len(chosen) == 1:
                continue
            loss, parts = _loss(model, rollout, chosen, settings, entropy_weight)
            descend(optimizer, parameters, loss, settings.largest_gradient)
            sums += parts
            steps += 1
    check_finite(parameters)
    return Losses(*(sums / max(steps, 1)).tolist())


def _loss(
    model: Policy, rollout: Rollout, chosen: torch.Tensor, settings: PpoSettings, entropy_weight: float
) -> tuple[torch.Tensor, tuple[float, float, float]]:
    """Return the loss of some samples, and entropy, value error and divergence."""
    states = rollout.states[chosen]
    log_probabilities = model.log_probabilities(states, rollout.legal[chosen])
    taken = log_probabilities.gather(1, rollout.actions[chosen, None]).squeeze(1)
    change = taken - rollout.log_probability[chosen]
    advantages = rollout.advantages[chosen]
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = change.exp()
    clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
    policy_loss = -torch.min(ratio * advantages, clipped * advantages).mean()
    entropy = mean_entropy(log_probabilities)
    value_error = (model.values(states) - rollout.returns[chosen]).square().mean()
    loss = policy_loss + settings.value_weight * value_error - entropy_weight * entropy
    divergence = ((ratio - 1) - change).mean()
    return loss, (entropy.item(), value_error.item(), divergence.item())


class PpoLearner(ActorCriticLearner[PpoSettings]):
    """PPO on one environment; see `learned.training.loop.Learner`."""

    def update(self, share: float) -> dict[str, float]:
        """Collect, then improve; see `learned.training.loop.Learner.update`."""
        settings = self._settings
        rate = self.set_rate(share)
        rollout = self.collect()
        entropy_weight = settings.entropy + share * (settings.last_entropy - settings.entropy)
        losses = update(self.model, self._optimizer, rollout, settings, entropy_weight, self._generator)
        return {
            "samples": float(self._samples),
            "mean_return": rollout.episode_return,
            "entropy": losses.entropy,
            "value_error": losses.value_error,
            "divergence": losses.divergence,
            "learning_rate": rate,
        }
