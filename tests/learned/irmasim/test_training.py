"""Agents that select policies learn, are written and read, and end the same whatever interrupts them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.errors import BadFileError
from allocopt.learned.irmasim.training import (
    HIDDEN,
    PAPERS,
    SUBSET,
    Agent,
    IrmasimTraining,
    _WholeEpisodes,
    policy_rewards,
)
from allocopt.learned.weights import Card, dense_layers, write_weights
from allocopt.simulator.simulate import simulate
from allocopt.training import TrainingRequest


def small(**options: object) -> IrmasimTraining:
    return IrmasimTraining(jobs=20, episodes=12, environments=4, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_agent_comes_to_name_the_better_of_two_policies() -> None:
    names = "first-high_gflops,low_mem_bw-high_cores"
    training = IrmasimTraining(policies=names, jobs=60, episodes=800, environments=16, learning_rate=0.05)
    machine, jobs = PAPERS["heterogeneous"], IrmasimTraining(jobs=60, batch=100).jobsets()[0]
    alone = [simulate(jobs, machine, name).energy_j for name in names.split(",")]
    learner = training.learner(0)
    rows = [learner.update(update / training.updates) for update in range(training.updates)]
    assert np.mean([-row["mean_return"] for row in rows[-5:]]) < np.mean([-row["mean_return"] for row in rows[:5]])
    energy = Agent(learner.best, training.options()).play(machine, jobs).schedule.energy_j
    assert energy < max(alone)
    assert energy < 1.02 * min(alone)
    assert learner.best_score == pytest.approx(1 - energy / np.mean(alone))
    last = Agent(learner.last(), training.options()).play(machine, jobs).schedule.energy_j
    assert last >= energy * (1 - 1e-12)


def test_whole_episodes_are_rewarded_by_what_they_stay_below_the_reference_beyond_the_others() -> None:
    training = small()
    options, machine, (jobs,) = training.options(), PAPERS["heterogeneous"], training.jobsets()
    alone = policy_rewards([jobs], machine, training.execution(), options)[0]
    np.testing.assert_allclose(alone, [-simulate(jobs, machine, name).energy_j for name in options.actions], rtol=1e-9)
    episodes = _WholeEpisodes([jobs], machine, training.execution(), options, alone[:1], 6, 0)
    gained, ends = np.zeros(6), np.zeros(6, dtype=np.int64)
    for _ in range(episodes.horizon):
        _, legal = episodes.observe()
        assert legal.any(axis=1).all()
        rewards, ended = episodes.step(np.arange(6))
        gained, ends = gained + rewards, ends + ended
    assert ends.tolist() == [1] * 6
    np.testing.assert_allclose(episodes.totals, alone, rtol=1e-9)
    below = 1 - alone / alone[0]
    np.testing.assert_allclose(gained, below - below.mean(), atol=1e-12)
    np.testing.assert_allclose(episodes.shares, np.full(6, 1 / 6))


def test_no_episode_is_longer_than_the_horizon() -> None:
    for policies in ("void,first-high_gflops", "all"):
        episodes = small(policies=policies).environment(0)
        rng, ends = np.random.default_rng(0), np.zeros(4, dtype=np.int64)
        for _ in range(episodes.horizon):
            _, legal = episodes.observe()
            actions = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
            ends += episodes.step(actions)[1]
        assert ends.tolist() == [1] * 4


def test_the_network_in_numpy_is_the_one_in_torch() -> None:
    from allocopt.learned.rl.networks import dense, weights_of

    module = dense(21, HIDDEN, 5, activation=torch.nn.Tanh())
    seen = np.random.default_rng(0).random((7, 21), dtype=np.float32)
    expected = module(torch.from_numpy(seen)).detach().numpy()
    np.testing.assert_allclose(dense_layers(weights_of(module), seen, np.tanh), expected, atol=1e-6)
    agent, legal = Agent(weights_of(module), small().options()), np.ones((7, 5), dtype=np.bool_)
    np.testing.assert_array_equal(agent.choose(seen, legal), expected.argmax(axis=1))
    legal[:, expected[0].argmax()] = False
    assert agent.choose(seen, legal)[0] == np.argsort(expected[0])[-2]


def test_an_agent_is_trained_on_the_examples_of_irmasim(shared_data: Path, tmp_path: Path) -> None:
    example = shared_data / "irmasim" / "examples" / "cal" / "job_4_cal_str_19314_log2_v1"
    platform, trace = str(example / "platform.json"), str(example / "workload.json")
    types = str(shared_data / "irmasim" / "irmasim" / "data")
    training = IrmasimTraining(platform, types, trace, episodes=8, environments=4, policies="all", level="normal")
    *_, last = training.train(TrainingRequest(tmp_path, 0, None, False, "test"))
    assert last.measures["episodes"] == 8
    agent = Agent.load(tmp_path / "weights.safetensors")
    played = agent.play(training.machine(), training.jobsets()[0])
    assert len(played.schedule.jobs) == 38
    assert np.isfinite(played.schedule.end).all()


def test_weights_of_another_machine_or_for_other_policies_are_refused(tmp_path: Path) -> None:
    weights = {"0.weight": np.zeros((32, 51), dtype=np.float32), "0.bias": np.zeros(32, dtype=np.float32)}
    weights |= {"2.weight": np.zeros((6, 32), dtype=np.float32), "2.bias": np.zeros(6, dtype=np.float32)}
    settings = {"level": "small", "objective": "energy", "actions": list(SUBSET)}

    def written(**changed: object) -> Path:
        card = Card("irmasim", "dense", 0, 1, "0", "none", "test", {**settings, **changed})
        write_weights(tmp_path / "w.safetensors", weights, card)
        return tmp_path / "w.safetensors"

    agent = Agent.load(written())
    jobs = IrmasimTraining(jobs=5, batch=0).jobsets()[0]
    assert agent.play(PAPERS["heterogeneous"], jobs).shares == {SUBSET[0]: 1.0}
    with pytest.raises(BadFileError, match="51 values, an observation of this machine has 25"):
        agent.play(irmasim_testbed({3.4: 2}), jobs)
    with pytest.raises(BadFileError, match="6 outputs for 2 policies"):
        Agent.load(written(actions=list(SUBSET[:2])))
