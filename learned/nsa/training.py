"""Training ``nsa``: the repair operator of the NSA paper by PPO (section V-B)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from allocopt.errors import UsageError
from learned.nsa.networks import NETWORKS
from learned.rl.settings import PpoSettings
from learned.rl.training import DeclaredTraining, Trained
from learned.rl.workers import Workers

if TYPE_CHECKING:
    from learned.rl.actor_critic import PpoLearner

LAST_GAIN = 0.1
"""Scale of the last layer's initial weights: the first policy is nearly even."""
UPDATES = {"fcn-1": 1000, "fcn-2": 1000, "fcn-3": 1000, "cnn-1": 600, "cnn-2": 600, "cnn-3": 700}
"""Updates of the shipped weights."""
RANGES = (
    ("updates", 0, 1_000_000_000),
    ("environments", 1, 100_000),
    ("window_epochs", 1, 10_000),
    ("ent_coef", 0, 10),
)
"""Options with the least and the largest value that they take."""


@dataclass(frozen=True)
class NsaTraining(DeclaredTraining["PpoLearner"]):
    """Trains one of the paper's networks."""

    network: str = "cnn-3"  # ``fcn-1`` to ``cnn-3``
    updates: int = 0  # Number of updates; 0 for as many as the shipped weights had
    environments: int = 512  # Walks that are repaired side by side
    window_epochs: int = 40  # Epochs of 100 windows to train on
    # Weight of the policy's entropy, at least 0: a policy that always places a job in the same way is a poor
    # repair operator, for the walk then returns to where it was
    ent_coef: float = 0.03

    name: ClassVar[str] = "nsa"
    renamed_options: ClassVar[Mapping[str, str]] = {"entropy": "ent_coef"}

    def __post_init__(self) -> None:
        self.check_one_of(network=NETWORKS)
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

    def card_settings(self) -> dict[str, Any]:
        """Return all settings by name, those of PPO among them."""
        own = asdict(self)
        del own["updates"]
        return {**own, "ppo": asdict(self._ppo())}

    def result(self, learner: "PpoLearner") -> Trained:
        """Return the policy's weights."""
        from learned.rl.networks import weights_of

        return Trained(self.network, weights_of(learner.model.get_submodule("actor")), {})

    def _learner(self, seed: int, workers: Workers) -> "PpoLearner":
        from learned.nsa.environment import RepairEnvironment
        from learned.nsa.modules import FeedForward, sharpen_first_layer
        from learned.nsa.windows import training_windows
        from learned.rl.actor_critic import PpoLearner
        from learned.rl.networks import ActorCritic, scale_last_layer

        architecture = NETWORKS[self.network]
        actor, critic = FeedForward(architecture), FeedForward(architecture.with_outputs(1))
        scale_last_layer(actor, LAST_GAIN)
        for network in (actor, critic):
            sharpen_first_layer(network, architecture.input[0])
        windows = list(training_windows(seed, self.window_epochs))
        environment = RepairEnvironment(windows, architecture.input, self.environments, seed)
        return PpoLearner(ActorCritic(actor, critic), environment, self._ppo(), seed)

    def _ppo(self) -> PpoSettings:
        return PpoSettings(ent_coef=self.ent_coef, final_ent_coef=self.ent_coef)
