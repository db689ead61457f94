"""What PPO and A2C share: a policy with a critic, and how its experience is collected."""

from typing import Generic, TypeVar

from learned.algorithms.actor_critic import Policy
from learned.algorithms.learner import GradientLearner
from learned.algorithms.rollout import Collector, Rollout, collect
from learned.algorithms.settings import ActorCriticSettings
from learned.training.environment import Environment

S = TypeVar("S", bound=ActorCriticSettings)


class ActorCriticLearner(GradientLearner, Generic[S]):
    """A policy and a critic that learn on one environment.

    Parameters
    ----------
    model
        Policy and critic.
    environment
        Where the policy acts.
    settings
        Hyper-parameters.
    seed
        Fixes every random choice that is not the environment's.
    collector
        How experience is collected.
    """

    def __init__(
        self, model: Policy, environment: Environment, settings: S, seed: int, collector: Collector = collect
    ) -> None:
        super().__init__(model, environment, settings.learning_rate, seed)
        self.model = model
        self._settings = settings
        self._collector = collector

    def collect(self) -> Rollout:
        """Let the policy act, and count the samples."""
        rollout = self._collector(self.model, self._environment, self._settings, self._unfinished, self._generator)
        self._samples += len(rollout.actions)
        return rollout
