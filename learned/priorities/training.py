"""Trainings that evolve queue orders on traces: networks that score jobs, and weights of Slurm's priorities."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.errors import MissingPackageError, UsageError
from allocopt.heuristics.scheduling.multifactor import Multifactor
from allocopt.learned.priorities.goals import GOALS
from allocopt.learned.priorities.policy import NAME, EvolvedPriority
from allocopt.learned.rl.traces import acknowledgement, check_sizes, read_on_cluster, read_traces
from allocopt.learned.rl.training import DeclaredTraining, Trained, option
from allocopt.learned.rl.workers import Workers
from allocopt.simulator.rules import QueueOrder
from allocopt.simulator.scoring import FEATURES
from allocopt.traces.variants import JITTER

if TYPE_CHECKING:
    from allocopt.learned.priorities.learner import Family, Networks, PriorityLearner, Site

JUDGED_VARIANTS = 20  # number of variants of the held-out jobs on which an order is evaluated


@dataclass(frozen=True)
class OrderTraining(DeclaredTraining["PriorityLearner"]):
    """Evolves a queue order by CMA-ES; its candidates schedule blocks of jobs of traces."""

    trace: str = ""  # Workload file, or several separated by commas
    processors: int | str = 0  # Size of the machine, or sizes separated by commas; 0 for the size in the trace
    cluster: str = ""  # Files of the cluster on which the jobs of the trace run, separated by commas
    # Objective: a loss of mean wait, bounded slowdown and longest wait; see `Goal`
    goal: str = option("balanced", among=GOALS)
    generations: int = option(300, least=1)
    population: int = option(48, least=4)
    blocks: int = option(8, least=1)  # Number of blocks of jobs per generation, from the traces in turn
    block_jobs: int = option(2500, least=2)
    sigma: float = option(0.3, least=1e-6)  # Standard deviation of the first candidates
    jitter: float = option(JITTER, least=0.0)  # Standard deviation of the logarithm of the factors that vary run times
    # Share of each trace, at its end, that is not used for training but to evaluate the order
    held_out: float = option(0.2, least=0.0, most=0.9)
    threads: int = option(2, least=1)

    paths: ClassVar[tuple[str, ...]] = ("trace", "cluster")

    def __post_init__(self) -> None:
        if not self.trace:
            raise UsageError(f"{self.name} needs a trace; give --trace FILE")
        super().__post_init__()
        check_sizes(self.trace, self.processors, self.cluster)

    @property
    def label(self) -> str:
        return f"{self.name}-{self.goal}"

    @property
    def n_updates(self) -> int:
        return self.generations

    def card_settings(self) -> dict[str, Any]:
        # The number of threads does not affect the result.
        return {name: value for name, value in super().card_settings().items() if name != "threads"}

    def remarks(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        held_out = f"the last {100 * self.held_out:.0f} % of its jobs, {JUDGED_VARIANTS} variants"
        return tuple(
            f"{name}: mean wait over that of EASY: {mean:.3f} [{low:.3f}, {high:.3f}] ({held_out})"
            for name, (mean, low, high) in told["held_out_waits"].items()
        )

    def _told(self, order: QueueOrder) -> dict[str, Any]:
        """Return the card's entries for an order: acknowledgement of the traces, and mean wait relative to EASY's."""
        from allocopt.learned.priorities.learner import worth

        judged = {
            site.workload.name: worth(order, site, JUDGED_VARIANTS, self.jitter, np.random.default_rng((1, at)))
            for at, site in enumerate(self._sites(is_held_out=True))
        }
        waits = {name: [round(number, 4) for number in one] for name, one in judged.items()}
        return {"acknowledgement": acknowledgement(self.trace), "held_out_waits": waits}

    def _learner(self, seed: int, workers: Workers) -> "PriorityLearner":
        if find_spec("cmaes") is None:
            raise MissingPackageError.of("evolution needs", "cmaes", extra="train")
        from allocopt.learned.priorities.learner import Evolution, PriorityLearner

        evolution = Evolution(
            GOALS[self.goal],
            self.population,
            self.blocks,
            self.block_jobs,
            self.sigma,
            self.jitter,
            self.threads,
        )
        return PriorityLearner(self._sites(is_held_out=False), evolution, self._family(), seed)

    @abstractmethod
    def _family(self) -> "Family":
        """Return the family of orders to search."""

    def _sites(self, *, is_held_out: bool) -> "list[Site]":
        """Return the training parts of the traces, or the held-out ends, with their machines."""
        from allocopt.learned.priorities.learner import Site

        on_cluster = bool(self.cluster)
        read = read_on_cluster(self.trace, self.cluster) if on_cluster else read_traces(self.trace, self.processors)
        found = []
        for site in (Site(*one) for one in read):
            trained = len(site.workload) - int(self.held_out * len(site.workload))
            first, jobs = (trained, len(site.workload) - trained) if is_held_out else (0, trained)
            if jobs:
                found.append(site._replace(workload=site.workload.stretch(first, jobs)))
        return found


@dataclass(frozen=True)
class EvolvedPriorityTraining(OrderTraining):
    """Evolves the network of `evolved-priority` by CMA-ES; its candidates schedule blocks of jobs of traces."""

    # Initial weights: the mean of these shipped weights or files, separated by commas; if empty, an order by wait over
    # limit
    start: str = ""
    # Features in use, separated by commas, out of `FEATURES`; all of them if empty
    features: str = ""
    hidden: int = option(8, least=0)  # Hidden neurons; 0 for a linear score

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = (*OrderTraining.paths, "start")

    def __post_init__(self) -> None:
        super().__post_init__()
        unknown = set(self.named_features) - FEATURES.keys()
        if unknown or len(set(self.named_features)) != len(self.named_features):
            raise UsageError(f"features are {self.features!r}, must be two or more of {', '.join(FEATURES)}, each once")
        if len(self.named_features) < 2:
            raise UsageError(f"features are {self.features!r}, must be at least two")

    @property
    def named_features(self) -> tuple[str, ...]:
        """The features in use."""
        return tuple(self.features.split(",")) if self.features else tuple(FEATURES)

    def result(self, learner: "PriorityLearner") -> Trained:
        order = self._family().order(learner.parameters)
        return "priority", {"network": order.network.astype(np.float32)}, self._told(order)

    def _family(self) -> "Networks":
        from allocopt.learned.priorities.learner import Networks

        start = None
        if self.start:
            start = np.mean([EvolvedPriority(one).network for one in self.start.split(",")], axis=0)
        try:
            return Networks(self.named_features, self.hidden, start)
        except ValueError as error:
            raise UsageError(f"evolution cannot start with {self.start}: {error}") from None


@dataclass(frozen=True, slots=True)
class MultifactorWeights:
    """Slurm's multifactor priorities by two numbers, the logarithms of the weights of job size and processors.

    Both weights are relative to that of age.
    """

    max_age_days: float

    def first(self, rng: np.random.Generator) -> FloatArray:
        """Return numbers with which processors count little compared to age."""
        return np.array([0.0, -5.0])

    def order(self, parameters: FloatArray) -> Multifactor:
        """Return the order whose weight of age is 1, with the given logarithms of the other weights."""
        job_size, cpu = np.exp(np.clip(parameters, -20.0, 20.0)).tolist()
        return Multifactor(
            age=1.0, job_size=job_size, cpu=cpu, max_age_days=self.max_age_days, small_relative_to_time=True
        )


@dataclass(frozen=True)
class MultifactorTraining(OrderTraining):
    """Evolves the weights of Slurm's priority/multifactor; the card lists them as lines of slurm.conf."""

    generations: int = option(40, least=1)
    population: int = option(12, least=4)
    sigma: float = option(1.0, least=1e-6)  # Standard deviation of the logarithms of weights of the first candidates
    max_age_days: float = option(365.0, least=1.0)  # PriorityMaxAge: the age factor stops growing here

    name: ClassVar[str] = "multifactor"

    def result(self, learner: "PriorityLearner") -> Trained:
        order = self._family().order(learner.parameters)
        weights = {"weights": np.array([order.age, order.job_size, order.cpu], dtype=np.float32)}
        return "multifactor", weights, {**self._told(order), "slurm_conf": order.slurm_conf()}

    def remarks(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        return (*super().remarks(told), *told["slurm_conf"])

    def _family(self) -> MultifactorWeights:
        return MultifactorWeights(self.max_age_days)
