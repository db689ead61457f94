"""Deep Q-learning over batches of masked, discrete actions (DRAS paper, Eq. 3, with the sign that learns).

A step moves ``Q(s, a)`` towards ``r + max Q(s', .)`` over the legal actions of the next state, 0 after the last one.
With a probability that decays at every update the action is a random one.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from learned.algorithms.actor_critic import masked
from learned.algorithms.learner import GradientLearner
from learned.algorithms.settings import DqlSettings
from learned.training.environment import Environment


class DqlLearner(GradientLearner):
    """Deep Q-learning on one environment; see `learned.training.loop.Learner`.

    Parameters
    ----------
    critic
        States to the value of every action, shape ``(batch, actions)``.
    environment
        Where the policy acts.
    settings
        Hyper-parameters.
    seed
        Fixes every random choice that is not the environment's.
    """

    def __init__(self, critic: nn.Module, environment: Environment, settings: DqlSettings, seed: int) -> None:
        super().__init__(critic, environment, settings.learning_rate, seed)
        self.critic = critic
        self.exploration = settings.exploration
        self._settings = settings

    def update(self, share: float) -> dict[str, float]:
        """Collect, then take one step; see `learned.training.loop.Learner.update`."""
        rate = self.set_rate(share)
        states, actions, targets, ended = self._collect()
        values = self.critic(states).gather(1, actions[:, None]).squeeze(1)
        error = (targets - values).square().mean()
        self.descend(error, self._settings.largest_gradient)
        self.exploration = max(self.exploration * self._settings.exploration_decay, self._settings.least_exploration)
        self._samples += len(actions)
        return {
            "samples": float(self._samples),
            "mean_return": float(ended.mean()) if ended.size else float("nan"),
            "exploration": self.exploration,
            "value_error": error.item(),
            "learning_rate": rate,
        }

    def snapshot(self) -> dict[str, Any]:
        """Return network, optimizer, environment, generators and exploration."""
        return {**super().snapshot(), "exploration": self.exploration}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self.exploration = snapshot["exploration"]

    def _collect(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, np.ndarray[Any, np.dtype[np.float64]]]:
        """Return states, actions and targets of all samples, and the returns of the episodes that ended."""
        states, actions, targets, finished = ([] for _ in range(4))
        with torch.no_grad():
            state, legal, values = self._look()
            for _ in range(self._settings.steps):
                action = self._choose(values, legal)
                reward, ended = self._environment.step(action.numpy())
                self._unfinished += reward
                finished.append(self._unfinished[ended])
                self._unfinished[ended] = 0.0
                states.append(state)
                actions.append(action)
                state, legal, values = self._look()
                goes_on = torch.from_numpy(~ended).float()
                later = self._settings.discount * goes_on * values.max(1).values
                targets.append(torch.from_numpy(reward).float() + later)
        return torch.cat(states), torch.cat(actions), torch.cat(targets), np.concatenate(finished)

    def _look(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return states, legal actions, and the values of all actions, the smallest there are for illegal ones."""
        state, legal = (torch.from_numpy(array) for array in self._environment.observe())
        values = self.critic(state)
        return state, legal, masked(values, legal)

    def _choose(self, values: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Return the best actions, some of them replaced by random ones."""
        anything = torch.multinomial(legal.float(), 1, generator=self._generator).squeeze(1)
        explores = torch.rand(len(values), generator=self._generator) < self.exploration
        return torch.where(explores, anything, values.argmax(1))
