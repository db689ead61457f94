"""An evolution strategy for the weights of a score of nodes; each candidate places pods that share GPUs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from allocopt.arrays import FloatArray
from allocopt.gpu_sharing.kernels import place_by_fgd, place_by_weights
from allocopt.gpu_sharing.placing import PodPolicy, place_pods
from allocopt.gpu_sharing.pods import WHOLE, GpuNode, PodList
from allocopt.gpu_sharing.state import TERMS
from allocopt.heuristics.gpu_sharing import Fgd
from allocopt.kernels.ready import make_ready
from allocopt.learned.node_scores.policy import WeightedScore
from allocopt.learned.rl.evolution import EvolutionLearner


class Case(NamedTuple):
    """Nodes, the pods of typical operation, and the arriving pods."""

    nodes: Sequence[GpuNode]
    pods: PodList
    arrivals: PodList

    def allocated(self, policy: PodPolicy) -> float:
        """Return the percentage of the GPUs that is allocated at the end."""
        return 100.0 * place_pods(self.nodes, self.pods, self.arrivals, policy).share


@dataclass(frozen=True, slots=True)
class Placements:
    """Cases that the candidates of a generation place.

    Parameters
    ----------
    cases
        Number of cases per generation; case k uses the pod list k modulo the number of lists.
    n_nodes
        Number of nodes drawn for each case; all nodes if there are fewer.
    asked
        Requested GPUs, as a multiple of the GPUs of the drawn nodes.
    threads
        Number of placements that run in parallel.
    """

    cases: int
    n_nodes: int
    asked: float
    threads: int


class NodeScoreLearner(EvolutionLearner):
    """Evolves the weights of a score; a case is a list of pods in random order on some of the nodes.

    The loss is the percentage of GPUs that stay unallocated, minus the same percentage under fragmentation gradient
    descent.
    """

    def __init__(
        self,
        nodes: Sequence[GpuNode],
        pods: Sequence[PodList],
        placements: Placements,
        population: int,
        sigma: float,
        seed: int,
    ) -> None:
        # Nodes without GPUs do not affect the share of allocated GPUs.
        self._nodes = [node for node in nodes if node.gpus]
        self._pods, self._placements = pods, placements
        make_ready((place_by_fgd, place_by_weights))
        # Evolution begins at fragmentation gradient descent.
        first = np.array([float(name == "fragments_removed") for name in TERMS])
        super().__init__(first, population, sigma, np.random.default_rng(seed))

    def losses(self, candidates: Sequence[FloatArray]) -> FloatArray:
        """Return the losses of candidates on new cases."""
        count = self._placements.cases
        cases = [self._drawn(self._generations * count + at) for at in range(count)]
        gradient = np.array([case.allocated(Fgd()) for case in cases])
        pairs = [(case, WeightedScore(weights)) for weights in candidates for case in cases]
        # Kernels release the GIL, so that threads run in parallel.
        with ThreadPoolExecutor(self._placements.threads) as pool:
            found = list(pool.map(lambda pair: pair[0].allocated(pair[1]), pairs))
        losses: FloatArray = gradient - np.array(found).reshape(len(candidates), count)
        return losses

    def _drawn(self, number: int) -> Case:
        rng, pods = self._rng, self._pods[number % len(self._pods)]
        some = rng.permutation(len(self._nodes))[: self._placements.n_nodes]
        nodes = [self._nodes[at] for at in some.tolist()]
        gpu_milli = self._placements.asked * WHOLE * sum(node.gpus for node in nodes)
        return Case(nodes, pods, pods.arrivals(gpu_milli, rng))
