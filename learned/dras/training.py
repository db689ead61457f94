"""Trainings ``dras-ppo``, ``dras-a2c``, ``dras-pg``, ``dras-dql`` and ``decima-pg`` (DRAS paper, sections 3.2, 3.3)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from allocopt.arrays import Float32Array
from allocopt.cluster.cluster import Cluster
from allocopt.envs.dras.dynamics import Weights
from allocopt.envs.dras.task import DrasOptions
from allocopt.errors import UsageError
from allocopt.learned.dras.environment import JobsetEnvironment, Phase, SeveralMachines, Validator
from allocopt.learned.dras.jobsets import EVALUATION_LOAD, EVALUATION_SEEDS, Split, SyntheticModel
from allocopt.learned.dras.network_kinds import KINDS, NetworkKind, TrainingPlan
from allocopt.learned.rl.traces import acknowledgement, check_sizes, read_on_cluster, read_traces
from allocopt.learned.rl.training import (
    A2cSettings,
    DeclaredTraining,
    DqlSettings,
    PgSettings,
    PpoSettings,
    Settings,
    Trained,
    option,
)
from allocopt.learned.rl.workers import Workers
from allocopt.simulator.rules import Reservations
from allocopt.simulator.shared.admission import asked_of
from allocopt.simulator.shared.room import pool_sizes
from allocopt.traces.weekly_cycle import WEEK_DAYS
from allocopt.traces.workload import Workload

if TYPE_CHECKING:
    from torch import nn

    from allocopt.learned.rl.algorithms import BestKept

SHARES = {"sampled": 0.1, "real": 0.1, "synthetic": 0.8}
"""Share of the training of each phase, by name; the paper has 9, 9 and 82 of a hundred jobsets."""
USUAL_SAMPLED = 32  # Number of sampled jobsets, which episodes reuse
SYNTHETIC_PER_SAMPLED = 4  # Synthetic jobsets for each sampled one
MANY_REAL, VALIDATED_REAL = 10, 5  # With 10 or more real jobsets, every fifth one is used for validation
VALIDATION_SEED = 8000  # Seed of the synthetic validation weeks; trainings refuse it


@dataclass(frozen=True)
class DrasTraining(DeclaredTraining["BestKept"]):
    """Trains an agent of DRAS on a trace, or on several at once (a *generic* agent)."""

    trace: str = ""  # Workload file, or several separated by commas
    processors: int | str = 0  # Size of the machine, or sizes separated by commas; 0 for the size in the trace
    # Files of the cluster on which the jobs of the trace run, separated by commas. The agent sees it as a pool with one
    # unit per core. A job takes a share of the pool: the largest share that it requests of any resource of the cluster.
    cluster: str = ""
    updates: int = option(0, least=0)  # 0 for the usual number
    # Phases in order, separated by commas, out of ``sampled``, ``real`` and ``synthetic``
    phases: str = "sampled,real,synthetic"
    environments: int = option(0, least=0)  # Episodes side by side; 0 for the usual number
    window: int = option(50, least=1)  # Number of waiting jobs among which the agent chooses
    weeks: int = option(1, least=1)  # Consecutive weeks of a real or synthetic jobset
    days: int = option(0, least=0)  # Days of a jobset instead of weeks, for machines with very many jobs; 0 for weeks
    # Number of sampled jobsets, 0 for the usual 32; there are four times as many synthetic jobsets
    sampled: int = option(0, least=0)
    # Range of the loads of synthetic jobsets
    lowest_load: float = 0.7
    highest_load: float = 0.95
    # Number of synthetic jobsets at load 0.85 on which policies are validated. If the trace has ten or more real
    # jobsets, every fifth of these is also used for validation, and not for training.
    validation: int = option(24, least=1)
    # Use real spans of this many weeks for validation instead of every fifth real jobset; 0 for none. In long spans,
    # queues can build up as slowly as in operation. All such spans of the training days are used.
    validated_weeks: int = option(0, least=0)
    every: int = option(0, least=0)  # Updates between two validations; 0 for the usual number
    # Tolerated ratio of the longest wait of a validation jobset to that under FCFS with EASY. The score is the ratio of
    # the mean waits plus the excess over this tolerated ratio.
    tolerated: float = 1.25
    # The paper's reward: ``capability`` is Eq. 1, ``capacity`` Eq. 2
    goal: str = option("capability", among=("capability", "capacity"))
    # Weights of the terms of the reward: the paper's reward, and minus the mean, the mean square and the longest wait
    # of an episode, in hours
    paper: float = 1.0
    mean_wait: float = 1000.0
    mean_square_wait: float = 0.0
    longest_wait: float = 30.0
    learning_rate: float = option(0.0, least=0)  # Learning rate of Adam; 0 for the usual one
    # ``compact``: sees slots and can be used on any machine; ``paper``: the paper's network, for only this machine
    network: str = option("compact", among=tuple(KINDS))

    paths: ClassVar[tuple[str, ...]] = ("trace", "cluster")
    usual_updates: ClassVar[int]
    usual_environments: ClassVar[int] = 32
    usual_every: ClassVar[int] = 5
    usual: ClassVar[Settings]  # Settings of the algorithm; their class selects it
    reservations: ClassVar[Reservations] = Reservations.KEPT

    def __post_init__(self) -> None:
        if not self.trace:
            raise UsageError(f"{self.name} needs a trace; give --trace FILE")
        phases = self.phases.split(",")
        if not set(phases) <= SHARES.keys() or len(set(phases)) != len(phases):
            raise UsageError(f"phases are {self.phases!r}, must be one or more of {', '.join(SHARES)}, each once")
        super().__post_init__()
        check_sizes(self.trace, self.processors, self.cluster)
        if self.kind.observation != "slots" and "," in self.trace:
            raise UsageError(f"network={self.network} is for a single machine; give one trace")
        if not 0 < self.lowest_load <= self.highest_load:
            raise UsageError(f"loads are {self.lowest_load} .. {self.highest_load}, must be > 0, the lower one first")

    @property
    def label(self) -> str:
        traces = [Path(path).name.split(".swf")[0] for path in self.trace.split(",")]
        return f"{self.name}-{'generic' if len(traces) > 1 else traces[0]}"

    @property
    def kind(self) -> NetworkKind:
        """The kind of network."""
        return KINDS[self.network]

    @property
    def plan(self) -> TrainingPlan:
        """Size of the training, by the options and the defaults of the network."""
        usual = TrainingPlan(self.usual_updates, self.usual_environments, self.usual_every, self.usual)
        plan = self.kind.plan(usual)
        settings = replace(plan.settings, learning_rate=self.learning_rate or plan.settings.learning_rate)
        return TrainingPlan(
            self.updates or plan.updates, self.environments or plan.environments, self.every or plan.every, settings
        )

    @property
    def n_updates(self) -> int:
        return self.plan.updates

    def options(self) -> DrasOptions:
        """Return the options of the environment."""
        return DrasOptions(self.window, self.reservations, self.reward, self.kind.observation, skips_forced=True)

    @property
    def span_days(self) -> int:
        """Days of a real or synthetic jobset."""
        return self.days or self.weeks * WEEK_DAYS

    @property
    def reward(self) -> Weights:
        """Weights of the agent's rewards."""
        waits = {name: getattr(self, name) for name in ("mean_wait", "mean_square_wait", "longest_wait")}
        if self.goal == "capacity":
            return Weights(capacity=self.paper, **waits)
        third = self.paper / 3
        return Weights(oldest=third, size=third, used=third, **waits)

    def check_seed(self, seed: int) -> None:
        if seed < 0:
            raise UsageError(f"the seed is {seed}, must not be negative")
        if seed in EVALUATION_SEEDS:
            first, last = EVALUATION_SEEDS[0], EVALUATION_SEEDS[-1]
            raise UsageError(f"seeds {first} to {last} are reserved for evaluations; take another instead of {seed}")
        if seed == VALIDATION_SEED:
            raise UsageError(f"seed {VALIDATION_SEED} is reserved for the synthetic weeks of validations; take another")

    def _learner(self, seed: int, workers: Workers) -> "BestKept":
        from allocopt.learned.rl.algorithms import BestKept

        plan, kind, options = self.plan, self.kind, self.options()
        environments, validators = [], []
        for workload, machine in self.traces():
            phases, validation = self.jobsets(workload, machine, seed)
            environments.append(JobsetEnvironment(phases, machine, plan.environments, options, seed))
            policy_of = partial(kind.policy, options=options)
            validators.append(Validator(validation, machine, options, self.tolerated, policy_of))
        environment = environments[0] if len(environments) == 1 else SeveralMachines(environments)
        inner = kind.learner(environment, plan.settings, seed)
        self._prepare(inner.model, environment, seed)

        class Validated(BestKept):
            def judge(self, weights: Mapping[str, Float32Array]) -> dict[str, float]:
                measures = [validator.measures(weights) for validator in validators]
                return {name: float(np.mean([one[name] for one in measures])) for name in measures[0]}

            def update(self, share: float) -> dict[str, float]:
                environment.go_on_to(share)
                return super().update(share)

        return Validated(inner, inner.model, plan.every)

    def result(self, learner: "BestKept") -> Trained:
        told = {"acknowledgement": acknowledgement(self.trace), "reservations": self.reservations.name.lower()}
        return self.kind.name, learner.best, {**told, "reward": asdict(self.reward), "score": float(learner.best_score)}

    def _prepare(self, model: "nn.Module", environment: JobsetEnvironment | SeveralMachines, seed: int) -> None:
        """Change the random initial weights, if the training has another start."""

    def traces(self) -> list[tuple[Workload, int]]:
        """Read all traces; return each, without jobs larger than its machine, with the size of its machine."""
        if self.cluster:
            return [(_in_pool(*one), one[1].processors) for one in read_on_cluster(self.trace, self.cluster)]
        return read_traces(self.trace, self.processors)

    def jobsets(self, workload: Workload, machine: int, seed: int) -> tuple[list[Phase], Sequence[Workload]]:
        """Return the training phases and the validation jobsets of a trace."""
        split = Split.of(workload)
        training, real = split.training(), list(split.spans(self.span_days))
        model = SyntheticModel.fitted(training, machine)
        rng = np.random.default_rng((seed, 0))
        usual = int(np.mean([len(jobs) for jobs in real]))
        validated = range(self.validation)
        validation = [model.span(VALIDATION_SEED, index, EVALUATION_LOAD, self.span_days) for index in validated]
        if self.validated_weeks:
            validation += split.spans(self.validated_weeks * WEEK_DAYS)
        elif len(real) >= MANY_REAL:
            validation += real[VALIDATED_REAL - 1 :: VALIDATED_REAL]
            del real[VALIDATED_REAL - 1 :: VALIDATED_REAL]

        def synthetic(index: int) -> Workload:
            return model.span(seed, index, float(rng.uniform(self.lowest_load, self.highest_load)), self.span_days)

        n_sampled = self.sampled or USUAL_SAMPLED
        # Make only the phases that are used, because each one draws random numbers.
        makers = {
            "sampled": lambda: [model.sampled(usual, rng, f"sampled-{index}") for index in range(n_sampled)],
            "real": lambda: real,
            "synthetic": lambda: list(map(synthetic, range(SYNTHETIC_PER_SAMPLED * n_sampled))),
        }
        return [(makers[name](), SHARES[name]) for name in self.phases.split(",")], validation


