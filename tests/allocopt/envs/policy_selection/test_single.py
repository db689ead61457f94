import copy
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import allocopt.envs  # noqa: F401 - registers the environments
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.envs.policy_selection.task import Options, PolicySelectionEnv
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.multicore.policies import ACTION_NAMES
from allocopt.simulator.simulate import simulate
from allocopt.traces.irmasim import npb_batch
from allocopt.traces.tasks import TaskWorkload

SMALL = irmasim_testbed({3.4: 2})


def small_sets(count: int = 3) -> list[TaskWorkload]:
    return [npb_batch(12, np.random.default_rng(seed)) for seed in range(count)]


@pytest.mark.parametrize("level", ["normal", "small", "minimal"])
def test_gymnasium_finds_no_fault(level: str) -> None:
    env = gymnasium.make("allocopt/PolicySelection-v0", machine=SMALL, options=Options(level))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_without_arguments_the_machine_is_the_papers() -> None:
    env = PolicySelectionEnv()
    observation, info = env.reset(seed=1)
    assert observation.shape == (51,)
    assert info["action_mask"].shape == (37,)


def test_the_same_seed_gives_the_same_jobs_and_random_choices() -> None:
    found = []
    for _ in range(2):
        env = PolicySelectionEnv(SMALL, options=Options(actions=("random-random", "first-high_gflops")))
        env.reset(seed=5)
        over, info = False, {}
        while not over:
            _, _, over, _, info = env.step(np.int64(0))
        found.append(info["energy_j"])
        np.testing.assert_array_equal(env.episodes.schedule().jobs.submit.shape, (100,))
    assert found[0] == found[1]


def test_an_episode_under_one_policy_is_its_simulation() -> None:
    jobs = small_sets()[1]
    env = PolicySelectionEnv(SMALL, small_sets(), options=Options(reward="energy_delay"))
    env.reset(options={"jobset": 1})
    total, over, info = 0.0, False, {}
    while not over:
        _, reward, over, _, info = env.step(np.int64(ACTION_NAMES.index("shortest-low_power")))
        total += reward
    made = simulate(jobs, SMALL, "shortest-low_power")
    assert info["energy_j"] == pytest.approx(made.energy_j)
    assert info["makespan_s"] == pytest.approx(made.makespan_s)
    assert info["flow_time_s"] == pytest.approx(made.flow_time_s)
    assert -total == pytest.approx(info["energy_delay_js"]) == pytest.approx(made.energy_delay_js)
    assert env.episodes.schedule().energy_j == pytest.approx(made.energy_j)


def test_machine_and_jobs_may_be_files(tmp_path: Path) -> None:
    platform = {
        "format": "allocopt-platform",
        "version": 1,
        "name": "pair",
        "processors": {"p": {"cores": 4, "clock_ghz": 3.4}},
        "nodes": {"n": {"processors": ["p"]}},
        "clusters": [{"name": "c", "nodes": [{"type": "n", "count": 2}]}],
    }
    job = {"subtime": 0.0, "res": 1, "req_ops": 1e10, "ipc": 1.0, "req_time": 5.0, "mem": 0, "mem_vol": 100.0}
    (tmp_path / "platform.json").write_text(json.dumps(platform))
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [{"id": str(n), **job} for n in range(10)]}))
    env = PolicySelectionEnv(tmp_path / "platform.json", str(tmp_path / "jobs.json"), options=Options("normal"))
    observation, _ = env.reset(seed=0)
    assert observation.shape == (2 + 2 + 3 * 8 + 21,)
    with pytest.raises(BadFileError, match=r"jobs\.json"):
        PolicySelectionEnv(tmp_path / "jobs.json")


@pytest.mark.parametrize("make", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_goes_on_alike(make: Callable[[PolicySelectionEnv], PolicySelectionEnv]) -> None:
    env = PolicySelectionEnv(SMALL, options=Options("normal", actions=("random-random", "first-high_gflops", "void")))
    env.reset(seed=3)
    for action in (0, 2, 1):
        env.step(np.int64(action))
    twin = make(env)
    for action in (0, 1, 2, 0):
        (seen, reward, *_), (same, equal, *_) = env.step(np.int64(action)), twin.step(np.int64(action))
        np.testing.assert_array_equal(seen, same)
        assert reward == equal
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_a_step_outside_an_episode_or_the_actions_is_refused() -> None:
    env = PolicySelectionEnv(SMALL, small_sets(), options=Options(actions=("first-high_gflops",)))
    with pytest.raises(UsageError, match="call reset first"):
        env.step(np.int64(0))
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"within 0 \.\. 0"):
        env.step(np.int64(1))
    with pytest.raises(UsageError, match="must be within 0"):
        env.reset(options={"jobset": -1})
    with pytest.raises(UsageError, match="the options of a reset are 3, must be a dictionary"):
        env.reset(options=3)  # type: ignore[arg-type]
    for jobs in (3, (3,)):
        with pytest.raises(UsageError, match="the jobs must be a TaskWorkload or several"):
            PolicySelectionEnv(SMALL, jobs)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the options must be Options"):
        PolicySelectionEnv(SMALL, options={"level": "small"})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no jobsets"):
        PolicySelectionEnv(SMALL, [])
    with pytest.raises(UsageError, match="the machine is 3, must be a Machine"):
        PolicySelectionEnv(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="whole number"):
        env.step(0.5)  # type: ignore[arg-type]
    env.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, _ = env.step(np.int64(0))
    with pytest.raises(UsageError, match="over"):
        env.step(np.int64(0))
