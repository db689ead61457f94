"""The training writes weights that act, ends the same whatever interrupts it, and refuses what makes no sense."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from allocopt.envs.cush.jobsets import HELD_OUT
from allocopt.errors import BadFileError
from allocopt.simulator.locality import Policy
from allocopt.training import TrainingRequest
from learned.cush.policies import Trained
from learned.cush.training import VALIDATION_SEED, CushTraining
from learned.rl.workers import ALONE
from learned.weights import read_weights

TINY = CushTraining(nodes=4, epochs=4, jobsets=2, simulations=4, pool=10, validation=4, average_every=2, every=2)


def request(folder: Path, minutes: float | None = None, *, resumes: bool = False) -> TrainingRequest:
    return TrainingRequest(folder, 3, minutes, resumes, "test")


@pytest.mark.parametrize("settings", ["usual", "published"])
def test_a_training_writes_an_agent_that_acts(settings: str, tmp_path: Path) -> None:
    *_, last = replace(TINY, settings=settings).train(request(tmp_path))
    assert last.measures["score"] >= last.measures["best_score"] > 1
    trained = Trained.load(str(tmp_path / "weights.safetensors"))
    assert (trained.queue, trained.traits) == (5, 3)
    assert trained.card.settings["workers"] == 1


def test_the_published_network_trains_and_is_not_taken_for_one_that_acts_without_torch(tmp_path: Path) -> None:
    list(replace(TINY, network="published", epochs=2).train(request(tmp_path)))
    weights, card = read_weights(tmp_path / "weights.safetensors")
    assert card.network == "published"
    assert weights["jobs.output.weight"].shape == (6, 16 * 4 * 23)
    with pytest.raises(BadFileError, match="only compact ones act without torch"):
        Trained.load(str(tmp_path / "weights.safetensors"))


def test_without_a_policy_selector_all_jobs_get_the_policy_that_was_asked_for(tmp_path: Path) -> None:
    list(replace(TINY, policies="breadth-first", epochs=2).train(request(tmp_path)))
    trained = Trained.load(str(tmp_path / "weights.safetensors"))
    chosen = trained.policies().choose(np.zeros((2, 6), dtype=np.float32), np.zeros((2, 2)))
    assert chosen.tolist() == [Policy.BREADTH_FIRST] * 2


def test_a_training_of_fewer_epochs_than_lie_between_validations_writes_weights_that_it_trained(tmp_path: Path) -> None:
    short = replace(TINY, average_every=5, every=25)
    found = [short.learner(3, ALONE).weights()]
    for epochs in (1, 3):
        list(replace(short, epochs=epochs).train(request(tmp_path / f"{epochs}")))
        found.append(read_weights(tmp_path / f"{epochs}" / "weights.safetensors")[0])
    for one, other in combinations(found, 2):
        assert any(not np.array_equal(values, other[name]) for name, values in one.items())


def test_measured_throughputs_may_stand_for_penalties(shared_data: Path) -> None:
    path = shared_data / "gpu_colocation" / "gavel_physical_cluster_throughputs.json.gz"
    (jobs,) = replace(TINY, measured=str(path)).draw([1])
    assert jobs.traits.shape[1] > 3


def test_job_sets_of_trainings_and_tests_do_not_meet() -> None:
    assert VALIDATION_SEED + CushTraining().validation <= HELD_OUT