def _in_pool(jobs: Workload, cluster: Cluster) -> Workload:
    """Return the jobs that a cluster accepts, with processors counted in units of the cluster as a pool."""
    requests, request_of, _ = asked_of(jobs, cluster)
    return replace(jobs, processors=pool_sizes(requests, cluster)[request_of])


@dataclass(frozen=True)
class DrasPpo(DrasTraining):
    """``dras-ppo``: proximal policy optimization; see `DrasTraining`."""

    # First policy: ``random``, or ``wfp3``, which imitates this rule (`allocopt.learned.dras.experience.imitate_wfp3`)
    start: str = option("random", among=("random", "wfp3"))

    name = "dras-ppo"
    usual_updates = 250
    usual = PpoSettings(n_epochs=2, batch_size=2048, learning_rate=2e-3, ent_coef=0.01, final_ent_coef=0.001)

    def _prepare(self, model: "nn.Module", environment: JobsetEnvironment | SeveralMachines, seed: int) -> None:
        from allocopt.learned.dras.experience import imitate_wfp3
        from allocopt.learned.rl.networks import SlotActorCritic

        if self.start == "wfp3":
            if not isinstance(model, SlotActorCritic):
                raise UsageError("start=wfp3 needs network=compact")
            imitate_wfp3(model, environment, seed)


class DrasA2c(DrasTraining):
    """``dras-a2c``: advantage actor critic; see `DrasTraining`."""

    name = "dras-a2c"
    usual_updates = 400
    usual_environments = 16
    usual = A2cSettings(learning_rate=5e-3, gae_lambda=0.95)


class DrasPg(DrasTraining):
    """``dras-pg``: the policy gradient with the paper's baseline; see `DrasTraining`."""

    name = "dras-pg"
    usual_updates = 1500
    usual_every = 20
    usual = PgSettings(n_steps=32, learning_rate=2e-3, ent_coef=0.01)


class DecimaPg(DrasPg):
    """``decima-pg``: the policy gradient without reservations and second level; see `DrasTraining`."""

    name = "decima-pg"
    reservations = Reservations.NONE


class DrasDql(DrasTraining):
    """``dras-dql``: deep Q-learning; see `DrasTraining`."""

    name = "dras-dql"
    usual_updates = 1500
    usual_every = 20
    usual = DqlSettings(learning_rate=1e-3, gamma=0.97)
