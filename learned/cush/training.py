"""Training ``cush``: both selectors by Algorithm 1, in one or several workers."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from allocopt.envs.cush.dynamics import FIRST_TRAIT, Weights
from allocopt.envs.cush.jobsets import MACHINES, JobSet, Machine, Recipe
from allocopt.envs.cush.task import N_NUMBERS, CushOptions, ObservationName
from allocopt.errors import UsageError
from allocopt.learned.cush.policies import FIXED, HIDDEN, LEARNED, SIDE, PolicySelector, Validator
from allocopt.learned.rl.slots import CompactNetwork
from allocopt.learned.rl.training import DeclaredTraining, Trained, option
from allocopt.learned.rl.workers import Workers
from allocopt.simulator.locality import SIERRA_TABLE, Measurements, PenaltyTable, Policy

if TYPE_CHECKING:
    from allocopt.learned.cush.learner import CushLearner, SelectorModule

VALIDATION_SEED = 900_000  # First seed of validation jobsets; training jobsets have smaller seeds
PUBLISHED_EPOCHS, USUAL_EPOCHS = 5000, 1000  # Epochs of the paper, and of the shipped weights
LARGEST_MEMORY, CHOICES = 200_000_000, 40  # Most bytes of images kept at a time; approximate choices per episode
SETTINGS = ("usual", "published", "normalized", "entropy", "stable")
"""Hyper-parameters by name: the shipped weights', the paper's, and the paper's with one or both stabilizing changes."""
MASKS = ("now", "horizon")  # When a chosen job may start
OBSERVATION_OF: dict[str, ObservationName] = {"compact": "slots", "published": "image"}


@dataclass(frozen=True)
class CushTraining(DeclaredTraining["CushLearner"]):
    """Trains a job selector and a policy selector for a machine."""

    machine: str = option("sierra", among=MACHINES)
    nodes: int = option(128, least=1)  # Number of nodes of the machine
    # ``usual``: those of the shipped weights; ``published``: the paper's; ``normalized``: the paper's with advantages
    # divided by their standard deviation; ``entropy``: the paper's with an entropy bonus; ``stable``: with both changes
    settings: str = option("usual", among=SETTINGS)
    # ``now``: a job may be chosen only if it can start now; ``horizon``: also if it can start at a later timestep of an
    # image, as in the paper
    mask: str = option("now", among=MASKS)
    network: str = option("compact", among=OBSERVATION_OF)  # Network of the job selector
    # ``learned``: the policy selector chooses; otherwise a rule for all jobs
    policies: str = option(LEARNED, among=(LEARNED, *FIXED))
    # ``requested`` or ``service``: the time by which turnaround is divided in the objective
    over: str = option("requested", among=("requested", "service"))
    epochs: int = option(0, least=0)  # Number of epochs; 0 for the usual number
    # Jobsets of an epoch, and simulations M of each, which are divided among the workers
    jobsets: int = option(10, least=1)
    simulations: int = option(24, least=1)
    average_every: int = option(5, least=1)  # Epochs K between two averages of the workers' parameters
    pool: int = option(2000, least=1)  # Number of different training jobsets
    # Number of validation jobsets, and epochs between two validations; the last epoch is always validated
    validation: int = option(128, least=1)
    every: int = option(25, least=1)
    # File of fitted penalties that ``allocopt calibrate locality`` wrote; empty for the coefficients of the package
    table: str = ""
    timestep_s: float = 60.0  # Seconds per timestep
    measured: str = ""  # File of measured throughputs, instead of penalties
    unknown_share: float = 0.0  # Share of the jobs whose type is hidden
    # Number of slots Q, and of rows T of an image
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
            raise UsageError("table and measured are both given; give only one of them")
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
        """Number of parts in which an epoch is played: images of all its jobsets may not fit into memory together."""
        if self.network == "compact":
            return 1
        image = (self.queue + 1) * self.horizon * self.cluster().units * 4
        fitting = max(1, LARGEST_MEMORY // (image * CHOICES * self.simulations))
        parts = (parts for parts in range(1, self.jobsets + 1) if self.jobsets % parts == 0)
        return next(part for part in parts if self.jobsets // part <= fitting)

    def options(self) -> CushOptions:
        """Return the options of all episodes; with the usual settings, choices without an alternative are skipped."""
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
        """Draw a jobset for each seed, for the training's machine and locality model."""
        model = PenaltyTable.read(self.table).in_unit(self.timestep_s) if self.table else SIERRA_TABLE
        known = Measurements.read(self.measured) if self.measured else model
        return Recipe(unknown_share=self.unknown_share).draw_each(self.cluster(), known, seeds)

    def validation_sets(self) -> list[JobSet]:
        """Return the validation jobsets."""
        return self.draw(range(VALIDATION_SEED, VALIDATION_SEED + self.validation))

    def check_seed(self, seed: int) -> None:
        """Accept every seed: the jobset seeds drawn from it are always below those of validations."""

    def workers(self) -> AbstractContextManager[Workers]:
        return Workers.joined()

    def result(self, learner: "CushLearner") -> Trained:
        told = {"workers": learner.n_workers, "score": float(learner.best_score)}
        return self.network, learner.best, told

    def _learner(self, seed: int, workers: Workers) -> "CushLearner":
        from torch import nn

        from allocopt.learned.cush.learner import SETTINGS_BY_NAME, CompactModule, CushLearner, ImageModule, Simulations
        from allocopt.learned.rl.networks import dense

        if self.simulations % workers.count:
            fault = f"cannot be divided evenly among {workers.count} workers"
            raise UsageError(f"{self.simulations} simulations {fault}; give a multiple of {workers.count}")
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
