"""Trainings ``dras-ppo``, ``dras-a2c``, ``dras-pg``, ``dras-dql`` and ``decima-pg`` (DRAS paper, sections 3.2, 3.3)."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.envs.dras.reward import Weights
from allocopt.envs.dras.task import Options
from allocopt.errors import MissingPackageError, UsageError
from allocopt.simulator.two_level_rules import Reservations
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.algorithms.settings import A2cSettings, DqlSettings, PgSettings, PpoSettings
from learned.dras.environment import JobsetEnvironment, Phase
from learned.dras.jobsets import EVALUATION_LOAD, SyntheticModel, check_jobset_seed, sampled_jobset
from learned.dras.several import GroupEnvironment, SeveralMachines, SeveralValidators
from learned.dras.traces import split_of
from learned.inference.networks import CompactNetwork

if TYPE_CHECKING:
    from torch import nn

    from learned.dras.learner import ValidatedLearner
    from learned.training.loop import Learner

SHARES = {"sampled": 0.1, "real": 0.1, "synthetic": 0.8}
"""Phases by name, and which share of the training they take: the paper's 9, 9 and 82 of a hundred jobsets."""

MOST_SAMPLED, MOST_SYNTHETIC = 32, 128
"""Jobsets of these phases, over which the episodes go round."""

GOALS = ("capability", "capacity")
STARTS = ("random", "wfp3")

MANY_REAL, VALIDATED_REAL = 10, 5
"""Number of real jobsets from which on each fifth of them validates."""

VALIDATION_SEED = 8000
"""Seed of the synthetic weeks that validate; trainings must not take it."""

ACKNOWLEDGEMENTS = {
    "Theta": "Theta trace of January 2018, from the authors of CQGym (SPEAR, Illinois Institute of Technology)",
    "SDSC": "SDSC SP2 log, Parallel Workloads Archive, courtesy of the San Diego Supercomputer Center and V. Schenk",
    "HPC2N": "HPC2N log, Parallel Workloads Archive, courtesy of Ake Sandgren and Michael Jack",
}
"""Who is to be thanked for a trace, by the beginning of its name."""


