"""The environment of one episode at a time, against plain Python and against the simulator."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from support.slow_environment import SlowEnvironment
from support.workloads import MACHINE, crowds, random_workload, workload

import allocopt.envs
from allocopt.envs.batch_scheduling.dynamics import BoundedSlowdown, Makespan, MeanWait, Reward, Utilization
from allocopt.envs.batch_scheduling.task import BackfillName, BatchSchedulingEnv
from allocopt.errors import BadFileError, UsageError
from allocopt.simulator.metrics import measure
from allocopt.simulator.rules import Backfill, EventOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.generators import lublin_workload
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed

REWARDS: list[Reward] = [BoundedSlowdown(), MeanWait(), MeanWait(60.0), Makespan(), Utilization()]


def play(env: BatchSchedulingEnv, rng: np.random.Generator, **reset: Any) -> Iterator[tuple[float, dict[str, Any]]]:
    """Play one episode at random; yield reward and info of every step."""
    _, info = env.reset(**reset)
    over = False
    while not over:
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        _, reward, over, truncated, info = env.step(action)
        assert not truncated
        yield reward, info


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["allocopt/BatchScheduling-v0", "allocopt.envs:allocopt/BatchScheduling-v0"])
@pytest.mark.parametrize("options", [{}, {"n_jobs": 12, "window": 3, "backfill": "none"}])
def test_gymnasium_has_nothing_to_say_against_it(name: str, options: dict[str, Any]) -> None:
    assert name.endswith(allocopt.envs.ENVIRONMENT)
    check_env(gymnasium.make(name, **options).unwrapped)


@pytest.mark.parametrize("reward", REWARDS, ids=repr)
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_random_episodes_keep_the_rules_and_their_rewards_add_up(backfill: BackfillName, reward: Reward) -> None:
    env = BatchSchedulingEnv(random_workload(300, 1), n_jobs=64, window=8, backfill=backfill, reward=reward)
    for seed in range(5):
        steps = list(play(env, np.random.default_rng(seed), seed=seed))
        jobs, start, end = env.episodes.schedule().workload, env.episodes.schedule().start, env.episodes.schedule().end
        assert len(jobs) == 64 == np.isfinite(start).sum()
        assert jobs.submit[0] == 0
        assert (start >= jobs.submit).all()
        assert (end == start + np.minimum(jobs.run, jobs.estimate)).all()
        for time in start:
            assert jobs.processors[(start <= time) & (time < end)].sum() <= MACHINE
        assert sum(gain for gain, _ in steps) == pytest.approx(worth(reward, jobs, start), rel=1e-9)


def worth(reward: Reward, jobs: Workload, start: np.ndarray) -> float:
    """Return what an episode's rewards must add up to, from the start times alone."""
    total_wait, total_slowdown, area, last_end = 0.0, 0.0, 0.0, 0.0
    for submit, run, estimate, size, begin in zip(
        jobs.submit, jobs.run, jobs.estimate, jobs.processors, start, strict=True
    ):
        length = min(run, estimate)
        total_wait += begin - submit
        total_slowdown += max(1.0, (begin - submit + length) / max(length, 10.0))
        area += length * size
        last_end = max(last_end, begin + length)
    values: dict[type, float] = {
        BoundedSlowdown: -total_slowdown / len(jobs),
        MeanWait: -total_wait / len(jobs) / reward.unit_s,
        Makespan: -last_end / reward.unit_s,
        Utilization: area / (MACHINE * last_end),
    }
    return values[type(reward)]


def test_the_last_step_tells_the_metrics_of_the_schedule() -> None:
    env = BatchSchedulingEnv(random_workload(50, 2), n_jobs=50)
    *before, (_, last) = play(env, np.random.default_rng(0))
    assert not any("mean_wait_s" in info for _, info in before)
    metrics = measure(env.episodes.schedule())
    assert last["mean_bounded_slowdown"] == pytest.approx(metrics.jobs.bounded_slowdown.mean)
    assert last["mean_wait_s"] == pytest.approx(metrics.jobs.wait_s.mean)
    assert last["makespan_s"] == metrics.machine.makespan_s


@given(jobs=crowds(MACHINE, 14), choices=st.randoms(use_true_random=False), easy=st.booleans(), kill=st.booleans())
def test_every_step_is_that_of_plain_python(jobs: Workload, choices: Any, easy: bool, kill: bool) -> None:
    backfill: BackfillName = "easy" if easy else "none"
    env = BatchSchedulingEnv(jobs, n_jobs=len(jobs), window=5, backfill=backfill, rules=Rules(kill_at_limit=kill))
    observation, info = env.reset()
    slow = SlowEnvironment(env.episodes.schedule().workload, MACHINE, easy, kill)
    over = False
    while not over:
        occupied = min(5, len(slow.waiting))
        assert info["action_mask"].tolist() == [1] * occupied + [0] * (5 - occupied)
        np.testing.assert_allclose(observation, described(slow, 5), rtol=1e-6)
        slot = choices.randrange(occupied)
        slow.act(slot)
        observation, _, over, _, info = env.step(slot)
        assert not info["invalid_action"]
    assert env.episodes.schedule().start.tolist() == [slow.start[job] for job in range(len(jobs))]
    assert not info["action_mask"].any()
    assert not observation.any()


def described(slow: SlowEnvironment, window: int) -> np.ndarray:
    """Return what the agent must see by the documentation."""
    features = np.zeros((window, 8))
    for slot, job in enumerate(slow.waiting[:window]):
        wait, estimate = slow.now - slow.workload.submit[job], slow.estimate(job)
        features[slot] = [
            1,
            wait / (wait + 3600),
            estimate / (estimate + 3600),
            slow.size(job) / slow.machine,
            slow.size(job) <= slow.free(),
            slow.free() / slow.machine,
            len(slow.waiting) / len(slow.workload),
            wait / (wait + estimate),
        ]
    return features


