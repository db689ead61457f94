"""Training ``cush``: both selectors by Algorithm 1, alone or in several workers."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.envs.cush.episodes import ObservationName, Options, Weights
from allocopt.envs.cush.jobsets import JobSet, Machine, Recipe, draw_jobsets, draw_measured, sierra, summit
from allocopt.errors import MissingPackageError, UsageError
from allocopt.simulator.locality import SIERRA_TABLE, read_measurements
from allocopt.simulator.locality_fit import read_table
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.cush.networks import FIXED, LEARNED, PolicyNetwork, compact_network, image_network
from learned.cush.selectors import PolicySelector, fixed_policies

if TYPE_CHECKING:
    from learned.cush.learner import CushLearner, Settings
    from learned.cush.modules import PolicyModule, SelectorModule
    from learned.training.workers import Workers

MACHINES = {"sierra": sierra, "summit": summit}

VALIDATION_SEED = 900_000
"""First seed of the job sets that validate; those that are trained on are drawn from the seeds below."""

PUBLISHED_EPOCHS, USUAL_EPOCHS = 5000, 1000
"""Epochs of the paper, and of the shipped weights."""
LARGEST_MEMORY, CHOICES = 200_000_000, 40
"""Bytes of the images of choices that are kept, and choices of an episode, about."""
OBSERVATION_OF: dict[str, ObservationName] = {"compact": "slots", "published": "image"}


@dataclass(frozen=True, slots=True)
class CushTraining:
    """Trains a job selector and a policy selector for a machine.

    Parameters
    ----------
    machine, nodes
        ``sierra`` or ``summit``, and its number of nodes.
    settings
        ``usual``: those of the shipped weights, or ``published``: those of the paper.
    network
        Of the job selector: ``compact`` or ``published``.
    policies
        ``learned``: by the policy selector; or ``depth-first``, ``breadth-first`` or ``oracle`` for all jobs.
    epochs
        Number of epochs; 0 for the usual number.
    jobsets, simulations
        Job sets of an epoch, and simulations M of each, which are shared out among the workers.
    average_every
        Epochs K between two averages of the workers' parameters.
    pool
        Different job sets to train on.
    validation, every
        Job sets that validate, and epochs between two validations; the last epoch is validated in any case.
    table, timestep_s
        File of fitted penalties as ``allocopt calibrate locality`` writes it, and seconds of a timestep; the
        coefficients that come with the package if empty.
    measured
        File of measured throughputs, instead of penalties.
    unknown_share
        Share of the jobs whose type is hidden.
    queue, horizon
        Slots Q, and rows T of an image.
    selector_rate, policy_rate
        Learning rates; 0 for those of the settings.

    Raises
    ------
    UsageError
        If a value is out of range.
    """

    machine: str = "sierra"
    nodes: int = 128
    settings: str = "usual"
    network: str = "compact"
    policies: str = LEARNED
    epochs: int = 0
    jobsets: int = 10
    simulations: int = 24
    average_every: int = 5
    pool: int = 2000
    validation: int = 128
    every: int = 25
    table: str = ""
    timestep_s: float = 60.0
    measured: str = ""
    unknown_share: float = 0.0
    queue: int = 5
    horizon: int = 5
    selector_rate: float = 0.0
    policy_rate: float = 0.0

    name: ClassVar[str] = "cush"

    def __post_init__(self) -> None:
        choices = {
            "machine": MACHINES,
            "settings": ("usual", "published"),
            "network": OBSERVATION_OF,
            "policies": (LEARNED, *FIXED),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} is {getattr(self, name)!r}, must be one of {', '.join(known)}")
        for name in ("nodes", "jobsets", "simulations", "average_every", "pool", "validation", "every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}, must be at least 1")
        for name in ("epochs", "selector_rate", "policy_rate"):
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is {getattr(self, name)}, must not be negative")
        if self.table and self.measured:
            raise UsageError("give either a table of penalties or a file of measured throughputs")
        self.options()
        if self.network == "published":
            image_network(self.cluster(), self.queue, self.horizon)

    @property
    def label(self) -> str:
        """Name and machine."""
        return f"{self.name}-{self.machine}"

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return self.epochs or (PUBLISHED_EPOCHS if self.settings == "published" else USUAL_EPOCHS)

    def cluster(self) -> Machine:
        """Return the machine."""
        return MACHINES[self.machine](self.nodes)

    @property
    def chunks(self) -> int:
        """Parts in which an epoch is played: images of all its job sets may not fit in memory together."""
        if self.network == "compact":
            return 1
        image = (self.queue + 1) * self.horizon * self.cluster().units * 4
        fitting = max(1, LARGEST_MEMORY // (image * CHOICES * self.simulations))
        parts = (parts for parts in range(1, self.jobsets + 1) if self.jobsets % parts == 0)
        return next(part for part in parts if self.jobsets // part <= fitting)

    def options(self) -> Options:
        """Return what episodes have in common.

        As published, agents are rewarded for what the local rewards say and act in every timestep. As usual, they are
        rewarded for what counts, and time passes by itself where nothing can start.
        """
        published = self.settings == "published"
        reward = Weights() if published else Weights(waiting=0.0, normalized_turnaround=1.0)
        observation = OBSERVATION_OF[self.network]
        return Options(self.queue, self.horizon, reward, observation, skips_forced=not published)

    def draw(self, seeds: Sequence[int]) -> list[JobSet]:
        """Draw a job set for each seed, of the training's machine and locality model."""
        recipe, machine = Recipe(unknown_share=self.unknown_share), self.cluster()
        if self.measured:
            return draw_measured(machine, read_measurements(self.measured), seeds, recipe)
        table = read_table(self.table).in_unit(self.timestep_s) if self.table else SIERRA_TABLE
        return draw_jobsets(machine, table, seeds, recipe)

    def validation_sets(self) -> list[JobSet]:
        """Return the job sets that validate."""
        return self.draw(range(VALIDATION_SEED, VALIDATION_SEED + self.validation))

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`. Of several workers, only the first one yields."""
        if find_spec("torch") is None:
            raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")
        from allocopt.report.provenance import commit
        from learned.training.distributed import joined_workers
        from learned.training.loop import check_folder, run_updates
        from learned.training.workers import is_leader

        check_folder(request)
        begun_at = commit()
        with joined_workers() as workers:
            learner = self.learner(request.seed, workers)
            identity = {"title": self.label, "seed": request.seed, **asdict(self), "workers": workers.count}
            for progress in run_updates(learner, self.n_epochs, request, identity, workers):
                if is_leader(workers):
                    if progress.done == progress.total:
                        self._write(learner, request, begun_at, workers.count)
                    yield progress

    def learner(self, seed: int, workers: "Workers") -> "CushLearner":
        """Return what learns, before its first epoch; all workers begin with the same parameters.

        Raises
        ------
        UsageError
            If the simulations cannot be shared out evenly.
        """
        import torch

        from learned.cush.learner import CushLearner
        from learned.cush.simulations import Simulations
        from learned.cush.validation import Validator

        if self.simulations % workers.count:
            raise UsageError(
                f"{self.simulations} simulations cannot be shared out evenly among {workers.count} workers"
            )
        torch.set_num_threads(1)
        pool = self.draw(np.random.default_rng((seed, 0)).integers(0, VALIDATION_SEED, self.pool).tolist())
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            jobs, policies = self._networks(pool[0].traits.shape[1])
        settings, own = self.hyperparameters(), self.simulations // workers.count
        simulations = Simulations(pool, self.cluster(), self.jobsets // settings.chunks, own, self.options(), seed)
        validator = Validator(self.validation_sets(), self.cluster(), self.options(), workers)
        return CushLearner(jobs, policies, simulations, validator, settings, seed, workers)

    def hyperparameters(self) -> "Settings":
        """Return those of Algorithm 1."""
        from learned.cush.learner import Settings

        timing = partial(
            Settings,
            epochs=self.n_epochs,
            chunks=self.chunks,
            average_every=self.average_every,
            validate_every=self.every,
        )
        if self.settings == "published":
            return timing(selector_rate=self.selector_rate or 1e-4, policy_rate=self.policy_rate or 1e-3)
        return timing(
            optimizer="adam",
            selector_rate=self.selector_rate or (3e-3 if self.network == "compact" else 3e-4),
            policy_rate=self.policy_rate or 1e-2,
            last_rate=0.05,
            discount=1.0,
            global_reward=False,
            clock="timesteps",
            policy_steps=8,
            policy_baseline=True,
            scaled=True,
            entropy=0.01,
            last_entropy=0.0,
            largest_gradient=0.5,
        )

    def _networks(self, traits: int) -> "tuple[SelectorModule, PolicyModule | PolicySelector]":
        """Return both selectors for jobs of so many traits."""
        from learned.cush.modules import CompactModule, ImageModule, PolicyModule

        jobs: SelectorModule
        if self.network == "compact":
            jobs = CompactModule(compact_network(traits))
        else:
            jobs = ImageModule(image_network(self.cluster(), self.queue, self.horizon))
        if self.policies == LEARNED:
            return jobs, PolicyModule(PolicyNetwork(traits))
        return jobs, fixed_policies(self.policies)

    def _write(self, learner: "CushLearner", request: TrainingRequest, commit: str, workers: int) -> None:
        """Write the best parameters; ``commit`` is that of the program which trained them."""
        from learned.networks.files import Card, write_weights

        files = {name: Path(getattr(self, name)).name for name in ("table", "measured")}
        settings: dict[str, Any] = {**asdict(self), **files, "workers": workers, "score": float(learner.best_score)}
        card = Card(
            self.name, self.network, request.seed, self.n_epochs, __version__, commit, request.command, settings
        )
        write_weights(request.folder / "weights.safetensors", learner.best, card)
