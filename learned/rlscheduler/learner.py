"""The learner of RLScheduler: PPO over whole episodes, as in the authors' program."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from allocopt.envs.batch_scheduling.task import BatchScheduling
from allocopt.errors import UsageError
from allocopt.learned.rl.networks import dense, slot_logits
from allocopt.learned.rl.workers import Stateful
from allocopt.learned.rlscheduler.policy import ACTOR, SIZES, WINDOW

CLIP_RANGE, GAE_LAMBDA = 0.2, 0.97
ACTOR_RATE, CRITIC_RATE = 3e-4, 1e-3
MOST_STEPS, TARGET_KL = 80, 0.01
"""Most gradient steps per update and network; the actor stops once the KL divergence is 1.5 times the target."""


class ActorCritic(nn.Module):
    """The kernel network as actor, which scores one job at a time, and a critic that sees all slots."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = dense(*SIZES, activation=nn.ReLU())
        self.critic = dense(WINDOW * SIZES[0], 32, 16, 8, 1, activation=nn.ReLU())

    def log_probabilities(self, rows: torch.Tensor, legal: torch.Tensor) -> torch.Tensor:
        """Return log-probabilities of slots, shape ``(n, W)``; ``rows`` are the features of legal slots."""
        return torch.log_softmax(slot_logits(self.actor, rows, legal), dim=1)


class _Played(NamedTuple):
    """Steps of episodes side by side; states, legal slots and actions are lists over the steps."""

    seen: list[torch.Tensor]
    legal: list[torch.Tensor]
    actions: list[torch.Tensor]
    rewards: NDArray[Any]  # shape ``(steps, episodes)``
    goes_on: NDArray[Any]  # whether an episode was not over before a step, shape ``(steps, episodes)``


class RlSchedulerLearner(Stateful):
    """Trains the kernel network; in an update it schedules episodes that begin at random jobs of the workload.

    As in the authors' program, the whole reward is paid at the end of an episode, it is not discounted, and an update
    takes up to 80 gradient steps, each on all choices of the update.
    """

    state: ClassVar[tuple[str, ...]] = ("network", "_actor_steps", "_critic_steps", "_generator", "_rng", "_samples")

    def __init__(self, task: BatchScheduling, trajectories: int, seed: int) -> None:
        assert task.workload is not None
        self.network = ActorCritic()
        self._rng = np.random.default_rng(seed)
        self._episodes = task.episodes(trajectories, self._rng)
        self._generator = torch.Generator().manual_seed(seed)
        self._actor_steps = torch.optim.Adam(self.network.actor.parameters(), lr=ACTOR_RATE)
        self._critic_steps = torch.optim.Adam(self.network.critic.parameters(), lr=CRITIC_RATE)
        self._samples = 0

    def update(self, share: float) -> dict[str, float]:
        """Play episodes, then improve; see `allocopt.learned.rl.workers.Learner.update`."""
        played = self._schedule()
        n_steps, n_episodes = played.rewards.shape
        returns = torch.from_numpy(played.rewards.sum(axis=0)).float()
        # An episode has a choice per job that is not backfilled, so that some end before others.
        goes_on = torch.from_numpy(played.goes_on)
        with torch.no_grad():
            values = self.network.critic(torch.cat(played.seen).flatten(1)).view(n_steps, n_episodes) * goes_on
        following = torch.cat((goes_on[1:], torch.zeros(1, n_episodes, dtype=torch.bool)))
        is_last = goes_on & ~following
        errors = is_last * returns + torch.cat((values[1:], torch.zeros(1, n_episodes))) - values
        advantages = torch.zeros_like(errors)
        later = torch.zeros(n_episodes)
        for step in range(n_steps - 1, -1, -1):
            later = (errors[step] + GAE_LAMBDA * later) * goes_on[step]
            advantages[step] = later
        chosen = goes_on.flatten()
        states, masks = torch.cat(played.seen)[chosen], torch.cat(played.legal)[chosen]
        actions, gains = torch.cat(played.actions)[chosen], advantages.flatten()[chosen]
        gains = (gains - gains.mean()) / (gains.std() + 1e-8)
        rows = states[masks]
        with torch.no_grad():
            before = self._taken(rows, masks, actions)
        steps, divergence = self._improve_actor(rows, masks, actions, before, gains)
        value_loss = self._improve_critic(states.flatten(1), returns.repeat(n_steps)[chosen])
        if not all(bool(parameter.isfinite().all()) for parameter in self.network.parameters()):
            raise UsageError("the training diverged: weights are no longer finite; try another seed")
        self._samples += len(actions)
        return {
            "samples": float(self._samples),
            "mean_return": float(returns.mean()),
            "actor_steps": float(steps),
            "approx_kl": divergence,
            "value_loss": value_loss,
        }

    def _schedule(self) -> _Played:
        """Play episodes, which begin at random jobs, until all are over."""
        episodes = self._episodes
        episodes.begin(self._rng.integers(episodes.n_jobsets, size=episodes.n_environments))
        played = _Played([], [], [], np.empty(0), np.empty(0))
        rewards, goes_on = [], [np.ones(episodes.n_environments, dtype=np.bool_)]
        while goes_on[-1].any():
            states, legal = (torch.from_numpy(array) for array in episodes.observe())
            with torch.no_grad():
                probabilities = self.network.log_probabilities(states[legal], legal).exp()
            action = torch.multinomial(probabilities, 1, generator=self._generator).squeeze(1)
            reward, over = episodes.step(action.numpy())
            for values, value in zip(played[:3], (states, legal, action), strict=True):
                values.append(value)
            rewards.append(reward)
            goes_on.append(~over)
        return played._replace(rewards=np.array(rewards), goes_on=np.array(goes_on[:-1]))

    def _taken(self, rows: torch.Tensor, legal: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return self.network.log_probabilities(rows, legal).gather(1, actions[:, None]).squeeze(1)

    def _improve_actor(
        self, rows: torch.Tensor, legal: torch.Tensor, actions: torch.Tensor, before: torch.Tensor, gains: torch.Tensor
    ) -> tuple[int, float]:
        divergence, steps = 0.0, 0
        while steps < MOST_STEPS:
            change = self._taken(rows, legal, actions) - before
            divergence = float(-change.detach().mean())
            if divergence > 1.5 * TARGET_KL:
                break
            ratio = change.exp()
            clipped = ratio.clamp(1 - CLIP_RANGE, 1 + CLIP_RANGE)
            loss = -torch.min(ratio * gains, clipped * gains).mean()
            self._actor_steps.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._actor_steps.step()
            steps += 1
        return steps, divergence

    def _improve_critic(self, flat: torch.Tensor, returns: torch.Tensor) -> float:
        loss = torch.zeros(())
        for _ in range(MOST_STEPS):
            loss = (self.network.critic(flat).squeeze(1) - returns).square().mean()
            self._critic_steps.zero_grad()
            loss.backward()
            self._critic_steps.step()
        return float(loss.detach())

    def actor_parameters(self) -> dict[str, Any]:
        """Return the parameters of the kernel network, without the critic."""
        return {
            f"{ACTOR}{name}": tensor.detach().numpy().copy() for name, tensor in self.network.actor.state_dict().items()
        }
