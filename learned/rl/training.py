"""Declarations of trainings: options, network, learner and settings, and the run that they have in common.

Needs no torch but where something is trained. Settings are named as Stable-Baselines3 names them.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from allocopt.arrays import Float32Array
from allocopt.errors import MissingPackageError, UsageError
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.rl.workers import ALONE, Learner, Workers
from learned.weights import Card, write_weights

L = TypeVar("L", bound="Learner")
T = TypeVar("T")
RESERVED = {11: "instances/paper.jsonl", 12: "instances/repo.jsonl", 13: "instances/burst.jsonl"}
"""Seeds of the shipped windows, as `instances/generate.sh` passes them to ``allocopt generate``."""
LARGEST_SEED = 2**63 - 1  # What every generator of random numbers takes, torch's among them


def check_torch() -> None:
    """Raise `MissingPackageError` without torch."""
    if find_spec("torch") is None:
        raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")


def option(default: T, least: float | None = None, most: float | None = None, among: Collection[T] | None = None) -> T:
    """Declare an option of a `DeclaredTraining` that has a range, or is one of some values."""
    return field(default=default, metadata={"least": least, "most": most, "among": among})


Trained = tuple[str, Mapping[str, Float32Array], dict[str, Any]]
"""Result of a training: name of the architecture, weights, and entries of the card besides the settings."""


@dataclass(frozen=True)
class DeclaredTraining(ABC, Generic[L]):
    """A training whose fields are its options, checked when it is made; see `allocopt.training.Training`."""

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]] = ()  # Options that are files, whose folders the card leaves out
    renamed_options: ClassVar[Mapping[str, str]] = {}  # Options that had another name once, by that name

    def __post_init__(self) -> None:
        for declared in fields(self):
            if not declared.metadata:
                continue
            name, value = declared.name, getattr(self, declared.name)
            least, most, among = (declared.metadata[limit] for limit in ("least", "most", "among"))
            if among is not None and value not in among:
                raise UsageError(f"{name} is {value!r}, must be one of {', '.join(among)}")
            if least is not None and most is not None and not least <= value <= most:
                raise UsageError(f"{name} is {value}, must be within {least:,} .. {most:,}")
            if least is not None and not value >= least:
                fault = "must not be negative" if least == 0 else f"must be at least {least:g}"
                raise UsageError(f"{name} is {value}, {fault}")

    @property
    def label(self) -> str:
        """Name and variant, fit for a folder."""
        return self.name

    @property
    @abstractmethod
    def n_updates(self) -> int:
        """Number of updates."""

    def learner(self, seed: int, workers: Workers = ALONE) -> L:
        """Return the learner before its first update."""
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
        """Return the result after all updates."""

    def card_settings(self) -> dict[str, Any]:
        """Return all settings by name, for the card."""
        return asdict(self)

    def check_seed(self, seed: int) -> None:
        """Raise `UsageError` for a seed out of range, or of windows that evaluations use: both draw them alike."""
        if not 0 <= seed <= LARGEST_SEED:
            raise UsageError(f"the seed is {seed}, must be within 0 .. {LARGEST_SEED}")
        if seed in RESERVED:
            raise UsageError(f"seed {seed} is reserved for evaluation: it makes the windows of {RESERVED[seed]}")

    def workers(self) -> AbstractContextManager[Workers]:
        """Join the processes that train together."""
        return nullcontext(ALONE)

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`. Of several workers, only the first one yields."""
        self.check_seed(request.seed)
        check_torch()
        from allocopt.report.provenance import provenance
        from learned.rl.loop import NAME, run_updates

        request.check_folder(NAME)
        # That of the program which trains, not of the one that is there when it ends.
        begun_at = provenance()["commit"]
        with self.workers() as workers:
            learner = self.learner(request.seed, workers)
            asked = {**self.card_settings(), **asdict(self), "updates": self.n_updates}
            identity = {"title": self.label, "seed": request.seed, **asked, "workers": workers.count}
            for progress in run_updates(learner, self.n_updates, request, identity, workers):
                if workers.is_leader:
                    if progress.done == progress.total:
                        network, weights, told = self.result(learner)
                        about = self.name, network, request.seed, self.n_updates, __version__, begun_at, request.command
                        settings = self.card_settings()
                        for name in self.paths:
                            settings[name] = ",".join(Path(path).name for path in settings[name].split(","))
                        card = Card(*about, {**settings, **told})
                        write_weights(request.folder / "weights.safetensors", weights, card)
                    yield progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of all algorithms."""

    n_steps: int = 16  # Steps of every environment between two updates
    learning_rate: float = 1e-3  # Of Adam, at the start; it falls linearly to a twentieth at the end
    gamma: float = 1.0  # Discount of rewards, per step
    max_grad_norm: float = 0.5  # Norm that gradients are cut at


@dataclass(frozen=True, slots=True, kw_only=True)
class PgSettings(Settings):
    """Settings of the policy gradient without a critic, ``ent_coef`` the weight of the policy's entropy."""

    ent_coef: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class A2cSettings(Settings):
    """Settings of A2C: one gradient step per update."""

    # Weights of the policy's entropy, and of the critic's squared error
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    gae_lambda: float = 1.0  # Decay of the generalized advantage estimate; 1 for sums of rewards


@dataclass(frozen=True, slots=True, kw_only=True)
class PpoSettings(A2cSettings):
    """Settings of PPO."""

    learning_rate: float = 1.5e-3
    gae_lambda: float = 0.95
    # Passes over the steps of an update; where steps are cheap, new ones teach more than a second pass
    n_epochs: int = 1
    batch_size: int = 512  # Samples of one gradient step
    clip_range: float = 0.2  # How far the ratio of new to old probability may count, away from 1
    final_ent_coef: float = 0.005  # Weight of the entropy at the end; it moves linearly


@dataclass(frozen=True, slots=True, kw_only=True)
class DqlSettings(Settings):
    """Settings of deep Q-learning: the probability of a random action, multiplied by a decay at every update."""

    exploration_initial_eps: float = 1.0
    exploration_decay: float = 0.995
    exploration_final_eps: float = 0.0