@pytest.mark.parametrize("event_order", EventOrder)
@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("seed", range(4))
def test_always_the_first_slot_is_first_come_first_served(
    backfill: BackfillName, event_order: EventOrder, seed: int
) -> None:
    rules = Rules(event_order, kill_at_limit=seed % 2 == 0)
    jobs = random_workload(400, seed, dependent=seed > 1)
    env = BatchSchedulingEnv(jobs, n_jobs=300, window=4, backfill=backfill, rules=rules)
    env.reset(options={"offset": 37})
    while not env.step(0)[2]:
        pass
    scheduler = ListScheduler(FirstComeFirstServed(), Backfill.EASY if backfill == "easy" else Backfill.NONE)
    expected = simulate(env.episodes.schedule().workload, MACHINE, scheduler, rules)
    assert env.episodes.schedule().workload.ids.tolist() == list(range(38, 338))
    assert env.episodes.schedule().release.tolist() == expected.release.tolist()
    assert env.episodes.schedule().start.tolist() == expected.start.tolist()
    assert env.episodes.schedule().end.tolist() == expected.end.tolist()


def test_the_first_job_may_wait_for_a_later_one() -> None:
    jobs = Workload(
        *("w", [1, 2, 3], [5.0, 6.0, 7.0], [10.0] * 3, [4, 4, 8], [10.0] * 3, MACHINE),
        preceding=[2, -1, 1],
        think_s=[3.0, 0.0, 0.0],
    )
    env = BatchSchedulingEnv(jobs, n_jobs=3)
    env.reset()
    while not env.step(np.int64(0))[2]:
        pass
    assert env.episodes.schedule().release.tolist() == [14.0, 1.0, 24.0]
    assert env.episodes.schedule().start.tolist() == [14.0, 1.0, 24.0]


def test_an_empty_slot_stands_for_the_first_one() -> None:
    env, same = (BatchSchedulingEnv(random_workload(40, 3), n_jobs=30, window=20) for _ in range(2))
    env.reset(seed=0)
    same.reset(seed=0)
    wrong = 0
    over = False
    while not over:
        wrong += not env.action_masks()[19]
        valid = env.action_masks()[19]
        observation, reward, over, _, info = env.step(19)
        expected = same.step(19 if valid else 0)
        assert info["invalid_action"] == (not valid)
        assert reward == expected[1]
        assert (observation == expected[0]).all()
    assert wrong


@pytest.mark.parametrize("drawn", [True, False])
def test_a_seed_fixes_everything(drawn: bool) -> None:
    jobs = None if drawn else random_workload(300, 5)
    first, second = (BatchSchedulingEnv(jobs, n_jobs=40, window=6) for _ in range(2))
    second.reset(seed=99)
    for _ in range(2):
        runs = [list(play(env, np.random.default_rng(1), seed=7)) for env in (first, second)]
        again = [list(play(env, np.random.default_rng(2))) for env in (first, second)]
        assert [gain for gain, _ in runs[0]] == [gain for gain, _ in runs[1]]
        assert [gain for gain, _ in again[0]] == [gain for gain, _ in again[1]]
    other = list(play(first, np.random.default_rng(1), seed=8))
    assert [gain for gain, _ in other] != [gain for gain, _ in runs[0]]


def test_a_workload_may_be_a_file(shared_data: Path) -> None:
    path = next(iter(sorted((shared_data / "traces").glob("**/*lublin*.swf*"))))
    env = BatchSchedulingEnv(path, processors=256)
    env.reset(seed=0)
    assert len(env.episodes.schedule().workload) == 256


def test_jobs_are_drawn_for_the_size_of_the_machine() -> None:
    env = BatchSchedulingEnv(processors=32, n_jobs=200)
    env.reset(seed=0)
    assert env.episodes.schedule().processors == 32
    assert 16 < env.episodes.schedule().workload.processors.max() <= 32


SMALL = lublin_workload(20, 64, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"n_jobs": 0}, "n_jobs is 0, must be at least 1"),
        ({"window": 0}, "window is 0, must be at least 1"),
        ({"processors": 0}, "processors is 0, must be at least 1"),
        ({"backfill": "conservative"}, "backfill is 'conservative', must be one of none, easy"),
        ({"reward": MeanWait(0.0)}, "unit is 0.0 s, must be positive"),
        ({"workload": SMALL, "n_jobs": 21}, "lublin has 20 jobs, an episode takes 21"),
        ({"workload": SMALL, "n_jobs": 5, "processors": 2}, "processors of 2; drop such jobs with Workload.fitting"),
        ({"workload": workload([(1, 0.0, 1.0, 1, 1.0)]), "n_jobs": 1}, "does not say how large its machine is"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        BatchSchedulingEnv(**options)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFileError, match=r"missing\.swf"):
        BatchSchedulingEnv(tmp_path / "missing.swf")


def test_steps_out_of_turn_are_refused() -> None:
    env = BatchSchedulingEnv(SMALL, n_jobs=1, window=4)
    with pytest.raises(UsageError, match="call reset first"):
        env.step(np.int64(0))
    with pytest.raises(UsageError, match="call reset first"):
        env.episodes.schedule()
    with pytest.raises(UsageError, match=r"offset is 20, must be within 0 \.\. 19"):
        env.reset(options={"offset": 20})
    env.reset()
    with pytest.raises(UsageError, match=r"action is 4, must be within 0 \.\. 3"):
        env.step(np.int64(4))
    assert env.step(np.int64(0))[2]
    with pytest.raises(UsageError, match="the episode is over"):
        env.step(np.int64(0))
