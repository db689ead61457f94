"""The evolved score of nodes: its training, and what the shipped weights are worth."""

from pathlib import Path

import numpy as np
import pytest

from allocopt.errors import UsageError
from allocopt.gpu_sharing.placing import place_pods, pod_policy
from allocopt.gpu_sharing.pods import GpuNode, PodList, PodRequest, read_gpu_nodes, read_pods
from allocopt.learned.node_scores.training import EvolvedScoreTraining

NODES = [GpuNode(f"n{number:02d}", 32_000, 10**6, 4) for number in range(12)]
PODS = PodList.of(
    [PodRequest(4000, 1, 1, 700)] * 5 + [PodRequest(4000, 1, 1, 300)] * 5 + [PodRequest(8000, 1, 2, 1000)] * 2
)


def test_evolution_allocates_more_than_it_began_with() -> None:
    pytest.importorskip("cmaes")
    from allocopt.learned.node_scores.learner import Case, NodeScoreLearner, Placements
    from allocopt.learned.node_scores.policy import WeightedScore

    learner = NodeScoreLearner(NODES, [PODS], Placements(3, 8, 1.2, 1), 8, 0.3, 0)
    first = learner.parameters
    for update in range(15):
        learner.update(update / 15)
    rng = np.random.default_rng(99)
    cases = [Case(NODES, PODS, PODS.arrivals(1.2 * 48_000, rng)) for _ in range(10)]
    before, after = (np.mean([one.allocated(WeightedScore(p)) for one in cases]) for p in (first, learner.parameters))
    assert after > before


def test_threads_do_not_change_what_is_evolved() -> None:
    pytest.importorskip("cmaes")
    from allocopt.learned.node_scores.learner import NodeScoreLearner, Placements

    found = []
    for threads in (1, 3):
        learner = NodeScoreLearner(NODES, [PODS], Placements(2, 6, 1.2, threads), 6, 0.3, 1)
        for update in range(3):
            learner.update(update / 3)
        found.append(learner.parameters)
    assert np.array_equal(*found)


def test_a_training_without_files_says_what_is_missing() -> None:
    with pytest.raises(UsageError, match="needs nodes and pods"):
        EvolvedScoreTraining()


def test_the_shipped_score_allocates_more_than_fgd_on_pods_it_has_not_seen(shared_data: Path) -> None:
    folder = shared_data / "fgd"
    nodes = read_gpu_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    pods = read_pods(folder / "openb_pod_list_cpu100.csv.gz")
    rngs = [np.random.default_rng((2, at)) for at in range(3)]
    arrivals = [pods.arrivals(1300 * sum(node.gpus for node in nodes), rng) for rng in rngs]
    score, gradient = (
        np.array([place_pods(nodes, pods, one, pod_policy(name)).share for one in arrivals])
        for name in ("evolved-score", "fgd")
    )
    assert score.mean() > gradient.mean() + 0.002
