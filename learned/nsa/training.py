"""Training ``nsa``: the repair of the NSA paper by PPO (section V-B), on replays that start with an idle cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.cluster.topology import FatTree
from allocopt.heuristics.topology.annealing import Annealing
from allocopt.learned.nsa.networks import NETWORKS
from allocopt.learned.rl.training import DeclaredTraining, PpoSettings, Trained, option
from allocopt.learned.rl.workers import Workers
from allocopt.problems.base import Strategy
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.simulator.window import windows
from allocopt.solving.budget import Budget
from allocopt.traces.generators import uniform_workload

if TYPE_CHECKING:
    from allocopt.learned.rl.algorithms import PpoLearner


LAST_GAIN = 0.1  # Scale of the last layer's initial weights, so that the first policy is nearly uniform
UPDATES = {"fcn-1": 1000, "fcn-2": 1000, "fcn-3": 1000, "cnn-1": 600, "cnn-2": 600, "cnn-3": 700}
"""Number of updates of the shipped weights."""
PAPER_CLUSTER = FatTree(10, 10, 10)  # 1,000 nodes, a pruned fat tree of radix 20 (section VI-A)
PERIOD_S = 60.0  # Length of a period (Table I)
WINDOWS_PER_EPOCH = 100
JOBS_PER_EPOCH = 1_000  # Jobs of the workload of an epoch, more than enough for its windows
REPLAY_STEPS = 300  # Steps of the annealing that allocates each window of a replay


@dataclass(frozen=True)
class NsaTraining(DeclaredTraining["PpoLearner"]):
    """Trains one of the paper's networks."""

    network: str = option("cnn-3", among=NETWORKS)
    updates: int = option(0, least=0, most=1_000_000_000)  # Number of updates; 0 for that of the shipped weights
    environments: int = option(512, least=1, most=100_000)  # Number of walks side by side
    window_epochs: int = option(40, least=1, most=10_000)  # Number of training epochs of 100 windows each
    # Weight of the policy's entropy. A policy that always places a job in the same way is a poor repair operator,
    # because the walk then returns to where it was.
    ent_coef: float = option(0.03, least=0, most=10)

    name: ClassVar[str] = "nsa"
    renamed_options: ClassVar[Mapping[str, str]] = {"entropy": "ent_coef"}

    @property
    def label(self) -> str:
        return f"{self.name}-{self.network}"

    @property
    def n_updates(self) -> int:
        return self.updates or UPDATES[self.network]

    def card_settings(self) -> dict[str, Any]:
        own = asdict(self)
        del own["updates"]
        return {**own, "ppo": asdict(self._ppo())}

    def result(self, learner: "PpoLearner") -> Trained:
        from allocopt.learned.rl.networks import weights_of

        return self.network, weights_of(learner.model.get_submodule("actor")), {}

    def _learner(self, seed: int, workers: Workers) -> "PpoLearner":
        from allocopt.learned.nsa.learner import FeedForward, RepairEnvironment
        from allocopt.learned.rl.algorithms import PpoLearner
        from allocopt.learned.rl.networks import ActorCritic, scale_last_layer

        architecture = NETWORKS[self.network]
        actor, critic = FeedForward(architecture), FeedForward(architecture.with_outputs(1))
        scale_last_layer(actor, LAST_GAIN)
        for network in (actor, critic):
            network.sharpen_first_layer(architecture.input[0])
        windows = list(_training_windows(seed, self.window_epochs))
        environment = RepairEnvironment(windows, architecture.input, self.environments, seed)
        return PpoLearner(ActorCritic(actor, critic), environment, self._ppo(), seed)

    def _ppo(self) -> PpoSettings:
        return PpoSettings(ent_coef=self.ent_coef, final_ent_coef=self.ent_coef)


def _training_windows(seed: int, n_epochs: int) -> Iterator[TopologyProblem]:
    """Yield 100 windows per epoch of the paper's workload."""
    workload = uniform_workload(n_epochs * JOBS_PER_EPOCH, np.random.default_rng(seed))
    solver = Annealing()

    def allocate(problem: TopologyProblem) -> Allocation:
        result = solver.solve(problem.with_strategy(Strategy.DCAS), Budget(iterations=REPLAY_STEPS), seed)
        return result.unless_interrupted().found()

    for epoch in range(n_epochs):
        jobs = workload.stretch(epoch * JOBS_PER_EPOCH, JOBS_PER_EPOCH)
        yield from islice(windows(jobs, PAPER_CLUSTER, PERIOD_S, allocate, min_jobs=1), WINDOWS_PER_EPOCH)
