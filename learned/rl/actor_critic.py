"""Policies that learn with a critic, over batches of masked, discrete actions: A2C and PPO.

A2C (DRAS paper, section 3.2; Mnih et al., 2016) takes one gradient step per update along the gradient of
``log pi(a|s) A + beta H(pi(s))`` and down that of the critic's squared error. The advantage A is the sum of rewards up
to the end of the update, plus the critic's value of the state after it, minus that of the state before the action. The
paper leaves the value after the update out, so that every update is an episode of its own; the sum then says little of
what comes later. PPO (Schulman et al., 2017) takes several steps, along the clipped objective.
"""

from typing import Generic, TypeVar

import numpy as np
import torch

from learned.rl.learner import EnvironmentLearner, check_finite, descend
from learned.rl.networks import Policy, mean_entropy
from learned.rl.rollout import Collector, Environment, Rollout, collect
from learned.rl.settings import A2cSettings, PpoSettings

S = TypeVar("S", bound=A2cSettings)


class _ActorCriticLearner(EnvironmentLearner, Generic[S]):
    def __init__(
        self, model: Policy, environment: Environment, settings: S, seed: int, collector: Collector = collect
    ) -> None:
        super().__init__(model, environment, settings.learning_rate, seed)
        self.model = model
        self._settings = settings
        self._collector = collector

    def update(self, share: float) -> dict[str, float]:
        """Collect, then improve; see `learned.rl.loop.Learner.update`."""
        rate = self.set_rate(share)
        rollout = self._collector(self.model, self._environment, self._settings, self._unfinished, self._generator)
        self._samples += len(rollout.actions)
        measures = self._improve(rollout, share)
        check_finite(self._parameters)
        return {
            "samples": float(self._samples),
            "mean_return": rollout.episode_return,
            **measures,
            "learning_rate": rate,
        }

    def _improve(self, rollout: Rollout, share: float) -> dict[str, float]:
        raise NotImplementedError


class A2cLearner(_ActorCriticLearner[A2cSettings]):
    """A2C on one environment, its experience collected by a `Collector`; see `learned.rl.loop.Learner`."""

    def _improve(self, rollout: Rollout, share: float) -> dict[str, float]:
        loss, entropy, value_loss = actor_critic_loss(self.model, rollout, self._settings)
        descend(self._optimizer, self._parameters, loss, self._settings.max_grad_norm)
        return {"entropy": entropy, "value_loss": value_loss}


def actor_critic_loss(model: Policy, rollout: Rollout, settings: A2cSettings) -> tuple[torch.Tensor, float, float]:
    """Return the loss of A2C, the mean entropy and the critic's mean squared error."""
    log_probabilities = model.log_probabilities(rollout.states, rollout.legal)
    taken = log_probabilities.gather(1, rollout.actions[:, None]).squeeze(1)
    entropy = mean_entropy(log_probabilities)
    value_loss = (model.values(rollout.states) - rollout.returns).square().mean()
    policy_loss = -(taken * rollout.advantages).mean()
    loss = policy_loss + settings.vf_coef * value_loss - settings.ent_coef * entropy
    return loss, entropy.item(), value_loss.item()


class PpoLearner(_ActorCriticLearner[PpoSettings]):
    """PPO on one environment, its experience collected by a `Collector`; see `learned.rl.loop.Learner`."""

    def _improve(self, rollout: Rollout, share: float) -> dict[str, float]:
        settings, n = self._settings, len(rollout.actions)
        ent_coef = settings.ent_coef + share * (settings.final_ent_coef - settings.ent_coef)
        sums, steps = np.zeros(3), 0
        for _ in range(settings.n_epochs):
            for chosen in torch.split(torch.randperm(n, generator=self._generator), settings.batch_size):
                # What is left over may be one sample, whose advantage has no spread to be measured by.
                if len(chosen) == 1:
                    continue
                loss, measured = self._loss(rollout, chosen, ent_coef)
                descend(self._optimizer, self._parameters, loss, settings.max_grad_norm)
                sums += measured
                steps += 1
        return dict(zip(("entropy", "value_loss", "approx_kl"), (sums / max(steps, 1)).tolist(), strict=True))

    def _loss(
        self, rollout: Rollout, chosen: torch.Tensor, ent_coef: float
    ) -> tuple[torch.Tensor, tuple[float, float, float]]:
        states, settings = rollout.states[chosen], self._settings
        log_probabilities = self.model.log_probabilities(states, rollout.legal[chosen])
        taken = log_probabilities.gather(1, rollout.actions[chosen, None]).squeeze(1)
        change = taken - rollout.log_probability[chosen]
        advantages = rollout.advantages[chosen]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = change.exp()
        clipped = ratio.clamp(1 - settings.clip_range, 1 + settings.clip_range)
        policy_loss = -torch.min(ratio * advantages, clipped * advantages).mean()
        entropy = mean_entropy(log_probabilities)
        value_loss = (self.model.values(states) - rollout.returns[chosen]).square().mean()
        loss = policy_loss + settings.vf_coef * value_loss - ent_coef * entropy
        approx_kl = ((ratio - 1) - change).mean()
        return loss, (entropy.item(), value_loss.item(), approx_kl.item())
