"""What every training is: a declaration of network, learner and settings, and the command that runs it.

Needs no torch but where something is trained.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from allocopt.arrays import Float32Array
from allocopt.errors import MissingPackageError, UsageError
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.rl.workers import ALONE, Workers, is_leader
from learned.weights import Card, write_weights

if TYPE_CHECKING:
    from learned.rl.loop import Learner

L = TypeVar("L", bound="Learner")
RESERVED = {11: "instances/paper.jsonl", 12: "instances/repo.jsonl", 13: "instances/burst.jsonl"}
"""Seeds of the shipped windows, as `instances/generate.sh` passes them to ``allocopt generate``."""
LARGEST_SEED = 2**63 - 1
"""What every generator of random numbers takes, torch's among them."""


def check_training_seed(seed: int) -> None:
    """Raise `UsageError` for a seed out of range and for one whose windows evaluations use.

    A training draws its workloads from its seed in the same way as ``allocopt generate windows --seed``.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"the seed is {seed}, must be within 0 .. {LARGEST_SEED}")
    if seed in RESERVED:
        raise UsageError(f"seed {seed} is reserved for evaluation: it makes the windows of {RESERVED[seed]}")


def check_torch() -> None:
    """Raise `MissingPackageError` where nothing can be trained."""
    if find_spec("torch") is None:
        raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")


class Trained(NamedTuple):
    """What a training writes: name of the architecture, weights, and what is told of them besides the settings."""

    network: str
    weights: Mapping[str, Float32Array]
    told: dict[str, Any]


@dataclass(frozen=True)
class DeclaredTraining(ABC, Generic[L]):
    """A training whose fields are its options; see `allocopt.training.Training`.

    One that is made with an option out of range raises `UsageError`.
    """

    name: ClassVar[str]
    renamed_options: ClassVar[Mapping[str, str]] = {}
    """Options that had another name once, by that name."""

    @property
    def label(self) -> str:
        """Name and variant, fit for a folder."""
        return self.name

    @property
    @abstractmethod
    def n_updates(self) -> int:
        """Number of updates."""

    def learner(self, seed: int, workers: Workers = ALONE) -> L:
        """Return what learns, before its first update."""
        check_torch()
        import torch

        torch.set_num_threads(1)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self._learner(seed, workers)

    @abstractmethod
    def _learner(self, seed: int, workers: Workers) -> L:
        # Torch's random numbers are those of the seed.
        ...

    @abstractmethod
    def result(self, learner: L) -> Trained:
        """Return what to write when all updates are done."""

    def card_settings(self) -> dict[str, Any]:
        """Return all settings by name, for the card."""
        return asdict(self)

    def check_seed(self, seed: int) -> None:
        """Raise `UsageError` for a seed that evaluations own."""
        check_training_seed(seed)

    def workers(self) -> AbstractContextManager[Workers]:
        """Join the processes that train together."""
        return nullcontext(ALONE)

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`. Of several workers, only the first one yields."""
        self.check_seed(request.seed)
        check_torch()
        from allocopt.report.provenance import commit
        from learned.rl.loop import check_folder, run_updates

        check_folder(request)
        # That of the program which trains, not of the one that is there when it ends.
        begun_at = commit()
        with self.workers() as workers:
            learner = self.learner(request.seed, workers)
            asked = {**self.card_settings(), **asdict(self), "updates": self.n_updates}
            identity = {"title": self.label, "seed": request.seed, **asked, "workers": workers.count}
            for progress in run_updates(learner, self.n_updates, request, identity, workers):
                if is_leader(workers):
                    if progress.done == progress.total:
                        self._write(learner, request, begun_at)
                    yield progress

    def check_one_of(self, **known: Collection[str]) -> None:
        """Raise `UsageError` unless these fields are among what is known."""
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise UsageError(f"{name} is {getattr(self, name)!r}, must be one of {', '.join(values)}")

    def check_at_least(self, least: float, *names: str) -> None:
        """Raise `UsageError` unless these fields are so large."""
        for name in names:
            if not getattr(self, name) >= least:
                fault = "must not be negative" if least == 0 else f"must be at least {least:g}"
                raise UsageError(f"{name} is {getattr(self, name)}, {fault}")

    def _write(self, learner: L, request: TrainingRequest, commit: str) -> None:
        network, weights, told = self.result(learner)
        settings = {**self.card_settings(), **told}
        card = Card(self.name, network, request.seed, self.n_updates, __version__, commit, request.command, settings)
        write_weights(request.folder / "weights.safetensors", weights, card)


def file_names(paths: str) -> str:
    """Return files that are separated by commas without their folders."""
    return ",".join(Path(path).name for path in paths.split(","))
