"""Training ``irmasim``: an agent that selects policies (IRMaSim, section IV), REINFORCE or actor-critic."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.envs.policy_selection.dynamics import RewardName
from allocopt.envs.policy_selection.observation import LevelName
from allocopt.envs.policy_selection.task import Options
from allocopt.errors import UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from learned.irmasim.agents import HIDDEN, most_preferred
from learned.irmasim.environment import HETEROGENEOUS, SUBSET, WholeEpisodes, jobsets_of, machine_of, policy_rewards
from learned.rl.training import A2cSettings, DeclaredTraining, PgSettings, Trained, file_names, option
from learned.rl.workers import Workers

if TYPE_CHECKING:
    from learned.rl.algorithms import BestKept
    from learned.rl.loop import Learner

PG, A2C = "pg", "a2c"
AGENTS = (PG, A2C)
USUAL_RATES = {PG: 2e-2, A2C: 1e-2}  # Learning rates where none is given
EVERY = 10  # Updates between two looks at what the actor comes to that always takes what it prefers
SHARE = "share of "  # How the columns of a learning curve begin that tell how often each policy was named


@dataclass(frozen=True)
class IrmasimTraining(DeclaredTraining["BestKept"]):
    """Trains an agent that names the policy by which waiting jobs start."""

    platform: str = HETEROGENEOUS  # ``heterogeneous`` or ``homogeneous``, the paper's clusters, or a platform file
    types: str = ""  # Folder of IRMaSim's library of types, for a platform file that leaves types out; empty for none
    trace: str = ""  # Workload of tasks, or several separated by commas; empty for a batch of NPB jobs
    # Jobs of that batch, and the seed that draws it
    jobs: int = option(100, least=1)
    batch: int = option(100, least=0)
    objective: str = "energy"  # ``energy``, ``makespan``, ``energy_delay``, or another reward of the environment
    level: str = "minimal"  # How much the agent is told: ``normal``, ``small`` or ``minimal``
    agent: str = option(PG, among=AGENTS)  # ``pg``: REINFORCE, or ``a2c``: actor-critic
    model: str = ExecutionKind.CONTENTION.value  # ``contention`` or ``baseline``
    policies: str = ""  # Names separated by commas, or ``all``; empty for `learned.irmasim.environment.SUBSET`
    episodes: int = 4800  # Episodes of the training, at least as many as are played side by side
    environments: int = 16  # Episodes side by side, at least 2: as many in every update
    # Of Adam, at the start; it falls linearly to a twentieth. 0 for the usual one.
    learning_rate: float = option(0.0, least=0)
    # Weight of the policy's entropy; rewards are shares of the objective, those of one decision about 1e-4
    ent_coef: float = option(6e-5, least=0)

    name: ClassVar[str] = "irmasim"
    renamed_options: ClassVar[Mapping[str, str]] = {"entropy": "ent_coef"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.environments < 2 or self.episodes < self.environments:
            fault = f"{self.episodes} episodes, {self.environments} side by side"
            raise UsageError(f"there are {fault}; must be at least as many as side by side, and these at least 2")
        self.options()
        self.execution()

    @property
    def label(self) -> str:
        """Name, agent, objective and model."""
        return f"{self.name}-{self.agent}-{self.objective}-{self.model}"

    @property
    def updates(self) -> int:
        """Number of updates, which follows from that of episodes."""
        return self.episodes // self.environments

    n_updates = updates

    def options(self) -> Options:
        """Return level, reward and policies of the environment."""
        names = tuple(self.policies.split(",")) if self.policies else SUBSET
        level, reward = cast(LevelName, self.level), cast(RewardName, self.objective)
        return Options(level, reward, ACTION_NAMES if self.policies == "all" else names)

    def execution(self) -> Execution:
        """Return how jobs run."""
        return Execution(cast(ExecutionKind, self.model))

    def _learner(self, seed: int, workers: Workers) -> "BestKept":
        from torch import nn

        from learned.rl.algorithms import A2cLearner, BestKept, PgLearner
        from learned.rl.networks import ActorCritic, dense, scale_last_layer

        environment = self.environment(seed)
        size, steps = environment.episodes.size, environment.horizon
        rate = self.learning_rate or USUAL_RATES[self.agent]
        actor = dense(size, HIDDEN, len(environment.episodes.options.actions), activation=nn.Tanh())
        scale_last_layer(actor, 0.01)
        inner: Learner
        if self.agent == PG:
            settings = PgSettings(n_steps=steps, learning_rate=rate, ent_coef=self.ent_coef)
            inner = PgLearner(actor, environment, settings, seed)
        else:
            model = ActorCritic(actor, dense(size, HIDDEN, 1, activation=nn.Tanh()))
            of_critic = A2cSettings(n_steps=steps, learning_rate=rate, ent_coef=self.ent_coef)
            inner = A2cLearner(model, environment, of_critic, seed)

        class Watched(BestKept):
            more_is_better = True

            def judge(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
                return {"score": environment.score(lambda seen, legal: most_preferred(weights, seen, legal))}

            def update(self, share: float) -> dict[str, float]:
                measures = super().update(share)
                del measures["score"]
                shares = zip(environment.episodes.options.actions, environment.shares.tolist(), strict=True)
                return {
                    "episodes": float(self._updates * environment.n_environments),
                    **measures,
                    # What is learned from is relative to the other episodes, and 0 on average.
                    "mean_return": float(environment.totals.mean()),
                    **{SHARE + name: value for name, value in shares},
                }

        return Watched(inner, actor, EVERY)

    def result(self, learner: "BestKept") -> Trained:
        """Return the best actor's weights, and how it was trained."""
        told = {
            "trace": file_names(self.trace),
            "platform": Path(self.platform).name,
            "types": Path(self.types).name,
            "score": float(learner.best_score),
            "actions": list(self.options().actions),
        }
        return Trained("dense", learner.best, told)

    def environment(self, seed: int) -> WholeEpisodes:
        """Return where the agent learns; the reference is the mean of the policies."""
        machine, jobsets = machine_of(self.platform, self.types), jobsets_of(self.trace, self.jobs, self.batch)
        options, execution = self.options(), self.execution()
        references = np.nanmean(policy_rewards(jobsets, machine, execution, options), axis=1)
        return WholeEpisodes(jobsets, machine, execution, options, references, self.environments, seed)
