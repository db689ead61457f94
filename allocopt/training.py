"""Trainings by name, found through the entry points ``allocopt.trainings`` of every installed package."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from allocopt.plugins import make_plugin, plugin_names

GROUP = "allocopt.trainings"


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """What a user asks of a training.

    Parameters
    ----------
    folder
        Where weights, learning curve and checkpoint go.
    minutes
        Wall clock after which to stop with a checkpoint; None to go through to the end.
    resumes
        Whether to go on from the checkpoint in the folder.
    command
        The command line, to be kept with the weights.
    """

    folder: Path
    seed: int
    minutes: float | None
    resumes: bool
    command: str


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Updates that a training has made, those it is to make, and what the last one measured, by name."""

    done: int
    total: int
    measures: Mapping[str, float]

    @property
    def share(self) -> float:
        """Share finished, 0 to 1."""
        return self.done / self.total


class Training(Protocol):
    """A training."""

    @property
    def name(self) -> str:
        """Name under which it is asked for."""

    @property
    def label(self) -> str:
        """Name and variant, fit for a folder."""

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train, yielding after every update; weights are written when all are done.

        Raises
        ------
        UsageError
            If the seed is reserved for evaluation, or the folder does not fit the request.
        MissingPackageError
            If a package that trains is not installed.
        """


def training_names() -> list[str]:
    """Names of all trainings that are installed, sorted."""
    return plugin_names(GROUP)


def get_training(name: str, options: Mapping[str, Any] | None = None) -> Training:
    """Make the training of that name with options of its own; see `allocopt.plugins.make_plugin`."""
    return cast(Training, make_plugin(GROUP, "training", name, options, ("label", "train")))
