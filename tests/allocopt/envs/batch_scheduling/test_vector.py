"""Environments side by side do what they do alone."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import allocopt.envs
from allocopt.envs.batch_scheduling.task import BatchSchedulingEnv, BatchSchedulingVectorEnv
from allocopt.errors import UsageError
from allocopt.traces.generators import lublin_workload

JOBS = lublin_workload(500, 64, np.random.default_rng(1))


def slots(masks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Choose an occupied slot in every window, where there is one."""
    return (rng.random(len(masks)) * masks.sum(axis=1)).astype(np.int64)


@pytest.mark.parametrize("jobs", [None, JOBS], ids=["drawn", "given"])
def test_one_environment_is_the_single_one_with_the_same_seed(jobs: object) -> None:
    single = BatchSchedulingEnv(jobs, n_jobs=30, window=8)
    vector = BatchSchedulingVectorEnv(1, jobs, n_jobs=30, window=8)
    alone, side = single.reset(seed=11), vector.reset(seed=11)
    rng = np.random.default_rng(0)
    for _ in range(200):
        assert (alone[0] == side[0][0]).all()
        assert (alone[-1]["action_mask"] == side[-1]["action_mask"][0]).all()
        assert (single.action_masks() == vector.action_masks()[0]).all()
        action = slots(side[-1]["action_mask"], rng)
        if len(alone) == 5 and alone[2]:
            alone, side = single.reset(), vector.step(action)
            assert side[1][0] == 0
            assert not side[2][0]
            continue
        alone, side = single.step(action[0]), vector.step(action)
        assert alone[1:4] == tuple(values[0] for values in side[1:4])
        assert all(alone[-1][name] == side[-1][name][0] for name in alone[-1] if name != "action_mask")


def test_rewards_of_an_episode_add_up_to_what_its_last_step_tells() -> None:
    vector = BatchSchedulingVectorEnv(5, JOBS, n_jobs=20, window=8)
    _, info = vector.reset(seed=0)
    rng = np.random.default_rng(0)
    gained, ended = np.zeros(5), 0
    for _ in range(100):
        _, rewards, over, truncated, info = vector.step(slots(info["action_mask"], rng))
        gained += rewards
        assert not truncated.any()
        assert ("mean_bounded_slowdown" in info) == over.any()
        if over.any():
            assert (info["_mean_bounded_slowdown"] == over).all()
            assert info["mean_bounded_slowdown"][over] == pytest.approx(-gained[over])
            gained[over] = 0
            ended += over.sum()
    assert ended >= 20


def test_what_was_returned_is_not_changed_later() -> None:
    vector = BatchSchedulingVectorEnv(3, JOBS, n_jobs=20, window=8)
    _, info = vector.reset(seed=0)
    step = vector.step(slots(info["action_mask"], np.random.default_rng(0)))
    kept = [values.copy() for values in (*step[:4], *step[4].values())]
    for _ in range(40):
        _, _, _, _, info = vector.step(slots(vector.action_masks(), np.random.default_rng(0)))
    assert all((old == new).all() for old, new in zip(kept, (*step[:4], *step[4].values()), strict=True))


def test_a_seed_fixes_all_environments_and_they_differ() -> None:
    first, second = (BatchSchedulingVectorEnv(4, n_jobs=20) for _ in range(2))
    second.reset(seed=1)
    observations = [env.reset(seed=2)[0] for env in (first, second)]
    for _ in range(60):
        assert (observations[0] == observations[1]).all()
        observations = [env.step(np.zeros(4, dtype=np.int64))[0] for env in (first, second)]
    offsets = {first.episodes.schedule(number).workload.ids[0] for number in range(4)}
    assert len(offsets) == 4


def test_gymnasium_makes_it() -> None:
    vector = gymnasium.make_vec(allocopt.envs.ENVIRONMENT, num_envs=3, n_jobs=10, window=4)
    assert isinstance(vector.unwrapped, BatchSchedulingVectorEnv)
    assert vector.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    observations, _ = vector.reset(seed=0)
    assert vector.observation_space.contains(observations)
    assert vector.observation_space.shape == (3, 4, 8)
    for _ in range(30):
        observations, *_ = vector.step(vector.action_space.sample())
        assert vector.observation_space.contains(observations)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="number of environments is 0"):
        BatchSchedulingVectorEnv(0)
    vector = BatchSchedulingVectorEnv(2, JOBS, n_jobs=10, window=4)
    with pytest.raises(UsageError, match="call reset first"):
        vector.step(np.zeros(2, dtype=np.int64))
    with pytest.raises(UsageError, match="call reset first"):
        vector.episodes.schedule(0)
    with pytest.raises(UsageError, match=r"offset is 491, must be within 0 \.\. 490"):
        vector.reset(options={"offset": [0, 491]})
    vector.reset()
    with pytest.raises(UsageError, match=r"shape \(3,\), must have \(2,\)"):
        vector.step(np.zeros(3, dtype=np.int64))
    with pytest.raises(UsageError, match=r"action is 4, must be within 0 \.\. 3"):
        vector.step(np.array([4, -1]))
