"""What all learners share: a model, its optimizer, the environment it acts in, and how these are kept."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from allocopt.errors import UsageError
from learned.training.environment import Environment


class GradientLearner:
    """A model that is improved by gradients of what happened in an environment.

    Parameters
    ----------
    model
        What learns.
    environment
        Where it acts.
    learning_rate
        Of Adam, at the start.
    seed
        Fixes every random choice that is not the environment's.
    """

    def __init__(self, model: nn.Module, environment: Environment, learning_rate: float, seed: int) -> None:
        self._environment = environment
        self._parameters = list(model.parameters())
        self._module = model
        self._learning_rate = learning_rate
        self._optimizer = torch.optim.Adam(self._parameters, lr=learning_rate)
        self._generator = torch.Generator().manual_seed(seed)
        self._unfinished = np.zeros(environment.n_environments)
        self._samples = 0

    def set_rate(self, share: float) -> float:
        """Set the learning rate, which falls linearly to a twentieth, and return it."""
        rate = self._learning_rate * (1 - 0.95 * share)
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
        """Return networks, optimizer, environment and generators."""
        return {
            "model": self._module.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "environment": self._environment.snapshot(),
            "generator": self._generator.get_state(),
            "unfinished": self._unfinished,
            "samples": self._samples,
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Go back to a snapshot."""
        self._module.load_state_dict(snapshot["model"])
        self._optimizer.load_state_dict(snapshot["optimizer"])
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
