"""Kinds of networks of DRAS agents: the compact one, for any machine, and the paper's, which is made for one machine.

A kind defines the observations of its agents, and makes policies from weights and learners for trainings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from allocopt.arrays import Float32Array
from allocopt.envs.dras.task import DrasOptions, ObservationName
from allocopt.learned.dras.environment import ActingPolicy, JobsetEnvironment, ScaledRewards, SeveralMachines
from allocopt.learned.dras.paper_network import THETA_LAYERS, PaperPolicy, paper_network
from allocopt.learned.rl.slots import CompactNetwork, SlotPolicy
from allocopt.learned.rl.training import A2cSettings, DqlSettings, PgSettings, PpoSettings, Settings

if TYPE_CHECKING:
    from torch import nn

    from allocopt.learned.rl.algorithms import EnvironmentLearner

JobEnvironment = JobsetEnvironment | SeveralMachines


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Size of a training: updates, environments side by side, and updates between two validations."""

    updates: int
    environments: int
    every: int
    settings: Settings  # settings of the algorithm; their class selects it


class NetworkKind(Protocol):
    """A kind of networks."""

    name: str
    observation: ObservationName

    def plan(self, usual: TrainingPlan) -> TrainingPlan:
        """Return the training plan for this kind, given the plan for the compact network."""

    def policy(self, weights: Mapping[str, Float32Array], options: DrasOptions) -> ActingPolicy:
        """Return a network that acts; raises ValueError if the weights do not fit this kind."""

    def learner(
        self, environment: JobEnvironment, settings: Settings, seed: int
    ) -> "EnvironmentLearner[nn.Module, Settings]":
        """Return a learner with random weights."""


class Compact(NetworkKind):
    """The compact network, which values every slot by the same weights; see `allocopt.learned.rl.slots`."""

    name: str = "compact"
    observation: ObservationName = "slots"

    def plan(self, usual: TrainingPlan) -> TrainingPlan:
        return usual

    def policy(self, weights: Mapping[str, Float32Array], options: DrasOptions) -> SlotPolicy:
        return SlotPolicy.of(weights)

    def learner(
        self, environment: JobEnvironment, settings: Settings, seed: int
    ) -> "EnvironmentLearner[nn.Module, Settings]":
        from allocopt.learned.dras.experience import JobsetCollector
        from allocopt.learned.rl.algorithms import LEARNERS
        from allocopt.learned.rl.networks import SlotActorCritic, SlotNetwork

        network = CompactNetwork(environment.episodes.options.shape(environment.episodes.machine)[1])
        learns = LEARNERS[type(settings)]
        if isinstance(settings, A2cSettings):
            return learns(SlotActorCritic(network), environment, settings, seed, JobsetCollector())
        return learns(SlotNetwork(network), environment, settings, seed)


class Paper(NetworkKind):
    """The DRAS paper's network (Table 3): the window's jobs and all nodes, two dense layers of 4,000 and 1,000 neurons.

    With the paper's learning rate of 0.001 the entropy of policies falls to zero. Here the rate is a tenth of that,
    rewards are divided by their spread, and the loss has an entropy term.
    """

    name: str = "paper"
    observation: ObservationName = "state"
    SETTINGS: ClassVar[Mapping[type[Settings], TrainingPlan]] = {
        PgSettings: TrainingPlan(600, 8, 40, PgSettings(n_steps=16, learning_rate=1e-4, ent_coef=0.01)),
        A2cSettings: TrainingPlan(
            600, 8, 40, A2cSettings(n_steps=16, learning_rate=1e-4, gamma=0.99, gae_lambda=0.95, ent_coef=0.01)
        ),
        PpoSettings: TrainingPlan(
            150, 8, 10, PpoSettings(n_steps=64, learning_rate=1e-4, gamma=0.99, n_epochs=2, batch_size=128)
        ),
        DqlSettings: TrainingPlan(600, 8, 40, DqlSettings(n_steps=16, learning_rate=1e-4, gamma=0.97)),
    }

    def plan(self, usual: TrainingPlan) -> TrainingPlan:
        return self.SETTINGS[type(usual.settings)]

    def policy(self, weights: Mapping[str, Float32Array], options: DrasOptions) -> PaperPolicy:
        return PaperPolicy.of(weights, options.window)

    def learner(
        self, environment: JobEnvironment, settings: Settings, seed: int
    ) -> "EnvironmentLearner[nn.Module, Settings]":
        from allocopt.learned.dras.paper_module import PaperActorCritic, PaperModule, PaperValues
        from allocopt.learned.rl.algorithms import LEARNERS

        modules: dict[type[Settings], tuple[str, Any]] = {
            PgSettings: ("pg", PaperModule),
            A2cSettings: ("a2c", PaperActorCritic),
            PpoSettings: ("ppo", PaperActorCritic),
            DqlSettings: ("dql", PaperValues),
        }
        agent, module = modules[type(settings)]
        episodes = environment.episodes
        network = paper_network(agent, episodes.machine, THETA_LAYERS, episodes.options.window)
        return LEARNERS[type(settings)](module(network), ScaledRewards(environment), settings, seed)


KINDS: Mapping[str, NetworkKind] = {one.name: one for one in (Compact(), Paper())}
"""The kinds by name."""
