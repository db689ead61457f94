"""The training of ``evolved-score``: weights of a score of nodes for pods that share GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from allocopt.errors import MissingPackageError, UsageError
from allocopt.gpu_sharing.pods import read_gpu_nodes, read_pods
from allocopt.gpu_sharing.state import TERMS
from allocopt.learned.node_scores.policy import NAME
from allocopt.learned.rl.training import DeclaredTraining, Trained, option
from allocopt.learned.rl.workers import Workers

if TYPE_CHECKING:
    from allocopt.learned.node_scores.learner import NodeScoreLearner


@dataclass(frozen=True)
class EvolvedScoreTraining(DeclaredTraining["NodeScoreLearner"]):
    """Evolves the weights of `evolved-score` by CMA-ES; its candidates place lists of pods on nodes."""

    nodes: str = ""  # Table of nodes with GPUs
    pods: str = ""  # Table of pods, or several separated by commas
    generations: int = option(200, least=1)
    population: int = option(12, least=4)
    cases: int = option(8, least=1)  # Number of cases per generation, which use the lists of pods in turn
    case_nodes: int = option(400, least=1)  # Number of nodes drawn for each case; all nodes if there are fewer
    sigma: float = option(0.3, least=1e-6)  # Standard deviation of the first candidates
    asked: float = option(1.3, least=0.1)  # Requested GPUs of a case, as a multiple of the GPUs of its nodes
    threads: int = option(2, least=1)

    name: ClassVar[str] = NAME
    paths: ClassVar[tuple[str, ...]] = ("nodes", "pods")

    def __post_init__(self) -> None:
        if not self.nodes or not self.pods:
            raise UsageError(f"{self.name} needs nodes and pods; give --option nodes=FILE --option pods=FILE,...")
        super().__post_init__()

    @property
    def n_updates(self) -> int:
        return self.generations

    def card_settings(self) -> dict[str, Any]:
        # The number of threads does not affect the result.
        return {name: value for name, value in super().card_settings().items() if name != "threads"}

    def result(self, learner: "NodeScoreLearner") -> Trained:
        # Only the order of scores matters, so the largest weight is 1.
        numbers = learner.parameters / max(float(np.abs(learner.parameters).max()), 1e-12)
        told = {name: round(number, 3) for name, number in zip(TERMS, numbers.tolist(), strict=True)}
        return "node-score", {"weights": numbers.astype(np.float32)}, {"terms": told}

    def remarks(self, told: Mapping[str, Any]) -> tuple[str, ...]:
        return ("score: " + " ".join(f"{weight:+g} {name}" for name, weight in told["terms"].items()),)

    def _learner(self, seed: int, workers: Workers) -> "NodeScoreLearner":
        if find_spec("cmaes") is None:
            raise MissingPackageError.of("evolution needs", "cmaes", extra="train")
        from allocopt.learned.node_scores.learner import NodeScoreLearner, Placements

        placements = Placements(self.cases, self.case_nodes, self.asked, self.threads)
        pods = [read_pods(Path(one.strip())) for one in self.pods.split(",") if one.strip()]
        return NodeScoreLearner(read_gpu_nodes(Path(self.nodes)), pods, placements, self.population, self.sigma, seed)
