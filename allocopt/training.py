"""Trainings by name, from the entry points ``allocopt.trainings`` of all installed packages."""

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

    folder: Path  # folder for weights, learning curve and checkpoint
    seed: int
    minutes: float | None  # minutes of wall clock after which to stop with a checkpoint; None to train to the end
    resumes: bool  # whether to continue from the checkpoint in the folder
    command: str  # the command line, which is stored with the weights

    def check_folder(self, checkpoint: str) -> None:
        """Make the folder; raise an error if its checkpoint contradicts ``resumes`` or if the folder cannot be written.

        A folder with a checkpoint needs ``resumes``, and resuming needs a checkpoint.
        """
        folder = self.folder
        # Unlike `Path.exists`, this returns False for a name that is too long.
        holds = os.path.exists(folder / checkpoint)
        if self.resumes and not holds:
            raise UsageError(f"{folder} has no checkpoint; start without --resume")
        if holds and not self.resumes:
            raise UsageError(f"{folder} already has a training; continue it with --resume, or choose another folder")
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
    """Progress of a training: updates done and in total, measures of the last update by name, remarks on the result."""

    done: int
    total: int
    measures: Mapping[str, float]
    remarks: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        """Finished share of the training, 0 to 1."""
        return self.done / self.total


class Training(Protocol):
    """A training of an agent, found by its name."""

    @property
    def name(self) -> str:
        """Name of the training."""

    @property
    def label(self) -> str:
        """Name and variant, usable as a folder name."""

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train, yielding after every update; weights are written when all are done.

        Raises `UsageError` if the seed is reserved or the folder contradicts the request, and `MissingPackageError` if
        a package is missing.
        """


def training_names() -> list[str]:
    """Return the names of all installed trainings, sorted."""
    return plugin_names(GROUP)


def get_training(name: str, options: Mapping[str, Any] | None = None) -> Training:
    """Return the training of a name, made with its options; see `allocopt.plugins.make_plugin`."""
    return cast(Training, make_plugin(GROUP, "training", name, options, ("label", "train")))
