"""The environment of one episode at a time, against plain Python and against the simulator."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.workloads import MACHINE, crowds, random_workload

from allocopt.envs.batch_scheduling.dynamics import BoundedSlowdown, Makespan, MeanWait, Reward, Utilization
from allocopt.envs.batch_scheduling.task import BackfillName, BatchSchedulingEnv
from allocopt.simulator.rules import Backfill, EventOrder, Rules
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.workload import Workload
from heuristics.scheduling.queue_orders import FirstComeFirstServed

REWARDS: list[Reward] = [BoundedSlowdown(), MeanWait(), MeanWait(60.0), Makespan(), Utilization()]


@dataclass
class SlowEnvironment:
    """Obvious, slow twin of an episode: plain lists, one pool of processors, events batched."""

    workload: Workload
    machine: int
    easy: bool
    kill_at_limit: bool
    now: float = 0.0
    arrived: int = 0
    waiting: list[int] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    start: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.await_job()

    def size(self, job: int) -> int:
        return int(self.workload.processors[job])

    def estimate(self, job: int) -> float:
        return float(self.workload.estimate[job])

    def length(self, job: int) -> float:
        run = float(self.workload.run[job])
        return min(run, self.estimate(job)) if self.kill_at_limit else run

    def end(self, job: int) -> float:
        return self.start[job] + self.length(job)

    def expected_end(self, job: int) -> float:
        return max(self.now, self.start[job] + self.estimate(job))

    def free(self) -> int:
        return self.machine - sum(map(self.size, self.running))

    def act(self, slot: int) -> None:
        job = self.waiting[slot]
        while self.size(job) > self.free():
            if self.easy:
                self.backfill(job)
            self.advance()
        self.begin(job)
        self.await_job()

    def begin(self, job: int) -> None:
        self.waiting.remove(job)
        self.running.append(job)
        self.start[job] = self.now

    def await_job(self) -> None:
        while not self.waiting and len(self.start) < len(self.workload):
            self.advance()

    def advance(self) -> None:
        submit = self.workload.submit
        self.now = min([*submit[self.arrived : self.arrived + 1].tolist(), *map(self.end, self.running)])
        self.running = [job for job in self.running if self.end(job) > self.now]
        while self.arrived < len(submit) and submit[self.arrived] == self.now:
            self.waiting.append(self.arrived)
            self.arrived += 1

    def backfill(self, head: int) -> None:
        for job in [job for job in self.waiting if job != head]:
            if self.size(job) <= self.free() and self.is_harmless(job, head):
                self.begin(job)

    def is_harmless(self, job: int, head: int) -> bool:
        ends = sorted(map(self.expected_end, self.running))
        shadow = next(time for time in ends if self.free_at(time) >= self.size(head))
        return self.now + self.estimate(job) <= shadow or self.size(job) <= self.free_at(shadow) - self.size(head)

    def free_at(self, time: float) -> int:
        return self.machine - sum(self.size(job) for job in self.running if self.expected_end(job) > time)


def worth(reward: Reward, slow: SlowEnvironment) -> float:
    """Return what an episode's rewards must add up to."""
    jobs, n = range(len(slow.workload)), len(slow.workload)
    waits = [slow.start[job] - float(slow.workload.submit[job]) for job in jobs]
    slowdowns = [max(1.0, (waits[job] + slow.length(job)) / max(slow.length(job), 10.0)) for job in jobs]
    last_end = max(map(slow.end, jobs))
    values: dict[type, float] = {
        BoundedSlowdown: -sum(slowdowns) / n,
        MeanWait: -sum(waits) / n / reward.unit_s,
        Makespan: -last_end / reward.unit_s,
        Utilization: sum(slow.length(job) * slow.size(job) for job in jobs) / (MACHINE * last_end),
    }
    return values[type(reward)]


@pytest.mark.parametrize("reward", REWARDS, ids=repr)
@given(jobs=crowds(MACHINE, 14), choices=st.randoms(use_true_random=False), easy=st.booleans(), kill=st.booleans())
def test_every_step_is_that_of_plain_python_and_rewards_add_up(
    reward: Reward, jobs: Workload, choices: Any, easy: bool, kill: bool
) -> None:
    backfill: BackfillName = "easy" if easy else "none"
    rules = Rules(kill_at_limit=kill)
    env = BatchSchedulingEnv(jobs, n_jobs=len(jobs), window=5, backfill=backfill, reward=reward, rules=rules)
    observation, info = env.reset()
    slow = SlowEnvironment(env.episodes.schedule().workload, MACHINE, easy, kill)
    over, total = False, 0.0
    while not over:
        occupied = min(5, len(slow.waiting))
        assert info["action_mask"].tolist() == [1] * occupied + [0] * (5 - occupied)
        np.testing.assert_allclose(observation, described(slow, 5), rtol=1e-6)
        slot = choices.randrange(occupied)
        slow.act(slot)
        observation, gain, over, _, info = env.step(slot)
        total += gain
        assert not info["invalid_action"]
    played = env.episodes.schedule()
    assert played.workload.submit[0] == 0
    assert played.start.tolist() == [slow.start[job] for job in range(len(jobs))]
    assert played.end.tolist() == [slow.end(job) for job in range(len(jobs))]
    assert total == pytest.approx(worth(reward, slow), rel=1e-9)
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
