"""What all learners share: a model and its optimizer, the environment it acts in, and the best policy so far."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import nn

from allocopt.arrays import Float32Array
from allocopt.errors import UsageError
from learned.rl.loop import Learner
from learned.rl.networks import weights_of
from learned.rl.rollout import Environment

OptimizerName = Literal["adam", "rmsprop"]
OPTIMIZERS: Mapping[str, type[torch.optim.Adam] | type[torch.optim.RMSprop]] = MappingProxyType(
    {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
)
LAST_RATE = 0.05
"""Share of a learning rate that is left at the end of a training, as a rule."""


class ModelLearner:
    """A model and the optimizer that improves it.

    The learning rate falls linearly to ``last_rate`` of what it is at the start.
    """

    def __init__(
        self, model: nn.Module, learning_rate: float, optimizer: OptimizerName = "adam", last_rate: float = LAST_RATE
    ) -> None:
        self._parameters = list(model.parameters())
        self._module = model
        self._learning_rate = learning_rate
        self._last_rate = last_rate
        self._optimizer: torch.optim.Optimizer = OPTIMIZERS[optimizer](self._parameters, lr=learning_rate)

    def rate(self, share: float) -> float:
        """Learning rate when a share of the training is finished."""
        return self._learning_rate * (1 - (1 - self._last_rate) * share)

    def set_rate(self, share: float) -> float:
        """Set the learning rate for a share of the training that is finished, and return it."""
        rate = self.rate(share)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        return rate

    def snapshot(self) -> dict[str, Any]:
        """Return network and optimizer."""
        return {"model": self._module.state_dict(), "optimizer": self._optimizer.state_dict()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._module.load_state_dict(snapshot["model"])
        self._optimizer.load_state_dict(snapshot["optimizer"])


class EnvironmentLearner(ModelLearner):
    """A model that is improved by gradients of what happened in an environment.

    The seed fixes every random choice that is not the environment's.
    """

    def __init__(self, model: nn.Module, environment: Environment, learning_rate: float, seed: int) -> None:
        super().__init__(model, learning_rate)
        self._environment = environment
        self._generator = torch.Generator().manual_seed(seed)
        self._unfinished = np.zeros(environment.n_environments)
        self._samples = 0

    def snapshot(self) -> dict[str, Any]:
        """Return network, optimizer, environment and generator."""
        return {
            **super().snapshot(),
            "environment": self._environment.snapshot(),
            "generator": self._generator.get_state(),
            "unfinished": self._unfinished,
            "samples": self._samples,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._environment.restore(snapshot["environment"])
        self._generator.set_state(snapshot["generator"])
        self._unfinished[:] = snapshot["unfinished"]
        self._samples = snapshot["samples"]


class BestKept:
    """A learner whose policy is judged as it goes on, and the best policy that it has had.

    The weights of a module are judged after the first update and every so many, and kept if they are the best.
    """

    more_is_better: ClassVar[bool] = False
    """Whether the larger score is the better one."""

    def __init__(self, learner: Learner, policy: nn.Module, every: int) -> None:
        self._learner, self._policy, self._every = learner, policy, every
        self._updates = 0
        self._judged: dict[str, float] = {}
        self.best: dict[str, Float32Array] = weights_of(policy)
        self.best_score = -np.inf if self.more_is_better else np.inf

    def judge(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
        """Return measures of a policy, ``score`` among them."""
        raise NotImplementedError

    def last(self) -> dict[str, Float32Array]:
        """Return the weights of the policy as it is now, not those of the best."""
        return weights_of(self._policy)

    def update(self, share: float) -> dict[str, float]:
        """Make an update, and at times a judgement; see `learned.rl.loop.Learner.update`."""
        measures = self._learner.update(share)
        self._updates += 1
        if self._updates % self._every == 0 or not self._judged:
            weights = self.last()
            self._judged = self.judge(weights)
            score = self._judged["score"]
            is_better = score > self.best_score if self.more_is_better else score < self.best_score
            if is_better:
                self.best_score, self.best = score, weights
        return {**measures, **self._judged, "best_score": float(self.best_score)}

    def snapshot(self) -> dict[str, Any]:
        """Return the learner, and the best policy."""
        return {
            "learner": self._learner.snapshot(),
            "updates": self._updates,
            "judged": dict(self._judged),
            "best": dict(self.best),
            "best_score": float(self.best_score),
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._learner.restore(snapshot["learner"])
        self._updates, self._judged = snapshot["updates"], dict(snapshot["judged"])
        self.best, self.best_score = dict(snapshot["best"]), snapshot["best_score"]


def descend(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], loss: torch.Tensor, max_grad_norm: float
) -> None:
    """Take one step down a loss, its gradient cut at a norm."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    optimizer.step()


def check_finite(parameters: Iterable[nn.Parameter]) -> None:
    """Raise `UsageError` if a training has diverged."""
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise UsageError("the training diverged: weights are no longer finite numbers")
