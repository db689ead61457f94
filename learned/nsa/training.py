"""Training ``nsa``: the repair operator of the NSA paper by PPO (section V-B)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from allocopt.errors import MissingPackageError, UsageError
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.algorithms.settings import PpoSettings
from learned.nsa.networks import NETWORKS
from learned.training.seeds import check_training_seed

if TYPE_CHECKING:
    from learned.algorithms.ppo import PpoLearner

LAST_GAIN = 0.1
"""Scale of the last layer's initial weights: the first policy is nearly even."""

UPDATES = {"fcn-1": 1000, "fcn-2": 1000, "fcn-3": 1000, "cnn-1": 600, "cnn-2": 600, "cnn-3": 700}
"""Updates of the shipped weights."""


RANGES = (
    ("updates", 0, 1_000_000_000),
    ("environments", 1, 100_000),
    ("window_epochs", 1, 10_000),
    ("entropy", 0, 10),
)
"""Options with the least and the largest value that they take."""


@dataclass(frozen=True, slots=True)
class NsaTraining:
    """Trains one of the paper's networks.

    Parameters
    ----------
    network
        ``fcn-1`` to ``cnn-3``.
    updates
        Number of updates; 0 for as many as the shipped weights had.
    environments
        Walks that are repaired side by side.
    window_epochs
        Epochs of 100 windows to train on.
    entropy
        Weight of the policy's entropy, at least 0: a policy that always places a job in the same way is a poor repair
        operator, for the walk then returns to where it was.

    Raises
    ------
    UsageError
        If there is no such network, or a number is out of range.
    """

    network: str = "cnn-3"
    updates: int = 0
    environments: int = 512
    window_epochs: int = 40
    entropy: float = 0.03

    name: ClassVar[str] = "nsa"

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise UsageError(f"there is no network {self.network!r}; there are {', '.join(NETWORKS)}")
        for name, least, most in RANGES:
            if not least <= getattr(self, name) <= most:
                raise UsageError(f"{name} is {getattr(self, name)}, must be within {least:,} .. {most:,}")

    @property
    def label(self) -> str:
        """Name and network."""
        return f"{self.name}-{self.network}"

    @property
    def n_updates(self) -> int:
        """Number of updates."""
        return self.updates or UPDATES[self.network]

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`."""
        check_training_seed(request.seed)
        if find_spec("torch") is None:
            raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")
        from allocopt.report.provenance import commit
        from learned.training.loop import check_folder, run_updates

        check_folder(request)
        begun_at = commit()
        learner = self.learner(request.seed)
        identity = {"title": self.label, "seed": request.seed, **self._settings()}
        progress = None
        for progress in run_updates(learner, self.n_updates, request, identity):
            if progress.done == progress.total:
                self._write(learner, request, begun_at)
            yield progress

    def learner(self, seed: int) -> "PpoLearner":
        """Return what learns, before its first update."""
        import torch

        from learned.algorithms.actor_critic import ActorCritic
        from learned.algorithms.ppo import PpoLearner
        from learned.networks.torch_modules import FeedForward
        from learned.nsa.environment import RepairEnvironment
        from learned.nsa.initial import sharpen_first_layer
        from learned.nsa.windows import training_windows

        torch.set_num_threads(1)
        architecture = NETWORKS[self.network]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            actor, critic = FeedForward(architecture, LAST_GAIN), FeedForward(architecture.with_outputs(1))
            for network in (actor, critic):
                sharpen_first_layer(network, architecture.input[0])
        windows = list(training_windows(seed, self.window_epochs))
        environment = RepairEnvironment(windows, architecture.input, self.environments, seed)
        return PpoLearner(ActorCritic(actor, critic), environment, self._ppo(), seed)

    def _ppo(self) -> PpoSettings:
        """Return the hyper-parameters of PPO."""
        return PpoSettings(entropy=self.entropy, last_entropy=self.entropy)

    def _settings(self) -> dict[str, Any]:
        """Return all hyper-parameters by name."""
        return {**asdict(self), "updates": self.n_updates, "ppo": asdict(self._ppo())}

    def _write(self, learner: "PpoLearner", request: TrainingRequest, commit: str) -> None:
        """Write the policy's weights; ``commit`` is that of the program which trained them."""
        from learned.networks.files import Card, write_weights
        from learned.networks.torch_modules import weights_of

        settings = self._settings()
        updates = settings.pop("updates")
        card = Card(self.name, self.network, request.seed, updates, __version__, commit, request.command, settings)
        write_weights(request.folder / "weights.safetensors", weights_of(learner.model.get_submodule("actor")), card)
