"""The training of prices: it learns, ends the same whatever interrupts it, and keeps off the evaluation's windows."""

import numpy as np
import pytest
import torch

from allocopt.learned.prices.network import predict
from allocopt.learned.prices.training import UNSEEN, LnsPricesTraining, _large, _of_any_shape, _paper_like
from allocopt.problems.topology import Allocation, TopologyProblem


@pytest.mark.slow
def test_no_window_to_train_on_is_of_the_unseen_cluster() -> None:
    rng = np.random.default_rng(0)
    problems: list[TopologyProblem] = [*_paper_like(rng, 5), *_of_any_shape(rng, 60), *_large(rng, 3, 500)]
    assert all(problem.topology != UNSEEN for problem in problems)
    assert all(len(problem.jobs) >= 2 for problem in problems)


def test_the_rate_of_the_training_rises_and_then_falls_as_a_cosine() -> None:
    learner = LnsPricesTraining(updates=9, windows=2, large_windows=0, label_steps=1).learner(1)
    rates = [learner.set_rate(share) for share in (0.0, 0.05, 0.5, 0.75, 1.0)]
    assert np.array(rates) / rates[1] == pytest.approx([0.001, 1.0, 0.503, 0.147, 0.0], abs=1e-3)
    assert [group["lr"] for group in learner._optimizer.param_groups] == [0.0]


@pytest.mark.slow
def test_a_short_training_improves_on_its_own_start() -> None:
    from allocopt.learned.prices.learner import Case

    # The bound comes a tenth nearer, and with other seeds of the training by 4 and by 8 %.
    training = LnsPricesTraining(updates=150, windows=40, large_windows=0, label_steps=100)
    learner = training.learner(1)
    unseen = [Case(window, Allocation.sequential(window)) for window in _paper_like(np.random.default_rng(2), 40)]

    def gaps() -> tuple[float, float]:
        bounds, firsts = [], []
        with torch.no_grad():
            for case in unseen:
                prediction = predict(learner.network.weights(), case.features)
                bounds.append(case.bound(prediction.prices)[0] / case.asked)
                firsts.append(case.first(prediction.worth, prediction.order, 0.5) / case.asked)
        return float(np.mean(bounds)), float(np.mean(firsts))

    bound, first = gaps()
    for done in range(training.updates):
        learner.update(done / training.updates)
    better_bound, better_first = gaps()
    assert better_bound < 0.97 * bound
    assert better_first > first
