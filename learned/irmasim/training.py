"""Training ``irmasim``: an agent that selects policies (IRMaSim, section IV), REINFORCE or actor-critic."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from allocopt.envs.policy_selection.observation import LevelName
from allocopt.envs.policy_selection.reward import RewardName
from allocopt.envs.policy_selection.task import Options
from allocopt.errors import MissingPackageError, UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES
from allocopt.simulator.multicore.setup import Execution, ExecutionKind
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.algorithms.settings import A2cSettings, PgSettings
from learned.irmasim.environment import WholeEpisodes, policy_rewards
from learned.irmasim.networks import NAME, network
from learned.irmasim.scenario import HETEROGENEOUS, jobsets_of, machine_of, policies_of
from learned.training.seeds import check_training_seed

if TYPE_CHECKING:
    from torch import nn

    from learned.irmasim.learner import WatchedLearner
    from learned.training.loop import Learner

PG, A2C = "pg", "a2c"
AGENTS = (PG, A2C)
USUAL_RATES = {PG: 2e-2, A2C: 1e-2}
"""Learning rates where none is given."""


@dataclass(frozen=True, slots=True)
class IrmasimTraining:
    """Trains an agent that names the policy by which waiting jobs start.

    Parameters
    ----------
    platform
        ``heterogeneous`` or ``homogeneous``, the paper's clusters, or a platform file.
    types
        Folder of IRMaSim's library of types, for a platform file that leaves types out; empty for none.
    trace
        Workload of tasks, or several separated by commas; empty for a batch of NPB jobs.
    jobs, batch
        Jobs of that batch, and the seed that draws it.
    objective
        ``energy``, ``makespan``, ``energy_delay``, or another reward of the environment.
    level
        How much the agent is told: ``normal``, ``small`` or ``minimal``.
    agent
        ``pg``: REINFORCE, or ``a2c``: actor-critic.
    model
        ``contention`` or ``baseline``.
    policies
        Names separated by commas, or ``all``; empty for the six of `learned.irmasim.scenario.SUBSET`.
    episodes
        Episodes of the training, at least as many as are played side by side.
    environments
        Episodes side by side, at least 2: as many in every update.
    learning_rate
        Of Adam, at the start; it falls linearly to a twentieth. 0 for the usual one.
    entropy
        Weight of the policy's entropy; rewards are shares of the objective, those of one decision about 1e-4.

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    platform: str = HETEROGENEOUS
    types: str = ""
    trace: str = ""
    jobs: int = 100
    batch: int = 100
    objective: str = "energy"
    level: str = "minimal"
    agent: str = PG
    model: str = ExecutionKind.CONTENTION.value
    policies: str = ""
    episodes: int = 4800
    environments: int = 16
    learning_rate: float = 0.0
    entropy: float = 6e-5

    name: ClassVar[str] = "irmasim"

    def __post_init__(self) -> None:
        if self.agent not in AGENTS:
            raise UsageError(f"the agent is {self.agent!r}, must be one of {', '.join(AGENTS)}")
        if self.environments < 2 or self.episodes < self.environments:
            fault = f"{self.episodes} episodes, {self.environments} side by side"
            raise UsageError(f"there are {fault}; must be at least as many as side by side, and these at least 2")
        if self.jobs < 1 or min(self.batch, self.learning_rate, self.entropy) < 0:
            raise UsageError("there must be at least one job; batch, learning_rate and entropy must not be negative")
        self.options()
        self.execution()

    @property
    def label(self) -> str:
        """Name, agent, objective and model."""
        return f"{self.name}-{self.agent}-{self.objective}-{self.model}"

    @property
    def updates(self) -> int:
        """Number of updates."""
        return self.episodes // self.environments

    def options(self) -> Options:
        """Return level, reward and policies of the environment."""
        names = policies_of(self.policies)
        level, reward = cast(LevelName, self.level), cast(RewardName, self.objective)
        return Options(level, reward, ACTION_NAMES if names is None else names)

    def execution(self) -> Execution:
        """Return how jobs run."""
        return Execution(cast(ExecutionKind, self.model))

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`."""
        check_training_seed(request.seed)
        _check_torch()
        from allocopt.report.provenance import commit
        from learned.training.loop import run_updates

        begun_at = commit()
        learner = self.learner(request.seed)
        identity = {"title": self.label, "seed": request.seed, "updates": self.updates, **asdict(self)}
        for progress in run_updates(learner, self.updates, request, identity):
            if progress.done == progress.total:
                self._write(learner, request, begun_at)
            yield progress

    def learner(self, seed: int) -> "WatchedLearner":
        """Return what learns, before its first update."""
        _check_torch()
        import torch

        from learned.irmasim.learner import WatchedLearner

        torch.set_num_threads(1)
        environment = self.environment(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            inner, actor = self._agent(environment, seed)
        return WatchedLearner(inner, actor, environment)

    def environment(self, seed: int) -> WholeEpisodes:
        """Return where the agent learns; the reference is the mean of the policies."""
        machine, jobsets = machine_of(self.platform, self.types), jobsets_of(self.trace, self.jobs, self.batch)
        options, execution = self.options(), self.execution()
        references = np.nanmean(policy_rewards(jobsets, machine, execution, options), axis=1)
        return WholeEpisodes(jobsets, machine, execution, options, references, self.environments, seed)

    def _agent(self, environment: WholeEpisodes, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its actor."""
        from learned.algorithms.a2c import A2cLearner
        from learned.algorithms.actor_critic import ActorCritic
        from learned.algorithms.pg import PgLearner
        from learned.networks.torch_modules import FeedForward

        size, steps = environment.episodes.size, environment.horizon
        rate = self.learning_rate or USUAL_RATES[self.agent]
        actor = FeedForward(network(size, len(environment.episodes.options.actions)), last_gain=0.01)
        if self.agent == PG:
            settings = PgSettings(steps=steps, learning_rate=rate, entropy=self.entropy)
            return PgLearner(actor, environment, settings, seed), actor
        model = ActorCritic(actor, FeedForward(network(size, 1)))
        of_critic = A2cSettings(steps=steps, learning_rate=rate, entropy=self.entropy)
        return A2cLearner(model, environment, of_critic, seed), actor

    def _write(self, learner: "WatchedLearner", request: TrainingRequest, commit: str) -> None:
        """Write the best actor's weights; ``commit`` is that of the program which trained them."""
        from learned.networks.files import Card, write_weights

        settings = asdict(self)
        settings["trace"] = ",".join(Path(path).name for path in self.trace.split(","))
        settings["platform"], settings["types"] = Path(self.platform).name, Path(self.types).name
        settings["score"] = float(learner.best_score)
        settings["actions"] = list(self.options().actions)
        card = Card(self.name, NAME, request.seed, self.updates, __version__, commit, request.command, settings)
        write_weights(request.folder / "weights.safetensors", learner.best, card)


def _check_torch() -> None:
    """Raise `MissingPackageError` where nothing can be trained."""
    if find_spec("torch") is None:
        raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")
