"""Evolved priorities: the network is that of its numbers, evolution finds a known rule, shipped weights beat rules."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.slow_scores import SlowScores
from support.workloads import busy_days

from allocopt.arrays import FloatArray
from allocopt.learned.priorities.goals import GOALS, Waits
from allocopt.learned.priorities.network import SCALES, first_parameters, network_of, parameters_of
from allocopt.learned.priorities.policy import EvolvedPriority
from allocopt.learned.priorities.training import EvolvedPriorityTraining
from allocopt.learned.weights import shipped_weights
from allocopt.simulator.metrics import measure
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.scoring import FEATURES, N_FEATURES
from allocopt.simulator.simulate import simulate
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

HIDDEN = 3


def scaled_score(parameters: FloatArray, features: FloatArray) -> float:
    """Return the score that numbers mean: of scaled features, linear and by neurons."""
    scaled = [(x - SCALES[name][0]) / SCALES[name][1] for name, x in zip(FEATURES, features, strict=True)]
    linear, neurons = parameters[:N_FEATURES], parameters[N_FEATURES:].reshape(HIDDEN, N_FEATURES + 2)
    score = float(np.dot(linear, scaled))
    for *weights, bias, output in neurons.tolist():
        x = bias + float(np.dot(weights, scaled))
        score += output * x / (1 + abs(x))
    return score


def test_a_network_scores_raw_features_as_its_numbers_score_scaled_ones() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        parameters = rng.standard_normal(N_FEATURES + HIDDEN * (N_FEATURES + 2))
        raw = 5.0 * rng.standard_normal((2, N_FEATURES))
        *rows, biases, outputs = network_of(parameters, tuple(FEATURES), HIDDEN)
        scores = []
        for features in raw:
            x = biases + features @ np.array(rows)
            scores.append(float(outputs[0] * x[0] + (outputs[1:] * x[1:] / (1 + np.abs(x[1:]))).sum()))
        first, second = (scaled_score(parameters, features) for features in raw)
        # The linear part may differ by what is the same for all jobs.
        assert scores[0] - scores[1] == pytest.approx(first - second, abs=1e-9)


def test_the_numbers_of_a_network_are_those_that_it_was_made_of() -> None:
    rng, features = np.random.default_rng(0), ("limit", "wait", "fits", "idle")
    for hidden in (0, 1, 5):
        parameters = rng.standard_normal(len(features) + hidden * (len(features) + 2))
        network = network_of(parameters, features, hidden)
        assert parameters_of(network, features, hidden) == pytest.approx(parameters)
    with pytest.raises(ValueError, match="has 5 hidden neurons, must have 2"):
        parameters_of(network, features, 2)


def test_features_that_are_left_out_do_not_count() -> None:
    features = ("wait", "predicted", "idle")
    parameters = np.arange(1.0, 1 + 3 + 2 * 5)
    network = network_of(parameters, features, 2)
    used = [list(FEATURES).index(name) for name in features]
    assert not np.delete(network[:N_FEATURES], used, axis=0).any()
    assert network[used].all()


def test_the_first_network_is_nearly_the_order_of_wait_over_limit() -> None:
    network = network_of(first_parameters(tuple(FEATURES), 0, np.random.default_rng(0)), tuple(FEATURES), 0)
    jobs = SlowScores([{"": 1}, {"": 4}, {"": 2}], {"": 8}, [100.0, 50.0, 400.0], [0, 1, 2])
    scores = jobs.scores(network, 1000.0, {0: 0.0, 1: 900.0, 2: 100.0}, [])
    assert sorted(scores, key=scores.__getitem__) == [0, 1, 2]


def test_every_feature_has_a_scale_in_its_order() -> None:
    assert list(SCALES) == list(FEATURES)


def waits_of(jobs: Workload, machine: int, weights: str) -> tuple[float, float]:
    """Return the mean waits under weights, with EASY backfilling, and under EASY."""
    order = get_policy("evolved-priority+easy", {"weights": weights})
    found = [measure(simulate(jobs, machine, policy)).jobs.wait_s.mean for policy in (order, "easy")]
    return found[0], found[1]


@pytest.mark.parametrize("weights", ["balanced", "fair", "slowdown"])
def test_shipped_weights_wait_less_than_easy_on_jobs_they_have_not_seen(weights: str) -> None:
    assert weights in shipped_weights("evolved-priority")
    jobs = busy_days(5, 3000, 100, 32, "unseen", 0.12)
    jobs = replace(jobs, users=np.random.default_rng(0).integers(0, 40, len(jobs)))
    found, easy = waits_of(jobs, 32, weights)
    assert found < 0.97 * easy


@pytest.mark.parametrize(("weights", "most"), [("balanced", 0.80), ("fair", 0.95), ("slowdown", 0.75)])
def test_shipped_weights_wait_less_than_easy_on_a_log_they_have_not_seen(
    weights: str, most: float, shared_data: Path
) -> None:
    found, easy = waits_of(read_workload(shared_data / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"), 100, weights)
    assert found < most * easy


def test_training_begins_with_the_mean_of_several_weights(tmp_path: Path) -> None:
    pytest.importorskip("cmaes")
    trace = tmp_path / "jobs.txt"
    trace.write_text("".join(f"{job} {60 * job} 100 1\n" for job in range(20)))
    training = EvolvedPriorityTraining(trace=str(trace), processors=4, start="balanced,slowdown", held_out=0.0)
    balanced, slowdown = (EvolvedPriority(name).network for name in ("balanced", "slowdown"))
    order = training._family().order(training.learner(0).parameters)
    assert order.network == pytest.approx((balanced + slowdown) / 2)


def test_evolution_finds_that_short_jobs_go_first() -> None:
    pytest.importorskip("cmaes")
    from allocopt.learned.priorities.learner import EASY, Evolution, Networks, PriorityLearner, Site, scheduler_of

    jobs = busy_days(3, 1500, 50, 32, "seen", 0.12)
    evolution, family = Evolution(GOALS["slowdown"], 12, 2, 400, 0.5, 0.05, 1), Networks(tuple(FEATURES), 0)
    learner = PriorityLearner([Site(jobs, 32)], evolution, family, 0)
    for update in range(12):
        learner.update(update / 12)
    found, easy = (Waits.of(simulate(jobs, 32, one)) for one in (scheduler_of(family.order(learner.parameters)), EASY))
    assert found.slowdown < 0.6 * easy.slowdown


def test_threads_do_not_change_what_is_evolved() -> None:
    pytest.importorskip("cmaes")
    from allocopt.learned.priorities.learner import Evolution, Networks, PriorityLearner, Site

    jobs = busy_days(4, 600, 20, 32, "seen", 0.12)
    networks = []
    for threads in (1, 3):
        evolution = Evolution(GOALS["fair"], 6, 2, 200, 0.3, 0.05, threads)
        learner = PriorityLearner([Site(jobs, 32)], evolution, Networks(tuple(FEATURES), 2), 1)
        for update in range(3):
            learner.update(update / 3)
        networks.append(learner.parameters)
    assert np.array_equal(*networks)
