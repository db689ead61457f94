"""Deep Q-learning over batches of masked, discrete actions (DRAS paper, Eq. 3, with the sign that learns).

A step moves ``Q(s, a)`` towards ``r + max Q(s', .)`` over the legal actions of the next state, 0 after the last one.
With a probability that decays at every update the action is a random one.
"""

from typing import Any

import torch
from torch import nn

from learned.rl.learner import EnvironmentLearner, check_finite, descend
from learned.rl.networks import masked
from learned.rl.rollout import Environment, take_steps
from learned.rl.settings import DqlSettings


class DqlLearner(EnvironmentLearner):
    """Deep Q-learning on one environment; the critic takes states to the values ``(batch, actions)``."""

    def __init__(self, critic: nn.Module, environment: Environment, settings: DqlSettings, seed: int) -> None:
        super().__init__(critic, environment, settings.learning_rate, seed)
        self.critic = critic
        self.exploration_rate = settings.exploration_initial_eps
        self._settings = settings

    def update(self, share: float) -> dict[str, float]:
        """Collect, then take one step; see `learned.rl.loop.Learner.update`."""
        rate, settings = self.set_rate(share), self._settings
        steps = take_steps(
            self._judge,
            self._draw,
            self._environment,
            settings.n_steps,
            self._unfinished,
            beyond=lambda states, legal: self._judge(states, legal)[1],
        )
        goes_on = torch.from_numpy(~steps.done).float()
        later = settings.gamma * goes_on * steps.values[1:]
        targets = (torch.from_numpy(steps.rewards).float() + later).flatten()
        values = self.critic(steps.states).gather(1, steps.actions[:, None]).squeeze(1)
        loss = (targets - values).square().mean()
        descend(self._optimizer, self._parameters, loss, settings.max_grad_norm)
        check_finite(self._parameters)
        self.exploration_rate = max(self.exploration_rate * settings.exploration_decay, settings.exploration_final_eps)
        self._samples += len(steps.actions)
        return {
            "samples": float(self._samples),
            "mean_return": steps.episode_return,
            "exploration_rate": self.exploration_rate,
            "value_loss": loss.item(),
            "learning_rate": rate,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return network, optimizer, environment, generator and exploration."""
        return {**super().snapshot(), "exploration_rate": self.exploration_rate}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self.exploration_rate = snapshot["exploration_rate"]

    def _judge(self, states: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values = masked(self.critic(states), legal)
        return values, values.max(1).values

    def _draw(self, values: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        anything = torch.multinomial(legal.float(), 1, generator=self._generator).squeeze(1)
        explores = torch.rand(len(values), generator=self._generator) < self.exploration_rate
        return torch.where(explores, anything, values.argmax(1))
