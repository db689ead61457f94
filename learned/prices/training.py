"""Training ``lns-prices``."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from allocopt.errors import MissingPackageError, UsageError
from allocopt.problems.topology import Allocation, TopologyProblem
from allocopt.solving.registry import get_solver
from allocopt.solving.solve import solve
from allocopt.training import TrainingProgress, TrainingRequest
from allocopt.version import __version__
from learned.prices.windows import check_seed, large, of_any_shape, paper_like

if TYPE_CHECKING:
    from learned.prices.learner import PriceLearner, Settings

MOST_IDLE = 4000
"""Idle nodes of the largest windows to train on."""
MOST_EXACT, STATES = 8, 50_000
"""Jobs up to which ``exact`` is asked for the optimum, and how hard it tries."""


@dataclass(frozen=True, slots=True)
class LnsPricesTraining:
    """Trains the network of `lns-prices` on windows of the paper's workload on clusters of many shapes.

    Parameters
    ----------
    updates
        Number of updates.
    windows
        Windows of the paper's cluster, and as many of other shapes.
    large_windows
        Windows of 300 to 4,000 idle nodes.
    label_steps
        Steps of the search whose allocations are imitated in windows that ``exact`` does not prove.
    """

    updates: int = 12_000
    windows: int = 1500
    large_windows: int = 300
    label_steps: int = 20_000

    name: ClassVar[str] = "lns-prices"

    def __post_init__(self) -> None:
        if min(self.updates, self.windows, self.label_steps) < 1 or self.large_windows < 0:
            raise UsageError("updates, windows and label_steps must be at least 1, large_windows not negative")

    @property
    def label(self) -> str:
        """Its name: there are no variants."""
        return self.name

    def train(self, request: TrainingRequest) -> Iterator[TrainingProgress]:
        """Train; see `allocopt.training.Training.train`."""
        check_seed(request.seed)
        if find_spec("torch") is None:
            raise MissingPackageError("training needs the package 'torch', which is not installed: allocopt[train]")
        from learned.training.loop import check_folder, run_updates

        check_folder(request)
        learner = self.learner(request.seed)
        identity = {"title": self.label, "seed": request.seed, **asdict(self), **asdict(self._settings())}
        for progress in run_updates(learner, self.updates, request, identity):
            if progress.done == progress.total:
                self._write(learner, request)
            yield progress

    def learner(self, seed: int) -> "PriceLearner":
        """Return what learns, before its first update."""
        import torch

        from learned.prices.learner import Case, PriceLearner

        torch.set_num_threads(1)
        rng = np.random.default_rng(seed)
        few = [*paper_like(rng, self.windows), *of_any_shape(rng, self.windows)]
        many = large(rng, self.large_windows, MOST_IDLE)
        cases = [Case(problem, self._best_known(problem)) for problem in few]
        return PriceLearner(cases, [Case(p, self._best_known(p)) for p in many], self._settings(), seed)

    def _best_known(self, problem: TopologyProblem) -> Allocation:
        """Return the optimum, or the best allocation that a search finds."""
        if len(problem.jobs) <= MOST_EXACT:
            result = solve(problem, "free", get_solver("exact", {"states": STATES}), None)
        else:
            result = solve(problem, "free", "lns", None, iterations=self.label_steps)
        found: Allocation = result.found()
        return found

    def _settings(self) -> "Settings":
        """Return the hyper-parameters of the learner."""
        from learned.prices.learner import Settings

        return Settings(updates=self.updates)

    def _write(self, learner: "PriceLearner", request: TrainingRequest) -> None:
        """Write the network."""
        from allocopt.report.provenance import commit
        from learned.networks.files import Card, write_weights

        settings = {**asdict(self), **asdict(self._settings())}
        card = Card(self.name, "prices", request.seed, self.updates, __version__, commit(), request.command, settings)
        write_weights(request.folder / "weights.safetensors", learner.network.weights()._asdict(), card)
