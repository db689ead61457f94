"""RLScheduler's kernel network: it scores as torch does, learns, and acts as in the environment that trained it."""

from pathlib import Path

import numpy as np
import pytest
from support.workloads import busy_days

from allocopt.envs.batch_scheduling.task import BatchScheduling
from allocopt.learned.rlscheduler import policy as acting
from allocopt.learned.rlscheduler.policy import ACTOR, RlScheduler, features_of, scores_of
from allocopt.learned.weights import Card, Weights, write_weights
from allocopt.simulator.decisions import Decision
from allocopt.simulator.scheduler import SchedulerError
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View


def network_of(seed: int) -> Weights:
    rng, shapes = np.random.default_rng(seed), acting.kernel_shapes().items()
    return {name.removeprefix(ACTOR): rng.normal(0.0, 0.5, shape).astype(np.float32) for name, shape in shapes}


def a_file(path: Path, network: Weights) -> str:
    weights = {f"{ACTOR}{name}": array for name, array in network.items()}
    write_weights(path, weights, Card("rlscheduler", "kernel", 0, 1, "0", "none", "test", {}))
    return str(path)


def test_scores_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    from allocopt.learned.rlscheduler.learner import ActorCritic

    network = ActorCritic()
    weights = {name: tensor.numpy() for name, tensor in network.actor.state_dict().items()}
    features = np.random.default_rng(0).random((20, 8), dtype=np.float32)
    with torch.no_grad():
        expected = network.actor(torch.from_numpy(features)).squeeze(1).numpy()
    assert scores_of(weights, features) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_the_policy_starts_jobs_when_the_environment_that_trains_it_would(seed: int, tmp_path: Path) -> None:
    jobs = busy_days(seed, acting.EPISODE_JOBS, 2, 32)
    network = network_of(seed)
    task = BatchScheduling(jobs, 32, n_jobs=len(jobs), window=acting.WINDOW, backfill="easy")
    episodes = task.episodes(1, np.random.default_rng(0))

    def choose(seen: np.ndarray, legal: np.ndarray) -> np.ndarray:
        # An episode that is over has one legal slot without a job.
        n = int(legal[0].sum())
        return np.array([int(np.argmax(scores_of(network, seen[0, :n])))])

    episodes.play(choose, np.zeros(1, dtype=np.int64))
    expected = episodes.schedule()
    found = simulate(jobs, 32, RlScheduler(a_file(tmp_path / "w.safetensors", network)))
    # The environment counts from the first submission.
    assert found.start - jobs.submit[0] == pytest.approx(expected.start)


def test_features_are_those_of_the_environment() -> None:
    jobs = busy_days(3, 40, 1, 32)
    task = BatchScheduling(jobs, 32, n_jobs=len(jobs), window=acting.WINDOW, backfill="none")
    episodes = task.episodes(1, np.random.default_rng(0))
    episodes.begin(np.zeros(1, dtype=np.int64))
    expected = episodes.observe()[0][0]

    class Looking:
        def schedule(self, view: View) -> list[Decision]:
            if not found:
                found.append(features_of(view, view.first(acting.WINDOW)))
            return []

    found: list[np.ndarray] = []
    with pytest.raises(SchedulerError, match="leaves jobs waiting for ever"):
        simulate(jobs, 32, Looking())
    n = len(found[0])
    # The share of a full queue is of the jobs of an episode.
    expected[:n, 6] *= len(jobs) / acting.EPISODE_JOBS
    assert found[0] == pytest.approx(expected[:n], abs=1e-6)
