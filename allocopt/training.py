"""Trainings by name, found through the entry points ``allocopt.trainings`` of every installed package."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from allocopt.errors import UsageError
from allocopt.files.faults import bad_file, os_fault
from allocopt.plugins import make_plugin, plugin_names

GROUP = "allocopt.trainings"


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """A user's request of a training."""

    folder: Path  # where weights, learning curve and checkpoint are written
    seed: int
    minutes: float | None  # wall clock after which to stop with a checkpoint; None to go through to the end
    resumes: bool  # whether to go on from the checkpoint in the folder
    command: str  # the command line, to be kept with the weights

    def check_folder(self, checkpoint: str) -> None:
        """Make the folder; refuse one that holds a training that is not resumed, or none of this name to resume."""
        folder = self.folder
        # Unlike `Path.exists` it takes a name that is too long for one that is not there.
        holds = os.path.exists(folder / checkpoint)
        if self.resumes and not holds:
            raise UsageError(f"{folder} holds no checkpoint to go on from")
        if holds and not self.resumes:
            raise UsageError(f"{folder} holds a training already; --resume goes on with it")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise bad_file(folder, "is a file, must be a folder") from None
        except OSError as error:
            raise bad_file(folder, f"cannot be made: {os_fault(error)}") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise bad_file(folder, "no permission to write into it")


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Updates of a training, made and to be made, measures of the last one, by name, and remarks on the result."""

    done: int
    total: int
    measures: Mapping[str, float]
    remarks: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Share finished, 0 to 1."""
        return self.done / self.total


class Training(Protocol):
    """A training of an agent, found by its name."""

    @property
    def name(self) -> str:
        """Name of the training."""

    @property
    def label(self) -> str:
        """Name and variant, fit for a folder."""

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train, yielding after every update; weights are written when all are done.

        Raises `UsageError` if the seed is reserved or the folder does not fit, `MissingPackageError` without a package.
        """


def training_names() -> list[str]:
    """Return the names of all installed trainings, sorted."""
    return plugin_names(GROUP)


def get_training(name: str, options: Mapping[str, Any] | None = None) -> Training:
    """Make the training of that name with options of its own; see `allocopt.plugins.make_plugin`."""
    return cast(Training, make_plugin(GROUP, "training", name, options, ("label", "train")))
