"""Training ``cush``: both selectors by Algorithm 1, alone or in several workers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from allocopt.envs.cush.dynamics import FIRST_TRAIT, Weights
from allocopt.envs.cush.jobsets import MACHINES, JobSet, Machine, Recipe
from allocopt.envs.cush.task import N_NUMBERS, CushOptions, ObservationName
from allocopt.errors import UsageError
from allocopt.simulator.locality import SIERRA_TABLE, Measurements, PenaltyTable, Policy
from learned.cush.policies import FIXED, HIDDEN, LEARNED, SIDE, PolicySelector, Validator
from learned.rl.slots import CompactNetwork
from learned.rl.training import DeclaredTraining, Trained, option
from learned.rl.workers import Workers

if TYPE_CHECKING:
    from learned.cush.learner import CushLearner, SelectorModule

VALIDATION_SEED = 900_000  # First seed of job sets that validate; those that are trained on have seeds below
PUBLISHED_EPOCHS, USUAL_EPOCHS = 5000, 1000  # Epochs of the paper, and of the shipped weights
LARGEST_MEMORY, CHOICES = 200_000_000, 40  # Bytes of images that are kept, and choices of an episode, about
SETTINGS = ("usual", "published", "normalized", "entropy", "stable")
"""Hyper-parameters by name: the shipped weights', the paper's, and the paper's with one remedy or with both."""
MASKS = ("now", "horizon")  # When a job may start that is chosen
OBSERVATION_OF: dict[str, ObservationName] = {"compact": "slots", "published": "image"}


