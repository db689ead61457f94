"""The training writes weights that act, ends the same whatever interrupts it, and refuses what makes no sense."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from allocopt.envs.cush.jobsets import HELD_OUT
from allocopt.learned.cush.training import VALIDATION_SEED, CushTraining
from allocopt.learned.rl.workers import ALONE
from allocopt.learned.weights import read_weights
from allocopt.training import TrainingRequest

TINY = CushTraining(nodes=4, epochs=4, jobsets=2, simulations=4, pool=10, validation=4, average_every=2, every=2)


def test_a_training_of_fewer_epochs_than_lie_between_validations_writes_weights_that_it_trained(tmp_path: Path) -> None:
    short = replace(TINY, average_every=5, every=25)
    found = [short.learner(3, ALONE).weights()]
    for epochs in (1, 3):
        list(replace(short, epochs=epochs).train(TrainingRequest(tmp_path / f"{epochs}", 3, None, False, "test")))
        found.append(read_weights(tmp_path / f"{epochs}" / "weights.safetensors")[0])
    for one, other in combinations(found, 2):
        assert any(not np.array_equal(values, other[name]) for name, values in one.items())


def test_measured_throughputs_may_stand_for_penalties(shared_data: Path) -> None:
    path = shared_data / "gpu_colocation" / "gavel_physical_cluster_throughputs.json.gz"
    (jobs,) = replace(TINY, measured=str(path)).draw([1])
    assert jobs.traits.shape[1] > 3


def test_job_sets_of_trainings_and_tests_do_not_meet() -> None:
    assert VALIDATION_SEED + CushTraining().validation <= HELD_OUT


def test_a_training_with_the_mask_of_the_paper_plans_jobs_ahead() -> None:
    ahead, now = replace(TINY, mask="horizon"), TINY
    assert ahead.options().plans_ahead
    assert ahead.options().reach == ahead.horizon
    assert not now.options().plans_ahead
    assert ahead.trained(0)[1][-1]["score"] > 0
