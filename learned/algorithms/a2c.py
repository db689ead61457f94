"""Advantage actor critic over batches of masked, discrete actions (DRAS paper, section 3.2; Mnih et al., 2016).

One gradient step per update along the gradient of ``log pi(a|s) A + beta H(pi(s))`` and down that of the critic's
squared error. The advantage A is the sum of rewards up to the end of the update, plus the critic's value of the state
after it, minus that of the state before the action. The paper leaves the value after the update out, so that every
update is an episode of its own; the sum then says little of what comes later.
"""

import torch

from learned.algorithms.actor_critic import Policy, mean_entropy
from learned.algorithms.actor_critic_learner import ActorCriticLearner
from learned.algorithms.rollout import Rollout
from learned.algorithms.settings import A2cSettings


class A2cLearner(ActorCriticLearner[A2cSettings]):
    """A2C on one environment; see `learned.training.loop.Learner`."""

    def update(self, share: float) -> dict[str, float]:
        """Collect, then take one step; see `learned.training.loop.Learner.update`."""
        rate = self.set_rate(share)
        rollout = self.collect()
        loss, entropy, value_error = actor_critic_loss(self.model, rollout, self._settings)
        self.descend(loss, self._settings.largest_gradient)
        return {
            "samples": float(self._samples),
            "mean_return": rollout.episode_return,
            "entropy": entropy,
            "value_error": value_error,
            "learning_rate": rate,
        }


def actor_critic_loss(model: Policy, rollout: Rollout, settings: A2cSettings) -> tuple[torch.Tensor, float, float]:
    """Return the loss, the mean entropy and the critic's mean squared error."""
    log_probabilities = model.log_probabilities(rollout.states, rollout.legal)
    taken = log_probabilities.gather(1, rollout.actions[:, None]).squeeze(1)
    entropy = mean_entropy(log_probabilities)
    value_error = (model.values(rollout.states) - rollout.returns).square().mean()
    policy_loss = -(taken * rollout.advantages).mean()
    loss = policy_loss + settings.value_weight * value_error - settings.entropy * entropy
    return loss, entropy.item(), value_error.item()
