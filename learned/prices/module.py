"""The network in torch, for training: the twin of `learned.prices.network.predict`, for many windows at once."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from learned.prices.features import Features
from learned.prices.network import SHAPES, Weights

LARGEST_FIRST = 4.0
"""Score of the largest job before anything is learned; others in proportion to their nodes."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows, their leaves and jobs one after the other; see `Features`."""

    leaves: Tensor
    jobs: Tensor
    pod: Tensor  # Pod of every leaf, numbered through, shape ``(all leaves,)``
    # Window of each
    window_of_leaf: Tensor
    window_of_job: Tensor
    window_of_pod: Tensor
    leaf_share: Tensor
    pod_share: Tensor
    job_share: Tensor

    @classmethod
    def of(cls, windows: Sequence[Features]) -> "Batch":
        """Put windows together."""
        n_leaves = [len(window.leaves) for window in windows]
        n_jobs = [len(window.jobs) for window in windows]
        n_pods = [int(window.pod.max()) + 1 for window in windows]
        numbers = np.arange(len(windows))
        first_pod = np.cumsum([0, *n_pods[:-1]])
        pod = np.concatenate([window.pod for window in windows]) + np.repeat(first_pod, n_leaves)

        def joined(name: str) -> Tensor:
            return torch.from_numpy(np.concatenate([getattr(window, name) for window in windows]))

        return cls(
            joined("leaves"),
            joined("jobs"),
            torch.from_numpy(pod),
            torch.from_numpy(np.repeat(numbers, n_leaves)),
            torch.from_numpy(np.repeat(numbers, n_jobs)),
            torch.from_numpy(np.repeat(numbers, n_pods)),
            joined("leaf_share")[:, None],
            joined("pod_share")[:, None],
            joined("job_share")[:, None],
        )


def _pool(rows: Tensor, group: Tensor, n_groups: int) -> Tensor:
    return torch.zeros(n_groups, rows.shape[1]).index_add_(0, group, rows)


def _initial(name: str, shape: tuple[int, ...], generator: torch.Generator) -> nn.Parameter:
    # To begin with: prices low and even, all worths as the prices, the largest job first.
    if len(shape) == 1:
        return nn.Parameter(torch.tensor([-2.0, 0.0]) if name == "price_bias" else torch.zeros(shape))
    value = torch.randn(shape, generator=generator)
    if name == "price":
        return nn.Parameter(value * torch.tensor([0.1, 0.0]))
    scale = {"leaf_in": 1.0, "job_in": 1.0, "scores": 0.05}.get(name, 0.5)
    return nn.Parameter(scale * (2.0 / shape[0]) ** 0.5 * value)


class PriceNetwork(nn.Module):
    """Prices of leaves, and scores of jobs, the seed fixing the weights to begin with; see `learned.prices.network`."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.parts = nn.ParameterDict({name: _initial(name, shape, generator) for name, shape in SHAPES.items()})

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return prices and worths of all leaves, in units, and both scores of all jobs."""
        parts = self.parts
        n_windows, n_pods = int(batch.window_of_job[-1]) + 1, len(batch.window_of_pod)
        leaves = torch.relu(batch.leaves @ parts["leaf_in"] + parts["leaf_in_bias"])
        jobs = torch.relu(batch.jobs @ parts["job_in"] + parts["job_in_bias"])
        pods = _pool(batch.pod_share * leaves, batch.pod, n_pods)
        every = _pool(batch.leaf_share * leaves, batch.window_of_leaf, n_windows)
        asked = _pool(batch.job_share * jobs, batch.window_of_job, n_windows)
        of_window = every @ parts["leaf_all"] + asked @ parts["leaf_jobs"] + parts["leaf_bias"]
        of_pods = of_window[batch.window_of_pod] + pods @ parts["leaf_pod"]
        hidden = torch.relu(of_pods[batch.pod] + leaves @ parts["leaf_own"])
        heads = hidden @ parts["price"] + parts["price_bias"]
        prices = softplus(heads[:, 0])
        worths = prices.detach() + heads[:, 1]
        of_window = every @ parts["job_all"] + asked @ parts["job_jobs"] + parts["job_bias"]
        hidden = torch.relu(of_window[batch.window_of_job] + jobs @ parts["job_own"])
        scores = hidden @ parts["scores"] + parts["scores_bias"]
        scores = scores + torch.stack((LARGEST_FIRST * batch.jobs[:, 2], torch.zeros(len(jobs))), dim=1)
        return prices, worths, scores

    def weights(self) -> Weights:
        """Return the parameters as arrays."""
        return Weights(*(self.parts[name].detach().numpy().copy() for name in SHAPES))
