"""The environment of one episode at a time, against the simulator."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import MACHINE, crowds, random_workload

from allocopt.cluster.platform import Platform
from allocopt.envs.batch_scheduling.task import (
    BackfillName,
    BatchSchedulingEnv,
    BoundedSlowdown,
    Makespan,
    MeanWait,
    Reward,
    Utilization,
)
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.simulator.pool import Pool
from allocopt.simulator.rules import Backfill, EventOrder, OrderKind, QueueKeys, Rules
from allocopt.simulator.schedule import Schedule
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

FCFS = FirstComeFirstServed()
REWARDS: list[Reward] = [BoundedSlowdown(), MeanWait(), MeanWait(60.0), Makespan(), Utilization()]


@dataclass(frozen=True)
class AsChosen:
    """The order in which an agent chose the jobs; those that were backfilled come last."""

    ranks: np.ndarray
    name: ClassVar[str] = "chosen"

    def keys(self, workload: Workload, rng: np.random.Generator) -> QueueKeys:
        return QueueKeys(OrderKind.FIXED, self.ranks)


def worth(reward: Reward, played: Schedule) -> float:
    """Return what an episode's rewards must add up to."""
    jobs, wait_s, last_end = played.workload, played.start - played.workload.submit, played.end.max()
    length = played.end - played.start
    values: dict[type, float] = {
        BoundedSlowdown: -np.maximum(1.0, (wait_s + length) / np.maximum(length, 10.0)).mean(),
        MeanWait: -wait_s.mean() / reward.unit_s,
        Makespan: -last_end / reward.unit_s,
        Utilization: (length * jobs.processors).sum() / (MACHINE * last_end),
    }
    return values[type(reward)]


@pytest.mark.parametrize("reward", REWARDS, ids=repr)
@given(jobs=crowds(MACHINE, 14), choices=st.randoms(use_true_random=False), easy=st.booleans(), kill=st.booleans())
def test_choices_are_an_order_of_the_queue_and_rewards_add_up(
    reward: Reward, jobs: Workload, choices: Any, easy: bool, kill: bool
) -> None:
    backfill: BackfillName = "easy" if easy else "none"
    rules = Rules(kill_at_limit=kill)
    env = BatchSchedulingEnv(jobs, n_jobs=len(jobs), window=5, backfill=backfill, reward=reward, rules=rules)
    observation, info = env.reset()
    view = View(env.episodes.schedule().workload, Pool(env.episodes.arrays(0).state, Platform.pool(MACHINE)))
    over, total, ranks = False, 0.0, np.full(len(jobs), np.inf)
    while not over:
        occupied = min(5, len(view.queue))
        assert info["action_mask"].tolist() == [1] * occupied + [0] * (5 - occupied)
        np.testing.assert_allclose(observation, described(view, 5), rtol=1e-6)
        slot = choices.randrange(occupied)
        ranks[view.queue[slot]] = np.isfinite(ranks).sum()
        observation, gain, over, _, info = env.step(slot)
        total += gain
        assert not info["invalid_action"]
    played = env.episodes.schedule()
    scheduler = ListScheduler(AsChosen(ranks), Backfill.EASY if easy else Backfill.NONE, FCFS if easy else None)
    expected = simulate(played.workload, MACHINE, scheduler, rules)
    assert (played.start.tolist(), played.end.tolist()) == (expected.start.tolist(), expected.end.tolist())
    assert total == pytest.approx(worth(reward, played), rel=1e-9)


def described(view: View, window: int) -> np.ndarray:
    """Return what the agent must see by the documentation."""
    features = np.zeros((window, 8))
    for slot, job in enumerate(view.queue[:window].tolist()):
        wait, estimate, size, free = view.waited(job), view.estimate[job], view.processors[job], view.free_processors
        queue = len(view.queue) / len(view.ids)
        shares = wait / (wait + 3600), estimate / (estimate + 3600), size / MACHINE, size <= free, free / MACHINE
        features[slot] = [1, *shares, queue, wait / (wait + estimate)]
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
    scheduler = ListScheduler(FCFS, Backfill.EASY if backfill == "easy" else Backfill.NONE)
    expected = simulate(env.episodes.schedule().workload, MACHINE, scheduler, rules)
    found = env.episodes.schedule()
    assert found.workload.ids.tolist() == list(range(38, 338))
    for times in ("release", "start", "end"):
        np.testing.assert_array_equal(getattr(found, times), getattr(expected, times))


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


def test_jobs_are_those_of_a_file_or_drawn_for_the_size_of_the_machine(shared_data: Path) -> None:
    path = next(iter(sorted((shared_data / "traces").glob("**/*lublin*.swf*"))))
    for env, n_jobs in ((BatchSchedulingEnv(path, processors=256), 256), (BatchSchedulingEnv(None, 32, 200), 200)):
        env.reset(seed=0)
        assert len(env.episodes.schedule().workload) == n_jobs
    assert env.episodes.schedule().processors == 32
    assert 16 < env.episodes.schedule().workload.processors.max() <= 32
