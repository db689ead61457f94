"""What all learners share: a model, its optimizer, the environment it acts in, and how these are kept."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from allocopt.errors import UsageError
from learned.training.environment import Environment

OptimizerName = Literal["adam", "rmsprop"]
OPTIMIZERS: Mapping[str, type[torch.optim.Adam] | type[torch.optim.RMSprop]] = MappingProxyType(
    {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
)
LAST_RATE = 0.05
"""Share of a learning rate that is left at the end of a training, as a rule."""


class ModelLearner:
    """A model and the optimizer that improves it.

    Parameters
    ----------
    model
        What learns.
    learning_rate
        At the start.
    optimizer
        ``adam`` or ``rmsprop``.
    last_rate
        Share of the learning rate that is left at the end; it falls linearly.
    """

    def __init__(
        self, model: nn.Module, learning_rate: float, optimizer: OptimizerName = "adam", last_rate: float = LAST_RATE
    ) -> None:
        self._parameters = list(model.parameters())
        self._module = model
        self._learning_rate = learning_rate
        self._last_rate = last_rate
        self._optimizer: torch.optim.Optimizer = OPTIMIZERS[optimizer](self._parameters, lr=learning_rate)

    def set_rate(self, share: float) -> float:
        """Set the learning rate for a share of the training that is finished, and return it."""
        rate = self._learning_rate * (1 - (1 - self._last_rate) * share)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        return rate

    def descend(self, loss: torch.Tensor, largest_gradient: float) -> None:
        """Take one step of the optimizer down a loss, its gradient cut at a norm.

        Raises
        ------
        UsageError
            If the training diverges.
        """
        descend(self._optimizer, self._parameters, loss, largest_gradient)
        check_finite(self._parameters)

    def snapshot(self) -> dict[str, Any]:
        """Return network and optimizer."""
        return {"model": self._module.state_dict(), "optimizer": self._optimizer.state_dict()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._module.load_state_dict(snapshot["model"])
        self._optimizer.load_state_dict(snapshot["optimizer"])


class GradientLearner(ModelLearner):
    """A model that is improved by gradients of what happened in an environment.

    Parameters
    ----------
    model
        What learns.
    environment
        Where it acts.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth.
    seed
        Fixes every random choice that is not the environment's.
    """

    def __init__(self, model: nn.Module, environment: Environment, learning_rate: float, seed: int) -> None:
        super().__init__(model, learning_rate)
        self._environment = environment
        self._generator = torch.Generator().manual_seed(seed)
        self._unfinished = np.zeros(environment.n_environments)
        self._samples = 0

    def snapshot(self) -> dict[str, Any]:
        """Return networks, optimizer, environment and generators."""
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


def descend(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], loss: torch.Tensor, largest_gradient: float
) -> None:
    """Take one step down a loss, its gradient cut at a norm."""
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(parameters, largest_gradient)
    optimizer.step()


def check_finite(parameters: Iterable[nn.Parameter]) -> None:
    """Raise `UsageError` if a training has diverged."""
    if not all(bool(parameter.isfinite().all()) for parameter in parameters):
        raise UsageError("the training diverged: weights are no longer finite numbers")