@dataclass(frozen=True)
class CushTraining(DeclaredTraining["CushLearner"]):
    """Trains a job selector and a policy selector for a machine."""

    machine: str = option("sierra", among=MACHINES)
    nodes: int = option(128, least=1)  # Of that machine
    # ``usual``: those of the shipped weights; ``published``: the paper's; ``normalized``: these, with advantages over
    # their standard deviation; ``entropy``: with a bonus for the entropy of both selectors; ``stable``: with both
    settings: str = option("usual", among=SETTINGS)
    # ``now``: only a job that can start now may be chosen; ``horizon``: at any timestep of an image, as in the paper
    mask: str = option("now", among=MASKS)
    network: str = option("compact", among=OBSERVATION_OF)  # Of the job selector
    # ``learned``: by the policy selector; or one for all jobs
    policies: str = option(LEARNED, among=(LEARNED, *FIXED))
    # ``requested`` or ``service``: the time that turnaround is divided by in what is minimized
    over: str = option("requested", among=("requested", "service"))
    epochs: int = option(0, least=0)  # Number of epochs; 0 for the usual number
    # Job sets of an epoch, and simulations M of each, which are shared out among the workers
    jobsets: int = option(10, least=1)
    simulations: int = option(24, least=1)
    average_every: int = option(5, least=1)  # Epochs K between two averages of the workers' parameters
    pool: int = option(2000, least=1)  # Different job sets to train on
    # Job sets that validate, and epochs between two validations; the last epoch is validated in any case
    validation: int = option(128, least=1)
    every: int = option(25, least=1)
    # File of fitted penalties as ``allocopt calibrate locality`` writes it, and seconds of a timestep; the
    # coefficients that come with the package if empty
    table: str = ""
    timestep_s: float = 60.0
    measured: str = ""  # File of measured throughputs, instead of penalties
    unknown_share: float = 0.0  # Share of the jobs whose type is hidden
    # Slots Q, and rows T of an image
    queue: int = 5
    horizon: int = 5
    # Learning rates; 0 for those of the settings
    selector_rate: float = option(0.0, least=0)
    policy_rate: float = option(0.0, least=0)

    name: ClassVar[str] = "cush"
    paths: ClassVar[tuple[str, ...]] = ("table", "measured")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table and self.measured:
            raise UsageError("give either a table of penalties or a file of measured throughputs")
        self.options()
        if self.network == "published" and self.horizon < SIDE:
            raise UsageError(f"the horizon is {self.horizon}, must be at least {SIDE} for filters of {SIDE} x {SIDE}")

    @property
    def label(self) -> str:
        return f"{self.name}-{self.machine}"

    @property
    def n_updates(self) -> int:
        return self.epochs or (USUAL_EPOCHS if self.settings == "usual" else PUBLISHED_EPOCHS)

    def cluster(self) -> Machine:
        """Return the machine."""
        return Machine.of(self.machine, self.nodes)

    @property
    def chunks(self) -> int:
        """Parts in which an epoch is played: images of all its job sets may not fit in memory together."""
        if self.network == "compact":
            return 1
        image = (self.queue + 1) * self.horizon * self.cluster().units * 4
        fitting = max(1, LARGEST_MEMORY // (image * CHOICES * self.simulations))
        parts = (parts for parts in range(1, self.jobsets + 1) if self.jobsets % parts == 0)
        return next(part for part in parts if self.jobsets // part <= fitting)

    def options(self) -> CushOptions:
        """Return what episodes have in common: as usual, time passes by itself where nothing can start."""
        usual = self.settings == "usual"
        return CushOptions(
            queue=self.queue,
            horizon=self.horizon,
            reward=Weights(waiting=0.0, normalized_turnaround=1.0) if usual else Weights(),
            observation=OBSERVATION_OF[self.network],
            skips_forced=usual,
            plans_ahead=self.mask == "horizon",
            over_requested=self.over == "requested",
        )

    def draw(self, seeds: Sequence[int]) -> list[JobSet]:
        """Draw a job set for each seed, of the training's machine and locality model."""
        model = PenaltyTable.read(self.table).in_unit(self.timestep_s) if self.table else SIERRA_TABLE
        known = Measurements.read(self.measured) if self.measured else model
        return Recipe(unknown_share=self.unknown_share).draw_each(self.cluster(), known, seeds)

    def validation_sets(self) -> list[JobSet]:
        """Return the job sets that validate."""
        return self.draw(range(VALIDATION_SEED, VALIDATION_SEED + self.validation))

    def check_seed(self, seed: int) -> None:
        """Take every seed: those that are drawn from it are never those of validations."""

    def workers(self) -> AbstractContextManager[Workers]:
        return Workers.joined()

    def result(self, learner: "CushLearner") -> Trained:
        told = {"workers": learner.n_workers, "score": float(learner.best_score)}
        return self.network, learner.best, told

    def _learner(self, seed: int, workers: Workers) -> "CushLearner":
        from torch import nn

        from learned.cush.learner import SETTINGS_BY_NAME, CompactModule, CushLearner, ImageModule, Simulations
        from learned.rl.networks import dense

        if self.simulations % workers.count:
            fault = f"cannot be shared out evenly among {workers.count} workers"
            raise UsageError(f"{self.simulations} simulations {fault}")
        pool = self.draw(np.random.default_rng((seed, 0)).integers(0, VALIDATION_SEED, self.pool).tolist())
        traits = pool[0].traits.shape[1]
        jobs: SelectorModule
        if self.network == "compact":
            jobs = CompactModule(CompactNetwork(FIRST_TRAIT + traits, critic=0))
        else:
            jobs = ImageModule(self.queue, self.horizon, self.cluster().units)
        policies: nn.Module | PolicySelector
        if self.policies == LEARNED:
            policies = dense(traits + N_NUMBERS, HIDDEN, len(Policy), activation=nn.ReLU())
        else:
            policies = PolicySelector(self.policies)
        given = SETTINGS_BY_NAME[self.settings]
        of_image = self.settings == "usual" and self.network == "published"
        usual_rate = 3e-4 if of_image else given.selector_rate
        settings = replace(
            given,
            epochs=self.n_updates,
            selector_rate=self.selector_rate or usual_rate,
            policy_rate=self.policy_rate or given.policy_rate,
            chunks=self.chunks,
            average_every=self.average_every,
            validate_every=self.every,
        )
        own = self.simulations // workers.count
        simulations = Simulations(pool, self.cluster(), self.jobsets // settings.chunks, own, self.options(), seed)
        validator = Validator(self.validation_sets(), self.cluster(), self.options(), workers)
        return CushLearner(jobs, policies, simulations, validator, settings, seed, workers)
