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
from learned.rl.learner import EnvironmentLearner, ModelLearner, OptimizerName, check_finite, descend
from learned.rl.networks import masked_log_softmax, mean_entropy
from learned.rl.rollout import Environment, cumulative_rewards, drawn, take_steps
from learned.rl.settings import PgSettings


@dataclass(frozen=True, slots=True)
class Choices:
    """What was seen and done, and how much better than expected it was."""

    states: Any  # Of N choices, as the policy takes them
    legal: torch.Tensor  # Which actions were, shape ``(N, actions)``
    # Shape ``(N,)``
    actions: torch.Tensor
    advantages: torch.Tensor


def policy_loss(actor: nn.Module, choices: Choices, ent_coef: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return minus the mean of ``log pi(a|s) A``, less the weighted entropy, whose mean is the second value."""
    log_probabilities = masked_log_softmax(actor(choices.states), choices.legal)
    taken = log_probabilities.gather(1, choices.actions[:, None]).squeeze(1)
    entropy = mean_entropy(log_probabilities)
    return -(taken * choices.advantages).mean() - ent_coef * entropy, entropy


class PolicyGradient(ModelLearner):
    """A policy that learns from choices which somebody else collects.

    The actor takes states to one logit per action, shape ``(batch, actions)``.
    """

    def __init__(
        self, actor: nn.Module, learning_rate: float, optimizer: OptimizerName, last_rate: float, max_grad_norm: float
    ) -> None:
        super().__init__(actor, learning_rate, optimizer, last_rate)
        self.actor = actor
        self._max_grad_norm = max_grad_norm

    def improve(self, batches: Iterable[Choices], ent_coef: float) -> float:
        """Take one step along the gradient of all choices of all batches; return the mean entropy.

        Batches are looked at one after the other, so that they need not be in memory together. Raises
        `UsageError` if the training diverges.
        """
        self._optimizer.zero_grad()
        count, entropies = 0, 0.0
        for choices in batches:
            n = len(choices.actions)
            loss, entropy = policy_loss(self.actor, choices, ent_coef)
            (loss * n).backward()  # type: ignore[no-untyped-call]
            count, entropies = count + n, entropies + n * entropy.item()
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad /= max(count, 1)
        nn.utils.clip_grad_norm_(self._parameters, self._max_grad_norm)
        self._optimizer.step()
        check_finite(self._parameters)
        return entropies / max(count, 1)


class PgLearner(EnvironmentLearner):
    """The policy gradient on one environment, the actor as for `PolicyGradient`; see `learned.rl.loop.Learner`."""

    def __init__(self, actor: nn.Module, environment: Environment, settings: PgSettings, seed: int) -> None:
        super().__init__(actor, environment, settings.learning_rate, seed)
        self.actor = actor
        self._settings = settings
        self._sums = np.zeros(settings.n_steps)
        self._updates = 0

    def update(self, share: float) -> dict[str, float]:
        """Collect, then take one step; see `learned.rl.loop.Learner.update`."""
        rate, settings = self.set_rate(share), self._settings
        steps = take_steps(
            # A policy alone values all states the same.
            lambda states, legal: (masked_log_softmax(self.actor(states), legal), torch.zeros(len(states))),
            lambda log_probabilities, legal: drawn(log_probabilities, self._generator),
            self._environment,
            settings.n_steps,
            self._unfinished,
        )
        returns = cumulative_rewards(steps.rewards, steps.done, settings.gamma)
        advantages = torch.from_numpy(returns - self._baseline(returns)[:, None]).float().flatten()
        choices = Choices(steps.states, steps.legal, steps.actions, advantages)
        loss, entropy = policy_loss(self.actor, choices, settings.ent_coef)
        descend(self._optimizer, self._parameters, loss, settings.max_grad_norm)
        check_finite(self._parameters)
        self._samples += len(steps.actions)
        return {
            "samples": float(self._samples),
            "mean_return": steps.episode_return,
            "entropy": entropy.item(),
            "learning_rate": rate,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return network, optimizer, environment, generator and baseline."""
        return {**super().snapshot(), "sums": self._sums, "updates": self._updates}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._sums[:] = snapshot["sums"]
        self._updates = snapshot["updates"]

    def _baseline(self, returns: FloatArray) -> FloatArray:
        # The means of all updates before, those of this one in the first; this one is taken in.
        means = returns.mean(axis=1)
        baseline = self._sums / self._updates if self._updates else means
        self._sums += means
        self._updates += 1
        return np.asarray(baseline)
