"""The Gymnasium environment of two-level scheduling."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from support.workloads import MACHINE, random_workload

import allocopt.envs
from allocopt.envs.dras.task import TwoLevelEnv
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Backfill, Mode
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from heuristics.scheduling.queue_orders import FirstComeFirstServed, Wfp3
from heuristics.scheduling.two_level import InOrder

JOBS = random_workload(150, 1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"window": 4, "observation": "state"},
        {"reservations": "none", "can_end": True},
        {"reservations": "renewed"},
        {"workload": [JOBS, random_workload(40, 2)]},
    ],
    ids=["default", "state", "no-reservations", "renewed", "jobsets"],
)
def test_gymnasium_has_nothing_to_say_against_it(options: dict[str, Any]) -> None:
    check_env(gymnasium.make(f"allocopt.envs:{allocopt.envs.TWO_LEVEL}", **options).unwrapped)


def play(env: TwoLevelEnv, seed: int) -> dict[str, Any]:
    """Play an episode at random; return the last info."""
    rng = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    over = False
    while not over:
        assert env.action_masks().tolist() == (info["action_mask"] == 1).tolist()
        observation, reward, over, truncated, info = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        assert env.observation_space.contains(observation)
        assert np.isfinite(reward)
        assert not truncated
        assert not info["invalid_action"]
    return info


@pytest.mark.parametrize("reservations", ["kept", "renewed", "none"])
def test_the_last_step_tells_the_metrics_of_the_schedule(reservations: Any) -> None:
    env = TwoLevelEnv(JOBS, window=8, reservations=reservations)
    info = play(env, 3)
    metrics = measure(env.episodes.schedule())
    assert info["mean_wait_s"] == pytest.approx(metrics.jobs.wait_s.mean)
    assert info["longest_wait_s"] == env.episodes.schedule().job_times.wait_s.max()
    assert info["mean_bounded_slowdown"] == pytest.approx(metrics.jobs.bounded_slowdown.mean)
    assert info["makespan_s"] == metrics.machine.makespan_s
    assert not info["action_mask"].any()
    assert (env.episodes.modes() != Mode.WAITING).all()
    assert np.isfinite(env.episodes.promised()).any() == (reservations != "none")


def test_the_first_slot_always_is_easy_backfilling() -> None:
    env = TwoLevelEnv(JOBS, window=JOBS.ids.size)
    env.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, _ = env.step(np.int64(0))
    expected = simulate(JOBS, MACHINE, ListScheduler(FirstComeFirstServed(), Backfill.EASY))
    np.testing.assert_array_equal(env.episodes.schedule().start, expected.start)


def test_a_selector_answers_here_too() -> None:
    env = TwoLevelEnv(JOBS, window=JOBS.ids.size, reservations="renewed")
    selector = InOrder(Wfp3())
    env.reset(seed=0)
    over = False
    while not over:
        _, _, over, _, _ = env.step(np.int64(selector.select(env.episodes.choice())))
    expected = simulate(JOBS, MACHINE, ListScheduler(Wfp3(), Backfill.EASY))
    np.testing.assert_array_equal(env.episodes.schedule().start, expected.start)


def test_an_illegal_action_stands_for_the_first_legal_one() -> None:
    env, other = TwoLevelEnv(JOBS, window=8), TwoLevelEnv(JOBS, window=8)
    env.reset(seed=0)
    other.reset(seed=0)
    over = False
    while not over:
        empty = np.flatnonzero(~env.action_masks())
        action = empty[-1] if len(empty) else 0
        observation, reward, over, _, info = env.step(action)
        expected, expected_reward, _, _, _ = other.step(np.int64(0))
        assert info["invalid_action"] == bool(len(empty))
        np.testing.assert_array_equal(observation, expected)
        assert reward == expected_reward


def test_a_jobset_can_be_asked_for() -> None:
    env = TwoLevelEnv([JOBS, random_workload(40, 2)])
    env.reset(seed=0, options={"jobset": 1})
    assert len(env.episodes.schedule().workload) == 40
    with pytest.raises(UsageError, match="jobset"):
        env.reset(options={"jobset": 2})
    with pytest.raises(UsageError, match="jobset is -1"):
        env.reset(options={"jobset": -1})


def test_the_same_seed_draws_the_same_jobs() -> None:
    a, b = TwoLevelEnv(), TwoLevelEnv()
    assert play(a, 5)["mean_wait_s"] == play(b, 5)["mean_wait_s"] > 0
    assert a.episodes.schedule().workload.submit.tolist() == b.episodes.schedule().workload.submit.tolist()


def test_mistakes_are_named(tmp_path: Path) -> None:
    env = TwoLevelEnv(JOBS, window=3)
    with pytest.raises(UsageError, match="no episode has begun"):
        env.step(np.int64(0))
    with pytest.raises(UsageError, match="no episode has begun"):
        env.episodes.schedule()
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"within 0 \.\. 2"):
        env.step(np.int64(3))
    play(env, 0)
    with pytest.raises(UsageError, match="over"):
        env.step(np.int64(0))
    with pytest.raises(UsageError, match="kept, renewed, none"):
        TwoLevelEnv(JOBS, reservations="some")  # type: ignore[arg-type]
    with pytest.raises(BadFileError):
        TwoLevelEnv(tmp_path / "missing.swf")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"workload": []}, "there are no jobsets; give some, or None"),
        ({"window": 1.5}, r"the window is 1\.5, must be a whole number within 1 \.\. 100000"),
        ({"processors": "5"}, "the number of processors is '5', must be a whole number at least 1"),
        ({"reward": ()}, r"reward is \(\), must be Weights"),
        ({"rules": 3}, "rules is 3, must be Rules"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        TwoLevelEnv(**{"workload": JOBS, **arguments})


@pytest.mark.parametrize("action", [0.5, "a", None, float("nan")], ids=str)
def test_an_action_is_a_whole_number(action: Any) -> None:
    env = TwoLevelEnv(JOBS, window=3)
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"must be a whole number within 0 \.\. 2"):
        env.step(action)


def test_one_action_is_no_list_of_them() -> None:
    env = TwoLevelEnv(JOBS, window=3)
    env.reset(seed=0)
    with pytest.raises(UsageError, match="shape"):
        env.step(np.array([0]))  # type: ignore[arg-type]


def test_a_jobset_is_a_whole_number() -> None:
    with pytest.raises(UsageError, match=r"the jobset is 0\.5, must be a whole number within 0 \.\. 0"):
        TwoLevelEnv(JOBS).reset(options={"jobset": 0.5})