@dataclass(frozen=True, slots=True)
class DrasTraining(ABC):
    """Trains an agent of DRAS on a trace, or on several at once (a *generic* agent).

    Parameters
    ----------
    trace
        Workload file, or several separated by commas.
    processors
        Size of the machine, or sizes separated by commas; 0 for what the trace says.
    updates
        Number of updates; 0 for the usual number.
    phases
        Phases in their order, separated by commas: some of ``sampled``, ``real`` and ``synthetic``.
    environments
        Episodes side by side; 0 for the usual number.
    window
        Waiting jobs among which the agent chooses.
    weeks
        Weeks of a real or synthetic jobset, in a row.
    lowest_load, highest_load
        Range of the loads of synthetic jobsets.
    validation
        Number of synthetic jobsets at load 0.85 on which policies are validated. Where the trace has ten real jobsets
        or more, policies are validated on every fifth of these too, and not trained on them.
    validated_weeks
        Weeks in a row of real spans on which policies are validated in place of every fifth real jobset: all such
        spans of the training days, so that a queue may build up as slowly as it does in operation; 0 for none.
    every
        Updates between two validations; 0 for the usual number.
    tolerated
        Ratio of the longest wait of a validated jobset to that under FCFS with EASY beyond which its excess counts
        as much as the ratio of the mean waits.
    goal
        ``capability``: the paper's reward is Eq. 1, or ``capacity``: Eq. 2.
    paper, mean_wait, mean_square_wait, longest_wait
        Weights of that reward, and of minus the mean wait, the mean square wait and the longest wait of an episode, in
        hours.
    learning_rate
        Of Adam; 0 for the usual one.

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    trace: str = ""
    processors: int | str = 0
    updates: int = 0
    phases: str = "sampled,real,synthetic"
    environments: int = 0
    window: int = 50
    weeks: int = 1
    lowest_load: float = 0.7
    highest_load: float = 0.95
    validation: int = 24
    validated_weeks: int = 0
    every: int = 0
    tolerated: float = 1.25
    goal: str = "capability"
    paper: float = 1.0
    mean_wait: float = 1000.0
    mean_square_wait: float = 0.0
    longest_wait: float = 30.0
    learning_rate: float = 0.0

    name: ClassVar[str]
    usual_updates: ClassVar[int]
    usual_environments: ClassVar[int] = 32
    usual_every: ClassVar[int] = 5
    reservations: ClassVar[Reservations] = Reservations.KEPT

    def __post_init__(self) -> None:
        if not self.trace:
            raise UsageError(f"{self.name} needs a trace to learn from: give --trace FILE")
        unknown = [name for name in self.phase_names if name not in SHARES]
        if unknown or len(set(self.phase_names)) != len(self.phase_names):
            raise UsageError(f"phases are {self.phases!r}, must be different ones of {', '.join(SHARES)}")
        if (
            min(self.updates, self.environments, self.every, self.validated_weeks) < 0
            or min(self.window, self.weeks, self.validation) < 1
        ):
            raise UsageError("window, weeks and validation must be at least 1, the other numbers not negative")
        self._check_processors()
        if self.goal not in GOALS:
            raise UsageError(f"the goal is {self.goal!r}, must be one of {', '.join(GOALS)}")
        if not 0 < self.lowest_load <= self.highest_load:
            raise UsageError(f"loads are {self.lowest_load} .. {self.highest_load}, must rise and be positive")

    @property
    def phase_names(self) -> list[str]:
        """Names of the phases in their order."""
        return self.phases.split(",")

    @property
    def label(self) -> str:
        """Name and traces."""
        traces = [Path(path).name.split(".swf")[0] for path in self.trace.split(",")]
        return f"{self.name}-{'generic' if len(traces) > 1 else traces[0]}"

    @property
    def n_updates(self) -> int:
        """Number of updates."""
        return self.updates or self.usual_updates

    @property
    def n_environments(self) -> int:
        """Episodes side by side."""
        return self.environments or self.usual_environments

    def options(self) -> Options:
        """Return the options of the environment."""
        return Options(window=self.window, reservations=self.reservations, reward=self.reward, skips_forced=True)

    @property
    def reward(self) -> Weights:
        """What the agent is rewarded for."""
        waits = {
            "mean_wait": self.mean_wait,
            "mean_square_wait": self.mean_square_wait,
            "longest_wait": self.longest_wait,
        }
        if self.goal == "capacity":
            return Weights(capacity=self.paper, **waits)
        third = self.paper / 3
        return Weights(oldest=third, size=third, used=third, **waits)

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`."""
        check_jobset_seed(request.seed)
        if request.seed == VALIDATION_SEED:
            raise UsageError(f"seed {VALIDATION_SEED} is reserved: its synthetic weeks validate")
        if find_spec("torch") is None:
            raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")
        from allocopt.report.provenance import commit
        from learned.training.loop import run_updates

        begun_at = commit()
        learner = self.learner(request.seed)
        identity = {"title": self.label, "seed": request.seed, "updates": self.n_updates, **asdict(self)}
        for progress in run_updates(learner, self.n_updates, request, identity):
            if progress.done == progress.total:
                self._write(learner, request, begun_at)
            yield progress

    def learner(self, seed: int) -> "ValidatedLearner":
        """Return what learns, before its first update."""
        import torch

        from learned.dras.learner import ValidatedLearner
        from learned.dras.validation import Validator

        torch.set_num_threads(1)
        environments, validators = [], []
        for workload, machine in self._traces():
            phases, validation = self.jobsets(workload, machine, seed)
            environments.append(JobsetEnvironment(phases, machine, self.n_environments, self.options(), seed))
            validators.append(Validator(validation, machine, self.options(), self.tolerated))
        environment = environments[0] if len(environments) == 1 else SeveralMachines(environments)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            inner, policy = self._agent(environment, seed)
        return ValidatedLearner(
            inner, policy, environment, SeveralValidators(validators), self.every or self.usual_every
        )

    @abstractmethod
    def _agent(self, environment: GroupEnvironment, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its policy."""

    def _check_processors(self) -> None:
        """Raise `UsageError` unless there is a size for all traces, or one for each."""
        paths, sizes = self.trace.split(","), str(self.processors).split(",")
        if len(sizes) not in (1, len(paths)) or not all(size.strip().isdecimal() for size in sizes):
            raise UsageError(
                f"processors are {self.processors!r}, must be a number, or one for each of {len(paths)} traces"
            )

    def _traces(self) -> list[tuple[Workload, int]]:
        """Read the traces; return each without jobs larger than its machine, and the machine's size."""
        paths, sizes = self.trace.split(","), str(self.processors).split(",")
        found = []
        for path, size in zip(paths, sizes * (len(paths) // len(sizes)), strict=True):
            workload = read_workload(path)
            machine = int(size) or workload.machine_processors
            if not machine:
                raise UsageError(f"{path} does not say how large its machine is: give --processors")
            found.append((workload.fitting(machine), machine))
        return found

    def jobsets(self, workload: Workload, machine: int, seed: int) -> tuple[list[Phase], list[Workload]]:
        """Return the phases, and the jobsets that validate, of a trace."""
        split = split_of(workload)
        training, real = split.training(), list(split.spans(self.weeks))
        model = SyntheticModel.fitted(training, machine)
        rng = np.random.default_rng((seed, 0))
        usual = int(np.mean([len(jobs) for jobs in real]))
        loads = (self.lowest_load, self.highest_load)
        drawn = range(self.validation)
        validation = [model.week(VALIDATION_SEED, index, EVALUATION_LOAD, self.weeks) for index in drawn]
        if self.validated_weeks:
            validation += split.spans(self.validated_weeks)
        elif len(real) >= MANY_REAL:
            validation += real[VALIDATED_REAL - 1 :: VALIDATED_REAL]
            del real[VALIDATED_REAL - 1 :: VALIDATED_REAL]
        makers = {
            "sampled": lambda: [sampled_jobset(training, usual, rng, f"sampled-{i}") for i in range(MOST_SAMPLED)],
            "real": lambda: real,
            "synthetic": lambda: [
                model.week(seed, i, float(rng.uniform(*loads)), self.weeks) for i in range(MOST_SYNTHETIC)
            ],
        }
        return [Phase(name, tuple(makers[name]()), SHARES[name]) for name in self.phase_names], validation

    def _write(self, learner: "ValidatedLearner", request: TrainingRequest, commit: str) -> None:
        """Write the best policy's weights; ``commit`` is that of the program which trained them."""
        from learned.networks.files import Card, write_weights

        settings = asdict(self)
        traces = [Path(path).name for path in self.trace.split(",")]
        settings["trace"] = ",".join(traces)
        thanks = [text for name, text in ACKNOWLEDGEMENTS.items() if any(trace.startswith(name) for trace in traces)]
        settings["acknowledgement"] = "; ".join(thanks)
        settings["reservations"] = self.reservations.name.lower()
        settings["reward"] = asdict(self.reward)
        settings["score"] = float(learner.best_score)
        card = Card(self.name, "compact", request.seed, self.n_updates, __version__, commit, request.command, settings)
        write_weights(request.folder / "weights.safetensors", learner.best, card)


@dataclass(frozen=True, slots=True)
class DrasPpo(DrasTraining):
    """``dras-ppo``: proximal policy optimization; see `DrasTraining`.

    Parameters
    ----------
    start
        Policy to begin with: ``random``, or ``wfp3``, the rule's (`learned.dras.imitation`).
    """

    start: str = "random"

    name: ClassVar[str] = "dras-ppo"
    usual_updates: ClassVar[int] = 250

    def __post_init__(self) -> None:
        DrasTraining.__post_init__(self)
        if self.start not in STARTS:
            raise UsageError(f"the start is {self.start!r}, must be one of {', '.join(STARTS)}")

    def _agent(self, environment: GroupEnvironment, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its policy."""
        from learned.algorithms.ppo import PpoLearner
        from learned.dras.experience import JobsetCollector
        from learned.dras.imitation import imitate_wfp3

        model = _slot_actor_critic(environment)
        if self.start == "wfp3":
            imitate_wfp3(model, environment, seed)
        settings = PpoSettings(
            epochs=2, minibatch=2048, learning_rate=self.learning_rate or 2e-3, entropy=0.01, last_entropy=0.001
        )
        return PpoLearner(model, environment, settings, seed, JobsetCollector()), model


@dataclass(frozen=True, slots=True)
class DrasA2c(DrasTraining):
    """``dras-a2c``: advantage actor critic; see `DrasTraining`."""

    name: ClassVar[str] = "dras-a2c"
    usual_updates: ClassVar[int] = 400
    usual_environments: ClassVar[int] = 16

    def _agent(self, environment: GroupEnvironment, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its policy."""
        from learned.algorithms.a2c import A2cLearner
        from learned.dras.experience import JobsetCollector

        model = _slot_actor_critic(environment)
        settings = A2cSettings(learning_rate=self.learning_rate or 5e-3, trace=0.95)
        return A2cLearner(model, environment, settings, seed, JobsetCollector()), model


@dataclass(frozen=True, slots=True)
class DrasPg(DrasTraining):
    """``dras-pg``: the policy gradient with the paper's baseline; see `DrasTraining`."""

    name: ClassVar[str] = "dras-pg"
    usual_updates: ClassVar[int] = 1500
    usual_every: ClassVar[int] = 20

    def _agent(self, environment: GroupEnvironment, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its policy."""
        from learned.algorithms.pg import PgLearner
        from learned.dras.modules import SlotNetwork

        policy = SlotNetwork(_network(environment, critic=0))
        return PgLearner(
            policy, environment, PgSettings(steps=32, learning_rate=self.learning_rate or 2e-3, entropy=0.01), seed
        ), policy


@dataclass(frozen=True, slots=True)
class DecimaPg(DrasPg):
    """``decima-pg``: the policy gradient without reservations and second level; see `DrasTraining`."""

    name: ClassVar[str] = "decima-pg"
    reservations: ClassVar[Reservations] = Reservations.NONE


@dataclass(frozen=True, slots=True)
class DrasDql(DrasTraining):
    """``dras-dql``: deep Q-learning; see `DrasTraining`."""

    name: ClassVar[str] = "dras-dql"
    usual_updates: ClassVar[int] = 1500
    usual_every: ClassVar[int] = 20

    def _agent(self, environment: GroupEnvironment, seed: int) -> "tuple[Learner, nn.Module]":
        """Return what learns in an environment, and its policy."""
        from learned.algorithms.dql import DqlLearner
        from learned.dras.modules import SlotNetwork

        critic = SlotNetwork(_network(environment, critic=0))
        return DqlLearner(
            critic, environment, DqlSettings(steps=16, learning_rate=self.learning_rate or 1e-3, discount=0.97), seed
        ), critic


def _network(environment: GroupEnvironment, critic: int = 32) -> CompactNetwork:
    """Return the compact network for what an environment shows."""
    return CompactNetwork(environment.episodes.options.shape(environment.episodes.machine)[1], critic=critic)


def _slot_actor_critic(environment: GroupEnvironment) -> "Any":
    """Return a compact actor and critic."""
    from learned.dras.modules import PooledCritic, SlotNetwork
    from learned.dras.states import SlotActorCritic

    network = _network(environment)
    return SlotActorCritic(SlotNetwork(network), PooledCritic(network))
